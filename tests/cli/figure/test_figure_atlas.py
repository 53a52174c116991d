"""`foxscope figure tokens`, `passages`, `resets`, `similarity`, `gates` and `scatter` of an atlas: their numbers, made again
from the file with numpy, their words as pdftotext sees them, and what is refused."""

import csv
import json
import re
import shutil
import subprocess
import unittest

import h5py
import numpy
from support import DRAWS, FOX, TRANSFORMER, png_size
from test_figure import FigureTest
from test_findings import corpus

PER_LAYER = 4


class AtlasFigures(FigureTest):
    def atlas(self):
        """FoX and a transformer, 12 windows of 128 tokens."""
        return self.made_once("atlas.h5", lambda path: self.done(
            "eval", "atlas", "--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--corpus",
            self.write("corpus.jsonl", corpus()), "--length", 128, "--windows", 12, "--passages", 5, "-o", path))


@unittest.skipUnless(DRAWS, "built without Qt")
class AtlasFigureTest(AtlasFigures):
    def draw(self, kind, *arguments, ending="csv"):
        path = self.folder / f"{kind}.{ending}"
        result = self.foxscope("figure", kind, self.atlas(), *arguments, "-o", path, "--force")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.said = result.stderr.decode()
        return path

    def numbers(self, kind, *arguments):
        with open(self.draw(kind, *arguments), newline="") as file:
            return list(csv.DictReader(file, strict=True))

    def words(self, kind, *arguments):
        path = self.draw(kind, *arguments, ending="pdf")
        text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        return " ".join(text.split())

    def test_tokens(self):
        rows = self.numbers("tokens", "--head", "5:2", "--count", 4, "--fewest", 8)
        with h5py.File(self.atlas()) as file:
            tokens = file["models/fox/tokens"]
            often = tokens["count"][()] >= 8
            values = -tokens["mean_log_gate"][5, 2][often].astype(float)
            counts = tokens["count"][()][often]
        order = numpy.argsort(-values, kind="stable")
        for series, expected in [("forgets most", order[:4]), ("forgets least", order[::-1][:4])]:
            found = [row for row in rows if row["series"] == series]
            numpy.testing.assert_allclose([float(row["value"]) for row in found], values[expected], rtol=1e-6)
            self.assertEqual([int(row["x"]) for row in found], counts[expected].tolist())
        words = self.words("tokens", "--head", "5:2")
        for part in ["(a)", "fox 5:2: forgets most", "(b)", "fox 5:2: forgets least", "mean −log f (nats)", "how often"]:
            self.assertIn(part, words)
        self.assertRegex(self.said, r"fox: \d+ tokens were read; the bars are chosen among the \d+ that were read 30 times or more\n")
        self.words("tokens")
        self.assertRegex(self.said, r"fox: \d:\d is drawn, a head of middle memory; --head chooses another")

    def test_passages(self):
        rows = self.numbers("passages", "--head", "6:3", "--kind", "resets,deciles", "--count", 4)
        with h5py.File(self.atlas()) as file:
            passages, ids = file["models/fox/passages"], file["windows/token_id"][()]
            names, documents = file["documents/name"].asstr()[()], file["windows/document"][()]
            strings = dict(zip(file["models/fox/tokens/id"][()], file["models/fox/tokens/string"].asstr()[()]))
            for kind in ["resets", "deciles"]:
                found = [row for row in rows if row["series"] == kind]
                places = list(zip(passages[kind]["window"][6, 3, :4], passages[kind]["position"][6, 3, :4]))
                self.assertEqual([(int(row["window"]), int(row["x"])) for row in found], places)
                self.assertEqual({row["head"] for row in found}, {"6:3"})
                self.assertEqual([row["document"] for row in found], [names[documents[window]] for window, _ in places])
                numpy.testing.assert_allclose([float(row["value"]) for row in found], passages[kind]["value"][6, 3, :4],
                                              rtol=1e-6)
                for row, (window, position) in zip(found, places):
                    token = strings[ids[window, position - 1]]
                    if token.strip():
                        self.assertEqual(row["row"].strip(), token.strip())
            window, position = passages["resets/window"][6, 3, 0], passages["resets/position"][6, 3, 0]
            surroundings = 1 - numpy.exp(passages["resets/log_gate"][6, 3, 0, 63:66].astype(float))
        self.assertTrue((surroundings[1] >= surroundings).all())
        words = self.words("passages", "--head", "6:3", "--kind", "reach,gain")
        for part in ["reach of fox 6:3: share of attention half a window back", "gain of fox 6:3: ",
                     "share forgotten 1 − f, fox 6:3"]:
            self.assertIn(part, words)
        words = self.words("passages", "--head", "6:3")
        self.assertIn("strongest forgetting of fox 6:3", words)
        before = [strings[one].strip() for one in ids[window, position - 4:position - 1]]
        for word in before:
            self.assertIn(word, words)

    def test_passages_beside_another_figure(self):
        """On a page of several figures the columns that one of them has are empty in the lines of the other."""
        spec = self.write("page.json", json.dumps({"foxscope_figure": 1, "panels": [[
            {"kind": "tokens", "options": {"head": "6:3", "count": 3, "fewest": 8}},
            {"kind": "passages", "options": {"head": ["6:3", "2:1"], "count": 3}}]]}))
        path = self.folder / "page.csv"
        self.done("figure", "spec", spec, self.atlas(), "-o", path)
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        own = [row for row in rows if row["panel"].startswith("(b)")]
        self.assertEqual((len(rows), len(own)), (9, 3))
        for row in rows:
            self.assertNotIn(None, row)
            self.assertNotIn(None, row.values())
            self.assertEqual([bool(row[name]) for name in ["head", "window", "document"]], [row in own] * 3)

    def test_passages_that_hold_a_text(self):
        """Of several heads, merged by value: each passage holds the text, and none that holds it is left out."""
        heads = [(6, 3), (2, 1)]
        with h5py.File(self.atlas()) as file:
            passages, ids = file["models/fox/passages/resets"], file["windows/token_id"][()]
            strings = dict(zip(file["models/fox/tokens/id"][()], file["models/fox/tokens/string"].asstr()[()]))
            expected = []
            for layer, head in heads:
                for window, position, value in zip(passages["window"][layer, head], passages["position"][layer, head],
                                                   passages["value"][layer, head]):
                    text = "".join(strings.get(one, "") for one in ids[window, max(0, position - 41):position + 40])
                    if window >= 0 and "the" in text.lower():
                        expected.append((value, f"{layer}:{head}", str(window), str(position)))
        self.assertGreater(len(expected), 1)
        rows = self.numbers("passages", "--head", "6:3,2:1", "--holding", "THE", "--count", 60)
        self.assertEqual([(row["head"], row["window"], row["x"]) for row in rows],
                         [tuple(where) for _, *where in sorted(expected, key=lambda one: one[0])])
        self.assertIn("hold “THE”", self.words("passages", "--head", "6:3,2:1", "--holding", "THE"))
        every = self.numbers("passages", "--head", "all", "--kind", "all", "--count", 3)
        self.assertEqual({row["series"] for row in every}, {"resets", "reach", "gain", "deciles"})
        self.refuses(2, "--holding xyzzy: no passage of 6:3 holds it: choose another text", "passages", "--head", "6:3",
                     "--holding", "xyzzy")

    def test_what_is_looked_for_is_seen(self):
        """In every row, however far from the place it stands; and … stands where a row is cut."""
        for phrase in ["the", "ing"]:
            arguments = ["--head", "6:3,2:1", "--holding", phrase, "--count", 60]
            count = len(self.numbers("passages", *arguments))
            self.assertGreater(count, 1)
            path = self.draw("passages", *arguments, "--width", "3in", ending="pdf")
            text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
            rows = [line for line in text.splitlines() if re.match(r"\s*[62]:[31]\s+\u2212", line)]
            self.assertEqual(len(rows), count)
            for row in rows:
                self.assertIn(phrase, "".join(row.split()).lower())
                # Windows of 128 tokens are far longer than a row.
                self.assertIn("\u2026", row)

    def test_rows_say_where_they_are_cut(self):
        """At the end of every row that has not the window's last words."""
        path = self.draw("passages", "--head", "all", "--kind", "all", "--count", 15, "--width", "3in", ending="pdf")
        text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        rows = [line for line in text.splitlines() if re.match(r"\s*\d:\d\s+\u2212?\d", line)]
        self.assertEqual(len(rows), 4 * 15)
        cut = [row.rstrip().endswith("\u2026") for row in rows]
        self.assertGreater(sum(cut), 20)
        with h5py.File(self.atlas()) as file:
            tokens = file["models/fox/tokens"]
            strings = dict(zip(tokens["id"][()], tokens["string"].asstr()[()]))
            ends = ["".join(strings.get(one, "") for one in window[window >= 0])
                    for window in file["windows/token_id"][()]]
        ends = ["".join(end.split())[-6:] for end in ends]
        for row in (row for row, is_cut in zip(rows, cut) if not is_cut):
            self.assertTrue("".join(row.split()).endswith(tuple(ends)), row)

    def test_a_last_token_without_text_is_left_out(self):
        """No position reads a window's last token, so the file may have no text of it: its id is no text."""
        atlas = self.folder / "ends.h5"
        words = "one two three four five six seven eight nine ten red green blue black white brown house garden river stone"
        self.done("eval", "atlas", "--model", FOX, "--corpus", self.write("ends.txt", words), "--length", 8, "--windows", 2,
                  "--rows", 0, "--passages", 4, "-o", atlas)
        with h5py.File(atlas) as file:
            tokens = next(iter(file["models"].values()))["tokens"]
            strings = dict(zip(tokens["id"][()], tokens["string"].asstr()[()]))
            ids = [window[window >= 0] for window in file["windows/token_id"][()]]
        self.assertTrue(any(window[-1] not in strings for window in ids))
        path = self.folder / "ends.pdf"
        self.done("figure", "passages", atlas, "--head", "0:0", "--kind", "all", "-o", path)
        drawn = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("\u27e8", drawn)
        # The token before it stands there.
        for window in ids:
            self.assertIn(strings[window[-2]].strip(), drawn)

    def test_tokens_that_hold_a_text(self):
        rows = self.numbers("tokens", "--head", "5:2", "--by", "resets", "--holding", "HE", "--fewest", 1, "--count", 60)
        with h5py.File(self.atlas()) as file:
            tokens = file["models/fox/tokens"]
            strings = tokens["string"].asstr()[()]
            share = tokens["share_below_half"][5, 2].astype(float)
            chosen = [n for n, text in enumerate(strings) if "he" in text.lower() and tokens["count"][n] > 0]
        found = [row for row in rows if row["series"] == "forgets most"]
        self.assertGreater(len(found), 3)
        expected = sorted((share[n] for n in chosen), reverse=True)[:60]
        numpy.testing.assert_allclose([float(row["value"]) for row in found], expected, atol=1e-6)
        self.assertIn("share of resets", self.words("tokens", "--head", "5:2", "--by", "resets", "--fewest", 1))
        # Where tokens have no reset, those are shown that were read most often.
        rows = self.numbers("tokens", "--head", "5:2", "--by", "resets", "--fewest", 1, "--count", 9)
        self.assertRegex(self.said, r"fox: \d+ of these tokens have no reset at all")
        with h5py.File(self.atlas()) as file:
            tokens = file["models/fox/tokens"]
            counts = sorted(tokens["count"][()][tokens["share_below_half"][5, 2] == 0], reverse=True)
        found = [row for row in rows if row["series"] == "forgets least"]
        self.assertEqual([int(row["x"]) for row in found], counts[:9])
        self.refuses(1, "no token that holds “xyzzy” was read 1 times", "tokens", "--holding", "xyzzy", "--fewest", 1)
        self.refuses(2, "--by size: use gate or resets", "tokens", "--by", "size")

    def test_bars_without_an_error_say_why(self):
        rows = self.numbers("tokens", "--head", "5:2", "--count", 30, "--fewest", 1)
        unknown = sum(row["lower"] == "" for row in rows)
        with h5py.File(self.atlas()) as file:
            tokens = file["models/fox/tokens"]
            ids, errors = tokens["id"][()], tokens["mean_log_gate_errors"][5, 2]
            values, counts = -tokens["mean_log_gate"][5, 2].astype(float), tokens["count"][()]
        most = numpy.lexsort((-counts, -values))[:30]
        least = numpy.lexsort((-counts, values))[:30]
        shown = numpy.concatenate([most, least])
        late = int((numpy.isnan(errors[shown]) & (ids[shown] >= 2048)).sum())
        few = int((numpy.isnan(errors[shown]) & (ids[shown] < 2048)).sum())
        self.assertEqual(late + few, unknown)
        self.assertGreater(few, 0)
        self.assertIn(f"fox: {unknown} of 60 bars have no standard error: an atlas has none of tokens with ids from 2048 on "
                      f"(here {late}), nor where too few documents of about one size read the token (here {few})", self.said)
        self.assertRegex(self.said, r"fox: \d+ tokens were read; the bars are chosen among the \d+ that were read 1 time or more\n")
        self.numbers("tokens", "--head", "5:2", "--holding", "he", "--fewest", 1, "--by", "resets")
        self.assertIn("read 1 time or more and hold “he”", self.said)
        self.assertNotIn("standard error", self.said)
        words = self.words("tokens", "--head", "5:2", "--fewest", 8)
        known = "no standard error" not in self.said
        self.assertIn("± 1 standard error" if known else "± 1 standard error where known", words)

    def test_a_head_without_resets(self):
        """Its tokens have no order by resets."""
        with h5py.File(self.atlas()) as file:
            layer, head = numpy.argwhere(file["models/fox/resets/count"][()] == 0)[0]
        self.refuses(2, [f"--by resets: head {layer}:{head} of fox has no reset (f < 1/2) at any of the ", "use --by gate"],
                     "tokens", "--head", f"{layer}:{head}", "--by", "resets", "--fewest", 1)
        self.assertGreater(len(self.numbers("tokens", "--head", f"{layer}:{head}", "--fewest", 1)), 20)

    def test_characters_of_several_tokens(self):
        text = "Br\u00fcning came home, and then Br\u00fcning went away again. " * 60
        atlas = self.folder / "parts.h5"
        self.done("eval", "atlas", "--model", FOX, "--corpus", self.write("parts.txt", text), "--length", 128, "--windows", 4,
                  "--rows", 0, "--passages", 4, "-o", atlas)
        path = self.folder / "parts.pdf"
        self.done("figure", "passages", atlas, "--head", "0:0", "--kind", "deciles", "-o", path)
        words = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        self.assertIn("Br\u00fcning", words)
        self.assertNotIn("\ufffd", words)

    def test_tokens_that_no_tokenizer_makes(self):
        """Of what a file says they are, a row has the first 256 bytes in whole characters and an ellipsis."""
        atlas = self.folder / "long.h5"
        shutil.copy(self.atlas(), atlas)
        for string, shown in [("A" * 256, "A" * 256), ("A" * 257, "A" * 256 + "…"), ("aé" * 1000, "aé" * 85 + "a…")]:
            with h5py.File(atlas, "r+") as file:
                strings = file["models/fox/tokens/string"]
                strings[...] = [string] * len(strings)
            path = self.folder / "long.csv"
            self.done("figure", "passages", atlas, "--head", "6:3", "--model", "fox", "-o", path, "--force")
            with open(path, newline="") as file:
                self.assertEqual({row["row"] for row in csv.DictReader(file, strict=True)}, {shown})
            self.done("figure", "tokens", atlas, "--model", "fox", "-o", path, "--force")
            with open(path, newline="") as file:
                self.assertEqual({row["row"] for row in csv.DictReader(file, strict=True)}, {shown})
            for kind in ["passages", "tokens"]:
                self.done("figure", kind, atlas, "--model", "fox", "-o", path.with_suffix(".svg"), "--force")

    def test_similarity(self):
        for order in ["clusters", "depth"]:
            rows = self.numbers("similarity", "--order", order)
            with h5py.File(self.atlas()) as file:
                table = file["models/fox/similarity/log_gate"][()]
                heads = file["models/fox/similarity/order"][()] if order == "clusters" else numpy.arange(32)
            names = [f"{head // PER_LAYER}:{head % PER_LAYER}" for head in heads]
            self.assertEqual([row["row"] for row in rows], [name for name in names for _ in names])
            self.assertEqual([row["x"] for row in rows], names * len(names))
            numpy.testing.assert_allclose(numpy.reshape([float(row["value"]) for row in rows], (32, 32)),
                                          table[numpy.ix_(heads, heads)], atol=1e-6)
        rows = self.numbers("similarity", "--model", "base", "--order", "depth")
        with h5py.File(self.atlas()) as file:
            attention = file["models/base/similarity/attention"][()]
            across = file["models/base/similarity/first_attention"][()]
        numpy.testing.assert_allclose(numpy.reshape([float(row["value"]) for row in rows], (32, 32)), attention, atol=1e-6)
        rows = self.numbers("similarity", "--model", "base", "--order", "depth", "--of", "attention", "--with-first")
        numpy.testing.assert_allclose(numpy.reshape([float(row["value"]) for row in rows], (32, 32)), across, atol=1e-6)
        self.assertIn("correlation of attention by distance", self.words("similarity", "--of", "attention"))
        words = self.words("similarity")
        self.assertIn("correlation of log f", words)
        self.assertIn("7:2", words)

    def test_gates(self):
        """The bins of the file, shared out: no gate is lost, and each is at most a bin of the file away."""
        with h5py.File(self.atlas()) as file:
            counts = file["models/fox/histogram/positions"][()].reshape(32, -1)
            ends = numpy.exp(-file["models/fox/histogram/minus_log_gate"][()])
        for each, groups in [("head", counts), ("layer", counts.reshape(8, 4, -1).sum(axis=1))]:
            rows = self.numbers("gates", "--each", each)
            bins = [row for row in rows if row["series"] == "gates"]
            middles = [row for row in rows if row["series"] != "gates"]
            self.assertEqual(len(middles), len(groups))
            for n, group in enumerate(groups):
                own = bins[n * 64:(n + 1) * 64]
                values = numpy.array([float(row["value"]) for row in own])
                self.assertAlmostEqual(values.sum(), group.sum(), places=4)
                # Those below an edge of the figure: between those surely and those possibly below it.
                sure = numpy.array([group[numpy.append(ends, 0)[:-1] <= edge / 64].sum() for edge in range(1, 65)])
                able = numpy.array([group[numpy.append(ends[1:], 0) < edge / 64].sum() for edge in range(1, 65)])
                self.assertTrue((values.cumsum() >= sure - 1e-4).all())
                self.assertTrue((values.cumsum() <= able + 1e-4).all())
                lower, median, upper = (float(middles[n][key]) for key in ["lower", "value", "upper"])
                above = group.cumsum() / group.sum()
                for share, value in [(0.25, lower), (0.5, median), (0.75, upper)]:
                    at = numpy.searchsorted(above, 1 - share)
                    self.assertLessEqual(value, ends[max(0, at - 1)] + 1e-9)
                    self.assertGreaterEqual(value, ends[min(len(ends) - 1, at + 1)] - 1e-9)
        self.assertIn("decay time", self.words("gates", "--by", "time"))
        self.refuses(2, "--rows: an atlas has the gates of all positions together", "gates", "--rows", "3:9")

    def test_gates_of_one(self):
        """A histogram of a head or a layer: shares of all its positions; where an edge of the figure is one of the file's,
        as many lie above it."""
        with h5py.File(self.atlas()) as file:
            counts = file["models/fox/histogram/positions"][()]
            begin = file["models/fox/histogram/minus_log_gate"][()]
        for option, of, group, title in [("--head", "6:1", counts[6, 1], "Layer 6, head 1"),
                                         ("--layer", "6", counts[6].sum(axis=0), "Layer 6")]:
            kept = group[0] / group.sum()
            for by, edge, above in [("log", 1, group[begin >= 1].sum()), ("time", 1, group[(begin < 1) & (begin > 0)].sum()),
                                    ("gate", 0, group.sum())]:
                with self.subTest(by, of=of):
                    rows = self.numbers("gates", option, of, "--by", by)
                    bins = [row for row in rows if row["series"] == "gates"]
                    self.assertEqual({row["row"] for row in rows}, {of})
                    self.assertEqual({row["quantity"] for row in bins}, {"share of positions"})
                    shares = numpy.array([float(row["value"]) for row in bins])
                    self.assertAlmostEqual(shares.sum(), 1 if by == "gate" else 1 - kept, places=6)
                    beyond = [float(row["x"].split(":")[0]) >= edge * (1 - 1e-6) for row in bins]
                    self.assertAlmostEqual(shares[beyond].sum(), above / group.sum(), places=6)
                    middle, = (row for row in rows if row["series"] == "median and quartiles")
                    # The file's bin that holds the median.
                    at = numpy.searchsorted(group.cumsum(), group.sum() / 2)
                    ends = begin[at], begin[at + 1]
                    low, high = {"log": ends, "time": (1 / ends[1], 1 / max(1e-8, ends[0])),
                                 "gate": (numpy.exp(-ends[1]), numpy.exp(-ends[0]))}[by]
                    self.assertTrue(low * (1 - 1e-6) <= float(middle["value"]) <= high * (1 + 1e-6))
            if kept > 0:
                self.draw("gates", option, of, "--by", "log")
                self.assertRegex(self.said, r"fox: [\d.e-]+ % of the gates are 1 in float32")
            words = self.words("gates", option, of, "--by", "log")
            for part in [title, "log f (nats)", "share of positions", "median and quartiles"]:
                self.assertIn(part, words)
        self.refuses(2, "no head 9:0: layers are 0 to 7, heads 0 to 3", "gates", "--head", "9:0")
        self.refuses(2, "--layer 8: model 'fox' has no such layer: layers are 0 to 7", "gates", "--layer", 8)
        self.refuses(2, "--layer: --head names one head: leave one of them out", "gates", "--layer", 1, "--head", "1:0")
        self.refuses(2, "--each: --head and --layer draw one histogram: leave it out", "gates", "--each", "head", "--head", "1:0")

    def test_resets(self):
        with h5py.File(self.atlas()) as file:
            resets = file["models/fox/resets"]
            names = [name.replace("_", " ") for name in resets["token_class"].asstr()[()]]
            tokens, gaps = resets["tokens"][()], resets["gaps"][5, 2]
            share, chance, spread, p = (resets[name][5, 2] for name in ["share", "chance", "chance_spread", "p_value"])
            most = "{}:{}".format(*numpy.unravel_index(resets["count"][()].argmax(), (8, 4)))
            none = [f"{layer}:{head}" for layer, head in numpy.argwhere(resets["count"][()] == 0)]
        known = ~numpy.isnan(share)
        rows = self.numbers("resets", "--head", "5:2")
        for series, quantity, expected in [("resets", "share of resets (f < 1/2)", share),
                                           ("by chance", "share of resets (f < 1/2)", chance), ("by chance", "p", p)]:
            found = [row for row in rows if (row["series"], row["quantity"]) == (series, quantity)]
            self.assertEqual([row["row"] for row in found], [name for name, has in zip(names, known) if has])
            self.assertEqual([int(row["x"]) for row in found], tokens[known].tolist())
            numpy.testing.assert_allclose([float(row["value"]) for row in found], expected[known], rtol=1e-6)
            if quantity != "p" and series == "by chance":
                numpy.testing.assert_allclose([float(row["upper"]) for row in found], (chance + spread)[known], rtol=1e-6)
        found = [row for row in rows if row["series"] == "distances"]
        self.assertEqual([row["x"] for row in found], [f"{2 ** n}:{2 ** (n + 1)}" for n in range(len(found))])
        numpy.testing.assert_allclose([float(row["value"]) for row in found], gaps[:len(found)] / gaps.sum(), rtol=1e-6)
        self.assertEqual(gaps[len(found):].sum(), 0)
        for of, series in [("classes", {"resets", "by chance"}), ("distances", {"distances"})]:
            self.assertEqual({row["series"] for row in self.numbers("resets", "--head", "5:2", "--of", of)}, series)
        words = self.words("resets", "--head", "5:2")
        for part in ["(a) 5:2: resets by class of token", "punctuation", "(b) 5:2: distances of resets", "by chance"]:
            self.assertIn(part, words)
        self.assertRegex(self.said, r"fox: 5:2 has \d+ resets, [\d.]+ % of positions")
        self.words("resets")
        self.assertIn(f"fox: {most} is drawn, the head of most resets; --head chooses another", self.said)
        self.assertGreater(len(none), 0)
        self.refuses(2, f"--head {none[0]}: this head of fox has no resets", "resets", "--head", none[0])

    def test_resets_that_are_not_there(self):
        """Of no head, none that are neighbours, and none that have classes."""
        output = self.folder / "x.pdf"

        def atlas(name, *arguments):
            path = self.folder / name
            self.done("eval", "atlas", "-q", "--model", f"fox={FOX}", *arguments, "-o", path)
            return path
        corpus_file = self.write("corpus.jsonl", corpus())
        kept = atlas("kept.h5", "--corpus", corpus_file, "--windows", 4, "--length", 32, "--intervene", "*:*:constant=0.9")
        self.fails(2, "model 'fox' has no resets: f is 1/2 or more at every position of every head", "figure", "resets", kept,
                   "-o", output)
        short = atlas("short.h5", "--corpus", corpus_file, "--windows", 4, "--length", 2)
        self.done("figure", "resets", short, "-o", output)
        self.fails(2, "no window has two resets of this head of fox, so none has a distance: choose another", "figure",
                   "resets", short, "--of", "distances", "-o", output, "--force")
        numpy.save(self.folder / "ids.npy", numpy.random.default_rng(1).integers(3, 4000, (4, 64)))
        ids = atlas("ids.h5", "--ids", self.folder / "ids.npy")
        path = self.folder / "ids.csv"
        self.done("figure", "resets", ids, "-o", path)
        with open(path, newline="") as file:
            self.assertEqual({row["series"] for row in csv.DictReader(file)}, {"distances"})
        self.fails(2, "--of classes: the atlas is of token ids, there is no text whose classes resets fall on", "figure",
                   "resets", ids, "--of", "classes", "-o", output, "--force")

    def test_models_are_named_where_there_are_several(self):
        """By the labels that they were given, in figures that draw one of them."""
        kinds = ["tokens", "passages", "scatter", "gates", "similarity"]
        for kind in kinds:
            with self.subTest(kind):
                self.assertIn("FoX-12M", self.words(kind, "--label", "fox=FoX-12M"))
        alone = self.folder / "alone.h5"
        self.done("eval", "atlas", "--model", f"fox={FOX}", "--corpus", self.write("corpus.jsonl", corpus()), "--length", 128,
                  "--windows", 12, "--rows", 0, "--passages", 4, "-o", alone)
        for kind in kinds:
            with self.subTest(kind):
                path = self.folder / "alone.pdf"
                self.done("figure", kind, alone, "--label", "fox=FoX-12M", "-o", path, "--force")
                words = subprocess.run(["pdftotext", path, "-"], check=True, capture_output=True, text=True).stdout
                self.assertNotIn("FoX", words)

    def test_a_figure_that_is_higher_than_its_page_says_so(self):
        for width, name in [("neurips", "NeurIPS, ICLR"), ("icml", "ICML")]:
            self.draw("passages", "--head", "all", "--kind", "all", "--count", 60, "--width", width)
            self.assertNotIn("high", self.said, "numbers have no page")
            self.draw("passages", "--head", "all", "--kind", "all", "--count", 60, "--width", width, ending="pdf")
            self.assertRegex(self.said, rf"the figure is \d+\.\din high, and the text of a page is 9in \({name}\): draw less of it")
            self.draw("tokens", "--count", 5, "--width", width, ending="pdf")
            self.assertNotIn("high", self.said)
        self.draw("passages", "--head", "all", "--kind", "all", "--count", 60, "--width", "5in", ending="pdf")
        self.assertNotIn("high", self.said, "no venue has such pages")

    def test_decay(self):
        """By class of the token that is read, as from statistics of heads over the same windows; but for rare words."""
        heads = self.folder / "heads.h5"
        self.done("eval", "heads", "--model", f"fox={FOX}", "--corpus", self.write("corpus.jsonl", corpus()), "--length", 128,
                  "--windows", 12, "-o", heads)
        expected = self.folder / "heads.csv"
        self.done("figure", "decay", heads, "-o", expected)
        with open(expected, newline="") as file:
            expected = [row for row in csv.DictReader(file, strict=True) if "by the token" in row["panel"]]
        expected = [row for row in expected if not row["x"].startswith("rare")]
        rows = [row for row in self.numbers("decay", "--models", "fox") if "by the token" in row["panel"]]
        self.assertGreater(len(rows), 4 * 32)
        for row, known in zip(rows, expected, strict=True):
            self.assertEqual([row[key] for key in ["series", "row"]], [known[key] for key in ["series", "row"]])
            self.assertAlmostEqual(float(row["value"]) / float(known["value"]), 1, places=4)
        self.assertNotIn("gates are not told by class", self.said)
        self.assertIn("fox: classes that the file does not tell, or of fewer than 10 tokens, are left out: ", self.said)
        self.assertIn("rare word", self.said)

    def test_scatter(self):
        rows = self.numbers("scatter", "--x", "rate_decay_time", "--y", "share_below_half")
        with h5py.File(self.atlas()) as file:
            model = file["models/fox"]
            times = model["numbers/rate_decay_time"][()].ravel()
            share = (model["resets/count"][()] / model.attrs["positions"]).ravel()
        self.assertEqual(len(rows), 32)
        for row in rows:
            layer, head = map(int, row["row"].split(":"))
            self.assertAlmostEqual(float(row["x"]) / times[layer * 4 + head], 1, places=6)
            self.assertAlmostEqual(float(row["value"]), share[layer * 4 + head], places=8)
        rows = self.numbers("scatter", "--y", "gate_median", "--colour-by", "layer")
        self.assertEqual(len(rows), 32)
        self.assertIn("decay time", self.words("scatter"))

    def test_scatter_as_a_window_shows_it(self):
        """Colours by a number, chosen scales and ends, rings around heads; layers and heads are numbers too."""
        rows = self.numbers("scatter", "--x", "head", "--y", "layer", "--colour-by", "gate_median", "--heads", "6:3,2:1")
        with h5py.File(self.atlas()) as file:
            medians = file["models/fox/numbers/gate_median"][()]
        chosen = [row["row"] for row in rows if row["series"] == "chosen"]
        self.assertEqual(sorted(chosen), ["2:1", "6:3"])
        others = [row for row in rows if row["series"] != "chosen"]
        self.assertEqual(len(others), 32)
        for row in others:
            layer, head = map(int, row["row"].split(":"))
            self.assertEqual((float(row["x"]), float(row["value"])), (head, layer))
            name, value = row["series"].split(" ")
            self.assertEqual(name, "gate_median")
            self.assertAlmostEqual(float(value), medians[layer, head], places=6)
        words = self.words("scatter", "--colour-by", "gate_median", "--heads", "6:3,2:1", "--names", 0)
        for part in ["gate median", "chosen", "6:3", "2:1"]:
            self.assertIn(part, words)
        # Ticks of decades on a logarithmic axis alone.
        self.assertNotIn("600", self.words("scatter", "--x-scale", "log", "--x-limits", "1:1000", "--names", 0))
        self.assertIn("600", self.words("scatter", "--x-scale", "linear", "--x-limits", "1:1000", "--names", 0))
        self.assertEqual(len(self.numbers("scatter", "--y", "resets", "--y-scale", "linear")), 32)
        self.refuses(2, "--x-limits 0:9: a logarithmic axis begins above 0", "scatter", "--x-scale", "log", "--x-limits", "0:9")
        self.refuses(2, "--x-scale wide: use auto, linear or log", "scatter", "--x-scale", "wide")
        self.refuses(2, "--colour-by gate_medium: there is no such statistic: did you mean gate_median?", "scatter",
                     "--colour-by", "gate_medium")
        self.refuses(2, "no head 9:0: layers are 0 to 7, heads 0 to 3", "scatter", "--heads", "9:0")

    def test_scatter_with_ends_of_colours(self):
        def colours(*arguments):
            drawn = self.draw("scatter", "--names", 0, *arguments, ending="svg").read_text()
            return set(re.findall('fill="(#[0-9a-f]{6})"', drawn)) - {"#000000", "#ffffff"}
        layers = colours("--colour-by", "layer")
        self.assertEqual(len(layers), 8)
        self.assertEqual(colours("--colour-by", "layer", "--colour-limits", "0:7"), layers)
        # On a scale twice as long every other layer has the colour of the layer half as deep.
        self.assertEqual(len(colours("--colour-by", "layer", "--colour-limits", "0:14") & layers), 4)
        words = self.words("scatter", "--colour-by", "gate_median", "--colour-scale", "linear", "--colour-limits", "0:300",
                           "--names", 0)
        self.assertIn("300", words)
        self.refuses(2, "--colour-limits: labels have no ends: use --colour-by layer, or a statistic", "scatter",
                     "--colour-by", "label", "--colour-limits", "0:7")
        self.refuses(2, "--colour-limits 0: logarithmic colours begin above 0", "scatter", "--colour-by",
                     "rate_decay_time", "--colour-scale", "log", "--colour-limits", "0:7")

    def test_sizes(self):
        for kind in ["tokens", "passages", "resets", "similarity", "gates", "scatter"]:
            with self.subTest(kind):
                self.assertEqual(png_size(self.draw(kind, "--width", "4in", "--dpi", 100, ending="png"))[0], 400)
                self.assertIn(b"<svg", self.draw(kind, ending="svg").read_bytes()[:400])

    def refuses(self, code, words, kind, *arguments):
        output = self.folder / "refused.pdf"
        self.fails(code, words, "figure", kind, self.atlas(), *arguments, "-o", output, output=output)

    def test_what_is_refused(self):
        for kind in ["tokens", "passages", "resets", "gates"]:
            self.refuses(2, ["base", "no gate"], kind, "--model", "base")
        self.refuses(2, "--x rate_decay_time: there is no such statistic", "scatter", "--model", "base", "--x", "rate_decay_time")
        self.refuses(2, "model 'base' has no gate: it forgets nothing: use --of attention", "similarity", "--model", "base",
                     "--of", "gates")
        self.refuses(2, "--with-first: 'fox' is the first model", "similarity", "--with-first")
        self.refuses(2, "--model fix: there is no such model: use one of fox, base: did you mean fox?", "similarity",
                     "--model", "fix")
        self.refuses(2, "no head 9:0: layers are 0 to 7, heads 0 to 3", "tokens", "--head", "9:0")
        self.refuses(1, "no token was read 5000 times: use a smaller --fewest", "tokens", "--fewest", 5000)
        self.refuses(2, "--fewest 0: use a number from 1", "tokens", "--fewest", 0)
        self.refuses(2, "--count 0: use a number from 1 to 60", "tokens", "--count", 0)
        self.refuses(2, "--count 61: use a number from 1 to 60", "passages", "--count", 61)
        self.refuses(2, "--kind reset: 1:2 has resets, reach, gain, deciles: did you mean resets?", "passages", "--kind", "reset")
        self.refuses(2, "--order size: use clusters or depth", "similarity", "--order", "size")
        run = self.run_fixture()
        self.fails(1, "run.h5: holds a run or maps and no atlas of heads", "figure", "tokens", run, "-o", self.folder / "x.pdf")
        self.fails(2, "name one atlas: `foxscope eval atlas --merge` makes one of several", "figure", "similarity",
                   self.atlas(), self.atlas(), "-o", self.folder / "x.pdf")

    def test_a_table_of_one_head(self):
        table = self.done("info", self.atlas(), "--table", "tokens", "--csv", "--head", "2:1")
        whole = self.done("info", self.atlas(), "--table", "tokens", "--csv")
        self.assertEqual(table.splitlines()[0], whole.splitlines()[0])
        own = list(csv.reader(table.splitlines(True)))[1:]
        self.assertEqual(own, [row for row in csv.reader(whole.splitlines(True)) if row[1:3] == ["2", "1"]])
        self.assertGreater(len(own), 100)
        similar = json.loads(self.done("info", self.atlas(), "--table", "similarity", "--json", "--model", "fox", "--head", "0:3"))
        self.assertEqual(len(similar), 32)
        for words, arguments in [("--head 8:0: there is no such head", ["--head", "8:0"]),
                                 ("--model fx: the atlas has fox, base: did you mean fox?", ["--model", "fx"]),
                                 ("--head 3: ", ["--head", "3"])]:
            self.fails(2, words, "info", self.atlas(), "--table", "heads", "--csv", *arguments)
        self.fails(2, "--head is for --table: give that too", "info", self.atlas(), "--head", "0:0")
        documents = json.loads(self.done("info", self.atlas(), "--json"))["documents"]
        self.assertEqual(sum(one["windows"] for one in documents), 12)
        self.assertTrue(all(re.fullmatch(r"doc-\d", one["name"]) for one in documents))


if __name__ == "__main__":
    unittest.main()
