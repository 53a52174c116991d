"""`foxscope eval atlas`: against a numpy program over run files of the same windows, and what is refused."""

import csv
import io
import json
import math
import resource
import shutil
import struct
import time
import unittest

import h5py
import numpy
import tokenizers
from support import DATA, FOX, TRANSFORMER, TogetherMixin, golden, set_tensor
from test_eval_loss import TEXTS, EvalTest, Mersenne, jackknife
from test_eval_resume import PartialTest
from test_run import contents

LENGTH, WINDOWS, SHIFTS, ROWS = 96, 12, 200, 16
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


def drawn_rows(length, count, seed):
    """Rows of a window, two a stratum, and the sizes of the strata (docs/maps.md, Sampled rows)."""
    strata = count // 2
    place = lambda row: (row / length + math.log1p(row) / math.log1p(length)) / 2
    begins = [0]
    for h in range(1, strata):
        first = next(row for row in range(length + 1) if row == length or place(row) * strata >= h)
        begins.append(min(max(first, begins[-1] + 2), length - 2 * (strata - h)))
    begins.append(length)
    power = 2
    while power < length and strata > 1:
        n = min(range(1, strata), key=lambda n: abs(begins[n] - power))
        if begins[n - 1] + 2 <= power <= begins[n + 1] - 2:
            begins[n] = power
        power *= 2
    random = Mersenne(seed)
    rows, sizes = [], []
    for begin, end in zip(begins, begins[1:]):
        first = random() % (end - begin)
        second = random() % (end - begin - 1)
        rows += [begin + first, begin + second + (second >= first)]
        sizes.append(end - begin)
    return rows, numpy.array(sizes)


def mean_of_rows(values, sizes):
    """The stratified mean over all rows, and its error; the first axis is the drawn rows."""
    weights = (sizes / sizes.sum()).reshape([-1] + [1] * (values.ndim - 1))
    pairs = values.reshape(len(sizes), 2, *values.shape[1:])
    apart = (1 - 2 / sizes).reshape(weights.shape) * (pairs[:, 0] - pairs[:, 1]) ** 2 / 4
    return (weights * pairs.mean(axis=1)).sum(axis=0), numpy.sqrt((weights ** 2 * apart).sum(axis=0))


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


def student_t(t, degrees):
    """The probability of more than |t|, by Simpson's rule over the angle whose tangent is t / sqrt(degrees)."""
    angles = numpy.linspace(numpy.arctan(numpy.abs(t) / math.sqrt(degrees)), math.pi / 2, 20001)
    weights = numpy.where(numpy.arange(20001) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1
    heights = numpy.cos(angles) ** (degrees - 1)
    area = (weights[:, None] * heights).sum(axis=0) * (angles[-1] - angles[0]) / 60000
    return area * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)


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
    def readings(self, file):
        """Of the same windows, from run files: log f [windows, N, L], NaN at position 0; attention [windows, N, L, L];
        losses [windows, L]."""
        gates, attention, losses = [], [], []
        for row in file["windows/token_id"][()]:
            ids = self.write("row.json", json.dumps(row.tolist()))
            self.done("run", "--model", FOX, "--ids", ids, "-o", self.folder / "row.h5", "--force")
            with h5py.File(self.folder / "row.h5") as run:
                model = next(iter(run["models"].values()))
                layers = [model["layers"][name] for name in sorted(model["layers"])]
                c = numpy.concatenate([layer["cumulative_log_gate"][()] for layer in layers])
                q, k = (numpy.concatenate([layer[name][()].astype(numpy.float64) for layer in layers])
                        for name in ["query", "key"])
                lse = numpy.concatenate([layer["log_normalizer"][()] for layer in layers]).astype(numpy.float64)
                logits = model.attrs["softmax_scale"] * numpy.einsum("hid,hjd->hij", q, k)
                logits += c[:, :, None] - c[:, None, :] - lse[:, :, None]
                losses.append(model["loss/per_token_loss"][()].astype(numpy.float64))
            gates.append(numpy.diff(c, axis=1, prepend=numpy.nan))
            attention.append(numpy.tril(numpy.exp(numpy.minimum(logits, 1))))
        numpy.testing.assert_allclose(numpy.array(attention).sum(axis=-1), 1, rtol=1e-4)
        return numpy.array(gates), numpy.array(attention), numpy.array(losses)

    def test_every_number_is_that_of_a_numpy_program(self):
        said = self.done(*self.arguments(self.output, "--seed", 7, "--rows", ROWS))
        self.assertIn("written to " + str(self.output), said)
        with h5py.File(self.output) as file:
            self.assertEqual((file.attrs["content"], file.attrs["seed"], file.attrs["source"]),
                             ("eval_atlas", 7, "corpus.jsonl"))
            gates, attention, losses = self.readings(file)
            model = file["models/fox"]
            self.assertEqual(model["windows"], file["windows"])
            self.assertEqual(model.attrs["rows"], ROWS)
            self.check_tokens(file, model, gates)
            self.check_token_errors(file, model, gates)
            self.check_classes(file, model, gates)
            self.check_numbers(file, model, gates)
            self.check_resets(file, model, gates)
            self.check_passages(file, model, gates)
            self.check_similarity(model, gates)
            self.check_rows(file, model, attention, losses, gates)

    def test_with_all_rows_numbers_are_those_of_eval_heads(self):
        self.done(*self.arguments(self.output, "--seed", 7, "--rows", "all"))
        heads = self.folder / "heads.h5"
        self.done("eval", "heads", "--model", f"fox={FOX}", "--corpus", self.path, "--length", LENGTH, "--windows",
                  WINDOWS, "--seed", 7, "-o", heads)
        with h5py.File(self.output) as file, h5py.File(heads) as other:
            atlas, whole = file["models/fox"], other["models/fox"]
            for group in ["numbers", "by_distance"]:
                self.assertLessEqual(set(atlas[group]), set(whole[group]))
                # What no head has is left out.
                for name in set(whole[group]) - set(atlas[group]):
                    self.assertTrue(numpy.isnan(whole[group][name.removesuffix("_errors")]).all(), name)
                for name, values in atlas[group].items():
                    numpy.testing.assert_allclose(values, whole[group][name], rtol=1e-5, atol=1e-7, err_msg=name)
            names = [name.decode() for name in atlas["by_class/token_class"][()]]
            known = [name.decode() for name in whole["by_class/token_class"][()]]
            for token_class in ["newline", "space", "punctuation", "sentence_start", "word_first", "word_later"]:
                at, there = names.index(token_class), known.index(token_class)
                self.assertEqual(atlas["by_class/tokens"][at], whole["by_class/tokens"][there])
                for name in ["mean_log_gate", "gate_lower_quartile", "gate_median", "gate_upper_quartile",
                             "share_below_half"]:
                    numpy.testing.assert_allclose(atlas["by_class"][name][:, :, at], whole["by_class"][name][:, :, there],
                                                  rtol=1e-5, atol=2 ** -24, err_msg=f"{name} of {token_class}")
            self.assertEqual(sorted(atlas["passages"]), ["deciles", "gain", "reach", "resets"])

    def test_with_all_rows_tokens_receive_whole_columns(self):
        for rows in ["all", LENGTH]:
            self.done(*self.arguments(self.output, "--seed", 7, "--rows", rows, "--force"))
            with h5py.File(self.output) as file:
                attention = self.readings(file)[1]
                if rows == LENGTH:
                    self.check_all_rows(file["models/fox"], attention)
                columns = attention.sum(axis=2)[:, :, 1:]  # [windows, N, L - 1]
                read = file["windows/token_id"][:, :-1]
                model = file["models/fox/tokens"]
                for n, token in enumerate(model["id"][()].tolist()):
                    mean = columns.transpose(1, 0, 2)[:, read == token].mean(axis=1)
                    numpy.testing.assert_allclose(model["received"][()].reshape(32, -1)[:, n], mean, rtol=1e-5, atol=1e-5)

    def check_all_rows(self, model, attention):
        """Similarity and passages of as many rows as a window has."""
        distance = numpy.arange(LENGTH)[:, None] - numpy.arange(LENGTH)
        edges = [0, 1, 2, 4, 8, 16, 32, 64, LENGTH]
        mass = numpy.stack([numpy.where((distance >= lo) & (distance < hi), attention, 0).sum(axis=3)
                            for lo, hi in zip(edges, edges[1:])], axis=3)  # [windows, N, L, bins]
        numpy.testing.assert_allclose(model["similarity/attention"], numpy.corrcoef(mass.transpose(1, 0, 2, 3).reshape(32, -1)),
                                      atol=1e-5)
        farthest = numpy.sort(mass[..., 6:].sum(axis=3)[:, :, 1:].max(axis=2), axis=0)[::-1][:3]  # [passages, N]
        # Mass below 2^-30 is none.
        numpy.testing.assert_allclose(numpy.nan_to_num(model["passages/reach/value"][()]).reshape(32, 3), farthest.T,
                                      rtol=1e-5, atol=2 ** -30)

    def check_tokens(self, file, model, gates):
        read = file["windows/token_id"][:, :-1].ravel()
        tokens, counts = numpy.unique(read, return_counts=True)
        numpy.testing.assert_array_equal(model["tokens/id"], tokens)
        numpy.testing.assert_array_equal(model["tokens/count"], counts)
        flat = gates[:, :, 1:].transpose(1, 0, 2).reshape(32, -1)
        for name, values in [("mean_log_gate", flat), ("share_below_half", flat < math.log(0.5))]:
            means = numpy.array([[head[read == token].mean() for token in tokens] for head in values])
            # Log f of a reading is a whole number of 2^-17 nats, and a share one of 2^-16. A mean has 20 bits.
            atol = 2 ** -18 if name == "mean_log_gate" else 2 ** -17
            numpy.testing.assert_allclose(model["tokens"][name][()].reshape(32, -1), means, rtol=2 ** -20 + 1e-9, atol=atol)
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
        self.assertNotIn("mean_log_gate_row_errors", model["numbers"])

    def check_token_errors(self, file, model, gates):
        read = file["windows/token_id"][:, :-1]
        documents = numpy.repeat(file["windows/document"][()], LENGTH - 1)
        flat = gates[:, :, 1:].transpose(1, 0, 2).reshape(32, -1)
        tokens = model["tokens/id"][()].tolist()
        p_values, known = numpy.full((32, len(tokens)), numpy.nan), 0
        for n, token in enumerate(tokens):
            here = numpy.flatnonzero(read.ravel() == token)
            groups = [here[documents[here] == document] for document in numpy.unique(documents[here])]
            sizes = numpy.array([len(group) for group in groups])
            effective = sizes.sum() ** 2 / (sizes ** 2).sum()
            self.assertEqual(model["tokens/few"][n], len(here) < 30)
            errors = model["tokens/mean_log_gate_errors"][()].reshape(32, -1)[:, n]
            if token >= 2048 or effective < 3.5:
                self.assertTrue(numpy.isnan(errors).all())
                continue
            known += 1
            mean = flat[:, here].mean(axis=1)
            residues = numpy.array([(flat[:, group] - mean[:, None]).sum(axis=1) for group in groups])
            expected = numpy.sqrt(len(groups) / (len(groups) - 1) * (residues ** 2).sum(axis=0)) / len(here)
            numpy.testing.assert_allclose(errors, expected, rtol=1e-5, atol=2 ** -17)
            if len(here) >= 30:
                by_chance = numpy.maximum(numpy.maximum(expected, flat.std(axis=1) / numpy.sqrt(len(here))), 2 ** -17)
                p_values[:, n] = 2 * student_t((mean - flat.mean(axis=1)) / by_chance, effective - 1)
        self.assertGreater(known, 10)
        order = numpy.sort(p_values[~numpy.isnan(p_values)])
        below = numpy.flatnonzero(order <= 0.05 * numpy.arange(1, len(order) + 1) / len(order))
        limit = order[below[-1]] if len(below) else -1
        numpy.testing.assert_array_equal(model["tokens/discovered"][()].reshape(32, -1) == 1, p_values <= limit)
        self.assertGreater(model["tokens/discovered"][()].sum(), 0)

    def check_classes(self, file, model, gates):
        names = [name.decode() for name in model["by_class/token_class"][()]]
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        documents = file["windows/document"][()]
        for name in ["capital", "line_end"]:
            here = numpy.array([[name in found for found in plain_classes([tokenizer.decode([token]) for token in row[:-1]])]
                                for row in file["windows/token_id"][()]])
            groups = [documents == document for document in numpy.unique(documents)]
            sizes = numpy.array([here[group].sum() for group in groups])
            groups = [group for group, size in zip(groups, sizes) if size > 0]
            at = names.index(name)
            for statistic, values in [("mean_log_gate", gates[:, :, 1:]),
                                      ("share_below_half", gates[:, :, 1:] < math.log(0.5))]:
                mean = numpy.array([values[:, head][here].mean() for head in range(32)])
                residues = numpy.array([[(values[group, head][here[group]] - mean[head]).sum() for head in range(32)]
                                        for group in groups])
                error = numpy.sqrt(len(groups) / (len(groups) - 1) * (residues ** 2).sum(axis=0)) / here.sum()
                numpy.testing.assert_allclose(model["by_class"][statistic][:, :, at].ravel(), mean, rtol=1e-5, atol=2 ** -24)
                numpy.testing.assert_allclose(model["by_class"][statistic + "_errors"][:, :, at].ravel(), error, rtol=1e-5,
                                              atol=2 ** -24)

    def check_rows(self, file, model, attention, losses, gates):
        ids = file["windows/token_id"][()]
        documents = file["windows/document"][()].tolist()
        distance = numpy.arange(LENGTH)[:, None] - numpy.arange(LENGTH)
        edges = [0, 1, 2, 4, 8, 16, 32, 64, LENGTH]
        self.assertEqual(model["by_distance/distance"][()].tolist(), edges[:-1])
        self.assertEqual(model["by_distance/distance_end"][()].tolist(), edges[1:])
        names = ["entropy", "mass_on_first", "mass_on_self"]
        windows = {name: [] for name in [*names, "mass"]}
        masses, received = [], {}
        reach, gain = numpy.zeros((WINDOWS, 32)), numpy.zeros((WINDOWS, 32))
        reach_row, gain_row = numpy.zeros((WINDOWS, 32), int), numpy.zeros((WINDOWS, 32), int)
        for window in range(WINDOWS):
            rows, sizes = drawn_rows(LENGTH, ROWS, mixed(~window_key(7, ids[window]) & WORD))
            a = attention[window][:, rows].transpose(1, 0, 2)  # [rows, N, L]
            bins = numpy.array([numpy.where((distance >= lo) & (distance < hi), 1, 0)[rows] for lo, hi in
                                zip(edges, edges[1:])])
            mass = numpy.einsum("rhk,brk->rhb", a, bins)
            masses.append(mass.transpose(1, 0, 2).reshape(32, -1))
            entropy = -(a * numpy.log(numpy.where(a > 0, a, 1))).sum(axis=2)
            own = numpy.array([a[n, :, row] for n, row in enumerate(rows)])
            for name, values in [("entropy", entropy), ("mass_on_first", a[:, :, 0]), ("mass_on_self", own),
                                 ("mass", mass)]:
                windows[name].append(mean_of_rows(values, sizes))
            keys = (a * numpy.repeat(sizes / 2, 2)[:, None, None]).sum(axis=0)
            for key in range(1, LENGTH):
                received.setdefault(ids[window, key - 1], {}).setdefault(window, []).append(keys[:, key])
            first = {}
            for n, row in sorted(enumerate(rows), key=lambda pair: pair[1]):
                far = mass[n][:, 6:].sum(axis=1)  # from 32 on: half of 96 is at most that power of 2, and so is "local"
                earlier = [p for p in range(row) if ids[window, p] == ids[window, row]]
                values = [(reach, reach_row, far)]
                if earlier:
                    values.append((gain, gain_row, far * (losses[window, earlier[0]] - losses[window, row])))
                for most, places, value in values:
                    better = (value > most[window]) & (row > 0)
                    places[window][better] = row
                    most[window][better] = value[better]
        for name in names:
            values, row_errors = (numpy.array(part) for part in zip(*windows[name]))
            numpy.testing.assert_allclose(model["numbers"][name][()].ravel(), values.mean(axis=0), rtol=1e-5, atol=1e-9)
            numpy.testing.assert_allclose(model["numbers"][name + "_errors"][()].ravel(),
                                          jackknife(lambda rows: values[rows].mean(axis=0), documents), rtol=1e-4, atol=1e-9)
            numpy.testing.assert_allclose(model["numbers"][name + "_row_errors"][()].ravel(),
                                          numpy.sqrt((row_errors ** 2).sum(axis=0)) / WINDOWS, rtol=1e-4, atol=1e-9)
        values, row_errors = (numpy.array(part) for part in zip(*windows["mass"]))
        expected = numpy.sqrt((row_errors ** 2).sum(axis=0)) / WINDOWS
        # Few rows hold a small mass: whether one of them was drawn decides the error, so there is none.
        small = values.mean(axis=0) < 1e-4
        self.assertTrue(small.any() and not small.all())
        numpy.testing.assert_allclose(model["by_distance/mass_row_errors"][()].reshape(32, -1),
                                      numpy.where(small, numpy.nan, expected), rtol=1e-3, atol=1e-8)
        numpy.testing.assert_allclose(model["by_distance/mass"][()].reshape(32, -1), values.mean(axis=0), rtol=1e-5,
                                      atol=1e-8)
        numpy.testing.assert_allclose(model["by_distance/mass_errors"][()].reshape(32, -1),
                                      jackknife(lambda rows: values[rows].mean(axis=0), documents), rtol=1e-3, atol=1e-8)
        small, found, readings = 0, 0, {token: sum(map(len, parts.values())) for token, parts in received.items()}
        for n, token in enumerate(model["tokens/id"][()].tolist()):
            column = model["tokens/received"][()].reshape(32, -1)[:, n].astype(numpy.float64)
            of_windows = numpy.array([numpy.sum(part, axis=0) for part in received[token].values()])
            mean = of_windows.sum(axis=0) / readings[token]
            numpy.testing.assert_array_less(abs(column - mean), 1e-5 * numpy.maximum(1, mean), err_msg=str(token))
            # Of a window it is a whole number of 2^-17, one of the two next to it. Those that are 0 or 1 of them:
            units = (of_windows * 2 ** 17).max(axis=0) < 0.5
            small += (of_windows.sum(axis=0)[units] * 2 ** 17).sum()
            found += (column[units] * 2 ** 17 * readings[token]).sum()
        # Up or down by chance: their sum is right.
        self.assertGreater(small, 40)
        self.assertLess(abs(found - small), 5 * math.sqrt(small))
        flat = numpy.concatenate(masses, axis=1)
        numpy.testing.assert_allclose(model["similarity/attention"], numpy.corrcoef(flat), atol=1e-5)
        for kind, most, places in [("reach", reach, reach_row), ("gain", gain, gain_row)]:
            for head in range(32):
                layer = (head // 4, head % 4)
                # Less mass is none.
                order = sorted((window for window in range(WINDOWS) if most[window, head] > 1e-6),
                               key=lambda window: -most[window, head])[:3]
                found = model["passages"][kind]["window"][layer][:len(order)].tolist()
                numpy.testing.assert_allclose(model["passages"][kind]["value"][layer][:len(order)], most[order, head],
                                              rtol=1e-4, atol=1e-7)
                if len(set(numpy.round(most[:, head], 6))) == WINDOWS:
                    self.assertEqual(found, order)
                    self.assertEqual(model["passages"][kind]["position"][layer][:len(order)].tolist(),
                                     places[order, head].tolist())
        for kind in ["resets", "reach", "gain", "deciles"]:
            group = model["passages"][kind]
            for head in [0, 13, 31]:
                layer = (head // 4, head % 4)
                for window, position, around in zip(group["window"][layer], group["position"][layer],
                                                    group["log_gate"][layer]):
                    if window < 0:
                        continue
                    padded = numpy.concatenate([numpy.full(64, numpy.nan), gates[window, head], numpy.full(64, numpy.nan)])
                    # Seven significant bits, and below 2^-14 whole numbers of 2^-20.
                    expected = padded[position:position + 129]
                    known = ~numpy.isnan(expected)
                    numpy.testing.assert_array_equal(numpy.isnan(around), ~known)
                    size = abs(expected[known])
                    most = numpy.where(size < 2 ** -14, 2 ** -21 + 2 ** -25, size * (2 ** -7 + 2 ** -11)) * 1.001
                    numpy.testing.assert_array_less(abs(around.astype(numpy.float64)[known] - expected[known]), most)

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


def rounded(values):
    """To the nearest whole number, half of one away from 0."""
    return numpy.copysign(numpy.floor(numpy.abs(values) + 0.5), values)


def rests_of(words, means, count, unit):
    """What means leave of their sums, [layers, heads, tokens], as docs/files.md says."""
    rests = numpy.zeros(means.shape)
    for layer, head in numpy.ndindex(means.shape[:2]):
        bits = iter(words[layer, head].astype(numpy.uint32).tolist())
        below, width = next(bits, 0) << 32 | next(bits, 0), 2 ** 64 - 1

        def digit(bound):
            nonlocal below, width
            if bound > 2 ** 24:
                upper = digit((bound - 1 >> 24) + 1)
                return upper << 24 | digit(2 ** 24)
            width //= bound
            found, below = divmod(below, width)
            while width < 2 ** 32:
                below, width = below << 32 | next(bits, 0), width << 32
            return found

        for n, mean in enumerate(means[layer, head].tolist()):
            if mean == 0 or math.isnan(mean):
                continue
            step = 2 ** -16 if unit == 1 else 2.0 ** (math.frexp(mean)[1] - 20)
            found = digit(2 * math.floor(step * count[n] / unit / 2 * (1 + 2 ** -30) + 0.5) + 1)
            rests[layer, head, n] = -(found // 2) - 1 if found % 2 else found // 2
    return rests


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
        # Windows of another length go with them.
        other = self.texts("other.jsonl", 14, 16)
        self.done(*self.arguments(self.folder / "short.h5", "--seed", 3, corpora=[other], windows=5, length=24))
        self.done("eval", "atlas", "--merge", self.folder / "short.h5", files[0], "-o", self.folder / "both.h5")
        with h5py.File(self.folder / "both.h5") as both, h5py.File(self.folder / "short.h5") as short, \
                h5py.File(files[0]) as first:
            one, two = short["models/fox/by_distance/mass"][()], first["models/fox/by_distance/mass"][()]
            one = numpy.concatenate([one, numpy.zeros((8, 4, two.shape[2] - one.shape[2]))], axis=2)
            numpy.testing.assert_allclose(both["models/fox/by_distance/mass"], (one + two) / 2, atol=1e-12)
        # In two steps too.
        self.done("eval", "atlas", "--merge", *files[:2], "-o", self.folder / "two.h5")
        self.done("eval", "atlas", "--merge", self.folder / "two.h5", files[2], "-o", self.folder / "steps.h5")
        self.expect_same(self.output, self.folder / "steps.h5")

    def with_other_merges(self):
        """The model with the same vocabulary, whose first merges come in another order."""
        folder = self.folder / "other-merges"
        shutil.copytree(FOX, folder)
        described = json.loads((folder / "tokenizer.json").read_text())
        merges = described["model"]["merges"]
        merges[:2] = merges[1::-1]
        (folder / "tokenizer.json").write_text(json.dumps(described))
        return folder

    def test_sums_of_the_former_form(self):
        parts = [self.texts(f"{n}.jsonl", *pieces) for n, pieces in enumerate([(0, 5), (5, 9)])]
        self.done(*self.arguments(self.folder / "one.h5", corpora=parts, windows=5))
        for n, part in enumerate(parts):
            self.done(*self.arguments(self.folder / f"{n}.h5", corpora=[part], windows=5))
        with h5py.File(self.folder / "0.h5", "r+") as file:
            model = file["models/fox"]
            count = model["tokens/count"][()]
            for name, of, unit in [("token_log_gate", "mean_log_gate", 2.0 ** -17), ("token_received", "received", 2.0 ** -17),
                                   ("token_below_half", "share_below_half", 1)]:
                means = model["tokens"][of][()].astype(numpy.float64)
                sums = rounded(means * (count / unit)) + rests_of(model["sums"][name][()], means, count, unit)
                means = (sums * unit / count).astype(numpy.float32)
                if of == "share_below_half":
                    means = numpy.rint(means * 2 ** 16) / 2 ** 16
                model["tokens"][of][()] = means
                rests = (sums - rounded(means.astype(numpy.float64) * (count / unit))).astype(numpy.int64)
                del model["sums"][name]
                model["sums"][name] = numpy.where(rests < 0, -2 * rests - 1, 2 * rests)
        self.done("eval", "atlas", "--merge", self.folder / "0.h5", self.folder / "1.h5", "-o", self.output)
        self.expect_same(self.folder / "one.h5", self.output)

    def test_what_cannot_be_merged(self):
        other = self.texts("other.jsonl", 8, 12)
        one, two = self.folder / "one.h5", self.folder / "two.h5"
        self.done(*self.arguments(one, "-q", windows=2))
        merge = ["eval", "atlas", "--merge", one, two, "-o", self.output]
        self.fails(1, ["two.h5"], *merge, output=self.output)
        for extra, words in [([], ["two.h5", "holds the document doc-", "one.h5"]),
                             (["--seed", 1], ["two.h5: seed 1", "one.h5 has 0"]),
                             (["--intervene", "0:0:one"], ["two.h5: fox: intervention", "one.h5 has none"]),
                             (["--rows", 0], ["two.h5: fox: rows 0", "one.h5 has 64"]),
                             (["--bos", 5], ["two.h5: fox: BOS token 5"])]:
            corpora = [self.path] if not extra else [other]
            self.done(*self.arguments(two, "-q", "--force", *extra, corpora=corpora, windows=2))
            self.fails(1, words, *merge, output=self.output)
        self.done(*self.arguments(two, "-q", "--force", corpora=[other], models=("base",), windows=2))
        self.fails(1, ["two.h5: models base", "one.h5 has fox"], *merge, output=self.output)
        self.done("eval", "atlas", "-q", "--model", f"fox={TRANSFORMER}", "--corpus", other, "--length", LENGTH, "--windows",
                  2, "--passages", 3, "-o", two, "--force")
        self.fails(1, ["two.h5: fox: weights", "one.h5 has"], *merge, output=self.output)
        self.done("eval", "atlas", "-q", "--model", f"fox={self.with_other_merges()}", "--corpus", other, "--length", LENGTH,
                  "--windows", 2, "--passages", 3, "-o", two, "--force")
        self.fails(1, ["two.h5: fox has another tokenizer than in", "one.h5 (SHA-256 "], *merge, output=self.output)
        with h5py.File(two, "a") as file:
            del file["models/fox"].attrs["tokenizer_sha256"]  # as of earlier versions, which do not know
        self.done(*merge)
        self.output.unlink()
        self.done(*self.arguments(two, "-q", "--force", corpora=[other], windows=2))
        with h5py.File(two, "a") as file:
            strings = file["models/fox/tokens/string"]
            strings[...] = [b"x" + string for string in strings[()]]
        self.fails(1, ["two.h5: fox has another tokenizer than in", "one.h5"], *merge, output=self.output)
        self.expect_ids_once(one, two)
        self.done(*self.arguments(one, "-q", "--force", windows=2))
        two.write_bytes(one.read_bytes()[:20000])
        self.fails(1, ["two.h5", "cut short"], *merge, output=self.output)
        self.done("eval", "loss", "-q", "--model", f"fox={FOX}", "--corpus", other, "--length", 96, "--windows", 2, "-o",
                  two, "--force")
        self.fails(1, ["two.h5: holds losses of windows", "no atlas of heads"], *merge, output=self.output)
        self.fails(2, "--merge", *merge, "--seed", 1, output=self.output)
        self.fails(2, "--merge: name two", "eval", "atlas", "--merge", one, "-o", self.output, output=self.output)
        self.fails(2, "one.h5", "eval", "atlas", "--merge", one, two, "-o", one, "--force")


    def expect_ids_once(self, one, two):
        ids = numpy.random.default_rng(5).integers(10, 200, [6, 32])

        def atlas(output, rows, *extra):
            self.done("eval", "atlas", "-q", "--model", FOX, "--bos", 1, "--ids", self.npy(rows), "--passages", 3, "-o", output,
                      "--force", *extra)

        atlas(one, ids[:3])
        merge = ["eval", "atlas", "--merge", one, two, "-o", self.output]
        self.fails(1, ["one.h5: holds window 0 of token ids"], "eval", "atlas", "--merge", one, one, "-o", self.output,
                   output=self.output)
        # A copy, a row among others, and rows that are read at another length.
        for rows, extra, number in [(ids[:3], [], 0), (ids[[3, 1]], [], 1), (ids[[4, 5, 2], :20], [], 2),
                                    (ids[:3], ["--length", 9], 0), (numpy.pad(ids[3:], ((0, 0), (0, 4))), [], None),
                                    (numpy.pad(ids[[3, 0]], ((0, 0), (0, 4))), [], 1)]:
            atlas(two, rows, *extra)
            if number is not None:
                self.fails(1, [f"two.h5: holds window {number} of token ids", "one.h5 does"], *merge, output=self.output)
        atlas(two, ids[3:, :20])
        self.done(*merge)
        with h5py.File(self.output) as file:
            self.assertEqual(file["windows/token_id"].shape, (6, 32))
        three = self.folder / "three.h5"
        atlas(three, ids[[4]])  # of which two.h5 has the beginning
        self.fails(1, ["three.h5: holds window 0 of token ids"], "eval", "atlas", "--merge", self.output, three, "-o",
                   self.folder / "all.h5")
        self.output.unlink()


class ResumeTest(AtlasTest, PartialTest):
    def test_a_killed_atlas_goes_on(self):
        arguments = {"models": ("fox", "base"), "windows": 60, "length": 256}
        self.path = self.texts("long.jsonl", 0, 19)
        self.done(*self.arguments(self.folder / "whole.h5", **arguments))
        before = b""
        for _ in range(3):
            process = self.start(*self.arguments(self.output, **arguments))
            self.wait_for_more(process, before)
            process.kill()
            process.communicate()
            self.assertFalse(self.output.exists())
            before = self.partial.read_bytes()
        # Records that stand twice, one of them damaged, and zeros of a crash.
        damaged = bytearray(before + before[72:] + bytes(5000))
        damaged[5000] ^= 1
        self.partial.write_bytes(damaged)
        process = self.start(*self.arguments(self.output, **arguments))
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        # One, and in each copy what a kill has cut.
        self.assertRegex(said.decode(), rf"{self.partial}: \d+ of \d+ parts (is damaged: what it|are damaged: what they) held is computed again")
        self.assertRegex(said.decode(), r"fox: \d+ of 60 windows were read before")
        self.assertFalse(self.partial.exists())
        self.expect_same(self.folder / "whole.h5", self.output)

    def wait_for_more(self, process, before):
        """Until the work so far has changed, which makes its file smaller too, and a part is whole."""
        deadline = time.monotonic() + 120
        while True:
            found = self.partial.read_bytes() if self.partial.exists() else b""
            if len(found) > 92 and found != before:
                tokens = struct.unpack_from("<I", found, 80)[0]
                if len(found) >= 92 + 4 * tokens:
                    return
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), "ended early")
            time.sleep(0.005)

    def test_a_full_disk_loses_nothing(self):
        self.done(*self.arguments(self.folder / "whole.h5"))
        size = (self.folder / "whole.h5").stat().st_size
        output = self.write("atlas.h5", "old")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))}
        result = self.foxscope(*self.arguments(output, "--force"), **limit)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        kept, failed = result.stderr.decode().splitlines()
        self.assertIn("atlas.h5.partial: cannot write the unfinished work: File too large; the work goes on", kept)
        self.assertIn("atlas.h5: larger than files may be here", failed)
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
            self.assertNotIn("string", model["tokens"])
        for table in ["classes", "resets"]:
            self.assertEqual(self.done("info", self.output, "--table", table, "--csv").count("\n"), 1)
        self.assertGreater(self.done("info", self.output, "--table", "gaps", "--csv").count("\n"), 1)
        # Rows and places are drawn, and so the seed counts.
        self.done("eval", "atlas", "--model", DATA / "fox-pro", "--ids", windows, "--seed", 5, "--rows", 4, "-o",
                  self.folder / "seeded.h5")
        self.done("eval", "atlas", "--model", DATA / "fox-pro", "--ids", windows, "--rows", 4, "-o", self.output, "--force")
        with h5py.File(self.output) as file, h5py.File(self.folder / "seeded.h5") as other:
            self.assertEqual((file.attrs["seed"], other.attrs["seed"]), (0, 5))
            for name in ["passages/deciles/position", "numbers/entropy"]:
                self.assertFalse(numpy.array_equal(file["models/fox-pro"][name], other["models/fox-pro"][name]), name)
            numpy.testing.assert_array_equal(file["models/fox-pro/numbers/gate_median"],
                                             other["models/fox-pro/numbers/gate_median"])

    def test_tokens_that_are_parts_of_characters(self):
        text = "Br\u00fcning said \u6f22\u5b57 to \u010capek. The old house stood on the hill, and nobody came. " * 200
        self.done(*self.arguments(self.output, corpora=[self.write("parts.txt", text)], windows=4))
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        with h5py.File(self.output) as file:
            tokens = file["models/fox/tokens"]
            parts = dict(zip(tokens["part_id"][()].tolist(), [bytes.fromhex(part.decode()) for part in tokens["part_bytes"][()]]))
            strings = dict(zip(tokens["id"][()].tolist(), [string.decode() for string in tokens["string"][()]]))
            self.assertEqual(set(parts), {token for token, string in strings.items() if "\ufffd" in string})
            # The tokens of the text say what its bytes are.
            row = file["windows/token_id"][0].tolist()
            joined = b"".join(parts.get(token, strings.get(token, "").encode()) for token in row)
            self.assertIn("Br\u00fcning said \u6f22\u5b57".encode(), joined)
        rows = json.loads(self.done("info", self.output, "--table", "tokens", "--json", "--head", "0:0"))
        self.assertEqual({row["id"]: row["string"] for row in rows if row["id"] in parts},
                         {token: part.decode(errors="backslashreplace") for token, part in parts.items()})
        # They come back into another file.
        other = self.write("other.txt", text[1000:9000])
        self.done(*self.arguments(self.folder / "two.h5", corpora=[other], windows=1))
        self.done("eval", "atlas", "--merge", self.output, self.folder / "two.h5", "-o", self.folder / "both.h5")
        with h5py.File(self.folder / "both.h5") as both, h5py.File(self.output) as file:
            numpy.testing.assert_array_equal(both["models/fox/tokens/part_bytes"], file["models/fox/tokens/part_bytes"])
        for damage, words in [(b"c", "with the bytes"), (b"zz", "with the bytes")]:
            with h5py.File(self.output, "r+") as file:
                file["models/fox/tokens/part_bytes"][0] = damage
            self.fails(1, ["atlas.h5", words, "the file is damaged"], "info", self.output)

    def test_sums_of_another_version(self):
        for name in ["token_log_gate_bits", "token_received_bits"]:
            self.done(*self.arguments(self.output, "--force", windows=2))
            with h5py.File(self.output, "r+") as file:
                del file["models/fox/sums"].attrs[name]
            self.fails(1, ["atlas.h5: its sums are those of another version", "make the atlas again"], "info", self.output)

    def test_a_model_without_gates(self):
        result = self.foxscope(*self.arguments(self.output, "--rows", 0, models=("base",), windows=2))
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"base: no layer forgets", result.stderr)
        with h5py.File(self.output) as file:
            self.assertEqual(sorted(file["models/base"]), ["sums", "tokens", "windows"])
            self.assertEqual(sorted(file["models/base/tokens"]), ["count", "few", "head", "id", "layer", "string"])
        self.assertEqual(self.done("info", self.output, "--table", "tokens", "--csv").count("\n"), 1)
        # Its attention is known.
        self.done(*self.arguments(self.output, "--force", models=("base",), windows=2))
        with h5py.File(self.output) as file:
            model = file["models/base"]
            self.assertEqual(sorted(model), ["by_distance", "numbers", "passages", "similarity", "sums", "tokens", "windows"])
            self.assertEqual(sorted(model["passages"]), ["gain", "reach"])
            self.assertNotIn("mean_log_gate", model["numbers"])
            self.assertIn("entropy", model["numbers"])
            self.assertIn("received", model["tokens"])
            self.assertEqual(sorted(model["similarity"]), ["attention", "order"])
            self.assertTrue(numpy.isnan(model["passages/reach/log_gate"]).all())
        self.assertIn("entropy", self.done("info", self.output, "--table", "heads", "--csv").splitlines()[0])

    def test_gates_alone(self):
        self.done(*self.arguments(self.output, "--rows", 0, windows=2))
        with h5py.File(self.output) as file:
            model = file["models/fox"]
            self.assertEqual(model.attrs["rows"], 0)
            self.assertEqual(sorted(model["passages"]), ["deciles", "resets"])
            self.assertEqual(sorted(model["similarity"]), ["log_gate", "order"])
            self.assertNotIn("entropy", model["numbers"])
            self.assertNotIn("by_distance", model)

    def test_two_models(self):
        # A model is as like itself under another name as it is like itself.
        self.done(*self.arguments(self.output, "--model", f"same={FOX}", models=("fox", "base"), windows=4))
        with h5py.File(self.output) as file:
            fox, base, same = (file["models"][name]["similarity"] for name in ["fox", "base", "same"])
            self.assertNotIn("first_log_gate", fox)
            self.assertEqual(same.attrs["first"], "fox")
            for name in ["log_gate", "attention"]:
                numpy.testing.assert_allclose(same[f"first_{name}"], fox[name], atol=1e-6)
            self.assertNotIn("first_log_gate", base)
            between = base["first_attention"][()]
        rows = json.loads(self.done("info", self.output, "--table", "first_similarity", "--json"))
        self.assertEqual(len(rows), 2 * 32 * 32)
        self.assertEqual((rows[0]["model"], rows[0]["first"], rows[0]["correlation"]), ("base", "fox", None))
        # The other way around it is the same.
        self.done(*self.arguments(self.output, "--force", models=("base", "fox"), windows=4))
        with h5py.File(self.output) as file:
            numpy.testing.assert_allclose(file["models/fox/similarity/first_attention"][()].T, between, atol=1e-5)
            self.assertEqual(sorted(file["models/fox/similarity"].attrs["first"]), sorted("base"))

    def test_one_document(self):
        text = self.write("one.txt", "".join(path.read_text() for path in TEXTS)[:20000])
        said = self.done(*self.arguments(self.output, corpora=[text], windows=3))
        self.assertIn("no errors: all windows lie in one document", said)
        with h5py.File(self.output) as file:
            model = file["models/fox"]
            for name in ["numbers/entropy_errors", "numbers/mean_log_gate_errors", "by_distance/mass_errors",
                         "tokens/mean_log_gate_errors", "by_class/mean_log_gate_errors"]:
                self.assertTrue(numpy.isnan(model[name]).all(), name)
            self.assertEqual(model["tokens/discovered"][()].sum(), 0)
            self.assertFalse(numpy.isnan(model["numbers/entropy_row_errors"]).any())

    def test_documents_shorter_than_a_window_are_left_out(self):
        lines = self.path.read_text() + json.dumps({"id": "short", "text": "The fox ran."}) + "\n"
        self.done(*self.arguments(self.output, corpora=[self.write("some.jsonl", lines)], windows=8))
        with h5py.File(self.output) as file:
            self.assertEqual(file.attrs["corpus_documents"], 9)
            self.assertNotIn(b"short", file["documents/name"][()].tolist())

    def test_windows_of_two_and_three_tokens(self):
        # Too short for rows to be drawn: all are looked at.
        for length in [2, 3]:
            self.done(*self.arguments(self.output, "--force", windows=4, length=length))
            with h5py.File(self.output) as file:
                self.assertFalse(numpy.isnan(file["models/fox/numbers/entropy"]).any())
                self.assertEqual(file["models/fox/sums/mass_count"][()], [4 * length * length])
                self.assertIn("attention", file["models/fox/similarity"])
            self.done("info", self.output)

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
            self.assertEqual([sum(one["kind"] == kind for one in passages) for kind in ["resets", "deciles"]], [32 * 3] * 2)
            for kind in ["reach", "gain"]:
                self.assertEqual(sum(one["kind"] == kind for one in passages),
                                 (model["passages"][kind]["window"][()] >= 0).sum())
            first = passages[0]
            self.assertEqual((first["kind"], first["window"], first["position"]),
                             ("resets", model["passages/resets/window"][0, 0, 0],
                              model["passages/resets/position"][0, 0, 0]))
            self.assertEqual(first["id"], file["windows/token_id"][first["window"], first["position"] - 1])
            similarity = json.loads(self.done("info", self.output, "--table", "similarity", "--json"))
            numpy.testing.assert_allclose([row["correlation"] for row in similarity],
                                          model["similarity/log_gate"][()].ravel(), rtol=1e-6)
            self.assertAlmostEqual(first["log_gate"], first["value"], delta=9e-3 * abs(first["value"]))
            self.assertAlmostEqual(float(row["received"]), model["tokens/received"][1, 1, 3], places=6)
            distances = json.loads(self.done("info", self.output, "--table", "distances", "--json"))
            masses = [row for row in distances if row["profile"] == "mass"]
            numpy.testing.assert_allclose([row["value"] for row in masses], model["by_distance/mass"][()].ravel())
            for table in ["classes", "gaps", "histogram"]:
                self.assertGreater(self.done("info", self.output, "--table", table, "--csv").count("\n"), 32)
        summary = json.loads(self.done("info", self.output, "--json"))
        self.assertEqual((summary["kind"], summary["models"][0]["windows"]), ("atlas of heads", 4))
        self.assertIn("forgets most at", self.done("info", self.output))
        self.fails(2, ["\"words\"", "heads, distances, tokens"], "info", self.output, "--table", "words", "--csv")
        self.fails(2, "--csv and --json exclude each other", "info", self.output, "--table", "heads", "--csv", "--json")
        known = next(row for row in resets if row["share"] is not None)
        lines = self.done("info", self.output, "--table", "resets", "--head", f"{known['layer']}:{known['head']}").splitlines()
        self.assertEqual(lines[0].split(), list(known))
        self.assertEqual(len(lines), 9)
        line = next(line.split() for line in lines if line.split()[3] == known["token_class"])
        self.assertEqual(line[:5], ["fox", *(str(known[name]) for name in ["layer", "head", "token_class", "resets"])])
        self.assertAlmostEqual(float(line[5]), known["share"], places=5)
        self.fails(1, ["no atlas", "foxscope eval atlas"], "info", self.run_fixture(), "--table", "heads", "--csv")

    def test_weights_that_leave_the_range_of_numbers(self):
        model = self.copy_of("fox-pro")
        set_tensor(model, "model.layers.0.attn.v_proj.linear.weight", lambda weight: weight * numpy.float32(1e38))
        windows = self.npy(golden("fox-pro")["labels"][:2, :48].astype(numpy.int64))
        self.fails(1, ["of layer 1, head", "in window 0 is not a number", "check the weights and --dtype"], "eval", "atlas",
                   "-q", "--model", model, "--ids", windows, "-o", self.output, output=self.output)

    def test_sums_that_no_gates_have(self):
        self.done(*self.arguments(self.output, windows=3))
        whole = self.output.read_bytes()
        damages = {
            "sums/token_count": (0, 1, "does not count every position by its token once"),
            "tokens/mean_log_gate": ((0, 0, 0), 2, "has a mean log f of"),
            "sums/log_gate_histogram": ((7, 0, 5), -1, "has a histogram of other positions than there are"),
            "sums/documents": (0, 2 ** 62, "holds documents with more windows than there are"),
        }
        for name, (place, number, words) in damages.items():
            self.output.write_bytes(whole)
            with h5py.File(self.output, "r+") as file:
                data = file["models/fox"][name]
                data[place] = data[place] + 1 if number == 1 else number
            self.fails(1, ["atlas.h5", words, "the file is damaged"], "info", self.output)
        contradictions = {
            "numbers/mean_log_gate": (Ellipsis, math.nan, "histogram/positions: does not add up to 0 positions of layer 0, head 0"),
            "histogram/positions": (Ellipsis, 0, "has a histogram of other positions than there are"),
            "by_distance/mass_without_first": ((1, 1, 2), -0.5, "mass_without_first: holds the mass -0.5"),
            "similarity/order": (3, 99, "similarity: does not name every head once in its order"),
        }
        for name, (place, number, words) in contradictions.items():
            self.output.write_bytes(whole)
            with h5py.File(self.output, "r+") as file:
                file["models/fox"][name][place] = number
            for command in [["info", self.output], ["figure", "scatter", self.output, "-o", self.folder / "out.svg"]]:
                self.fails(1, ["atlas.h5", words, "the file is damaged"], *command)
        self.output.write_bytes(whole)
        with h5py.File(self.output, "r+") as file:
            file["windows/token_id"][1, 3] = 8_000_000
        self.fails(1, ["atlas.h5", "windows read 8000000"], "info", self.output)

    def test_what_repeats_counts_once(self):
        documents = self.path.read_text().splitlines(keepends=True)
        twice = self.write("twice.jsonl", "".join([*documents[:2], documents[0], documents[2], documents[1]]))
        ids = golden("fox-pro")["labels"][:2, :48].astype(numpy.int64).reshape(4, 24)
        rows = self.npy(ids[[0, 1, 0, 2]])
        for command in ["atlas", "loss", "heads"]:
            for given, windows in [(["--corpus", twice, "--length", LENGTH], None), (["--ids", rows], 3)]:
                with self.subTest(command=command, given=given[0]):
                    result = self.foxscope("eval", command, "--model", FOX, *given, "-o", self.output, "--force")
                    said = result.stderr.decode()
                    self.assertEqual(result.returncode, 0, said)
                    self.assertIn("ids.npy: a row repeats one before it, and is left out" if windows else
                                  "twice.jsonl: 2 documents repeat one before them, and are left out", said)
                    with h5py.File(self.output) as file:
                        model = file["models/fox-pro" if "models/fox-pro" in file else next(iter(file["models"].values())).name]
                        document = next(group for group in [file.get("windows"), model.get("windows")] if group)["document"][()]
                        self.assertEqual(len(set(document.tolist())), windows or 3)

    def test_what_is_refused(self):
        empty = self.write("empty.jsonl", "")
        short = self.write("short.jsonl", json.dumps({"text": "The fox ran."}) + "\n")
        blank, one = self.write("blank.txt", ""), self.write("one.txt", "a")
        nothing = self.write("nothing.jsonl", json.dumps({"text": ""}) + "\n")
        for corpus, words in [(empty, "empty.jsonl"), (blank, ["blank.txt", "holds no text"]),
                              (nothing, ["nothing.jsonl", "holds no text"]),
                              (one, ["one.txt", "no document has more than one token: give a longer text"]), (short, ["short.jsonl", "96 tokens", "--length"]),
                              (self.folder / "nowhere.txt", "nowhere.txt")]:
            self.fails(1, words, *self.arguments(self.output, corpora=[corpus]), output=self.output)
        self.fails(1, ["holds the document doc-", "count twice"],
                   *self.arguments(self.output, corpora=[self.path, self.texts("again.jsonl", 0, 8)], windows=40),
                   output=self.output)
        self.fails(2, "--corpus", "eval", "atlas", "--model", FOX, "-o", self.output, output=self.output)
        self.fails(2, "--model", "eval", "atlas", "--corpus", self.path, "-o", self.output, output=self.output)
        for rows in ["7", "-2", "some"]:
            self.fails(2, f"--rows {rows}", *self.arguments(self.output, f"--rows={rows}"), output=self.output)
        self.fails(2, "--passages 0", *self.arguments(self.output, passages=0), output=self.output)
        for length, most in [(100_000_000, 2), (1_000_000_000, 0)]:
            self.fails(2, [f"--length {length}: ", f"at most {most} rows", "not 64: use a smaller --length", f"--rows {most}"],
                       *self.arguments(self.output, length=length), output=self.output)
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
