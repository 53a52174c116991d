"""`foxscope figure KIND -o data.csv`: the numbers that each kind draws, against their sources; and figures written down."""

import csv
import io
import json
import math
import unittest

import h5py
import numpy
from support import DATA, DRAWS, FOX, SOURCE, CommandLineTest
from test_figure_training import write_training

GALLERY = SOURCE / "resources" / "figures"
COLUMNS = ["panel", "quantity", "series", "row", "x", "value", "lower", "upper"]
TEXT = "The fox ran over the hill; nobody saw the fox.\n\nIt was quick, and Mr. Hill was not. " * 4


@unittest.skipUnless(DRAWS, "built without Qt")
class NumbersTest(CommandLineTest):
    def numbers(self, kind, *arguments):
        """The table of a figure, a dictionary a line. Standard output gives the same."""
        path = self.folder / "data.csv"
        self.done("figure", kind, *arguments, "-o", path, "--force")
        text = path.read_text()
        self.assertEqual(self.done("figure", kind, *arguments, "-o", "-", "--format", "csv"), text)
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
        self.assertEqual(list(rows[0]), COLUMNS)
        for row in rows:
            self.assertTrue(math.isfinite(float(row["value"])))
        return rows

    def text_run(self):
        path = self.folder / "run.h5"
        self.done("run", "--model", f"fox={FOX}", "--text", self.write("text.txt", TEXT), "--length", 80, "--keep",
                  "loss,gates,rows,qk,saliency", "-o", path)
        return path

    def test_losses_are_the_means_over_windows(self):
        losses = numpy.random.default_rng(1).normal(3, 0.5, (6, 40)).astype(numpy.float32)
        archive, evaluation = self.folder / "a.npz", self.folder / "a.h5"
        numpy.savez(archive, **{"val/loss_per_token": losses})
        self.done("eval", "import", archive, "-o", evaluation)
        rows = self.numbers("loss", evaluation, "--smooth", "1")
        self.assertEqual({(row["panel"], row["series"], row["row"]) for row in rows}, {("", "a", "")})
        self.assertEqual(rows[0]["quantity"], "loss L(p) (nats per token)")
        values = [float(row["value"]) for row in rows]
        numpy.testing.assert_allclose(values, losses.astype(numpy.float64).mean(axis=0)[-len(values):], rtol=1e-6)
        self.assertEqual(len(values), 40)
        for kind in ["perplexity", "ablation"]:
            files = [evaluation]
            if kind == "ablation":
                other = self.folder / "b.h5"
                self.done("eval", "import", archive, "-o", other, "--name", "b")
                files.append(other)
            self.assertTrue(self.numbers(kind, *files))

    def test_gates_of_a_head_or_a_layer(self):
        run = self.text_run()
        with h5py.File(run) as file:
            gates = -numpy.diff(file["models/fox/layers/03/cumulative_log_gate"][()])
        for option, of, own in [("--head", "3:1", gates[1]), ("--layer", "3", gates.ravel())]:
            for by, values in [("gate", numpy.exp(-own)), ("time", 1 / own), ("log", own)]:
                rows = self.numbers("gates", run, option, of, "--by", by)
                bins = [row for row in rows if row["series"] == "gates"]
                edges = [float(row["x"].split(":")[0]) for row in bins] + [float(bins[-1]["x"].split(":")[1])]
                numpy.testing.assert_allclose([float(row["value"]) for row in bins],
                                              numpy.histogram(values, edges)[0] / own.size, atol=1e-8)
                middle, = (row for row in rows if row["series"] == "median and quartiles")
                numpy.testing.assert_allclose([float(middle[key]) for key in ["lower", "value", "upper"]],
                                              numpy.quantile(values, [0.25, 0.5, 0.75]), rtol=1e-6)
        rows = self.numbers("gates", run, "--head", "3:1", "--rows", "9:20")
        median = numpy.median(numpy.exp(-gates[1, 8:19]))
        self.assertAlmostEqual(float(rows[-1]["value"]), median, places=6)

    def test_maps_are_their_entries_or_pixels(self):
        run = self.run_fixture()
        rows = self.numbers("maps", run, "--heads", "1:0")
        for quantity, label in [("forget", "F, share that is retained"), ("attention", "attention A")]:
            array = self.folder / f"{quantity}.npy"
            self.done("map", run, "--head", "1:0", "--quantity", quantity, "-o", array)
            entries = numpy.load(array)
            drawn = numpy.full_like(entries, numpy.nan)
            for row in rows:
                if row["quantity"] == label:
                    drawn[int(row["row"]), int(row["x"])] = float(row["value"])
            numpy.testing.assert_allclose(drawn, entries, rtol=1e-6)
        self.assertEqual({row["panel"] for row in rows}, {"Layer 1, head 0"})
        pooled = self.numbers("grid", run, "--width", "40mm", "--dpi", "36")
        self.assertEqual({row["series"] for row in pooled}, {"0:0", "0:1", "1:0", "1:1"})
        begin, end = pooled[0]["row"].split(":")
        self.assertLess(int(begin), int(end))

    def test_needles_and_sweeps_are_what_their_files_hold(self):
        rows = self.numbers("needle", GALLERY / "needle.h5")
        with h5py.File(GALLERY / "needle.h5") as file:
            lengths, depths = file["length"][:], file["depth"][:]
        self.assertEqual({int(row["x"]) for row in rows}, set(lengths.tolist()))
        self.assertEqual(len({row["row"] for row in rows}), len(depths))
        rows = self.numbers("sweep", GALLERY / "sweep.h5")
        self.assertIn("(10⁻³ nats per token)", rows[0]["quantity"])
        self.assertIn(("0", "0"), {(row["row"], row["x"]) for row in rows})

    def test_every_other_kind_has_numbers(self):
        run = self.text_run()
        with h5py.File(run) as file:
            losses = file["models/fox/loss/per_token_loss"][:]
        rows = self.numbers("text", run, "--rows", "3:30")
        self.assertEqual([int(row["x"]) for row in rows], list(range(3, 30)))
        numpy.testing.assert_allclose([float(row["value"]) for row in rows], losses[3:30], rtol=1e-6)
        self.assertIn(" ran", [row["series"] for row in rows])
        heads = json.loads(self.done("heads", run, "--json"))["heads"]
        labelled = {(head["layer"], head["head"]): head["labels"][0] for head in heads if head["labels"]}
        drawn = {(int(row["row"]), int(row["x"])): row["series"] for row in self.numbers("labels", run)}
        self.assertEqual(drawn, labelled)
        for kind in ["decay", "distance", "saliency"]:
            with self.subTest(kind):
                self.assertTrue(self.numbers(kind, run))
        # The panels of a row share a legend, and those behind the first have no label of their axis.
        named = {(row["panel"], row["quantity"], row["series"]) for row in self.numbers("distance", run, "--heads", "0:0,1:1")}
        self.assertEqual({quantity for _, quantity, _ in named}, {"attention per octave", "mean logit (nats)"})
        self.assertEqual({series for _, _, series in named},
                         {"with the gate", "without it", "decay alone", "content", "decay"})
        both = self.folder / "both.h5"
        self.done("run", "--model", f"fox={DATA / 'fox-pro'}", "--model", f"base={DATA / 'transformer-pro'}", "--ids",
                  self.ids_file(), "-o", both)
        titles = {row["panel"] for row in self.numbers("compare", both)}
        self.assertEqual(len(titles), 3, titles)
        rows = self.numbers("training", write_training(self.folder / "out"))
        self.assertLessEqual({"(a)", "Loss", "Decay times of heads"} & {row["panel"] for row in rows},
                             {"Loss", "Decay times of heads"})

    def test_the_format_can_be_said(self):
        evaluation = GALLERY / "loss.h5"
        for word, head in [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")]:
            result = self.foxscope("figure", "loss", evaluation, "-o", "-", "--format", word)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith(head))
        self.fails(2, ["-: cannot tell the format", "--format"], "figure", "loss", evaluation, "-o", "-")
        self.fails(2, "--format pfd: did you mean pdf? else choose pdf, svg, png or csv", "figure", "loss", evaluation, "-o", "-",
                   "--format", "pfd")


@unittest.skipUnless(DRAWS, "built without Qt")
class SpecWritingTest(CommandLineTest):
    def test_what_is_written_draws_the_same(self):
        spec, typed, drawn = (self.folder / name for name in ["spec.json", "typed.csv", "drawn.csv"])
        options = ["--heads", "0:1,1:0", "--width", "iclr", "--no-letters", "--limits", "forget=:0.5"]
        run = self.run_fixture()
        self.done("figure", "maps", run, *options, "-o", typed)
        self.assertEqual(self.done("figure", "spec", "--write", spec, "maps", *options), "")
        self.assertEqual(json.loads(spec.read_text()),
                         {"foxscope_figure": 1, "kind": "maps",
                          "options": {"heads": ["0:1", "1:0"], "limits": "forget=:0.5", "width": "iclr",
                                      "no-letters": True}})
        self.done("figure", "spec", spec, run, "-o", drawn)
        self.assertEqual(drawn.read_text(), typed.read_text())
        # Beside a figure too, and never over a file.
        self.fails(1, ["spec.json", "--force"], "figure", "maps", run, "-o", self.folder / "x.svg", "--write-spec", spec)
        self.done("figure", "maps", run, *options, "-o", typed, "--write-spec", spec, "--force")
        self.fails(2, "--width wide", "figure", "spec", "--write", self.folder / "y.json", "maps", "--width", "wide",
                   output=self.folder / "y.json")


if __name__ == "__main__":
    unittest.main()
