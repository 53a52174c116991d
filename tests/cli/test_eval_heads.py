"""`foxscope eval heads`."""

import csv
import json
import unittest

import h5py
import numpy
from support import DATA, FOX, CommandLineTest, golden, limited_memory, set_tensor

TEXT = "The fox ran over the hill; nobody saw the fox.\n\nIt was quick, and Mr. Hill was not. " * 4


class EvalHeadsTest(CommandLineTest):
    def ids_windows(self):
        """Rows of token ids in a file, labels of the first fixture."""
        path = self.folder / "windows.npy"
        numpy.save(path, golden("fox-pro")["labels"][:2, :48].astype(numpy.int64).reshape(4, 24))
        return path

    def test_means_and_errors_are_those_of_runs_on_each_window(self):
        windows = self.ids_windows()
        output = self.folder / "heads.json"
        self.done("eval", "heads", "--model", DATA / "fox-pro", "--ids", windows, "-o", output)
        model = json.loads(output.read_text())["models"][0]
        self.assertEqual((model["model"], model["windows"], model["documents"], model["length"]), ("fox-pro", 4, 4, 24))
        runs = []
        for row in numpy.load(windows):
            ids = self.write("row.json", json.dumps(row.tolist()))
            self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "-o", self.folder / "row.h5", "--force")
            runs.append(list(csv.DictReader(self.done("heads", self.folder / "row.h5", "--split", "--csv").splitlines())))
        for n, head in enumerate(model["heads"]):
            self.assertEqual((head["layer"], head["head"]), (n // 2, n % 2))
            for name, number in head["numbers"].items():
                values = [float(run[n][name]) for run in runs if run[n][name]]
                if not values:
                    # The windows are short.
                    self.assertIn(name, ["label_local", "label_positional", "label_long_memory"])
                    self.assertIsNone(number["value"])
                if not values or name == "rate_decay_time":
                    continue
                self.assertAlmostEqual(number["value"], numpy.mean(values), places=9, msg=name)
                # Each row is a document of its own: the standard error of a mean.
                if len(values) == 4:
                    self.assertAlmostEqual(number["error"], numpy.std(values, ddof=1) / 2, places=9, msg=name)
                else:
                    self.assertIsNone(number["error"], name)
            gate = numpy.mean([float(run[n]["mean_log_gate"]) for run in runs])
            self.assertAlmostEqual(head["numbers"]["rate_decay_time"]["value"], -1 / gate, places=9)
            bin_ = head["by_distance"]["mass_without_gate"][3]
            self.assertEqual((bin_["from"], bin_["to"]), (4, 7))
            self.assertAlmostEqual(bin_["value"], numpy.mean([float(run[n]["mass_4_7_without_gate"]) for run in runs]))
            self.assertNotIn("gates_by_class", head)

    def test_a_text_that_is_one_window_gives_its_runs_gates_by_class(self):
        text = self.write("text.txt", TEXT)
        run = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", run)
        heads = json.loads(self.done("heads", run, "--by-class", "--json"))
        table = self.folder / "heads.csv"
        result = self.done("eval", "heads", "--model", "fox=" + str(FOX), "--corpus", text, "--length", heads["tokens"],
                           "--windows", "1", "-o", table)
        self.assertIn("fox, 1 window of up to ", result)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual(len(rows), 32)
        for row, head in zip(rows, heads["heads"]):
            self.assertEqual(row["model"], "fox")
            self.assertEqual(row["entropy_error"], "")
            self.assertAlmostEqual(float(row["entropy"]), head["attention"]["entropy"], places=5)
            for name, group in head["gates_by_class"].items():
                self.assertEqual(float(row["tokens_" + name]), group["tokens"])
                if group["tokens"] > 0:
                    self.assertAlmostEqual(float(row["mean_log_gate_" + name]), group["mean_log_gate"], places=5)
                    self.assertAlmostEqual(float(row["gate_median_" + name]), group["gate_median"], places=5)

    def test_arrays_of_several_models(self):
        corpus = self.write("corpus.jsonl", "".join(json.dumps({"id": f"d{n}", "text": TEXT}) + "\n" for n in range(3)))
        output = self.folder / "heads.h5"
        command = ["eval", "heads", "--model", "a=" + str(FOX), "--model", "b=" + str(FOX), "--corpus", corpus,
                   "--length", "32", "--windows", "3", "--seed", "5", "-o", output]
        text = self.done(*command)
        self.assertIn("written to " + str(output), text)
        with h5py.File(output) as file:
            self.assertEqual((file.attrs["content"], file.attrs["seed"]), ("eval_heads", 5))
            models = file["models"]
            self.assertEqual([models[name].attrs["order"] for name in "ab"], [0, 1])
            documents = models["a/windows/document"][()]
            self.assertEqual(len(documents), 3)
            self.assertLess(documents.max(), len(file["documents/name"]))
            entropy = models["a/numbers/entropy"]
            self.assertEqual((entropy.shape, entropy.attrs["units"]), ((8, 4), "nats"))
            numpy.testing.assert_array_equal(entropy, models["b/numbers/entropy"])
            self.assertEqual(models["a/numbers/entropy_errors"].shape, (8, 4))
            classes = [name.decode() for name in models["a/by_class/token_class"][()]]
            counts = dict(zip(classes, models["a/by_class/tokens"][()]))
            self.assertEqual(counts["bos"], 3)
            self.assertEqual(sum(count for name, count in counts.items() if name != "rare_word"), 96)
        first = output.read_bytes()
        self.fails(1, ["exists", "--force"], *command)
        self.assertEqual(output.read_bytes(), first)

    def test_every_token_has_a_class_wherever_a_window_is_cut(self):
        # A tokenizer that spells texts as JSON does: most windows begin or end within the escape of a character.
        model = self.folder / "escaping"
        model.mkdir()
        for file in FOX.iterdir():
            (model / file.name).symlink_to(file)
        self.write("escaping/tokenizer_config.json", json.dumps({"tokenizer_class": "JSONGPT2Tokenizer"}))
        documents = ["\u201cD\u00e9j\u00e0 vu\u201d, \u00e9crit-il \u2026 \U0001f98a\n\n\"\u4e2d\u6587\" " * 6, "\u00e9\u00e8\U0001f98a\n" * 30] * 8
        documents = [f"{n} {text}" for n, text in enumerate(documents)]  # each its own
        corpus = self.write("corpus.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in documents))
        output = self.folder / "heads.json"
        for seed in ["1", "2"]:
            self.done("eval", "heads", "--model", model, "--corpus", corpus, "--length", "11", "--windows", "20", "--seed",
                      seed, "-o", output, "--force")
            head = json.loads(output.read_text())["models"][0]["heads"][0]
            classes = head["gates_by_class"]
            self.assertEqual(classes["bos"]["tokens"], 20)
            self.assertEqual(sum(one["tokens"] for name, one in classes.items() if name != "rare_word"), 20 * 11)
            # Every window's first position reads BOS, whose gate in the first layer is the same everywhere.
            self.assertLess(classes["bos"]["mean_log_gate"]["error"], 1e-9)

    def test_weights_that_leave_the_range_of_numbers(self):
        model = self.copy_of("fox-pro")
        set_tensor(model, "model.layers.0.attn.v_proj.linear.weight", lambda weight: weight * numpy.float32(1e38))
        output = self.folder / "heads.h5"
        self.fails(1, ["of layer 1, head 0 in window 0 is not a number", "check the weights and --dtype"],
                   "eval", "heads", "-q", "--model", model, "--ids", self.ids_windows(), "-o", output, output=output)

    def test_more_than_fits(self):
        windows = self.folder / "windows.npy"
        numpy.save(windows, numpy.zeros((1, 1 << 22), numpy.int16))
        output = self.folder / "heads.h5"
        self.fails(1, ["fox-pro-12m: windows of 4194304 tokens need about", "GiB of memory", "use --length "], "eval",
                   "heads", "--model", FOX, "--ids", windows, "-o", output, output=output, **limited_memory(8 << 30))

    def test_wrong_options(self):
        output = self.folder / "heads.h5"
        models = ["eval", "heads", "--model", DATA / "fox-pro"]
        ids = self.ids_windows()
        self.fails(2, ["--corpus", "--ids"], *models, "-o", output, output=output)
        self.fails(2, ["--corpus", "--ids"], *models, "--corpus", "x", "--ids", ids, "-o", output, output=output)
        self.fails(2, ".h5, .csv and .json", *models, "--ids", ids, "-o", self.folder / "heads.png")
        self.fails(2, "--seed", *models, "--ids", ids, "--seed", "1", "-o", output, output=output)
        self.fails(2, "--tensor", *models, "--corpus", "x", "--tensor", "t", "-o", output, output=output)
        self.fails(2, "--bos -2", *models, "--ids", ids, "--bos", "-2", "-o", output, output=output)
        self.fails(1, "nowhere.txt", "eval", "heads", "--model", FOX, "--corpus", self.folder / "nowhere.txt", "-o", output, output=output)


if __name__ == "__main__":
    unittest.main()
