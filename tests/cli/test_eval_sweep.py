"""`foxscope eval sweep`: its numbers against single runs and numpy, its file as h5py sees it, and what is refused."""

import csv
import io
import json
import select
import signal
import subprocess
import time
import unittest

import h5py
import numpy
from support import DRAWS, FOX, PROGRAM, TEXT, TRANSFORMER, CommandLineTest

LAYERS, HEADS, LENGTH = 8, 4, 300


def batch_means(changes):
    """Mean and standard error by leaving out each of the blocks, which are of one size but for one position."""
    blocks = min(64, len(changes) // 32)
    ends = [g * len(changes) // blocks for g in range(blocks + 1)]
    left = [numpy.delete(changes, slice(a, b)).mean() for a, b in zip(ends, ends[1:])]
    return changes.mean(), numpy.sqrt((blocks - 1) / blocks * numpy.square(left - changes.mean()).sum())


class SweepCase(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", TEXT * 20)
        self.output = self.folder / "sweep.h5"

    def arguments(self, *more, model=FOX, output=None, limit=LENGTH):
        return ("eval", "sweep", "--model", f"m={model}", "--text", self.text, "--length", limit, "-o",
                output or self.output, *more)

    def losses(self, *more):
        path = self.folder / "run.h5"
        self.done("run", "--model", f"m={FOX}", "--text", self.text, "--length", LENGTH, "--keep", "loss", "-o", path,
                  "--force", *more)
        with h5py.File(path) as file:
            return file["models/m/loss/per_token_loss"][:]


class SweepTest(SweepCase):
    def test_is_as_many_single_runs(self):
        summary = json.loads(self.done(*self.arguments("--json", "--change", "scale=2")))
        self.assertEqual((summary["change"], summary["tokens"], summary["name"]), ("scale=2", LENGTH, "m"))
        self.assertEqual([(head["layer"], head["head"]) for head in summary["heads"]],
                         [(layer, head) for layer in range(LAYERS) for head in range(HEADS)])
        unchanged = self.losses()
        self.assertAlmostEqual(summary["mean_loss"], unchanged.astype(float).mean(), places=12)
        with h5py.File(self.output) as file:
            model = file["models/m"]
            numpy.testing.assert_array_equal(model["unchanged_loss"], unchanged)
            for layer, head in [(0, 0), (3, 1), (7, 3)]:
                changed = self.losses("--intervene", f"{layer}:{head}:scale=2")
                numpy.testing.assert_array_equal(model["changed_loss"][layer, head], changed)
                changes = changed.astype(float) - unchanged
                mean, error = batch_means(changes)
                entry = summary["heads"][layer * HEADS + head]
                self.assertAlmostEqual(entry["change"], mean, places=12)
                self.assertAlmostEqual(entry["change_error"], error, places=12)
                self.assertLess(0, entry["p_value"])
                # Outside of two and a half errors with 8 degrees of freedom is beyond chance, within two is not.
                if abs(mean) > 2.5 * error:
                    self.assertLess(entry["p_value"], 0.05)
                if abs(mean) < 2 * error:
                    self.assertGreater(entry["p_value"], 0.05)
                self.assertAlmostEqual(entry["perplexity_factor"], numpy.exp(mean), places=12)
                self.assertAlmostEqual(model["change"][layer, head], mean, places=12)
                self.assertAlmostEqual(model["change_errors"][layer, head], error, places=12)
                order = numpy.argsort(-changes, kind="stable")[:10]
                self.assertEqual([token["position"] for token in entry["hurt"]], order.tolist())
                self.assertEqual([token["token"].encode() for token in entry["hurt"]],
                                 [model["token"][place] for place in order])

    def test_file_plots_and_says_how_it_was_made(self):
        self.done(*self.arguments("--change", "cut"))
        with h5py.File(self.output) as file:
            self.assertEqual((file.attrs["content"], file.attrs["change"], file.attrs["source"]),
                             ("eval_sweep", "cut", "text.txt"))
            self.assertIn("--change cut", file.attrs["command_line"])
            model = file[file.attrs["default"]]
            self.assertEqual(model.attrs["signal"], "change")
            self.assertEqual(list(model.attrs["axes"]), ["layer", "head"])
            self.assertEqual(model["change"].shape, (LAYERS, HEADS))
            self.assertEqual(model["change"].dims[1][0][:].tolist(), list(range(HEADS)))
            self.assertTrue((TEXT * 20).startswith(b"".join(model["token"]).decode()))
        info = self.done("info", self.output)
        for words in ["sweep over heads", "text.txt", "change by each head, cut", "12 more heads"]:
            self.assertIn(words, info)
        described = json.loads(self.done("info", self.output, "--json"))
        self.assertEqual((described["kind"], len(described["heads"])), ("sweep over heads", LAYERS * HEADS))

    def test_csv(self):
        table = list(csv.DictReader(io.StringIO(self.done(*self.arguments("--csv")))))
        self.assertEqual(len(table), LAYERS * HEADS)
        with h5py.File(self.output) as file:
            for row in table:
                layer, head = int(row["layer"]), int(row["head"])
                self.assertEqual(float(row["change"]), file["models/m/change"][layer, head])
                self.assertEqual(float(row["change_error"]), file["models/m/change_errors"][layer, head])
                self.assertEqual(int(row["tokens"]), LENGTH)
                changes = file["models/m/changed_loss"][layer, head].astype(float) - file["models/m/unchanged_loss"]
                self.assertEqual(int(row["hurt_position"]), changes.argmax())

    def test_chance_and_false_discoveries(self):
        said = self.done(*self.arguments("--change", "cut"))
        self.assertIn("± 1 standard error over 9 blocks of 33 tokens; a 95 % interval is ± 2.31 errors (Student's t)", said)
        self.assertRegex(said, r"\d+ of 32 heads are beyond chance .* one in twenty is, here 1\.6\); \d+ at a false "
                               r"discovery rate of 5 %")
        heads = json.loads(self.done(*self.arguments("--change", "cut", "--json", "--fdr", 0.1, "--force")))["heads"]
        # Benjamini and Hochberg, written out.
        ordered = sorted(head["p_value"] for head in heads)
        bound = max([p for k, p in enumerate(ordered, 1) if p <= 0.1 * k / len(heads)], default=-1)
        self.assertEqual([head["discovered"] for head in heads], [head["p_value"] <= bound for head in heads])
        table = list(csv.DictReader(io.StringIO(self.done(*self.arguments("--change", "cut", "--csv", "--fdr", 0.1,
                                                                          "--force")))))
        self.assertEqual([row["discovered"] for row in table], [str(int(head["discovered"])) for head in heads])
        self.assertEqual([float(row["p_value"]) for row in table], [head["p_value"] for head in heads])
        self.assertIn("at fdr 10 %", self.done(*self.arguments("--change", "cut", "--fdr", 0.1, "--force")))
        self.fails(2, ["--fdr 1", "above 0 and below 1"], *self.arguments("--fdr", 1, output=self.folder / "other.h5"))

    def test_few_blocks_have_no_error(self):
        said = self.done(*self.arguments(limit=100))
        self.assertIn("no errors: the text gives 3 blocks of 33 tokens, and an error takes 8", said)
        self.assertNotIn("±", said)
        self.assertNotIn("beyond chance (", said)
        self.assertIsNone(json.loads(self.done("info", self.output, "--json"))["heads"][0]["change_error"])

    def test_says_of_what_its_error_is(self):
        words = " ".join(self.done("eval", "sweep", "--help").split())
        self.assertIn("It is the error for more text of this kind from the same source, not for other texts", words)

    def test_refuses(self):
        self.fails(2, ["--change 'two'", "one, cut, mean, constant=f or scale=s"], *self.arguments("--change", "two"),
                   output=self.output)
        self.fails(2, ["--change one: m has no gate", "--change cut"], *self.arguments(model=TRANSFORMER),
                   output=self.output)
        self.fails(2, ["takes one model"], *self.arguments("--model", f"other={TRANSFORMER}"), output=self.output)
        self.fails(2, ["--length 0"], *self.arguments(limit=0), output=self.output)
        self.fails(2, ["--csv", "--json"], *self.arguments("--csv", "--json"), output=self.output)
        self.fails(2, ["--bos -1"], *self.arguments("--bos", -1), output=self.output)
        self.fails(2, ["this file is being read"], *self.arguments(output=self.text))
        self.output.write_text("mine")
        self.fails(1, ["sweep.h5", "--force"], *self.arguments())
        self.assertEqual(self.output.read_text(), "mine")
        self.done(*self.arguments("--force"))
        run = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", self.text, "--length", 20, "-o", run)
        if DRAWS:
            self.fails(1, ["run.h5", "holds a run or maps and no sweep over heads", "foxscope eval sweep"],
                       "figure", "sweep", run, "-o", self.folder / "figure.pdf")


class SweepResumeTest(SweepCase):
    """A sweep that is killed or interrupted goes on, and gives what an unbroken one gives."""

    def stop_after(self, heads, end):
        process = subprocess.Popen([PROGRAM, *map(str, self.arguments())], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        partial = self.folder / "sweep.h5.partial"
        size = 72 + (1 + heads) * (20 + 4 * LENGTH)
        deadline = time.monotonic() + 120
        while not partial.exists() or partial.stat().st_size < size:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), "ended early")
            select.select([process.stderr], [], [], 0.002)
        process.send_signal(end)
        return process.communicate(timeout=60), process.returncode

    def test_goes_on(self):
        self.done(*self.arguments(output=self.folder / "whole.h5"))
        self.stop_after(2, signal.SIGKILL)
        (out, said), code = self.stop_after(4, signal.SIGINT)
        self.assertEqual((code, out), (130, b""))
        self.assertIn(f"interrupted: the work so far is in {self.output}.partial, the same command goes on from it",
                      said.decode().splitlines()[-1])
        self.assertFalse(self.output.exists())
        self.fails(1, ["sweep.h5.partial", "other settings", "--force"], *self.arguments("--change", "cut"),
                   output=self.output)
        summary = json.loads(self.done(*self.arguments("--json")))
        self.assertGreaterEqual(summary["heads_resumed"], 4)
        self.assertFalse((self.folder / "sweep.h5.partial").exists())
        with h5py.File(self.output) as found, h5py.File(self.folder / "whole.h5") as expected:
            for name in expected["models/m"]:
                numpy.testing.assert_array_equal(found["models/m"][name][:], expected["models/m"][name][:], name)


@unittest.skipUnless(DRAWS, "built without Qt")
class SweepFigureTest(SweepCase):
    made = b""

    def setUp(self):
        """All draw the same sweep, which is made once."""
        super().setUp()
        if not SweepFigureTest.made:
            self.done(*self.arguments())
            SweepFigureTest.made = self.output.read_bytes()
        self.output.write_bytes(SweepFigureTest.made)

    def words(self, output):
        return subprocess.run(["pdftotext", output, "-"], capture_output=True, check=True, text=True).stdout

    def test_cells_say_value_and_error(self):
        output = self.folder / "sweep.pdf"
        self.done("figure", "sweep", self.output, "-o", output)
        words = self.words(output)
        for part in [f"m, gate 1, on text.txt ({LENGTH} tokens)", "layer", "head", "change of the loss", "± 1 standard error"]:
            self.assertIn(part, " ".join(words.split()))
        self.assertEqual(words.count("±") - 1, LAYERS * HEADS)
        again = self.folder / "again.pdf"
        self.done("figure", "sweep", self.output, "-o", again)
        self.assertEqual(self.words(again), words)

    def test_small_cells_have_dots(self):
        output = self.folder / "sweep.pdf"
        self.done("figure", "sweep", self.output, "--width", "30mm", "-o", output)
        words = " ".join(self.words(output).split())
        self.assertIn("0 in its 95 % interval", words)
        self.assertIn("by chance", words)

    def test_false_discoveries_have_dots(self):
        output = self.folder / "sweep.pdf"
        said = self.foxscope("figure", "sweep", self.output, "--fdr", "0.05", "-o", output).stderr.decode()
        self.assertIn("at a false discovery rate of 5 %", said)
        words = " ".join(self.words(output).split())
        self.assertIn("not found at a false discovery rate of 5 %", words)
        heads = json.loads(self.done("info", self.output, "--json"))["heads"]
        ordered = sorted(head["p_value"] for head in heads)
        bound = max([p for k, p in enumerate(ordered, 1) if p <= 0.05 * k / len(heads)], default=-1)
        self.assertEqual(words.count("•") - 1, sum(head["p_value"] > bound for head in heads))

    def test_several_on_one_scale(self):
        cut = self.folder / "cut.h5"
        self.done(*self.arguments("--change", "cut", output=cut))
        output = self.folder / "both.pdf"
        self.done("figure", "sweep", self.output, cut, "--label", "m=FoX", "--label", "text.txt=A Tale", "-o", output)
        words = " ".join(self.words(output).split())
        self.fails(2, "--label txt.txt: the figure has m, text.txt: did you mean text.txt?", "figure", "sweep", self.output,
                   "--label", "txt.txt=A", "-o", self.folder / "x.pdf")
        for part in ["FoX, gate 1, on A Tale", "FoX, cut, on A Tale", "(a)", "(b)"]:
            self.assertIn(part, words.replace("\u00a0", " "))


if __name__ == "__main__":
    unittest.main()
