"""`foxscope figure comparison`, `gates`, `scatter` and `pruning`: their numbers, made again with numpy."""

import csv
import json
import math
import re
import subprocess
import unittest

import h5py
import numpy
from support import DATA, DRAWS, FOX, SOURCE, TRANSFORMER, CommandLineTest

GALLERY = SOURCE / "resources" / "figures"
TEXT = ("The fox ran over the hill; nobody saw the fox.\n\nIt was quick, and Mr. Hill was not. " * 40).encode()


@unittest.skipUnless(DRAWS, "built without Qt")
class AnswersTest(CommandLineTest):
    def run_file(self, *extra, models=(FOX, TRANSFORMER)):
        path = self.folder / "run.h5"
        if not path.exists():
            words = [word for model in models for word in ("--model", model)]
            self.done("run", "-q", *words, "--text", self.write("text.txt", TEXT), "-o", path, *extra)
        return path

    def numbers(self, kind, *arguments):
        path = self.folder / f"{kind}.csv"
        self.done("figure", kind, *arguments, "-o", path, "--force")
        with open(path, newline="") as file:
            return list(csv.DictReader(file, strict=True))

    def words(self, kind, *arguments):
        """The words of the figure in one line, and what was said."""
        path = self.folder / f"{kind}.pdf"
        result = self.foxscope("figure", kind, *arguments, "-o", path, "--force")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        return " ".join(text.split()), result.stderr.decode()

    def gates(self, run, model, layer):
        """f of every head of a layer, [H, L - 1]."""
        with h5py.File(run) as file:
            c = file[f"models/{model}/layers/{layer:02}/cumulative_log_gate"][:]
        return numpy.exp(numpy.diff(c, axis=1))


class NamesTest(AnswersTest):
    def test_files_of_one_model_are_told_apart(self):
        here = self.folder / "run.h5"
        self.done("run", "-q", "--model", f"fox={FOX}", "--text", self.write("text.txt", TEXT), "--limit", 300, "-o", here)
        there, other = self.folder / "there" / "run.h5", self.folder / "other.h5"
        there.parent.mkdir()
        for copy in (there, other):
            copy.write_bytes(here.read_bytes())
        for kind in ("decay", "loss"):
            with self.subTest(kind):
                text, _ = self.words(kind, here, other)
                self.assertRegex(text, r"\brun\b")
                self.assertRegex(text, r"\bother\b")
                self.assertIn("there/run", self.words(kind, here, there)[0])
                text, _ = self.words(kind, f"before={here}", f"after={there}")
                self.assertRegex(text, r"\bbefore\b")
                self.assertRegex(text, r"\bafter\b")
                self.assertNotIn("there", text)
                self.fails(2, ["fox: this name stands for two models", "as in fox-2="], "figure", kind, here, here, "-o",
                           self.folder / "x.pdf")
                self.fails(2, ["this file is being read"], "figure", kind, f"a={here}", f"b={there}", "-o", here, "--format",
                           "pdf", "--force")
        self.fails(2, ["another file has a model fox too", "foxscope figure spec"], "figure", "maps", here, there, "-o",
                   self.folder / "x.pdf")


class ComparisonTest(AnswersTest):
    def test_it_is_the_answer_of_compare(self):
        run = self.run_file()
        answer = json.loads(self.done("compare", run, "--json"))
        rows = self.numbers("comparison", run)
        bars = [row for row in rows if row["quantity"].endswith("(nats per token)")]
        expected = [answer, *answer["octaves"]]
        self.assertEqual([row["x"] for row in bars], [f"{one['rows'][0]}:{one['rows'][1]}" for one in expected])
        for row, one in zip(bars, expected):
            self.assertAlmostEqual(float(row["value"]), one["difference"], places=7)
            if one["difference_error"] is None:
                self.assertEqual(row["lower"], "")
                continue
            self.assertAlmostEqual(float(row["upper"]) - float(row["value"]), one["difference_error"], places=7)
            self.assertAlmostEqual(float(row["value"]) - float(row["lower"]), one["difference_error"], places=7)
        tokens = [row for row in rows if row["quantity"] == "difference (nats)"]
        for panel, word in [("fox-pro-12m predicts better", "better"), ("fox-pro-12m predicts worse", "worse")]:
            self.assertEqual([(int(row["x"]), round(float(row["value"]), 5)) for row in tokens if row["panel"] == panel],
                             [(one["position"], round(one["difference"], 5)) for one in answer[word][:8]])

    def test_its_words(self):
        run = self.run_file()
        answer = json.loads(self.done("compare", run, "--json"))
        words, _ = self.words("comparison", run, "--label", "fox-pro-12m=FoX", "--label", "transformer-pro-12m=Transformer")
        sign = "−" if answer["difference"] < 0 else "+"
        self.assertIn(f"FoX − Transformer: {sign}{abs(answer['difference']):.4f} ± ", words)
        self.assertIn(f"perplexity × {answer['perplexity_ratio']:.4f}", words)
        for part in ["FoX predicts better", "FoX predicts worse", "octave from position p", "256", "512"]:
            self.assertIn(part, words)
        known = answer["p_value"] <= 0.05
        self.assertIn("beyond chance (95 %)" if known else "0 is in the 95 % interval", words)
        few, _ = self.words("comparison", run, "--rows", "0:100", "--words", "2", "--width", "icml")
        self.assertIn("too short for an error", few)

    def test_what_it_refuses(self):
        run = self.run_file()
        self.fails(2, ["--words 99", "0 to 40"], "figure", "comparison", run, "--words", 99, "-o", self.folder / "x.pdf")
        alone = self.folder / "alone.h5"
        self.done("run", "-q", "--model", FOX, "--text", self.write("text.txt", TEXT[:200]), "-o", alone)
        self.fails(2, "comparing takes two models", "figure", "comparison", alone, "-o", self.folder / "x.pdf")


class GatesTest(AnswersTest):
    def test_counts_are_those_of_the_gates(self):
        run = self.run_file(models=(FOX,))
        rows = self.numbers("gates", run, "--width", "icml-wide")
        edges = numpy.arange(65) / 64
        for layer in range(8):
            gates = self.gates(run, "fox-pro-12m", layer)
            for head in range(gates.shape[0]):
                mine = [row for row in rows if row["row"] == f"{layer}:{head}"]
                counts = [float(row["value"]) for row in mine if row["quantity"] == "count"]
                numpy.testing.assert_array_equal(counts, numpy.histogram(gates[head], edges)[0])
                [box] = [row for row in mine if row["quantity"] == "forget gate f"]
                numpy.testing.assert_allclose([float(box[name]) for name in ("lower", "value", "upper")],
                                              numpy.quantile(gates[head], [0.25, 0.5, 0.75]), rtol=1e-8)

    def test_layers_and_times(self):
        run = self.run_file(models=(FOX,))
        rows = self.numbers("gates", run, "--each", "layer", "--by", "time", "--rows", "10:300")
        for layer in range(8):
            with h5py.File(run) as file:
                c = file[f"models/fox-pro-12m/layers/{layer:02}/cumulative_log_gate"][:]
            times = -1 / numpy.diff(c, axis=1)[:, 9:299].ravel()
            mine = [row for row in rows if row["row"] == str(layer)]
            self.assertEqual(sum(float(row["value"]) for row in mine if row["quantity"] == "count"), times.size)
            [box] = [row for row in mine if row["quantity"] != "count"]
            self.assertAlmostEqual(float(box["value"]) / numpy.median(times), 1, places=6)
        words, _ = self.words("gates", run, "--by", "time")
        self.assertIn("(tokens)", words)

    def test_many_heads_are_layers(self):
        run = self.run_file(models=(FOX,))
        _, said = self.words("gates", run, "--width", "30mm")
        self.assertIn("32 heads have no room for a violin each", said)
        rows = self.numbers("gates", run, "--width", "30mm")
        self.assertEqual({row["row"] for row in rows}, {str(layer) for layer in range(8)})

    def test_a_model_without_gates(self):
        run = self.run_file(models=(TRANSFORMER,))
        self.fails(2, "has no gate: there is nothing to draw", "figure", "gates", run, "-o", self.folder / "x.pdf")
        self.fails(2, "has no gate: nothing can be skipped", "figure", "pruning", run, "-o", self.folder / "x.pdf")


class ScatterTest(AnswersTest):
    def test_points_are_the_statistics(self):
        heads = GALLERY / "heads.h5"
        rows = self.numbers("scatter", heads, "--x", "rate_decay_time", "--y", "entropy")
        with h5py.File(heads) as file:
            found = {name: file[f"models/fox-pro-12m/numbers/{name}"][:] for name in ("rate_decay_time", "entropy")}
        self.assertEqual(len(rows), 32)
        for row in rows:
            layer, head = map(int, row["row"].split(":"))
            self.assertAlmostEqual(float(row["x"]) / found["rate_decay_time"][layer, head], 1, places=6)
            self.assertAlmostEqual(float(row["value"]), found["entropy"][layer, head], places=6)
        self.assertLessEqual({row["series"] for row in rows}, {"previous token", "local", "sink", "positional", "induction",
                                                               "long memory", "no label"})
        layers = self.numbers("scatter", heads, "--colour-by", "layer")
        self.assertEqual({row["series"] for row in layers}, {f"layer {n}" for n in range(8)})
        for row in layers:
            self.assertEqual(row["series"], f"layer {row['row'].split(':')[0]}")

    def test_heads_at_the_ends_are_named(self):
        heads = GALLERY / "heads.h5"
        rows = self.numbers("scatter", heads)
        longest = max(rows, key=lambda row: float(row["x"]))["row"]
        words, _ = self.words("scatter", heads, "--names", "1")
        self.assertIn(longest, words)
        self.assertIn("decay time (tokens)", words)
        self.assertNotRegex(self.words("scatter", heads, "--names", "0")[0], r"\b\d:\d\b")

    def test_layers_without_heads_are_not_counted(self):
        run = self.run_fixture("published/nemotron_h")
        # Attention has no decay time, and is drawn by its distance beside Mamba.
        rows = self.numbers("scatter", run, "--colour-by", "layer")
        self.assertEqual({row["row"] for row in rows}, {f"{layer}:{head}" for layer in (0, 2) for head in range(4)})
        _, said = self.words("scatter", run, "--x", "rate_decay_time")
        self.assertIn("4 of 8 heads are left out: rate_decay_time or d90_without_first is not finite there", said)

    def test_layers_without_a_gate_are_told(self):
        run = self.run_fixture("published/olmo_hybrid")
        for kind in ("gates", "decay"):
            self.assertIn("layers without a gate are left out: 1", self.words(kind, run)[1])
        for option, words in [("--head=1:0", "--head 1:0: this head of olmo_hybrid never forgets: choose another"),
                              ("--layer=1", "--layer 1: no head of this layer of olmo_hybrid forgets: choose another")]:
            self.fails(2, words, "figure", "gates", run, option, "-o", self.folder / "x.pdf")
        self.assertNotIn("left out", self.words("gates", run, "--head", "0:1")[1])
        self.assertNotIn("--heads", self.words("decay", run)[1])
        _, said = self.words("distance", run)
        self.assertRegex(said, r"0:\d \(.* tokens\); of layers without a gate 1:\d, half of whose attention is within .* tokens; "
                               "--heads chooses others")
        self.assertIn("mean logits are left out: not all of these heads have a softmax", said)
        self.assertNotIn("mean logits", self.words("distance", run, "--heads", "0:0")[1])
        self.assertIn("a gate is the geometric mean over channels",
                      self.words("gates", self.run_fixture("published/fla-kda", "kda.h5"))[1])

    def test_what_it_refuses(self):
        heads = GALLERY / "heads.h5"
        out = self.folder / "x.pdf"
        self.fails(2, ["there is no such statistic", "did you mean rate_decay_time?", "foxscope heads --csv"], "figure",
                   "scatter", heads, "--x", "rate_decay_tim", "-o", out)
        self.fails(2, ["--colour-by shape: there is no such statistic", "label and layer are known too"], "figure", "scatter", heads, "--colour-by", "shape", "-o", out)
        self.fails(2, "--names 21: use a number from 0 to 20", "figure", "scatter", heads, "--names", 21, "-o", out)
        # A model without gates has no decay time, and is drawn by its attention.
        self.numbers("scatter", heads, "--model", "transformer-pro-12m")
        self.fails(1, "no head has both", "figure", "scatter", heads, "--model", "transformer-pro-12m", "--x",
                   "rate_decay_time", "-o", out)


class PruningTest(AnswersTest):
    def test_the_boundary_and_the_shares_are_the_papers_rule(self):
        run = self.run_file(models=(FOX,))
        rows = self.numbers("pruning", run, "--heads", "1:0,0:1", "--tolerance", "1e-3")
        shares = {row["row"]: float(row["value"]) for row in rows if row["quantity"] == "skipped (%)"}
        self.assertEqual(len(shares), 32)
        with h5py.File(run) as file:
            model = file["models/fox-pro-12m"]
            for layer, head in [(1, 0), (0, 1)]:
                group = model[f"layers/{layer:02}"]
                c = group["cumulative_log_gate"][head]
                query, key = group["query"][head].astype(float), group["key"][head].astype(float)
                largest = numpy.linalg.norm(query, axis=1).max() * numpy.linalg.norm(key, axis=1).max()
                largest /= math.sqrt(query.shape[1])
                threshold = -(2 * largest + math.log(len(c))) + math.log(1e-3)
                kept = (c[:, None] - c[None, :] >= threshold) & (numpy.arange(len(c))[None, :] <= numpy.arange(len(c))[:, None])
                entries = len(c) * (len(c) + 1) / 2
                self.assertAlmostEqual(shares[f"{layer}:{head}"], 100 * (1 - kept.sum() / entries), places=4)
                panel = next(row["panel"] for row in rows if re.match(rf"Layer {layer}, head {head} ", row["panel"]))
                first = [int(row["value"]) for row in rows if row["panel"] == panel and row["series"] == "first key kept"]
                numpy.testing.assert_array_equal(first, kept.argmax(axis=1))

    def test_heads_without_a_gate_are_named(self):
        run = self.run_file("--intervene", "2:*:one", "--intervene", "3:1:one", models=(FOX,))
        words, said = self.words("pruning", run)
        self.assertIn("fox-pro-12m: 5 of 32 heads of attention have no gate: nothing of them is skipped", said)
        self.assertIn("5 heads without a gate at 0 %", words)
        self.assertNotRegex(said, r"maps of [^\n]*(2:\d|3:1)")
        words, _ = self.words("pruning", run, "--heads", "2:0,3:0")
        self.assertRegex(words, r"Layer 2, head 0 \(b\) Layer 3, head 0 no gate \d+\.\d % skipped")

    def test_gates_that_are_1_have_no_place_on_a_logarithmic_axis(self):
        run = self.run_file("--intervene", "3:1:one", models=(FOX,))
        rows = self.numbers("gates", run, "--head", "3:1")
        self.assertEqual([float(row["value"]) for row in rows if row["series"] == "gates"], [0] * 63 + [1])
        for by in ["log", "time"]:
            self.fails(2, "--by: every gate that is asked for of fox-pro-12m is 1, which no logarithmic axis has a place for: "
                       "use --by gate", "figure", "gates", run, "--head", "3:1", "--by", by, "-o", self.folder / "x.pdf")
            rows = self.numbers("gates", run, "--layer", 3, "--by", by)
            with h5py.File(run) as file:
                own = -numpy.diff(file["models/fox-pro-12m/layers/03/cumulative_log_gate"][()])
            shares = sum(float(row["value"]) for row in rows if row["series"] == "gates")
            self.assertAlmostEqual(shares, (own >= 2.0 ** -24).mean(), places=6)
            _, said = self.words("gates", run, "--layer", 3, "--by", by)
            percent = float(re.search(r"fox-pro-12m: ([\d.]+) % of the gates are 1 in float32, which no logarithmic", said)[1])
            self.assertAlmostEqual(percent, 100 * (1 - shares), delta=0.1)

    def test_models_without_gates_in_their_attention(self):
        out = self.folder / "x.pdf"
        self.fails(2, "samba has no gate in its softmax attention, which alone is pruned: nothing can be skipped", "figure",
                   "pruning", self.run_fixture("samba"), "-o", out)
        self.fails(2, "gla has no softmax attention, which alone is pruned: nothing can be skipped", "figure", "pruning",
                   self.run_fixture("gla", "gla.h5"), "-o", out)

    def test_its_words(self):
        run = self.run_file(models=(FOX,))
        words, said = self.words("pruning", run)
        self.assertIn("all of a row together hold at most 4.54 × 10⁻⁵ of it", said)
        self.assertRegex(said, r"maps of \d:\d, \d:\d, \d:\d: --heads chooses others")
        for part in ["% skipped", "Share of each head’s entries that is skipped", "line: all heads"]:
            self.assertIn(part, words)
        out = self.folder / "x.pdf"
        self.fails(2, "tolerance 2: a share", "figure", "pruning", run, "--tolerance", 2, "-o", out)
        self.fails(2, "this figure shows one", "figure", "pruning", run, "--quantity", "forget,attention", "-o", out)
        self.fails(2, "has no head 9:0", "figure", "pruning", run, "--heads", "9:0", "-o", out)


class BandsTest(AnswersTest):
    def test_the_band_of_one_text_is_the_error_of_compare(self):
        run = self.run_file()
        length = json.loads(self.done("compare", run, "--json"))["tokens"]
        self.assertGreater(length, 700)
        result = self.foxscope("figure", "ablation", run, "--base", "fox-pro-12m", "--smooth", "301", "-o",
                               self.folder / "a.csv")
        self.assertIn("bands are ± 1 standard error over blocks", result.stderr.decode())
        rows = self.numbers("ablation", run, "--base", "fox-pro-12m", "--smooth", "301", "--x-limits", f"0:{length}")
        difference = {int(row["x"]): row for row in rows if "−" in row["series"]}
        for position in (150, 300, length - 151):
            part = json.loads(self.done("compare", run, "--rows", f"{position - 150}:{position + 151}", "--json"))
            self.assertAlmostEqual(float(difference[position]["value"]), part["difference"], places=6)
            self.assertAlmostEqual(float(difference[position]["upper"]) - float(difference[position]["value"]),
                                   part["difference_error"], places=6)
        rows = self.numbers("perplexity", run, "--models", "fox-pro-12m")
        self.assertNotEqual(rows[-1]["lower"], "")

    def test_a_mean_too_short_for_an_error_says_which_is_not(self):
        run = self.run_file()
        said = self.foxscope("figure", "loss", run, "--smooth", "101", "-o", self.folder / "l.pdf").stderr.decode()
        self.assertIn("a mean of 101 tokens is too short for an error, so there are no bands: --smooth 257 or more", said)

    def test_one_or_several_models_are_named_alike(self):
        run = self.run_file()
        for name in ["--model", "--models"]:
            self.assertEqual({row["series"] for row in self.numbers("loss", run, name, "fox-pro-12m")}, {"fox-pro-12m"})
        self.numbers("labels", GALLERY / "heads.h5", "--model", "fox-pro-12m")

    def test_losses_are_no_training(self):
        out = self.folder / "x.pdf"
        self.fails(2, ["variants.h5 holds losses of models that were trained", "figure loss, perplexity or ablation",
                       "a training is a folder"], "figure", "training", GALLERY / "variants.h5", "-o", out)
        self.fails(2, "a training is a folder", "figure", "training", self.run_file(), "-o", out)

    def test_points_of_heads_are_named(self):
        rows = self.numbers("decay", GALLERY / "heads.h5")
        panel = [row for row in rows if row["panel"] == "Decay time of every head"]
        self.assertEqual({row["row"] for row in panel}, {f"{layer}:{head}" for layer in range(8) for head in range(4)})
        for row in panel:
            self.assertEqual(round(float(row["x"])), int(row["row"].split(":")[0]))
        self.assertIn("Cumulative share of heads", {row["panel"] for row in rows})


if __name__ == "__main__":
    unittest.main()
