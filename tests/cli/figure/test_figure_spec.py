"""`foxscope figure spec`: figures that are written down as JSON, the gallery among them."""

import json
import re
import unittest

from support import DELTANET, DRAWS, FOX, MAMBA2, SOURCE, TRANSFORMER, CommandLineTest, png_size

GALLERY = SOURCE / "resources" / "figures"
DATA = {"loss": "loss.h5", "perplexity": "loss.h5", "ablation": "loss.h5", "decay": "heads.h5", "distance": "heads.h5",
        "needle": "needle.h5", "sweep": "sweep.h5", "saliency": "saliency.h5", "variants": "variants.h5", "scatter": "heads.h5"}


def without_command(path):
    """The picture, without the command that its metadata tells."""
    return re.sub(r"foxscope figure [^<]*", "", path.read_text())


@unittest.skipUnless(DRAWS, "a build without Qt")
class FigureSpecTest(CommandLineTest):
    def run_file(self, *others):
        """The demo's FoX and others of its models on a short text."""
        others = others or (TRANSFORMER,)
        text = self.write("text.txt", b"The fox ran over the hill, and nobody saw the fox. Then it was dark.\n" * 20)
        path = self.folder / f"{others[0].name}.h5"
        models = [word for model in (FOX, *others) for word in ("--model", model)]
        self.done("run", "-q", *models, "--text", text, "-o", path)
        return path

    def spec(self, **content):
        return self.write("spec.json", json.dumps({"foxscope_figure": 1, **content}).encode())

    def test_a_spec_replaces_nothing_that_is_read_or_drawn(self):
        run = self.run_file()
        before = run.read_bytes()
        self.fails(2, "this file is being read", "figure", "maps", run, "-o", self.folder / "m.svg", "--write-spec", run, "--force")
        self.assertEqual(run.read_bytes(), before)
        figure = self.folder / "m.svg"
        self.fails(2, ["--write-spec", "the figure is written there", "m.svg.json"], "figure", "maps", run, "-o", figure,
                   "--write-spec", figure, "--force", output=figure)
        spec = self.spec(kind="maps", options={"heads": ["1:2"]})
        content = spec.read_bytes()
        self.fails(2, "this file is being read", "figure", "spec", spec, run, "-o", spec, "--format", "svg", "--force")
        self.assertEqual(spec.read_bytes(), content)

    def test_what_write_lacks_is_said(self):
        path = self.folder / "new.json"
        self.fails(2, "figure spec --write: name the file behind it", "figure", "spec", "--write")
        for words in [[], ["spec"], ["--heads", "1:2"]]:
            self.fails(2, "name a kind of figure", "figure", "spec", "--write", path, *words, output=path)

    def test_it_is_the_figure_of_these_options(self):
        run = self.run_file()
        spec = self.spec(kind="maps", options={"heads": ["1:2", "6:1"], "width": "iclr", "font-size": 8,
                                               "no-letters": True, "rows": "0:100", "cols": "0:100"})
        written, typed = self.folder / "written.svg", self.folder / "typed.svg"
        self.done("figure", "spec", spec, run, "-o", written)
        self.done("figure", "maps", run, "--heads", "1:2,6:1", "--width", "iclr", "--font-size", "8", "--no-letters",
                  "--rows", "0:100", "--cols", "0:100", "-o", typed)
        self.assertEqual(without_command(written), without_command(typed))
        other = self.folder / "other.svg"
        self.done("figure", "spec", self.spec(kind="maps", options={"heads": ["1:2"], "no-letters": False}), run, "-o",
                  other)
        self.assertNotEqual(without_command(written), without_command(other))

    def test_dots_are_those_of_the_command(self):
        loss = GALLERY / "loss.h5"
        page = {"panels": [[{"kind": "loss"}, {"kind": "perplexity"}]], "options": {"dpi": 90}}
        for number, content in enumerate([{"kind": "loss", "options": {"dpi": 90}}, {"kind": "loss"}, page]):
            spec, picture = self.spec(**content), self.folder / f"{number}.png"
            self.done("figure", "spec", spec, loss, "--dpi", 120, "-o", picture)
            self.assertEqual(png_size(picture)[0], round(5.5 * 120))
        self.fails(2, "dpi", "figure", "spec", spec, loss, "--dpi", 1, "-o", self.folder / "none.png")

    def test_everything_that_can_be_chosen_of_curves_can_be_written_down(self):
        options = {"width": "120mm", "height": "2.5in", "font": "DejaVu Serif", "font-size": 8, "line-width": 0.7,
                   "x-limits": "500:8000", "y-limits": "3:4", "x-ticks": [1000, 7000], "y-ticks": [3.25, 3.75],
                   "legend": ["Transformer", "FoX"], "label": ["FoX=FoX (*Pro*)", "Transformer=base"],
                   "colour": ["FoX=#aa0000"], "title": "Losses of *two*", "smooth": 301, "train-length": 2048}
        typed, written = self.folder / "typed.svg", self.folder / "written.svg"
        words = [word for name, value in options.items() for one in (value if isinstance(value, list) else [value])
                 for word in (f"--{name}", str(one))]
        self.done("figure", "loss", GALLERY / "loss.h5", *words, "-o", typed)

        def draw(**chosen):
            self.done("figure", "spec", self.spec(kind="loss", options=chosen), GALLERY / "loss.h5", "-o", written,
                      "--force")
            return without_command(written)

        self.assertEqual(draw(**options), without_command(typed))
        # Each of them has a part in it.
        for name in options:
            with self.subTest(name):
                rest = {other: value for other, value in options.items() if other != name}
                self.assertNotEqual(draw(**rest), without_command(typed))

    def test_line_width_of_heads(self):
        def draw(kind, *extra):
            path = self.folder / "figure.svg"
            self.done("figure", kind, GALLERY / "heads.h5", *extra, "-o", path, "--force")
            return without_command(path)

        for kind in ["decay", "distance"]:
            self.assertNotEqual(draw(kind, "--line-width", "2"), draw(kind))

    def test_every_figure_of_the_gallery_is_drawn(self):
        run, memories = self.run_file(), self.run_file(MAMBA2, DELTANET)
        specs = sorted(GALLERY.glob("*.json"))
        self.assertEqual(len(specs), 20)
        for spec in specs:
            with self.subTest(spec.name):
                picture = self.folder / (spec.stem + ".svg")
                source = GALLERY / DATA[spec.stem] if spec.stem in DATA else memories if spec.stem == "memories" else run
                self.done("figure", "spec", spec, source, "-o", picture)
                self.assertIn("<svg", picture.read_text())

    def test_the_gallery_shows_the_crossing(self):
        """FoX gets better with context beyond its training length, the Transformer worse, by more than the error."""
        import h5py
        import numpy

        with h5py.File(GALLERY / "loss.h5") as file:
            documents = file["windows/document"][:]
            for name, sign in [("FoX", -1), ("Transformer", 1)]:
                loss = file[f"models/{name}/loss/per_token_loss"][:].astype(float)
                change = loss[:, 6144:8192].mean(1) - loss[:, 1536:2048].mean(1)
                groups = [(change - change.mean())[documents == group].sum() for group in numpy.unique(documents)]
                error = numpy.sqrt(len(groups) / (len(groups) - 1) * numpy.square(groups).sum()) / len(change)
                self.assertGreater(sign * change.mean(), 2 * error)

    def test_nothing_but_options_of_the_kind_can_be_set(self):
        out = self.write("out.svg", "mine")
        for name in ["force=true", "force", "format", "write-spec", "f", "-force", "o", "output", "output=x.svg", "help", "quiet", "verbose", "file",
                     "", " title", "shape", "heads"]:
            with self.subTest(name):
                spec = self.spec(kind="needle", options={name: True})
                self.fails(1, ["spec.json", f'"{name}" is no option of a figure needle'], "figure", "spec", spec,
                           GALLERY / "needle.h5", "-o", out)
                self.assertEqual(out.read_text(), "mine")

    def test_values_are_values_whatever_they_look_like(self):
        # An empty one took the option behind it as its value: here it would be that which is told to overwrite.
        out = self.write("out.svg", "mine")
        for options in [{"title": ""}, {"legend": ",", "title": "--force"}, {"title": "--force"}, {"title": "--"},
                        {"label": ["FoX=--force"]}, {"title": "-o"}, {"title": "x --force"}]:
            with self.subTest(options):
                spec = self.spec(kind="loss", options=options)
                self.fails(1, ["out.svg", "--force"], "figure", "spec", spec, GALLERY / "loss.h5", "-o", out)
                self.assertEqual(out.read_text(), "mine")
                drawn = self.folder / "drawn.svg"
                self.done("figure", "spec", spec, GALLERY / "loss.h5", "-o", drawn, "--force")
                self.assertIn("<svg", drawn.read_text())
        # Even a file that is named like an option is a file.
        self.fails(1, ["--force", "out.svg"], "figure", "spec", self.spec(kind="loss"), "-o", out, "--", "--force")

    def test_what_cannot_be_drawn(self):
        out = self.folder / "out.svg"
        needle = GALLERY / "needle.h5"
        cases = [(b"{", 1, ["spec.json", "no JSON object"]), (b"[]", 1, ["no JSON object"]), (b"", 1, ["no JSON object"]),
                 (b"{}", 1, ["foxscope_figure"]), (b'{"foxscope_figure": 1}', 1, ["names no kind"]),
                 (b'{"foxscope_figure": 2, "kind": "maps"}', 1, ["newer version"]),
                 (b'{"foxscope_figure": 18446744073709551615, "kind": "maps"}', 1, ["newer version"]),
                 (b'{"foxscope_figure": 0, "kind": "maps"}', 1, ['its "foxscope_figure" is not 1']),
                 (b'{"foxscope_figure": 1, "kind": "needle", "colour": 1}', 1, ['"colour" is not known']),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": []}', 1, ["no JSON object"]),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"output": "x.svg"}}', 1, ["no option"]),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"width": null}}', 1, ['"width" is no text']),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"label": [["a"]]}}', 1, ['"label" is no']),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"title": true}}', 1, ['"title" is no text']),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"no-letters": "x"}}', 1, ["true nor false"]),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"dpi": "many"}}', 2, ["spec.json", "many"]),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"title": ["a", "b"]}}', 2, ["title"]),
                 (b'{"foxscope_figure": 1, "kind": "needle", "options": {"width": "0mm"}}', 2, ["spec.json", "0 mm"]),
                 (b'{"foxscope_figure": 1, "kind": "novel"}', 2, ["spec.json", "no such kind"]),
                 (b" " * (2 << 20), 1, ["larger than 1 MB"])]
        for content, code, words in cases:
            with self.subTest(content[:70]):
                self.fails(code, words, "figure", "spec", self.write("spec.json", content), needle, "-o", out, output=out)
        self.fails(1, ["nowhere.json", "no such file"], "figure", "spec", self.folder / "nowhere.json", needle, "-o", out,
                   output=out)
        missing = self.spec(kind="maps", options={"heads": ["99:0"]})
        self.fails(2, ["spec.json", "99"], "figure", "spec", missing, self.run_file(), "-o", out, output=out)


if __name__ == "__main__":
    unittest.main()
