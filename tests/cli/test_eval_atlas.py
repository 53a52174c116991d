"""`foxscope eval atlas`: against a numpy program over run files of the same windows, and what is refused."""

import csv
import io
import json
import math
import resource
import unittest

import h5py
import numpy
import tokenizers
from support import DATA, FOX, TRANSFORMER, TogetherMixin, golden, set_tensor
from test_eval_loss import TEXTS, EvalTest, Mersenne, jackknife
from test_eval_resume import PartialTest
from test_run import contents

LENGTH, WINDOWS, SHIFTS = 96, 12, 200
WORD = (1 << 64) - 1


def mixed(x):
    """splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def window_key(seed, ids):
    key = mixed(seed)
    for token in ids:
        key = mixed(key ^ int(token))
    return key


def plain_classes(tokens):
    """The classes that single characters decide, of tokens as strings."""
    broken, result = False, []
    for token in tokens:
        found = set()
        for character in token:
            if character == "\n":
                found |= {"line_end", "paragraph_end"} if broken else {"line_end"}
                broken = True
            elif not character.isspace():
                broken = False
        first = token.lstrip()[:1]
        if first.isupper():
            found.add("capital")
        if first.isnumeric():
            found.add("number")
        result.append(found)
    return result


class AtlasTest(EvalTest):
    def arguments(self, output, *extra, models=("fox",), corpora=None, windows=WINDOWS, length=LENGTH,
                  passages=3):
        folders = {"fox": FOX, "base": TRANSFORMER}
        named = [part for model in models for part in ("--model", f"{model}={folders[model]}")]
        given = [part for path in (corpora or [self.path]) for part in ("--corpus", path)]
        return ["eval", "atlas", *named, *given, "--length", length, "--windows", windows, "--passages", passages,
                "-o", output, *extra]

    def setUp(self):
        super().setUp()
        self.path = self.texts("corpus.jsonl", 0, 8)
        self.output = self.folder / "atlas.h5"

    def texts(self, name, begin, end, size=5000):
        """Documents of one length, pieces of the sample texts."""
        text = "".join(path.read_text() for path in TEXTS)
        return self.write(name, "".join(json.dumps({"id": f"doc-{n}", "text": text[n * size:(n + 1) * size]}) + "\n"
                                        for n in range(begin, end)))

    def expect_same(self, one, other, without=("@command_line",)):
        expected, found = contents(one), contents(other)
        self.assertEqual(expected.keys(), found.keys())
        for key in expected.keys() - set(without):
            numpy.testing.assert_array_equal(expected[key], found[key], err_msg=key)


class NumbersTest(AtlasTest):
    def log_gates(self, file):
        """[windows, N, L] log f of the same windows, from run files; position 0 is NaN."""
        result = []
        for row in file["windows/token_id"][()]:
            ids = self.write("row.json", json.dumps(row.tolist()))
            self.done("run", "--model", FOX, "--ids", ids, "-o", self.folder / "row.h5", "--force", "--keep", "gates")
            with h5py.File(self.folder / "row.h5") as run:
                layers = next(iter(run["models"].values()))["layers"]
                c = numpy.concatenate([layers[name]["cumulative_log_gate"][()] for name in sorted(layers)])
            result.append(numpy.diff(c, axis=1, prepend=numpy.nan))
        return numpy.array(result)

    def test_every_number_is_that_of_a_numpy_program(self):
        said = self.done(*self.arguments(self.output, "--seed", 7))
        self.assertIn("written to " + str(self.output), said)
        with h5py.File(self.output) as file:
            self.assertEqual((file.attrs["content"], file.attrs["seed"], file.attrs["source"]),
                             ("eval_atlas", 7, "corpus.jsonl"))
            gates = self.log_gates(file)
            model = file["models/fox"]
            self.assertEqual(model["windows"], file["windows"])
            self.check_tokens(file, model, gates)
            self.check_numbers(file, model, gates)
            self.check_resets(file, model, gates)
            self.check_passages(file, model, gates)
            self.check_similarity(model, gates)

    def check_tokens(self, file, model, gates):
        read = file["windows/token_id"][:, :-1].ravel()
        tokens, counts = numpy.unique(read, return_counts=True)
        numpy.testing.assert_array_equal(model["tokens/id"], tokens)
        numpy.testing.assert_array_equal(model["tokens/count"], counts)
        flat = gates[:, :, 1:].transpose(1, 0, 2).reshape(32, -1)
        for name, values in [("mean_log_gate", flat), ("share_below_half", flat < math.log(0.5))]:
            means = numpy.array([[head[read == token].mean() for token in tokens] for head in values])
            numpy.testing.assert_allclose(model["tokens"][name][()].reshape(32, -1), means, rtol=1e-5, atol=1e-9)
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        strings = [string.decode() for string in model["tokens/string"][()]]
        self.assertEqual(strings, [tokenizer.decode([token]) for token in tokens])
        bins = model["histogram/minus_log_gate"][()]
        for head, expected in enumerate(flat):
            histogram = numpy.histogram(-expected, [-numpy.inf, *bins[1:], numpy.inf])[0]
            numpy.testing.assert_array_equal(model["histogram/positions"][()].reshape(32, -1)[head], histogram)

    def check_numbers(self, file, model, gates):
        windows = file["windows/document"][()].tolist()
        means = gates[:, :, 1:].mean(axis=2)
        numpy.testing.assert_allclose(model["numbers/mean_log_gate"][()].ravel(), means.mean(axis=0), rtol=1e-9)
        numpy.testing.assert_allclose(model["numbers/rate_decay_time"][()].ravel(), -1 / means.mean(axis=0), rtol=1e-9)
        quartiles = numpy.quantile(numpy.exp(gates[:, :, 1:]), 0.25, axis=2)
        numpy.testing.assert_allclose(model["numbers/gate_lower_quartile"][()].ravel(), quartiles.mean(axis=0), rtol=1e-9)
        errors = jackknife(lambda rows: means[rows].mean(axis=0), windows)
        numpy.testing.assert_allclose(model["numbers/mean_log_gate_errors"][()].ravel(), errors, rtol=1e-6)
        # The same numbers as `eval heads` has of these windows.
        heads = self.folder / "heads.h5"
        self.done("eval", "heads", "--model", f"fox={FOX}", "--corpus", self.path, "--length", LENGTH, "--windows",
                  WINDOWS, "--seed", 7, "-o", heads)
        with h5py.File(heads) as other:
            for name, values in model["numbers"].items():
                if name in ["layer", "head"]:
                    continue
                numpy.testing.assert_allclose(values, other[f"models/fox/numbers/{name}"], rtol=1e-6, atol=1e-12,
                                              err_msg=name)

    def check_resets(self, file, model, gates):
        resets = gates[:, :, 1:] < math.log(0.5)
        numpy.testing.assert_array_equal(model["resets/count"][()].ravel(), resets.sum(axis=(0, 2)))
        gaps = numpy.zeros((32, 40), int)
        for window in resets:
            for head, row in enumerate(window):
                for gap in numpy.diff(numpy.flatnonzero(row)):
                    gaps[head, int(gap).bit_length() - 1] += 1
        numpy.testing.assert_array_equal(model["resets/gaps"][()].reshape(32, 40), gaps)
        names = [name.decode() for name in model["resets/token_class"][()]]
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        ids = file["windows/token_id"][()]
        for name in ["line_end", "paragraph_end", "capital", "number"]:
            at = names.index(name)
            here = numpy.array([[name in found for found in plain_classes([tokenizer.decode([token]) for token in row[:-1]])]
                                for row in ids])
            self.assertEqual(model["resets/tokens"][at], here.sum(), name)
            count = numpy.maximum(resets.sum(axis=(0, 2)), 1)
            share = (resets & here[:, None, :]).sum(axis=(0, 2))
            shifted = numpy.zeros((SHIFTS, 32))
            for row, window, places in zip(ids, resets, here):
                random = Mersenne(window_key(7, row))
                for n in range(SHIFTS):
                    shift = 1 + random.below(LENGTH - 2)
                    shifted[n] += (numpy.roll(window, shift, axis=1) & places).sum(axis=1)
            known = (resets.sum(axis=(0, 2)) > 0) & (here.sum() > 0)
            table = {key: model["resets"][key][()].reshape(32, -1)[:, at] for key in
                     ["share", "chance", "chance_spread", "p_value"]}
            self.assertTrue(numpy.isnan(table["share"][~known]).all())
            numpy.testing.assert_allclose(table["share"][known], (share / count)[known], rtol=1e-9)
            numpy.testing.assert_allclose(table["chance"][known], (shifted.mean(axis=0) / count)[known], rtol=1e-9)
            numpy.testing.assert_allclose(table["chance_spread"][known], (shifted.std(axis=0, ddof=1) / count)[known],
                                          rtol=1e-9)
            p_value = (1 + (shifted >= share).sum(axis=0)) / (1 + SHIFTS)
            numpy.testing.assert_allclose(table["p_value"][known], p_value[known], rtol=1e-12)
        # Of all p values in order those up to the largest k with p_(k) <= 0.05 k / n (Benjamini and Hochberg).
        p_values = model["resets/p_value"][()].ravel()
        order = numpy.sort(p_values[~numpy.isnan(p_values)])
        below = numpy.flatnonzero(order <= 0.05 * numpy.arange(1, len(order) + 1) / len(order))
        limit = order[below[-1]] if len(below) else -1
        numpy.testing.assert_array_equal(model["resets/discovered"][()].ravel() == 1, p_values <= limit)
        self.assertGreater(model["resets/discovered"][()].sum(), 0)

    def check_passages(self, file, model, gates):
        for head in range(32):
            lowest = numpy.nanmin(gates[:, head], axis=1)
            order = sorted(range(WINDOWS), key=lambda window: (numpy.float32(lowest[window]), window))[:3]
            layer = (head // 4, head % 4)
            self.assertEqual(model["passages/resets/window"][layer].tolist(), order)
            places = [int(numpy.nanargmin(gates[window, head])) for window in order]
            self.assertEqual(model["passages/resets/position"][layer].tolist(), places)
            numpy.testing.assert_allclose(model["passages/resets/value"][layer], lowest[order], rtol=1e-6)
            # Three of all windows, each at the position that the window's random number says.
            windows = model["passages/deciles/window"][layer].tolist()
            values = model["passages/deciles/value"][layer]
            self.assertEqual(len(set(windows)), 3)
            self.assertEqual(values.tolist(), sorted(values.tolist()))
            for window, position, value in zip(windows, model["passages/deciles/position"][layer], values):
                key = mixed(window_key(7, file["windows/token_id"][window]) + head & WORD)
                self.assertEqual(position, 1 + mixed(key) % (LENGTH - 1))
                self.assertAlmostEqual(value, gates[window, head, position], places=5)

    def check_similarity(self, model, gates):
        flat = gates[:, :, 1:].transpose(1, 0, 2).reshape(32, -1)
        similarity = model["similarity/log_gate"][()]
        numpy.testing.assert_allclose(similarity, numpy.corrcoef(flat), atol=1e-6)
        # Average linkage, written out: the two clusters of smallest mean distance are joined again and again.
        order = model["similarity/order"][()].tolist()
        self.assertEqual(sorted(order), list(range(32)))
        place = {head: n for n, head in enumerate(order)}
        clusters = [[head] for head in range(32)]
        while len(clusters) > 1:
            pairs = [(numpy.mean([1 - similarity[i, j] for i in a for j in b]), n, m) for n, a in enumerate(clusters)
                     for m, b in enumerate(clusters[:n])]
            _, n, m = min(pairs)
            joined = clusters[n] + clusters[m]
            clusters = [cluster for k, cluster in enumerate(clusters) if k not in (n, m)] + [joined]
            # What is joined stands together.
            places = sorted(place[head] for head in joined)
            self.assertEqual(places, list(range(places[0], places[0] + len(places))))


class SameTest(TogetherMixin, AtlasTest):
    def test_several_processes_make_the_file_of_one(self):
        self.done(*self.arguments(self.folder / "one.h5", models=("fox", "base")))
        for count in [2, 5]:
            output = self.folder / f"{count}.h5"
            self.done_together(self.arguments(output, "-q", models=("fox", "base")), count)
            self.expect_same(self.folder / "one.h5", output)

    def test_a_merged_atlas_is_that_of_one_run(self):
        parts = [self.texts(f"{n}.jsonl", *pieces) for n, pieces in enumerate([(0, 5), (5, 9), (9, 14)])]
        self.done(*self.arguments(self.folder / "one.h5", "--seed", 3, corpora=parts, windows=5))
        files = []
        for n, part in enumerate(parts):
            files.append(self.folder / f"part-{n}.h5")
            self.done(*self.arguments(files[-1], "--seed", 3, corpora=[part], windows=5))
        said = self.done("eval", "atlas", "--merge", *files, "-o", self.output)
        self.assertIn("fox, 15 windows of up to 96 tokens from ", said)
        self.expect_same(self.folder / "one.h5", self.output)
        # In two steps too.
        self.done("eval", "atlas", "--merge", *files[:2], "-o", self.folder / "two.h5")
        self.done("eval", "atlas", "--merge", self.folder / "two.h5", files[2], "-o", self.folder / "steps.h5")
        self.expect_same(self.output, self.folder / "steps.h5")

    def test_what_cannot_be_merged(self):
        other = self.texts("other.jsonl", 8, 12)
        one, two = self.folder / "one.h5", self.folder / "two.h5"
        self.done(*self.arguments(one, "-q", windows=2))
        merge = ["eval", "atlas", "--merge", one, two, "-o", self.output]
        self.fails(1, ["two.h5"], *merge, output=self.output)
        for extra, words in [([], ["two.h5", "holds the document doc-", "one.h5"]),
                             (["--seed", 1], ["two.h5: seed 1", "one.h5 has 0"]),
                             (["--intervene", "0:0:one"], ["two.h5: fox: intervention", "one.h5 has none"]),
                             (["--bos", 5], ["two.h5: fox: BOS token 5"])]:
            corpora = [self.path] if not extra else [other]
            self.done(*self.arguments(two, "-q", "--force", *extra, corpora=corpora, windows=2))
            self.fails(1, words, *merge, output=self.output)
        self.done(*self.arguments(two, "-q", "--force", corpora=[other], models=("base",), windows=2))
        self.fails(1, ["two.h5: models base", "one.h5 has fox"], *merge, output=self.output)
        self.done(*self.arguments(two, "-q", "--force", corpora=[other], windows=2))
        with h5py.File(two, "a") as file:
            strings = file["models/fox/tokens/string"]
            strings[...] = [b"x" + string for string in strings[()]]
        self.fails(1, ["two.h5: fox has another tokenizer than in", "one.h5"], *merge, output=self.output)
        two.write_bytes(one.read_bytes()[:20000])
        self.fails(1, ["two.h5", "cut short"], *merge, output=self.output)
        self.done("eval", "loss", "-q", "--model", f"fox={FOX}", "--corpus", other, "--length", 96, "--windows", 2, "-o",
                  two, "--force")
        self.fails(1, ["two.h5: holds losses of windows", "no atlas of heads"], *merge, output=self.output)
        self.fails(2, "--merge", *merge, "--seed", 1, output=self.output)
        self.fails(2, "--merge: name two", "eval", "atlas", "--merge", one, "-o", self.output, output=self.output)
        self.fails(2, "one.h5", "eval", "atlas", "--merge", one, two, "-o", one, "--force")


class ResumeTest(AtlasTest, PartialTest):
    def test_a_killed_atlas_goes_on(self):
        arguments = {"models": ("fox", "base"), "windows": 60, "length": 256}
        self.path = self.texts("long.jsonl", 0, 19)
        self.done(*self.arguments(self.folder / "whole.h5", **arguments))
        sizes = []
        for _ in range(3):
            before = self.partial.stat().st_size if self.partial.exists() else 0
            process = self.start(*self.arguments(self.output, **arguments))
            self.wait_for_windows(process, self.partial, max(before, 72) + 1)
            process.kill()
            process.communicate()
            self.assertFalse(self.output.exists())
            sizes.append(self.partial.stat().st_size)
        self.assertEqual(sizes, sorted(sizes))
        whole = self.partial.read_bytes()
        self.partial.write_bytes(whole + whole[72:1000])  # a record cut short
        self.done(*self.arguments(self.output, **arguments))
        self.assertFalse(self.partial.exists())
        self.expect_same(self.folder / "whole.h5", self.output)

    def test_a_full_disk_loses_nothing(self):
        self.done(*self.arguments(self.folder / "whole.h5"))
        size = (self.folder / "whole.h5").stat().st_size
        output = self.write("atlas.h5", "old")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))}
        message = self.fails(1, "atlas.h5", *self.arguments(output, "--force"), **limit)
        self.assertIn("disk", message)
        self.assertEqual(output.read_text(), "old")
        self.done(*self.arguments(output, "--force"))
        self.expect_same(self.folder / "whole.h5", output, ["@command_line"])

    def test_unfinished_work_of_other_settings(self):
        process = self.start(*self.arguments(self.output))
        self.wait_for_windows(process, self.partial, 73)
        process.kill()
        process.communicate()
        self.fails(1, ["atlas.h5.partial", "other settings", "--force"], *self.arguments(self.output, "--seed", 9),
                   output=self.output)
        self.partial.write_text("a letter of mine")
        self.fails(1, ["atlas.h5.partial", "Foxscope did not write it"], *self.arguments(self.output))
        self.partial.unlink()

    def setUp(self):
        super().setUp()
        self.partial = self.folder / "atlas.h5.partial"


class InputTest(AtlasTest):
    def test_ids_have_no_classes(self):
        windows = self.npy(golden("fox-pro")["labels"][:2, :48].astype(numpy.int64).reshape(4, 24))
        self.done("eval", "atlas", "--model", DATA / "fox-pro", "--ids", windows, "-o", self.output)
        with h5py.File(self.output) as file:
            model = file["models/fox-pro"]
            self.assertEqual(model.attrs["positions"], 4 * 23)
            self.assertNotIn("by_class", model)
            self.assertEqual(sorted(model["resets"]), ["count", "gap", "gaps", "head", "layer"])
            # Four windows fill four places of 32; the others are empty.
            window = model["passages/resets/window"][0, 0]
            self.assertEqual(sorted(window[:4].tolist()), [0, 1, 2, 3])
            self.assertTrue((window[4:] == -1).all())
            self.assertTrue(numpy.isnan(model["passages/resets/value"][0, 0][4:]).all())

    def test_a_model_without_gates(self):
        result = self.foxscope(*self.arguments(self.output, models=("base",), windows=2))
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"base: no layer forgets", result.stderr)
        with h5py.File(self.output) as file:
            self.assertEqual(sorted(file["models/base"]), ["sums", "tokens", "windows"])
            self.assertEqual(sorted(file["models/base/tokens"]), ["count", "head", "id", "layer", "string"])
        self.assertEqual(self.done("info", self.output, "--table", "tokens", "--csv").count("\n"), 1)

    def test_tables(self):
        self.done(*self.arguments(self.output, windows=4))
        with h5py.File(self.output) as file:
            model = file["models/fox"]
            heads = json.loads(self.done("info", self.output, "--table", "heads", "--json"))
            self.assertEqual([(head["layer"], head["head"]) for head in heads], [(n // 4, n % 4) for n in range(32)])
            numpy.testing.assert_allclose([head["rate_decay_time"] for head in heads],
                                          model["numbers/rate_decay_time"][()].ravel())
            tokens = list(csv.DictReader(io.StringIO(self.done("info", self.output, "--table", "tokens", "--csv"))))
            self.assertEqual(len(tokens), 32 * len(model["tokens/id"]))
            row = tokens[5 * len(model["tokens/id"]) + 3]
            self.assertEqual((row["model"], row["layer"], row["head"]), ("fox", "1", "1"))
            self.assertEqual(row["string"], model["tokens/string"][3].decode())
            self.assertAlmostEqual(float(row["mean_log_gate"]), model["tokens/mean_log_gate"][1, 1, 3], places=6)
            resets = json.loads(self.done("info", self.output, "--table", "resets", "--json"))
            numpy.testing.assert_allclose([numpy.nan if row["p_value"] is None else row["p_value"] for row in resets],
                                          model["resets/p_value"][()].ravel())
            passages = json.loads(self.done("info", self.output, "--table", "passages", "--json"))
            self.assertEqual(len(passages), 32 * 2 * 3)
            first = passages[0]
            self.assertEqual((first["kind"], first["window"], first["position"]),
                             ("resets", model["passages/resets/window"][0, 0, 0],
                              model["passages/resets/position"][0, 0, 0]))
            self.assertEqual(first["id"], file["windows/token_id"][first["window"], first["position"] - 1])
            similarity = json.loads(self.done("info", self.output, "--table", "similarity", "--json"))
            numpy.testing.assert_allclose([row["correlation"] for row in similarity],
                                          model["similarity/log_gate"][()].ravel(), rtol=1e-6)
            for table in ["classes", "gaps", "histogram"]:
                self.assertGreater(self.done("info", self.output, "--table", table, "--csv").count("\n"), 32)
        summary = json.loads(self.done("info", self.output, "--json"))
        self.assertEqual((summary["kind"], summary["models"][0]["windows"]), ("atlas of heads", 4))
        self.assertIn("forgets most at", self.done("info", self.output))
        self.fails(2, ["\"words\"", "heads, tokens, classes"], "info", self.output, "--table", "words", "--csv")
        self.fails(2, "--csv or --json", "info", self.output, "--table", "heads")
        self.fails(1, ["no atlas", "foxscope eval atlas"], "info", self.run_fixture(), "--table", "heads", "--csv")

    def test_weights_that_leave_the_range_of_numbers(self):
        model = self.copy_of("fox-pro")
        set_tensor(model, "model.layers.0.attn.v_proj.linear.weight", lambda weight: weight * numpy.float32(1e38))
        windows = self.npy(golden("fox-pro")["labels"][:2, :48].astype(numpy.int64))
        self.fails(1, ["of layer 1, head 0 in window 0 is not a number", "check the weights and --dtype"], "eval", "atlas",
                   "-q", "--model", model, "--ids", windows, "-o", self.output, output=self.output)

    def test_what_is_refused(self):
        empty = self.write("empty.jsonl", "")
        short = self.write("short.jsonl", json.dumps({"text": "The fox ran."}) + "\n")
        for corpus, words in [(empty, "empty.jsonl"), (short, ["short.jsonl", "96 tokens", "--length"]),
                              (self.folder / "nowhere.txt", "nowhere.txt")]:
            self.fails(1, words, *self.arguments(self.output, corpora=[corpus]), output=self.output)
        self.fails(1, ["holds the document doc-", "count twice"],
                   *self.arguments(self.output, corpora=[self.path, self.texts("again.jsonl", 0, 8)], windows=40),
                   output=self.output)
        self.fails(2, "--corpus", "eval", "atlas", "--model", FOX, "-o", self.output, output=self.output)
        self.fails(2, "--model", "eval", "atlas", "--corpus", self.path, "-o", self.output, output=self.output)
        self.fails(2, "--passages 0", *self.arguments(self.output, passages=0), output=self.output)
        self.fails(2, "--length 1", *self.arguments(self.output, length=1), output=self.output)
        self.fails(2, "--max-tokens", *self.arguments(self.output, "--max-tokens", 500), output=self.output)
        self.fails(2, ["--max-tokens 50", "96"], "eval", "atlas", "--model", FOX, "--corpus", self.path, "--length", 96,
                   "--max-tokens", 50, "-o", self.output, output=self.output)
        self.fails(2, "atlas.csv", *self.arguments(self.folder / "atlas.csv"))
        self.done("eval", "atlas", "-q", "--model", FOX, "--corpus", self.path, "--length", 96, "--max-tokens", 200, "-o",
                  self.output)
        with h5py.File(self.output) as file:
            self.assertEqual(len(file["windows/tokens"]), 2)
        self.fails(1, ["atlas.h5", "exists"], *self.arguments(self.output))


if __name__ == "__main__":
    unittest.main()
