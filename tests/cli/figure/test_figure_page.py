"""`foxscope figure spec` of a page of panels: several figures of different kinds as one file."""

import csv
import io
import json
import re
import subprocess
import unittest

from support import DRAWS, FOX, SOURCE, CommandLineTest, png_size

GALLERY = SOURCE / "resources" / "figures"
DOCUMENT = SOURCE / "docs" / "files.md"


@unittest.skipUnless(DRAWS, "built without Qt")
class PageTest(CommandLineTest):
    def page(self, panels, name="page.json", **options):
        return self.write(name, json.dumps({"foxscope_figure": 1, "panels": panels, "options": options}))

    def draw(self, spec, *files, ending="pdf"):
        """The file that is drawn, and what was said."""
        path = self.folder / f"page.{ending}"
        result = self.foxscope("figure", "spec", spec, *files, "-o", path, "--force")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return path, result.stderr.decode()

    def refuses(self, words, spec, *files, code=1):
        out = self.folder / "refused.pdf"
        self.fails(code, words, "figure", "spec", spec, *files, "-o", out, output=out)

    def run_file(self):
        path = self.folder / "run.h5"
        if not path.exists():
            text = b"The fox ran over the hill, and nobody saw the fox. Then it was dark.\n" * 20
            self.done("run", "-q", "--model", FOX, "--text", self.write("text.txt", text), "-o", path)
        return path

    def text_of(self, path):
        return subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, check=True, text=True).stdout

    def loss(self, **more):
        return {"kind": "loss", "files": [str(GALLERY / "loss.h5")], **more}

    def scatter(self, **more):
        return {"kind": "scatter", "files": [str(GALLERY / "heads.h5")], **more}

    def test_the_example_of_the_documentation_is_drawn(self):
        text = DOCUMENT.read_text()
        example = next(block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if '"panels"' in block)
        spec = self.write("example.json", example)
        for name in ("loss.h5", "heads.h5"):
            (self.folder / name).symlink_to(GALLERY / name)
        path, _ = self.draw(spec, self.run_file())
        words = self.text_of(path)
        for part in ["(a)", "(b)", "(c)", "token position p", "decay time (tokens)", "forget gate f"]:
            self.assertIn(part, words)

    def test_a_page_is_one_width_and_has_truetype_fonts(self):
        spec = self.page([[self.loss(share=2), self.scatter()], [{"kind": "gates"}]], width="icml-wide", title="Three kinds")
        path, _ = self.draw(spec, self.run_file())
        info = subprocess.run(["pdfinfo", path], capture_output=True, check=True, text=True).stdout
        self.assertRegex(info, r"Page size: +486 x ")
        self.assertRegex(info, r"Title: +Three kinds")
        self.assertIn("panel: (b) Heads by two statistics", info)
        self.assertIn("command: foxscope figure spec page.json run.h5", info)
        fonts = subprocess.run(["pdffonts", path], capture_output=True, check=True, text=True).stdout.splitlines()[2:]
        self.assertTrue(fonts)
        for line in fonts:
            self.assertRegex(line, r"CID TrueType +Identity-H +yes yes yes")
        first = path.read_bytes()
        self.assertEqual(self.draw(spec, self.run_file())[0].read_bytes(), first)
        self.assertEqual(png_size(self.draw(self.page([self.loss()], "one.json", width="icml", dpi=100), ending="png")[0])[0], 325)
        self.assertNotIn("(a)", self.text_of(self.draw(self.page([self.loss()], "one.json"))[0]))
        svg, _ = self.draw(spec, self.run_file(), ending="svg")
        self.assertIn("<svg", svg.read_text())

    def test_numbers_are_those_of_each_figure(self):
        spec = self.page([[self.loss(options={"smooth": 301}), self.scatter()]], width="icml-wide")
        path, _ = self.draw(spec, ending="csv")
        rows = list(csv.DictReader(io.StringIO(path.read_text()), strict=True))
        for letter, kind, extra in [("(a)", "loss", ["--smooth", "301"]), ("(b)", "scatter", [])]:
            source = GALLERY / ("loss.h5" if kind == "loss" else "heads.h5")
            alone = self.folder / "alone.csv"
            self.done("figure", kind, source, *extra, "-o", alone, "--force")
            expected = list(csv.DictReader(io.StringIO(alone.read_text()), strict=True))
            mine = [dict(row, panel=row["panel"].removeprefix(letter).strip()) for row in rows if row["panel"].startswith(letter)]
            self.assertEqual(mine, expected)

    def test_notes_say_of_which_panel_they_are(self):
        _, said = self.draw(self.page([self.loss(), self.scatter()]))
        self.assertIn("(a) smoothed over", said)
        self.assertIn("(b) of fox-pro-12m, transformer-pro-12m this is fox-pro-12m", said)

    def test_every_panel_stays_in_its_place(self):
        """Words of the left panel lie left of the middle, those of the right one right of it."""
        path, _ = self.draw(self.page([[self.loss(), self.scatter()]], width="icml-wide"))
        boxes = subprocess.run(["pdftotext", "-bbox", path, "-"], capture_output=True, check=True, text=True).stdout
        width = float(re.search(r'<page width="([\d.]+)"', boxes)[1])
        found = {word: float(left) for left, word in re.findall(r'xMin="([\d.]+)"[^>]*>([^<]+)</word>', boxes)}
        self.assertLess(found["position"], width / 2)
        self.assertGreater(found["decay"], width / 2)
        for right in re.findall(r'xMax="([\d.]+)"', boxes):
            self.assertLessEqual(float(right), width)

    def test_what_it_refuses(self):
        self.refuses('"width" is of the whole page', self.page([self.loss(options={"width": "iclr"})]))
        self.refuses("its panel gates has no files", self.page([{"kind": "gates"}]))
        self.refuses("every panel has files of its own", self.page([self.loss()]), self.run_file(), code=2)
        self.refuses("a panel is no JSON object", self.page(["loss"]))
        self.refuses("its panels are no list", self.page([]))
        self.refuses("a row of its panels is no list", self.page([[self.loss()], []]))
        self.refuses('"colour" is not known', self.page([self.loss(colour="red")]))
        self.refuses("the share of a panel", self.page([self.loss(share=0)]))
        self.refuses("the share of a panel is no number", self.page([self.loss(share="2")]))
        self.refuses("the files of a panel are no texts", self.page([{"kind": "loss", "files": [1]}]))
        self.refuses("more than 26 panels", self.page([self.loss()] * 27))
        self.refuses('"height" is no option of a figure panels', self.page([self.loss()], height="2in"))
        self.refuses("figure pie: there is no such kind", self.page([{"kind": "pie", "files": ["x.h5"]}]), code=2)
        self.refuses("leave no room", self.page([[self.loss()] * 9], width="40mm"), code=2)
        both = self.write("both.json", json.dumps({"foxscope_figure": 1, "kind": "loss", "panels": [self.loss()]}))
        self.refuses('"kind" is not known', both)


if __name__ == "__main__":
    unittest.main()
