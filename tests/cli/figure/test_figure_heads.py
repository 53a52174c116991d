"""`foxscope figure decay`, `distance` and `labels`."""

import json
import math
import re
import shutil
import subprocess
import unittest

import h5py
import numpy
from support import DATA, DRAWS, FOX, CommandLineTest, read_png

TEXT = "The fox ran over the hill; nobody saw the fox.\n\nIt was quick, and Mr. Hill was not. " * 6


@unittest.skipUnless(DRAWS, "this build draws nothing")
class FigureHeadsTest(CommandLineTest):
    def text_of(self, path):
        return subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout

    def draw(self, kind, *arguments):
        """Draws a PDF; returns its words and what was said."""
        path = self.folder / (kind + ".pdf")
        result = self.foxscope("figure", kind, *arguments, "-o", path, "--force")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return self.text_of(path), result.stderr.decode()

    def text_run(self):
        path = self.folder / "text.h5"
        self.done("run", "--model", FOX, "--text", "-", "-o", path, stdin=TEXT.encode())
        return path

    @unittest.skipUnless(shutil.which("pdftotext"), "pdftotext is missing")
    def test_a_run_and_its_statistics_give_the_same_figures(self):
        run = self.text_run()
        heads = self.folder / "heads.h5"
        self.done("heads", run, "--split", "--by-class", "-o", heads)
        longest = json.loads(self.done("heads", run, "--sort", "rate_decay_time", "--top", "1", "--json"))["heads"][0]
        title = f"Layer {longest['layer']}, head {longest['head']}"
        for kind, words in [("decay", ["(a)", "(c)", "layer", "share of heads", "newline", "in word"]),
                            ("distance", ["(c)", "attention per octave", "mean logit (nats)", "without it", "decay"])]:
            text, notes = self.draw(kind, run)
            for word in [*words, title]:
                self.assertIn(word, text)
            self.assertIn(f"{longest['layer']}:{longest['head']}", notes)
            self.assertEqual(self.draw(kind, heads)[0], text)
        text, notes = self.draw("labels", run)
        length = json.loads(self.done("info", run, "--json"))["models"][0]["tokens"]
        self.assertIn(f"labels are of {length} tokens: scores depend on the length", notes)
        self.assertIn(f"They are of {length:,} tokens:\nscores depend on the length", self.done("heads", run))
        self.assertEqual(self.draw("labels", heads)[0], text)
        said = " ".join(text.split())
        for words in ["layer", "head", "previous token (from 0.4): attention on the token before",
                      "long memory (from 0.5)"]:
            self.assertIn(words, said)
        # Letters of cells and of the legend.
        strongest = [head["labels"][0] for head in json.loads(self.done("heads", run, "--json"))["heads"] if head["labels"]]
        for name, letter in [("previous token", "B"), ("local", "L"), ("sink", "S"), ("positional", "P"),
                             ("induction", "I"), ("long memory", "M")]:
            self.assertEqual(len(re.findall(rf"(?<!\S){letter}(?!\S)", text)), strongest.count(name) + 1, name)

    @unittest.skipUnless(shutil.which("pdftotext"), "pdftotext is missing")
    def test_choices(self):
        run = self.text_run()
        text, _ = self.draw("distance", run, "--heads", "2:1,3:0", "--with-first")
        self.assertIn("Layer 2, head 1", text)
        self.assertIn("Layer 3, head 0", text)
        narrow, _ = self.draw("decay", run, "--width", "2.65in")
        self.assertIn("sent.", narrow)
        # How many tokens a class is of: beside the axis where there is no room on it.
        classes = json.loads(self.done("heads", run, "--by-class", "--json"))["heads"][0]["gates_by_class"]
        count = classes["word_first"]["tokens"]
        self.assertRegex(" ".join(narrow.split()), rf"tokens: .*word \({count}\)")
        wide, _ = self.draw("decay", run)
        self.assertIn(f"word ({count})", wide)
        self.fails(2, ["2:9", "heads 0 to 3"], "figure", "distance", run, "--heads", "2:9", "-o", self.folder / "x.pdf")
        self.fails(2, ["--model c", FOX.name], "figure", "distance", run, "--model", "c", "-o", self.folder / "x.pdf")

    def test_heads_are_chosen_among_those_whose_numbers_are_known(self):
        run = self.run_fixture("transformer-pro", "t.h5")
        output = self.folder / "figure.svg"
        with h5py.File(run, "r+") as file:
            file["models/transformer-pro/layers/00/log_normalizer"][0] = math.nan
        result = self.foxscope("figure", "distance", run, "--unchecked", "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("0:0 ", result.stderr.decode())
        output.unlink()
        with h5py.File(run, "r+") as file:
            for layer in file["models/transformer-pro/layers"].values():
                layer["log_normalizer"][...] = math.nan
        self.fails(1, ["transformer-pro: no head has a half of the attention's distance that is a number", "--heads"],
                   "figure", "distance", run, "--unchecked", "-o", output, output=output)

    def test_heads_have_one_colour_in_both_panels_of_channels(self):
        run, output = self.folder / "kda.h5", self.folder / "decay.png"
        self.done("run", "--model", DATA / "published" / "fla-kda", "--ids",
                  self.write("ids.json", json.dumps(list(range(3, 203)))), "-o", run)
        self.done("figure", "decay", run, "-o", output)
        pixels = numpy.asarray(read_png(output)[0])

        def colours(part):
            found, often = numpy.unique(part.reshape(-1, 3).astype(int), axis=0, return_counts=True)
            return {tuple(colour) for colour in found[(numpy.ptp(found, axis=1) > 60) & (often > 300)]}

        height, width = pixels.shape[:2]
        by_head, distribution = (colours(part) for part in (pixels[height // 2:, :width // 2], pixels[height // 2:, width // 2:]))
        self.assertEqual(len(by_head), 3)
        self.assertLessEqual(by_head, distribution)

    def test_models_without_gates_and_files_without_numbers(self):
        ungated = self.run_fixture("transformer-pro", "t.h5")
        output = self.folder / "figure.svg"
        self.fails(2, "gate", "figure", "decay", ungated, "-o", output, output=output)
        self.done("figure", "distance", ungated, "-o", output)
        output.unlink()
        run = self.run_fixture()
        result = self.foxscope("figure", "decay", run, "-o", output)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"gates are not told by class of the token: the file has none", result.stderr)
        output.unlink()
        heads = self.folder / "heads.h5"
        self.done("heads", run, "-o", heads)
        self.fails(1, ["mass_without_gate", "--split"], "figure", "distance", heads, "-o", output, output=output)
        said = self.foxscope("figure", "decay", heads, "-o", output).stderr.decode()
        self.assertIn("`foxscope heads --by-class -o` and `foxscope eval heads` write them", said)
        output.unlink()
        told = self.folder / "told.h5"
        self.done("run", "--model", FOX, "--text", self.write("t.txt", TEXT), "-o", told)
        self.done("heads", told, "--by-class", "-o", heads, "--force")
        self.assertNotIn(b"by class", self.foxscope("figure", "decay", heads, "-o", output).stderr)
        output.unlink()
        self.fails(1, ["heads.h5: holds statistics of heads (`foxscope heads -o`) and no losses",
                       "`foxscope eval loss` or `foxscope run`"], "figure", "loss", heads, "-o", output, output=output)
        losses = self.folder / "losses.h5"
        ids = self.folder / "ids.npy"
        numpy.save(ids, numpy.arange(60).reshape(6, 10))
        self.done("eval", "loss", "--model", DATA / "fox-pro", "--ids", ids, "--bos", 1, "-o", losses)
        self.fails(1, ["losses.h5: holds losses of windows (`foxscope eval loss`) and no statistics of heads",
                       "`foxscope eval heads`"], "figure", "decay", losses, "-o", output, output=output)
        gates = self.run_fixture(name="gates.h5", extra=["--keep", "gates"])
        self.fails(1, ["labels are not known", "gates,rows,qk", "eval heads"], "figure", "labels", gates, "-o", output,
                   output=output)
        self.fails(1, ["mass", "gates,rows,qk"], "figure", "distance", gates, "-o", output, output=output)

    def test_the_same_command_gives_the_same_bytes(self):
        run = self.run_fixture()
        output = self.folder / "figure.pdf"
        pictures = []
        for _ in range(2):
            self.done("figure", "distance", run, "-o", output, "--force")
            pictures.append(output.read_bytes())
        self.assertEqual(pictures[0], pictures[1])


if __name__ == "__main__":
    unittest.main()
