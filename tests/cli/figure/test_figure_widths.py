"""`foxscope figure` at the widths of papers: every kind, by its defaults alone, as pdftotext sees its words."""

import html
import re
import subprocess
import unicodedata
import unittest
import xml.etree.ElementTree

from support import DRAWS, SOURCE
from test_figure_atlas import AtlasFigures
from test_figure_training import write_training

FIGURES = SOURCE / "resources" / "figures"
POINTS = 72
WIDTHS = [3.25, 2.65, 5.5]  # inches: a column of ICML, half of ICLR's text, all of it
KINDS = ["ablation", "compare", "comparison", "decay", "distance", "gates", "grid", "labels", "loss", "maps", "needle",
         "passages", "perplexity", "pruning", "resets", "saliency", "scatter", "similarity", "sweep", "text", "tokens",
         "training"]
POSITIONS = {"loss", "perplexity", "ablation", "needle"}  # have --train-length


class Word:
    def __init__(self, box, text):
        self.left, self.top, self.right, self.bottom = map(float, box)
        self.text = html.unescape(text)

    def covers(self, other):
        """Boxes hold a line's whole height: neighbouring lines may touch."""
        height = min(self.bottom - self.top, other.bottom - other.top)
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > 0.3 and down > 0.2 * height


@unittest.skipUnless(DRAWS, "built without Qt")
class WidthsTest(AtlasFigures):
    def source_of(self, kind):
        if kind in {"decay", "distance", "scatter"}:
            return FIGURES / "heads.h5"
        if kind in {"needle", "sweep", "saliency"}:
            return FIGURES / f"{kind}.h5"
        if kind in {"passages", "resets", "similarity", "tokens"}:
            return self.atlas()
        if kind == "training":
            return self.made_once("out", lambda path: write_training(path, steps=200))
        if kind in POSITIONS:
            return FIGURES / "loss.h5"
        return self.words() if kind == "text" else self.two_models()

    def page(self):
        text = subprocess.run(["pdftotext", "-bbox", self.output, "-"], capture_output=True, check=True,
                              text=True).stdout
        size = re.search(r'<page width="([\d.]+)" height="([\d.]+)"', text)
        words = [Word(found[:4], found[4]) for found in re.findall(
            r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(.*?)</word>', text)]
        return float(size[1]), float(size[2]), words

    def check(self, width):
        across, down, words = self.page()
        self.assertAlmostEqual(across, width * POINTS, delta=0.01)
        self.assertGreater(len(words), 5)
        for index, word in enumerate(words):
            self.assertTrue(0 <= word.left and word.right <= across and 0 <= word.top and word.bottom <= down,
                            f"“{word.text}” is cut off")
            for other in words[index + 1:]:
                self.assertFalse(word.covers(other), f"“{word.text}” and “{other.text}” overlap")

    def test_no_word_is_cut_off_or_meets_another(self):
        for kind in KINDS:
            for width in WIDTHS:
                with self.subTest(kind, width=width):
                    self.draw(kind, "--width", f"{width}in", files=[self.source_of(kind)])
                    self.check(width)

    def test_a_histogram_of_gates(self):
        for width in WIDTHS:
            for by in ["gate", "time", "log"]:
                with self.subTest(by, width=width):
                    self.draw("gates", "--head", "6:1", "--by", by, "--width", f"{width}in", files=[self.atlas()])
                    self.check(width)

    def test_every_kind_is_looked_at(self):
        help_text = self.done("figure", "--help")
        offered = re.findall(r"^  ([a-z]+) {2,}", help_text, re.MULTILINE)
        self.assertEqual(sorted(set(offered) - {"spec"}), KINDS)

    def test_names_of_several_models_have_room(self):
        for width in WIDTHS:
            with self.subTest(width=width):
                self.draw("maps", "--heads", "fox:0:0,base:0:1,fox:1:1", "--width", f"{width}in", "--label",
                          "fox=Forgetting Transformer", files=[self.two_models()])
                self.check(width)
                self.assertEqual(self.text_of().count("Forgetting"), 2)

    def test_titles_of_narrow_panels_are_brief_rather_than_small(self):
        for kind, source, heads in [("maps", self.two_models(), ["--heads", "0:0,0:1,1:0"]),
                                    ("distance", FIGURES / "heads.h5", [])]:
            with self.subTest(kind):
                self.draw(kind, *heads, "--width", "2.65in", files=[source])
                words = self.page()[2]
                self.assertTrue(any(re.fullmatch(r"L\d+", word.text) for word in words))
                height = {text: max(word.bottom - word.top for word in words if word.text == text)
                          for text in ["(a)", "(c)", "0"]}
                self.assertGreater(height["(a)"], 0.84 * height["0"])
                self.assertAlmostEqual(height["(a)"], height["(c)"], delta=0.05 * height["(c)"])
                self.draw(kind, *heads, "--width", "5.5in", files=[source])
                self.assertIn("head", [word.text for word in self.page()[2]])

    def test_titles_beside_one_another_are_as_large(self):
        labels = ["fox=FoX", "base=Gated\u00a0Delta\u2011Net"]
        for width in [2.65, 3.25]:
            with self.subTest(width=width):
                self.draw("maps", "--heads", "fox:0:0,base:0:1,fox:1:1", "--width", f"{width}in", "--label", labels[0],
                          "--label", labels[1], files=[self.two_models()])
                heights = [word.bottom - word.top for word in self.page()[2] if re.fullmatch(r"\([abc]\)", word.text)]
                self.assertEqual(len(heights), 3)
                self.assertAlmostEqual(min(heights), max(heights), delta=0.05 * max(heights))

    def test_entries_of_legends_are_whole_and_not_alone(self):
        for width in WIDTHS:
            with self.subTest(width=width):
                self.draw("ablation", "--base", "transformer", "--width", f"{width}in", files=[FIGURES / "variants.h5"])
                self.check(width)
                text = " ".join(self.text_of().split())
                # Once, above both: the axis below says what they are subtracted from.
                for name in ["data-independent-gate", "without-kv-shift"]:
                    self.assertEqual(text.count(name), 1)
                self.assertNotIn("\u2026", text)
                self.draw("decay", "--width", f"{width}in", files=[FIGURES / "heads.h5"])
                words = self.page()[2]
                tops = [word.top for word in words if word.text in {"L7", "L1"}] or [
                    word.top for before, word in zip(words, words[1:]) if before.text == "Layer"]
                self.assertEqual(len(tops), 3)
                self.assertAlmostEqual(min(tops), max(tops), delta=0.1)
        # Eight names in the lines of eight are dealt out.
        self.draw("ablation", "--base", "transformer", "--width", "3.25in", files=[FIGURES / "variants.h5"])
        names = {"fox", "transformer", "fox-seed-1", "transformer-seed-1", "fixed-gate", "without-kv-shift",
                 "without-qk-norm", "data-independent-gate"}
        lines = {}
        for word in self.page()[2]:
            across = word.right - word.left > word.bottom - word.top
            if across and unicodedata.normalize("NFKC", word.text) in names:
                lines.setdefault(round(word.top), []).append(word.text)
        self.assertEqual(sum(map(len, lines.values())), 8)
        self.assertTrue(all(len(line) > 1 for line in lines.values()), lines)

    def test_the_training_length_has_room(self):
        for kind in sorted(POSITIONS):
            for width in WIDTHS:
                with self.subTest(kind, width=width):
                    self.draw(kind, "--width", f"{width}in", "--train-length", 2048, files=[self.source_of(kind)])
                    self.check(width)
                    self.assertIn("training length", " ".join(self.text_of().split()))

    def test_lines_bands_and_units_are_named(self):
        self.draw("loss", "--width", "3.25in", files=[FIGURES / "loss.h5"])
        self.assertIn("mean of 101 tokens, band: ± 1 standard error", self.text_of())
        self.draw("loss", "--width", "3.25in", "--smooth", 1, files=[FIGURES / "loss.h5"])
        self.assertNotIn("mean of", self.text_of())
        self.draw("distance", "--width", "3.25in", files=[FIGURES / "heads.h5"])
        self.assertEqual(self.text_of().count("± 1 standard error"), 1)
        self.assertEqual(self.text_of().count("1 + distance (tokens)"), 1)
        self.draw("grid")
        self.assertRegex(self.text_of(), r"forgotten .log F \(nats\)")

    def test_text_of_an_svg_stays_text_on_request(self):
        for more, kept in [([], False), (["--svg-text"], True)]:
            output = self.folder / "loss.svg"
            self.draw("loss", *more, files=[FIGURES / "loss.h5"], output=output)
            words = "".join(xml.etree.ElementTree.parse(output).getroot().itertext())
            self.assertEqual("token position" in words, kept)
            self.assertEqual("mean of 101" in words, kept)
        self.refuses(["--svg-text", "no .svg"], "loss", FIGURES / "loss.h5", "--svg-text")


if __name__ == "__main__":
    unittest.main()
