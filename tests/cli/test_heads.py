"""`foxscope heads` and `foxscope info`."""

import csv
import hashlib
import io
import json
import math
import re
import unittest

import h5py
import numpy
import safetensors.numpy
from support import DATA, FOX, TEXT, CommandLineTest, golden, read_safetensors, set_config

LEVELS = ["1_over_e", "half", "0.01"]


class HeadsTest(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.run_file = self.run_fixture()

    def test_json_holds_every_statistic_of_every_head(self):
        document = json.loads(self.done("heads", self.run_file, "--json"))
        self.assertEqual((document["model"], document["tokens"]), ("fox-pro", 64))
        self.assertEqual([(head["layer"], head["head"]) for head in document["heads"]], [(0, 0), (0, 1), (1, 0), (1, 1)])
        values = golden("fox-pro")
        for head in document["heads"]:
            log_gate = values[f"layers.{head['layer']}.log_fgate"][0, head["head"]].astype(numpy.float64)
            attention = values[f"layers.{head['layer']}.attention"][0, head["head"]].astype(numpy.float64)
            of_forget = log_gate[1:]  # f_0 is in no F
            self.assertAlmostEqual(head["mean_log_gate"], of_forget.mean(), places=4)
            self.assertAlmostEqual(head["rate_decay_time"] * -of_forget.mean(), 1, places=3)
            self.assertAlmostEqual(head["gate"]["gate_median"], numpy.median(numpy.exp(of_forget)), places=4)
            self.assertEqual(list(head["backward_horizon"]), LEVELS)
            self.assertEqual(list(head["forward_survival"]), LEVELS)
            # Tokens that are alike have the same gate in the first layer.
            self.assertEqual(log_gate[head["strongest_events"][0]["position"]], of_forget.min())
            spread = head["attention"]
            self.assertAlmostEqual(spread["mass_on_first"], attention[:, 0].mean(), places=4)
            self.assertAlmostEqual(spread["mass_on_self"], numpy.diagonal(attention).mean(), places=4)
            self.assertAlmostEqual(spread["entropy"],
                                   -(attention * numpy.log(attention, where=attention > 0, out=numpy.zeros_like(attention)))
                                   .sum(axis=1).mean(), places=3)
            for profile in ["distance", "distance_without_first"]:
                bins = spread[profile]["mass"]
                self.assertEqual((bins[0]["from"], bins[0]["to"]), (0, 0))
                self.assertEqual((bins[3]["from"], bins[3]["to"]), (4, 7))
                self.assertEqual(bins[-1]["to"], 63)
                self.assertAlmostEqual(sum(bin_["mass"] for bin_ in bins), 1, places=4)
            distance = numpy.arange(64)[:, None] - numpy.arange(64)[None, :]
            expected = attention[(distance >= 4) & (distance <= 7)].sum() / 64
            self.assertAlmostEqual(spread["distance"]["mass"][3]["mass"], expected, places=4)

    def test_row_normalisers_that_are_not_numbers_give_no_numbers(self):
        with h5py.File(self.run_file, "r+") as file:
            file["models/fox-pro/layers/00/log_normalizer"][0] = math.nan
            file["models/fox-pro/layers/01/log_normalizer"][1, 40] = math.nan
        heads = json.loads(self.done("heads", self.run_file, "--unchecked", "--split", "--json"))["heads"]
        rows = list(csv.DictReader(io.StringIO(self.done("heads", self.run_file, "--unchecked", "--csv"))))
        table = [line.split() for line in self.done("heads", self.run_file, "--unchecked").splitlines()]
        for head, row in zip(heads, rows):
            spoiled = (head["layer"], head["head"]) in [(0, 0), (1, 1)]
            for number in [head["attention"]["entropy"], head["attention"]["mass_on_self"],
                           head["attention"]["distance"]["d50"], head["split"]["divergence"],
                           head["split"]["locality"]["total"]]:
                self.assertEqual(number is None, spoiled)
            self.assertIsNotNone(head["mean_log_gate"])
            self.assertEqual(row["entropy"] == "", spoiled)
            self.assertEqual(row["mass_on_first"] == "", spoiled)
            line = next(line for line in table if line[:2] == [row["layer"], row["head"]])
            self.assertEqual(line[-5:] == 5 * ["-"], spoiled, line)
        # Unknown numbers come last, from whichever end.
        for option in [[], ["--reverse"]]:
            ranked = json.loads(self.done("heads", self.run_file, "--unchecked", "--sort", "entropy", "--json", *option))["heads"]
            self.assertEqual([head["attention"]["entropy"] is None for head in ranked], [False, False, True, True])
        picture = self.folder / "a.npy"
        self.done("map", self.run_file, "--unchecked", "--layer", "1", "--head", "1", "--quantity", "attention", "-o", picture)
        attention = numpy.load(picture)
        self.assertTrue(numpy.isnan(attention[40]).all())
        self.assertFalse(numpy.isnan(attention[41, :42]).any())

    def test_csv_holds_the_same_numbers(self):
        rows = list(csv.DictReader(io.StringIO(self.done("heads", self.run_file, "--csv"))))
        heads = json.loads(self.done("heads", self.run_file, "--json"))["heads"]
        self.assertEqual(len(rows), len(heads))
        for row, head in zip(rows, heads):
            self.assertEqual((int(row["layer"]), int(row["head"])), (head["layer"], head["head"]))
            self.assertEqual(float(row["rate_decay_time"]), head["rate_decay_time"])
            self.assertEqual(float(row["horizon_half_median"]), head["backward_horizon"]["half"]["median"])
            self.assertEqual(float(row["survival_0.01_cut_off_share"]), head["forward_survival"]["0.01"]["cut_off_share"])
            self.assertEqual(float(row["d90"]), head["attention"]["distance"]["d90"])
            self.assertEqual(float(row["mass_4_7_without_first"]),
                             head["attention"]["distance_without_first"]["mass"][3]["mass"])
            self.assertEqual(int(row["event_1_position"]), head["strongest_events"][0]["position"])
            # The text is too short to tell a long memory.
            self.assertEqual({name for name, value in row.items() if not value} - {"labels", "label_induction"},
                             {"label_long_memory"})
            for name, score in head["label_scores"].items():
                column = row["repeats" if name == "repeats" else "label_" + name]
                self.assertEqual(float(column) if column else None, score)
            self.assertEqual([label for label in row["labels"].split(";") if label], head["labels"])

    def test_table_has_a_line_for_each_head_and_units(self):
        lines = self.done("heads", self.run_file).splitlines()
        self.assertTrue(lines[0].startswith("fox-pro, 64 tokens"))
        for word in ["layer", "head", "decay time", "horizon 1/e", "half-life", "survival", "d50", "d90", "entropy", "key 0",
                     "self"]:
            self.assertIn(word, lines[1])
        self.assertIn("tokens", lines[2])
        self.assertIn("nats", lines[2])
        self.assertEqual([line.split()[:2] for line in lines[3:7]], [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]])

    def test_labels_follow_from_the_attention(self):
        read = [position * position % 13 for position in range(64)]
        ids = self.write("repeats.json", json.dumps({"input_ids": read, "labels": read[1:] + [0]}))
        path = self.folder / "repeats.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "-o", path)
        heads = json.loads(self.done("heads", path, "--json"))["heads"]
        thresholds = {"previous token": 0.4, "local": 0.8, "sink": 0.5, "positional": 0.6, "induction": 0.2,
                      "long memory": 0.5}
        for place, head in enumerate(heads):
            picture = self.folder / f"{place}.npy"
            self.done("map", path, "--layer", head["layer"], "--head", head["head"], "--quantity",
                      "attention", "-o", picture)
            attention = numpy.nan_to_num(numpy.load(picture).astype(numpy.float64))
            scores = head["label_scores"]
            self.assertAlmostEqual(scores["previous_token"], numpy.diagonal(attention, -1).mean(), places=5)
            self.assertAlmostEqual(scores["sink"], attention[:, 0].mean(), places=5)
            follows = [[j for j in range(1, i) if read[j - 1] == read[i]] for i in range(len(read))]
            on_repeats = [attention[i, keys].sum() for i, keys in enumerate(follows) if keys]
            self.assertEqual(scores["repeats"], len(on_repeats))
            self.assertAlmostEqual(scores["induction"], numpy.mean(on_repeats), places=5)
            self.assertIsNone(scores["long_memory"])
            known = {name.replace("_", " "): score for name, score in scores.items() if score is not None}
            expected = [name for name, least in thresholds.items() if known.get(name, 0) >= least]
            self.assertEqual(sorted(head["labels"]), sorted(expected))
        table = self.done("heads", path)
        self.assertIn("labels", table.splitlines()[1])
        said = self.done("heads", "--help")
        for name, threshold in thresholds.items():
            self.assertRegex(said, f"{name} +at {threshold} and more: ")

    def test_a_model_without_gates_never_forgets(self):
        run_file = self.run_fixture("transformer-pro", "t.h5")
        head = json.loads(self.done("heads", run_file, "--json"))["heads"][0]
        self.assertIsNone(head["rate_decay_time"])
        row = next(csv.DictReader(io.StringIO(self.done("heads", run_file, "--csv"))))
        self.assertEqual(row["rate_decay_time"], "inf")
        self.assertIn(" inf ", self.done("heads", run_file))

    def test_what_was_not_kept_is_absent_and_the_program_says_so(self):
        run_file = self.run_fixture(name="gates.h5", extra=["--keep", "gates"])
        result = self.foxscope("heads", run_file, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"--keep gates,rows,qk", result.stderr)
        self.assertIsNone(json.loads(result.stdout)["heads"][0]["attention"])
        row = next(csv.DictReader(io.StringIO(self.done("heads", run_file, "--csv"))))
        self.assertEqual((row["entropy"], row["mass_4_7"]), ("", ""))
        self.assertIn(" -", self.done("heads", run_file))
        run_file = self.run_fixture(name="loss.h5", extra=["--keep", "loss"])
        self.fails(1, "gates", "heads", run_file, "-q")

    def test_of_several_models_all_are_told_or_one(self):
        path = self.folder / "two.h5"
        self.done("run", "--model", DATA / "fox-pro", "--model", "b=" + str(DATA / "fox-llama"), "--ids", self.ids_file(),
                  "-o", path)
        self.fails(2, ["fox-pro", "b"], "heads", path, "--model", "c")
        names = ["fox-pro", "b"]  # in the order of the command
        alone = {name: self.done("heads", path, "--model", name) for name in names}
        self.assertIn("b, 64 tokens", alone["b"])
        self.assertEqual(self.done("heads", path), "\n".join(alone[name] for name in names))
        single = [json.loads(self.done("heads", path, "--model", name, "--json")) for name in names]
        self.assertEqual(json.loads(self.done("heads", path, "--json")), {"models": single})
        rows = list(csv.DictReader(io.StringIO(self.done("heads", path, "--csv"))))
        for name in names:
            own = list(csv.DictReader(io.StringIO(self.done("heads", path, "--model", name, "--csv"))))
            self.assertEqual([{**row, "model": name} for row in own], [row for row in rows if row["model"] == name])
        self.done("heads", path, "-o", self.folder / "heads.h5")
        with h5py.File(self.folder / "heads.h5") as file:
            self.assertEqual(sorted(file["models"], key=lambda name: file["models"][name].attrs["order"]), names)
        self.assertEqual(len(json.loads(self.done("heads", path, "--json", "--top", "2"))["models"][1]["heads"]), 2)
        self.assertEqual([model["name"] for model in json.loads(self.done("info", path, "--json"))["models"]], names)

    def test_info_tells_what_other_files_hold(self):
        run, heads, maps = self.run_file, self.folder / "heads.h5", self.folder / "maps.h5"
        self.done("heads", run, "-o", heads)
        self.done("map", run, "--layer", 0, "--head", 0, "--quantity", "forget", "-o", maps)
        text = self.done("info", heads)
        for words in ["statistics of heads (`foxscope heads -o`)", "foxscope heads run.h5", "models   fox-pro\n",
                      "foxscope figure decay, distance or labels"]:
            self.assertIn(words, text)
        told = json.loads(self.done("info", heads, "--json"))
        self.assertEqual((told["kind"], told["models"], told["maps"]), ("statistics of heads", ["fox-pro"], []))
        self.assertIn("maps     fox-pro_L00_H00_forget\n", self.done("info", maps))
        words = self.folder / "words.h5"
        self.done("eval", "surprisal", "--model", FOX, "--text", self.write("t.txt", TEXT), "-o", words)
        self.assertRegex(self.done("info", words), r"holds +surprisals of a text \(`foxscope eval surprisal`\)\n")
        self.assertEqual(json.loads(self.done("info", words, "--json"))["models"], ["fox-pro-12m"])

    def test_wrong_options(self):
        self.fails(2, "exclude each other", "heads", self.run_file, "--json", "--csv")
        self.fails(2, "choose auto, cpu, cuda or cuda:N", "heads", self.run_file, "--device", "gpu")
        self.fails(1, ["--device cuda:1", "CUDA", "use --device cpu"], "heads", self.run_file, "--device", "cuda:1")


def octaves(attention):
    """Mean log distance of rows that are normalised over their keys, key 0 left out, row 0 too."""
    length = len(attention)
    distance = numpy.log2(1 + numpy.arange(length)[:, None] - numpy.arange(length)[None, :].clip(0), where=numpy.tri(
        length, dtype=bool), out=numpy.zeros((length, length)))
    rest = numpy.tril(attention)[1:, 1:]
    return ((rest * distance[1:, 1:]).sum(axis=1) / rest.sum(axis=1)).mean()


class HeadAnalysisTest(CommandLineTest):
    run_content = None

    def setUp(self):
        super().setUp()
        # One run for all tests, in each one's own folder.
        if self.run_content is None:
            HeadAnalysisTest.run_content = self.run_fixture().read_bytes()
        self.run_file = self.write("run.h5", self.run_content)

    def heads(self, *options, run_file=None):
        return json.loads(self.done("heads", run_file or self.run_file, "--json", *options))["heads"]

    def test_the_split_equals_one_made_of_the_authors_attention(self):
        values = golden("fox-pro")
        for head in self.heads("--split"):
            log_gate = values[f"layers.{head['layer']}.log_fgate"][0, head["head"]].astype(numpy.float64)
            attention = values[f"layers.{head['layer']}.attention"][0, head["head"]].astype(numpy.float64)
            c = log_gate.cumsum()
            decay = numpy.tril(c[:, None] - c[None, :])
            ungated = numpy.tril(attention * numpy.exp(-decay))
            ungated /= ungated.sum(axis=1, keepdims=True)
            gate = numpy.tril(numpy.exp(decay))
            both, content, decayed, uniform = (octaves(m) for m in [attention, ungated, gate, numpy.tri(64)])
            split = head["split"]
            locality = split["locality_without_first"]
            self.assertAlmostEqual(locality["log_distance"], both, places=3)
            self.assertAlmostEqual(locality["log_distance_content_only"], content, places=2)
            self.assertAlmostEqual(locality["log_distance_decay_only"], decayed, places=4)
            self.assertAlmostEqual(locality["log_distance_uniform"], uniform, places=9)
            self.assertAlmostEqual(locality["total"], locality["by_decay"] + locality["by_content"], places=9)
            self.assertAlmostEqual(locality["by_decay"], (uniform - decayed + content - both) / 2, places=2)
            divergence = (attention * numpy.log(attention / ungated, where=attention > 1e-30,
                                                out=numpy.zeros_like(attention))).sum(axis=1).mean()
            self.assertAlmostEqual(split["divergence"] / divergence, 1, delta=0.01)
            far = [(i, j) for i in range(64) for j in range(1, 64) if 4 <= i - j < 8]
            self.assertAlmostEqual(split["logits"][3]["decay"], numpy.mean([decay[pair] for pair in far]), places=3)

    def test_csv_of_the_split_holds_the_same_numbers(self):
        rows = list(csv.DictReader(io.StringIO(self.done("heads", self.run_file, "--csv", "--split"))))
        for row, head in zip(rows, self.heads("--split")):
            self.assertEqual(float(row["divergence"]), head["split"]["divergence"])
            self.assertEqual(float(row["locality_by_decay"]), head["split"]["locality"]["by_decay"])
            self.assertEqual(float(row["d90_without_gate_without_first"]),
                             head["split"]["without_gate"]["distance_without_first"]["d90"])
            self.assertEqual(float(row["mass_4_7_without_gate"]),
                             head["split"]["without_gate"]["distance"]["mass"][3]["mass"])
            self.assertEqual(float(row["logit_content_4_7"]), head["split"]["logits"][3]["content"])

    def test_gates_by_class_are_those_of_the_tokens_that_are_read(self):
        path = self.folder / "text.h5"
        text = "The fox ran.\n\nIt ran 7 miles; nobody else ran.\n" * 3
        self.done("run", "--model", FOX, "--text", "-", "-o", path, stdin=text.encode())
        heads = self.heads("--by-class", run_file=path)
        with h5py.File(path) as file:
            model = file["models"][FOX.name]
            strings = [name.decode() for name in model["tokens/string"][()]]
            for head in heads:
                c = model[f"layers/{head['layer']:02}/cumulative_log_gate"][head["head"]]
                log_gate = numpy.diff(c, prepend=0)
                # Position p reads the token that position p - 1 predicts.
                newline = [p for p in range(1, len(strings)) if strings[p - 1].strip() == ""]
                stop = [p for p in range(1, len(strings)) if strings[p - 1] in (".", ";")]
                classes = head["gates_by_class"]
                self.assertEqual(classes["bos"]["tokens"], 1)
                self.assertEqual(classes["space"]["tokens"], 0)
                self.assertIsNone(classes["space"]["gate_median"])
                self.assertEqual(classes["newline"]["tokens"], len(newline))
                self.assertAlmostEqual(classes["newline"]["mean_log_gate"], log_gate[newline].mean(), places=6)
                self.assertAlmostEqual(classes["punctuation"]["share_below_half"],
                                       (numpy.exp(log_gate[stop]) < 0.5).mean(), places=9)
                self.assertEqual(sum(group["tokens"] for name, group in classes.items() if name != "rare_word"),
                                 len(strings))
        table = self.done("heads", path, "--by-class")
        for words in ["sentence_start", "mean log f", f"{len(newline)} tokens"]:
            self.assertIn(words, table)
        row = next(csv.DictReader(io.StringIO(self.done("heads", path, "--by-class", "--csv"))))
        self.assertEqual(float(row["gate_median_newline"]), heads[0]["gates_by_class"]["newline"]["gate_median"])
        self.fails(1, ["ids", "--text"], "heads", self.run_file, "--by-class")

    def test_matching_heads(self):
        path = self.folder / "two.h5"
        self.done("run", "--model", "a=" + str(DATA / "fox-pro"), "--model", "b=" + str(DATA / "fox-pro"), "--ids",
                  self.ids_file(), "-o", path)
        heads = self.heads("--model", "a", "--match", "b", run_file=path)
        for head in heads:
            self.assertEqual(head["nearest"][0],
                             {"model": "b", "layer": head["layer"], "head": head["head"], "octaves": 0})
            self.assertEqual(len(head["nearest"]), 3)
        # Among its own model's heads a head is not matched with itself.
        for head in self.heads("--model", "a", "--match", "a", run_file=path):
            self.assertNotEqual((head["nearest"][0]["layer"], head["nearest"][0]["head"]), (head["layer"], head["head"]))
        self.assertIn("heads of b", self.done("heads", path, "--model", "a", "--match", "b"))
        self.fails(2, ["'c'", "a, b"], "heads", path, "--model", "a", "--match", "c")

    def test_sorting(self):
        entropies = [head["attention"]["entropy"] for head in self.heads("--sort", "entropy")]
        self.assertEqual(entropies, sorted(entropies, reverse=True))
        smallest = self.heads("--sort", "entropy", "--reverse", "--top", "2")
        self.assertEqual([head["attention"]["entropy"] for head in smallest], sorted(entropies)[:2])
        self.assertEqual(len(self.heads("--top", "3")), 3)
        self.assertRegex(self.done("heads", self.run_file, "--sort", "gate_min"), r"key 0 +on self +gate_min +labels *\n")
        by_split = self.heads("--split", "--sort", "locality_by_decay")
        values = [head["split"]["locality"]["by_decay"] for head in by_split]
        self.assertEqual(values, sorted(values, reverse=True))
        self.fails(2, "did you mean entropy? else use a column", "heads", self.run_file, "--sort", "entropie")
        self.fails(2, "did you mean rate_decay_time? else", "heads", self.run_file, "--sort", "decay")
        self.fails(2, ["--sort size", "rate_decay_time"], "heads", self.run_file, "--sort", "size")
        self.fails(2, "--split", "heads", self.run_file, "--sort", "divergence")
        self.fails(2, "--top 0", "heads", self.run_file, "--top", "0")
        self.fails(2, "--sort", "heads", self.run_file, "--reverse")

    def test_sampled_rows(self):
        everything = {(head["layer"], head["head"]): head for head in self.heads()}
        document = json.loads(self.done("heads", self.run_file, "--rows", "16", "--json"))
        self.assertEqual(document["sampled_rows"], 16)
        rows = list(csv.DictReader(io.StringIO(self.done("heads", self.run_file, "--rows", "16", "--csv"))))
        names = ["entropy", "mass_on_first", "mass_on_self", "d50", "d90", "d50_without_first", "d90_without_first",
                 "label_sink", "label_long_memory"]
        for head, row in zip(document["heads"], rows):
            errors = head["errors"]
            for name in names:
                self.assertEqual(row[name + "_error"] == "", errors[name] is None, name)
                if errors[name] is not None:
                    self.assertAlmostEqual(float(row[name + "_error"]), errors[name], places=12)
            spread = head["attention"]
            exact = everything[head["layer"], head["head"]]["attention"]
            for name in ["entropy", "mass_on_first", "mass_on_self"]:
                self.assertGreater(errors[name], 0)
                self.assertLess(abs(spread[name] - exact[name]), 6 * errors[name], name)
            for found, all_rows in zip(spread["distance"]["mass"], exact["distance"]["mass"]):
                self.assertLess(abs(found["mass"] - all_rows["mass"]), 6 * found["error"] + 1e-3)
                column = f"mass_{found['from']}_{found['to']}_error"
                self.assertAlmostEqual(float(row[column]), found["error"], places=12)
            within = head["mass_within"][-1]
            self.assertAlmostEqual(within["mass"], 1, places=4)
            self.assertLess(within["error"], 1e-5)
            # Gates are not sampled.
            self.assertEqual(head["rate_decay_time"], everything[head["layer"], head["head"]]["rate_decay_time"])
        self.assertEqual(self.done("heads", self.run_file, "--rows", "16", "--csv"),
                         self.done("heads", self.run_file, "--rows", "16", "--csv"))
        table = self.done("heads", self.run_file, "--rows", "16")
        self.assertIn("attention by 16 sampled rows of each head; ± is 1 standard error", table)
        self.assertRegex(table, r"\d\.\d\d ±\d\.\d\d")
        # As many rows as there are: all of them, without errors.
        self.assertEqual(self.done("heads", self.run_file, "--rows", "64"), self.done("heads", self.run_file))

    def test_wrong_numbers_of_rows(self):
        for rows, message in [("0", "--rows 0: it must be at least 2"), ("-2", "--rows -2: it must be at least 2"),
                              ("15", "--rows 15: rows are drawn in pairs, whose difference gives the error: "
                                     "give an even number"), ("many", "--rows")]:
            self.fails(2, message, "heads", self.run_file, "--rows", rows)
        self.fails(2, "--rows: --split is of all rows: leave one of them out", "heads", self.run_file, "--rows", "16",
                   "--split")
        path = self.folder / "heads.h5"
        self.fails(2, "errors of sampled rows are in .csv and .json", "heads", self.run_file, "--rows", "16", "-o", path)
        self.assertFalse(path.exists())

    def test_arrays_in_hdf5(self):
        path = self.folder / "heads.h5"
        self.done("heads", self.run_file, "--split", "-o", path)
        heads = self.heads("--split")
        with h5py.File(path) as file:
            self.assertEqual(file.attrs["content"], "heads")
            model = file[file.attrs["default"]]
            numbers = model[model.attrs["default"]]
            times = numbers[numbers.attrs["signal"]]
            self.assertEqual((times.shape, times.attrs["units"]), ((2, 2), "tokens"))
            profile = model["by_distance/mass_without_gate"]
            self.assertEqual([profile.dims[n].keys()[0] for n in range(3)], ["layer", "head", "distance"])
            for head in heads:
                place = head["layer"], head["head"]
                self.assertEqual(numbers["divergence"][place], head["split"]["divergence"])
                self.assertAlmostEqual(times[place], head["rate_decay_time"], places=9)
                self.assertEqual(list(profile[place]),
                                 [bin_["mass"] for bin_ in head["split"]["without_gate"]["distance"]["mass"]])
        self.fails(1, ["exists", "--force"], "heads", self.run_file, "-o", path)
        self.done("heads", self.run_file, "-o", path, "--force")

    def test_tables_in_files(self):
        for ending, flag in [("csv", "--csv"), ("json", "--json")]:
            path = self.folder / ("heads." + ending)
            self.assertEqual(self.done("heads", self.run_file, "-o", path), "")
            self.assertEqual(path.read_text(), self.done("heads", self.run_file, flag))

    def test_wrong_outputs(self):
        self.fails(2, [".h5, .csv and .json"], "heads", self.run_file, "-o", self.folder / "heads.txt")
        self.fails(2, "by its ending", "heads", self.run_file, "-o", self.folder / "heads.csv", "--json")
        self.fails(2, "no order", "heads", self.run_file, "-o", self.folder / "heads.h5", "--sort", "d50")
        self.fails(2, "being read", "heads", self.run_file, "-o", self.run_file, "--force")
        run_file = self.run_fixture(name="gates.h5", extra=["--keep", "gates"])
        self.fails(1, ["--split", "--keep gates,rows,qk"], "heads", run_file, "--split")
        self.fails(1, ["--match", "--keep gates,rows,qk"], "heads", run_file, "--match", "fox-pro")


class SaliencyTest(CommandLineTest):
    KEPT = ["--keep", "loss,gates,saliency"]

    def setUp(self):
        super().setUp()
        self.run_file = self.run_fixture(extra=self.KEPT)
        self.gradient = safetensors.numpy.load_file(DATA / "fox-pro" / "golden_gradients.safetensors")["dlog_f"]
        with h5py.File(self.run_file) as file:
            layers = file["models/fox-pro/layers"]
            c = numpy.stack([layers[name]["cumulative_log_gate"][()] for name in sorted(layers)])
        self.log_f = numpy.diff(c, axis=-1, prepend=0)

    def heads(self, *options, run_file=None):
        return json.loads(self.done("heads", run_file or self.run_file, "-q", "--json", *options))["heads"]

    def said(self, run_file, *options):
        result = self.foxscope("heads", run_file, *options)
        self.assertEqual(result.returncode, 0)
        return result.stderr.decode()

    def test_heads_are_ranked_by_the_gradient_that_others_computed(self):
        heads = self.heads("--saliency")
        order = {(head["layer"], head["head"]): head["saliency"]["saliency_absolute"] for head in heads}
        self.assertEqual(list(order), sorted(order, key=order.get, reverse=True))
        for head in heads:
            gradient = self.gradient[head["layer"], head["head"]].astype(numpy.float64)
            product = gradient * self.log_f[head["layer"], head["head"]]
            saliency = head["saliency"]
            self.assertAlmostEqual(saliency["saliency_scale"], product.sum(), delta=1e-3 * abs(product).sum())
            self.assertAlmostEqual(saliency["saliency_absolute"] / abs(product).sum(), 1, places=3)
            self.assertAlmostEqual(saliency["saliency_per_nat"] / abs(gradient).mean(), 1, places=3)
            self.assertEqual(len(saliency["largest_events"]), 8)
            for event in saliency["largest_events"]:
                self.assertAlmostEqual(event["saliency"], gradient[event["position"]], delta=1e-3 * abs(gradient).max())
            strongest = [abs(event["saliency"]) for event in saliency["largest_events"]]
            self.assertEqual(strongest, sorted(strongest, reverse=True))
            self.assertEqual(saliency["largest_events"][0]["position"], abs(gradient).argmax())
        self.assertEqual(self.heads("--sort", "saliency_absolute"), heads)
        by_nat = [head["saliency"]["saliency_per_nat"] for head in self.heads("--saliency", "--sort", "saliency_per_nat")]
        self.assertEqual(by_nat, sorted(by_nat, reverse=True))
        self.assertEqual(self.heads("--saliency", "--reverse"), heads[::-1])
        self.assertEqual([head["layer"] for head in self.heads()], [0, 0, 1, 1])

    def test_csv_and_hdf5_hold_the_same_numbers(self):
        rows = list(csv.DictReader(io.StringIO(self.done("heads", self.run_file, "-q", "--csv"))))
        path = self.folder / "heads.h5"
        self.done("heads", self.run_file, "-q", "--saliency", "-o", path)
        with h5py.File(path) as file:
            numbers = file["models/fox-pro/numbers"]
            self.assertEqual(numbers["saliency_scale"].attrs["units"], "nats")
            self.assertEqual(numbers["saliency_absolute"].attrs["units"], "nats")
            self.assertEqual(numbers["saliency_per_nat"].attrs["units"], "nats per nat")
            for row, head in zip(rows, self.heads()):
                place = int(row["layer"]), int(row["head"])
                saliency = head["saliency"]
                for name in ["saliency_scale", "saliency_absolute", "saliency_per_nat"]:
                    self.assertEqual(float(row[name]), saliency[name])
                    self.assertEqual(numbers[name][place], saliency[name])
                self.assertEqual(int(row["saliency_8_position"]), saliency["largest_events"][7]["position"])
                self.assertEqual(float(row["saliency_8"]), saliency["largest_events"][7]["saliency"])

    def test_the_table_says_what_a_number_means(self):
        lines = self.done("heads", self.run_file, "-q", "--saliency", "--top", "2").splitlines()
        self.assertEqual(lines[0], "fox-pro, 64 tokens: saliency, g = the gradient of the mean loss by log f of each token")
        self.assertEqual(lines[1], "scale: sum of g log f; with all log f of the head 10 % smaller the mean loss changes by "
                                   "-0.1 of it, to first order")
        self.assertIn("absolute: sum of |g log f|", lines[2])
        self.assertIn("`foxscope eval sweep` measures it", lines[3])
        first = self.heads("--saliency")[0]
        self.assertEqual(len(lines), 8)
        cells = lines[6].split()
        self.assertEqual(cells[:2], [str(first["layer"]), str(first["head"])])
        self.assertEqual(cells[3:6], [f"{first['saliency'][name]:.2e}"
                                      for name in ["saliency_absolute", "saliency_scale", "saliency_per_nat"]])
        largest = first["saliency"]["largest_events"][0]
        self.assertEqual(cells[6:8], [f"{largest['saliency']:.2e}", str(largest["position"])])
        self.assertEqual(cells[8:], ["id", str(golden("fox-pro")["input_ids"][0, largest["position"]])])

    def test_the_target_of_the_run_is_told(self):
        path = self.run_fixture(name="part.h5", extra=[*self.KEPT, "--saliency", "40:50"])
        document = json.loads(self.done("heads", path, "-q", "--json"))
        self.assertEqual(document["saliency_target"], "mean of loss[40:50]")
        # Nothing that comes later is seen by a loss.
        for head in document["heads"]:
            self.assertTrue(all(event["position"] < 50 for event in head["saliency"]["largest_events"]))
        self.assertIn("smaller the mean loss of positions 40 to 49 changes by", self.done("heads", path, "-q", "--saliency"))
        path = self.run_fixture(name="one.h5", extra=[*self.KEPT, "--saliency", "40:41"])
        self.assertIn("the gradient of the loss of position 40 by log f of each token\n", self.done("heads", path, "-q", "--saliency"))

    def test_what_a_gate_would_change_where_there_is_none(self):
        path = self.run_fixture("transformer-pro", "t.h5", self.KEPT)
        table = self.done("heads", path, "-q", "--saliency")
        self.assertIn("a model without gates: what a gate would change", table)
        gradient = safetensors.numpy.load_file(DATA / "transformer-pro" / "golden_gradients.safetensors")["dlog_f"]
        heads = self.heads("--saliency", run_file=path)
        for head in heads:
            saliency = head["saliency"]
            self.assertAlmostEqual(saliency["saliency_per_nat"] / abs(gradient[head["layer"], head["head"]]).mean(), 1,
                                   places=3)
            self.assertEqual([saliency["saliency_scale"], saliency["saliency_absolute"]], [0, 0])
        order = [head["saliency"]["saliency_per_nat"] for head in heads]
        self.assertEqual(order, sorted(order, reverse=True))

    def test_nothing_is_said_of_what_the_table_does_not_show(self):
        self.assertEqual(self.said(self.run_file, "--saliency"), "")
        # The overview and the file have numbers of attention, and they are missing.
        self.assertIn("queries and keys or row normalisers were not kept", self.said(self.run_file))
        self.assertIn("queries and keys or row normalisers were not kept", self.said(self.run_file, "--saliency", "--csv"))

    def test_without_gates_the_sums_are_not_known(self):
        path = self.run_fixture(name="bare.h5", extra=["--keep", "loss,saliency"])
        self.assertIn("gates were not kept, so saliency_scale and saliency_absolute are not known: run again with --keep "
                      "loss,gates,saliency", self.said(path, "--saliency"))
        heads = self.heads("--saliency", run_file=path)
        self.assertTrue(all(head["saliency"]["saliency_absolute"] is None for head in heads))
        order = [head["saliency"]["saliency_per_nat"] for head in heads]
        self.assertEqual(order, sorted(order, reverse=True))

    def test_words_of_a_text_are_named(self):
        path = self.folder / "text.h5"
        self.done("run", "--model", FOX, "--text", "-", *self.KEPT, "-o", path, stdin=b"The fox ran.\nIt ran on.\n")
        table = self.done("heads", path, "-q", "--saliency").splitlines()[6:]
        self.assertEqual(len(table), 32)
        self.assertEqual(self.said(path, "--saliency", "--by-class"), "")
        with h5py.File(path) as file:
            strings = [string.decode() for string in file["models"][FOX.name]["tokens/string"]]
        for line in table:
            position, read = re.search(r" (\d+) +(id 0|\".*\") *$", line).groups()
            self.assertEqual(read, json.dumps(strings[int(position) - 1]) if int(position) else "id 0")

    def test_runs_without_it_say_how_to_make_it(self):
        path = self.run_fixture(name="plain.h5")
        self.assertNotIn("saliency", json.loads(self.done("heads", path, "--json"))["heads"][0])
        self.assertNotIn("saliency", self.done("heads", path, "--csv"))
        self.fails(1, ["plain.h5: model 'fox-pro': saliency was not kept", "--keep loss,gates,saliency"], "heads", path,
                   "--saliency")
        self.fails(2, ["--sort saliency_scale", "saliency was not kept", "--keep loss,gates,saliency"], "heads", path,
                   "--sort", "saliency_scale")
        self.fails(2, "there is no such statistic", "heads", self.run_file, "-q", "--sort", "saliency_mean")


class CheckpointInfoTest(CommandLineTest):
    def test_names_of_the_paper(self):
        for fixture, title in [("fox-pro", "FoX (Pro)"), ("fox-llama", "FoX (LLaMA)"),
                               ("transformer-pro", "Transformer (Pro)"), ("transformer-llama", "Transformer (LLaMA)"),
                               ("fox-pro-shared-qknorm", "FoX (Pro)"), ("fox-llama-rope", "FoX (LLaMA), with RoPE"),
                               ("fox-llama-qknorm", "FoX (LLaMA), with QK-norm"),
                               ("fox-llama-fixed-gate", "FoX (LLaMA), fixed gate"),
                               ("fox-llama-data-independent-gate", "FoX (LLaMA), data-independent gate")]:
            with self.subTest(fixture):
                self.assertEqual(json.loads(self.done("info", DATA / fixture, "--json"))["name"], title)
        self.assertIn("FLA", self.done("info", DATA / "fla-fox"))

    def test_json(self):
        described = json.loads(self.done("info", FOX, "--json"))
        config = json.loads((FOX / "config.json").read_text())
        self.assertEqual(described["kind"], "checkpoint")
        self.assertEqual(described["model_type"], "forgetting_transformer-project_fox")
        self.assertEqual(described["options"]["layers"], config["num_hidden_layers"])
        self.assertEqual(described["options"]["forget_gate"], "full")
        self.assertEqual(described["options"]["bos_token_id"], 0)
        self.assertGreater(described["parameters"], 10_000_000)
        self.assertEqual([file["name"] for file in described["files"]],
                         ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
        self.assertEqual(described["tokenizer"], "tokenizer.json")

    def test_the_checksum_of_the_weights(self):
        weights = hashlib.sha256((DATA / "fox-pro-bf16" / "model.safetensors").read_bytes()).hexdigest()
        described = json.loads(self.done("info", DATA / "fox-pro-bf16", "--checksum", "--json"))
        self.assertEqual(described["weights_sha256"], weights)
        self.assertIn("SHA-256 " + weights, self.done("info", DATA / "fox-pro-bf16", "--checksum"))
        self.assertNotIn("weights_sha256", json.loads(self.done("info", DATA / "fox-pro-bf16", "--json")))
        self.fails(2, ["--checksum is for a checkpoint folder"], "info", __file__, "--checksum")

    def test_text(self):
        text = self.done("info", DATA / "fox-pro-bf16")
        for words in ["FoX (Pro)", "bfloat16", "parameters", "only --ids can be run", "model.safetensors, "]:
            self.assertIn(words, text)

    def test_notes_of_the_dialect_are_told(self):
        folder = self.copy_of("fla-fox")
        set_config(folder, window_size=16)
        self.assertIn("window", " ".join(json.loads(self.done("info", folder, "--json"))["notes"]))

    def test_hub_ids_resolve_in_the_local_cache_only(self):
        cache = self.folder / "cache"
        snapshot = cache / "models--lab--fox" / "snapshots" / "abc"
        snapshot.parent.mkdir(parents=True)
        self.copy_of("fox-pro").rename(snapshot)
        text = self.done("info", "lab/fox", environment={"HF_HUB_CACHE": str(cache)})
        self.assertIn("FoX (Pro)", text)
        self.fails(1, "lab/other", "info", "lab/other", environment={"HF_HUB_CACHE": str(cache)})


def head_of(folder):
    """lm_head.weight of the demo model, in float64."""
    for path in folder.glob("*.safetensors"):
        header, data = read_safetensors(path)
        if tensor := header.get("lm_head.weight"):
            begin, end = tensor["data_offsets"]
            assert tensor["dtype"] == "BF16"
            bits = numpy.frombuffer(data[begin:end], dtype="<u2").astype("<u4") << 16
            return bits.view("<f4").astype(numpy.float64).reshape(tensor["shape"])
    raise FileNotFoundError(folder)


class PredictionsTest(CommandLineTest):
    def run_text(self, name, *options, model=FOX):
        path = self.folder / name
        self.done("run", "--model", f"fox={model}", "--text", self.write("text.txt", TEXT * 12), "--length", 200, "-o", path, *options)
        return path

    def test_states_and_the_head_give_the_losses(self):
        path = self.run_text("run.h5", "--keep", "loss,predictions")
        answer = json.loads(self.done("info", path, "--predictions", "0,150", "--checkpoint", FOX, "--top", 4, "--json"))
        self.assertEqual(answer["kind"], "predictions")
        self.assertEqual([told["position"] for told in answer["predictions"]], [0, 150])
        with h5py.File(path) as file:
            state = file["models/fox/predictions/hidden_state"]
            self.assertEqual((state.dtype, state.shape), (numpy.float16, (200, 256)))
            self.assertIsNone(state.chunks)
            group = file["models/fox/predictions"]
            self.assertEqual((group.attrs["NX_class"], group.attrs["signal"]), ("NXdata", "hidden_state"))
            self.assertEqual(list(group.attrs["axes"]), ["position", "hidden"])
            losses = file["models/fox/loss/per_token_loss"][:]
            ids, strings = file["models/fox/tokens/id"][:], file["models/fox/tokens/string"][:]
            states = state[:].astype(numpy.float64)
        head = head_of(FOX)
        for told in answer["predictions"]:
            position = told["position"]
            logits = head @ states[position]
            log_p = logits - logits.max() - numpy.log(numpy.exp(logits - logits.max()).sum())
            came = ids[position]
            self.assertEqual((told["id"], told["token"]), (came, strings[position].decode()))
            self.assertAlmostEqual(told["log_p"], log_p[came], places=4)
            self.assertAlmostEqual(told["p"], numpy.exp(log_p[came]), places=5)
            self.assertAlmostEqual(told["log_p"], -losses[position], delta=0.01)
            self.assertEqual(told["rank"], 1 + (log_p > log_p[came]).sum())
            self.assertAlmostEqual(told["entropy"], -(numpy.exp(log_p) * log_p).sum(), places=3)
            order = numpy.argsort(-log_p, kind="stable")[:4]
            self.assertEqual([token["id"] for token in told["likeliest"]], order.tolist())
            for token in told["likeliest"]:
                self.assertAlmostEqual(token["p"], numpy.exp(log_p[token["id"]]), places=5)
        text = self.done("info", path, "--predictions", 150, "--checkpoint", FOX)
        self.assertIn("position  150, after ", text)
        self.assertEqual(len([line for line in text.splitlines() if line.strip().split(" ")[0].isdigit()]), 10)

    def test_logits_need_no_model(self):
        path = self.run_text("run.h5", "--keep", "loss,logits")
        told = json.loads(self.done("info", path, "--predictions", 7, "--json"))["predictions"][0]
        with h5py.File(path) as file:
            logits = file["models/fox/logits"][7].astype(numpy.float64)
            loss = file["models/fox/loss/per_token_loss"][7]
        self.assertAlmostEqual(told["log_p"], -loss, places=4)
        self.assertEqual(told["likeliest"][0]["id"], int(logits.argmax()))

    def test_what_is_missing_is_said(self):
        path = self.run_text("run.h5", "--keep", "loss,predictions")
        self.fails(1, [str(path), "give its checkpoint folder with --checkpoint"], "info", path, "--predictions", 3)
        self.fails(2, ["--checkpoint", "made none of the models of", "its weights are others"],
                   "info", path, "--predictions", 3, "--checkpoint", FOX.parent / "transformer-pro-12m")
        self.fails(2, "position 200: the run of 'fox' has positions 0 to 199",
                   "info", path, "--predictions", 200, "--checkpoint", FOX)
        self.fails(2, "--checkpoint is for --predictions POSITION", "info", path, "--checkpoint", FOX)
        self.fails(2, "--top is for --predictions POSITION", "info", path, "--top", 3)
        self.fails(2, "--top 0: use a number from 1 on", "info", path, "--predictions", 3, "--checkpoint", FOX,
                   "--top", 0)
        without = self.run_text("without.h5", "--keep", "loss")
        self.fails(1, "run again with --keep predictions", "info", without, "--predictions", 3, "--checkpoint", FOX)


class RunFileInfoTest(CommandLineTest):
    def test_json(self):
        path = self.run_fixture(extra=["--keep", "loss,gates,hidden", "--intervene", "0:1:one"])
        described = json.loads(self.done("info", path, "--json"))
        self.assertEqual((described["kind"], described["text"]), ("run file", None))
        self.assertEqual(described["bytes"], path.stat().st_size)
        self.assertIn("--keep loss,gates,hidden", described["command_line"])
        (model,) = described["models"]
        self.assertEqual((model["name"], model["layers"], model["heads"], model["tokens"]), ("fox-pro", 2, 2, 64))
        self.assertEqual(model["kept"], ["loss", "gates", "hidden"])
        self.assertIn("0:1:one", model["intervention"])
        self.assertAlmostEqual(model["mean_loss"], golden("fox-pro")["per_token_loss"][0].mean(), delta=0.5)
        self.assertAlmostEqual(model["perplexity"], math.exp(model["mean_loss"]), places=6)

    def test_text(self):
        path = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", "-", "-o", path, stdin=b"Once upon a time.")
        text = self.done("info", path)
        for words in ["17 bytes, SHA-256 ", "8 with 4 heads of size 64", "forget gate", "kept", "loss, gates, rows, qk",
                      "float32 on cpu", "nats a token"]:
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
