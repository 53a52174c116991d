"""`foxscope run`: the summary, the file, positions, names, and what each option does."""

import hashlib
import json
import math
import os
import shutil
import subprocess
import unittest

import h5py
import numpy
from support import DATA, FOX, PROGRAM, TEXT, TRANSFORMER, CommandLineTest, golden, set_config

MODEL_FIELDS = ["name", "tokens", "mean_loss", "perplexity", "tokens_per_second", "seconds", "peak_memory_bytes",
                "device", "dtype", "attention_kernel", "skipped_blocks"]


def contents(path):
    """Everything in a file, by name, the time of creation apart."""
    found = {}

    def visit(name, item):
        found[name] = (item[()] if isinstance(item, h5py.Dataset) else None)
        for key, value in item.attrs.items():
            if not isinstance(value, (h5py.Reference, numpy.ndarray)):
                found[f"{name}@{key}"] = value

    with h5py.File(path) as file:
        file.visititems(visit)
        for key, value in file.attrs.items():
            if key != "created":
                found["@" + key] = value
    return found


class SummaryTest(CommandLineTest):
    def test_json_has_exactly_the_promised_fields(self):
        output = self.folder / "run.h5"
        result = self.foxscope("run", "--model", DATA / "fox-pro", "--model", "other=" + str(DATA / "transformer-pro"),
                               "--ids", self.ids_file(), "-o", output, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        summary = json.loads(result.stdout)
        self.assertEqual(list(summary), ["output", "models"])
        self.assertEqual(summary["output"], str(output))
        self.assertEqual([model["name"] for model in summary["models"]], ["fox-pro", "other"])
        for model in summary["models"]:
            self.assertEqual(list(model), MODEL_FIELDS)
            self.assertEqual(list(model["seconds"]), ["load", "forward", "write"])
            self.assertEqual(model["tokens"], 64)
            self.assertAlmostEqual(model["perplexity"], math.exp(model["mean_loss"]), places=9)
            self.assertGreater(model["tokens_per_second"], 0)
            self.assertGreater(model["peak_memory_bytes"], 1 << 20)
            self.assertTrue(all(seconds >= 0 for seconds in model["seconds"].values()))
            self.assertEqual((model["device"], model["dtype"]), ("cpu", "float32"))
            self.assertTrue(model["attention_kernel"])
            self.assertGreaterEqual(model["skipped_blocks"], 0)

    def test_table(self):
        output = self.folder / "run.h5"
        text = self.done("run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", output)
        lines = text.splitlines()
        self.assertIn("loss (nats)", lines[0])
        self.assertTrue(lines[1].startswith("fox-pro "))
        self.assertEqual(lines[2], f"written to {output}")

    def test_losses_that_are_not_kept_are_null(self):
        text = self.done("run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", self.folder / "run.h5",
                         "--keep", "gates", "--json")
        model = json.loads(text)["models"][0]
        self.assertIsNone(model["mean_loss"])
        self.assertIsNone(model["perplexity"])

    def test_quiet_and_verbose(self):
        arguments = ("run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "--force", "-o",
                     self.folder / "run.h5")
        quiet = self.foxscope(*arguments, "-q")
        self.assertEqual((quiet.stdout, quiet.stderr), (b"", b""))
        self.assertEqual(json.loads(self.done(*arguments, "-q", "--json"))["models"][0]["tokens"], 64)
        self.assertRegex(self.foxscope(*arguments, "-v").stderr.decode(), r"foxscope: fox-pro: 64 tokens, attention by")


class OutputNameTest(CommandLineTest):
    def test_hdf5_has_no_other_ending(self):
        for name in ["a.txt", "a.json", "a.npy"]:
            output = self.folder / name
            self.fails(2, [name, "what is written is HDF5", ".h5"], "run", "--model", DATA / "fox-pro", "--ids",
                       self.ids_file(), "-o", output, output=output)
        self.fails(2, "what is written is HDF5", "eval", "needle", "--model", FOX, "--haystack", FOX, "-o", "a.csv")
        for name in ["a.hdf5", "a.h5", "a"]:
            self.run_fixture(name=name)

    def test_a_byte_order_mark_is_told(self):
        text = self.write("mark.txt", b"\xef\xbb\xbfThe fox ran.")
        result = self.foxscope("run", "--model", FOX, "--text", text, "-o", self.folder / "run.h5")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr.decode(), "mark.txt: begins with a byte order mark, which the models read [^\n]+\n")
        plain = self.foxscope("run", "--model", FOX, "--text", self.write("plain.txt", b"The fox ran."), "--force", "-o",
                              self.folder / "run.h5")
        self.assertEqual(plain.stderr, b"")


class OddNameTest(CommandLineTest):
    """Files whose names are no UTF-8: what is written can be read again, or nothing is written and the name is told."""

    def setUp(self):
        super().setUp()
        here = os.fsencode(self.folder)
        self.text = here + b"/b\xfccher's.txt"
        self.output = here + b"/\xe9.h5"
        self.model = here + b"/m\xe9"
        with open(self.text, "wb") as file:
            file.write(b"The fox ran over the hill, and the hill was green. " * 20)
        shutil.copytree(os.fsencode(DATA / "fox-pro"), self.model)

    def foxscope(self, *arguments, **options):
        words = [word if isinstance(word, bytes) else str(word) for word in arguments]
        return subprocess.run([PROGRAM, *words], capture_output=True, timeout=300, **options)

    def test_run_and_eval_loss(self):
        model = b"fox=" + self.model
        self.done("run", "--model", FOX, "--text", self.text, "--length", 32, "-o", self.output)
        self.done("eval", "loss", "--model", FOX, "--corpus", self.text, "--length", 16, "--windows", 2, "-o",
                  self.folder / "loss.h5")
        self.done("run", "--model", model, "--ids", self.ids_file(), "-o", self.folder / "ids.h5")
        for path in [self.output, self.folder / "loss.h5", self.folder / "ids.h5"]:
            self.done("info", path)
            self.done("info", path, "--json")
        self.done("heads", self.output)
        with h5py.File(self.output) as file:
            line = file.attrs["command_line"]
        words = subprocess.run(["bash", "-c", "printf '%s\\0' " + line], capture_output=True, check=True).stdout
        self.assertIn(os.path.basename(self.text), words.split(b"\0"))
        self.assertIn(os.path.basename(self.output), words.split(b"\0"))

    def test_json_of_names(self):
        said = self.done("run", "--json", "--model", FOX, "--text", self.text, "--length", 8, "-o", self.output)
        self.assertEqual(json.loads(said)["models"][0]["tokens"], 8)
        said = self.done("generate", "--json", "--model", FOX, "--text", self.text,
                         "--max-tokens", 1)
        self.assertEqual(len(json.loads(said)["ids"]), 1)

    def test_a_model_whose_name_is_none(self):
        self.fails(2, ["is not a name of letters", "write --model NAME=DIR"], "run", "--model", self.model, "--ids",
                   self.ids_file(), "-o", self.folder / "a.h5")


class FileTest(CommandLineTest):
    def test_losses_and_gates_are_those_of_the_authors(self):
        values = golden("fox-pro")
        with h5py.File(self.run_fixture()) as file:
            model = file["models/fox-pro"]
            self.assertLess(numpy.abs(model["loss/per_token_loss"][()] - values["per_token_loss"][0]).max(), 1e-4)
            expected = numpy.cumsum(values["layers.1.log_fgate"][0].astype(numpy.float64), axis=1)
            self.assertLess(numpy.abs(model["layers/01/cumulative_log_gate"][()] - expected).max(), 1e-4)

    def test_the_same_command_writes_the_same_content(self):
        path = self.run_fixture()
        first = contents(path)
        self.run_fixture(extra=["--force"])
        self.done("run", "--model", DATA / "fox-pro", "--ids", self.folder / "ids.json", "-o", path, "--force")
        second = contents(path)
        third = contents(self.run_fixture(extra=["--force"]))
        self.assertEqual(first.keys(), second.keys())
        for name in first:
            if name not in ("@command_line",):
                self.assertTrue(numpy.array_equal(first[name], second[name]), name)
                self.assertTrue(numpy.array_equal(second[name], third[name]), name)

    def test_the_command_line_is_kept_as_it_can_be_typed_again(self):
        path = self.folder / "a run's file.h5"
        ids = self.ids_file()
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "-o", path)
        with h5py.File(path) as file:
            self.assertEqual(file.attrs["command_line"],
                             f"foxscope run --model fox-pro --ids {ids.name} -o 'a run'\\''s file.h5'")

    def test_keep_decides_what_is_in_the_file(self):
        parts = {"loss": "loss/per_token_loss", "gates": "layers/00/cumulative_log_gate",
                 "rows": "layers/00/log_normalizer", "ungated": "layers/00/log_normalizer_without_gate",
                 "qk": "layers/00/query", "values": "layers/01/value", "logits": "logits", "hidden": "hidden_states/00"}
        for keep in ["loss", "gates,rows", "qk", "values", "loss,logits", "hidden,ungated", ",".join(parts)]:
            with self.subTest(keep):
                path = self.run_fixture(extra=["--keep", keep, "--force"])
                with h5py.File(path) as file:
                    kept = {word for word, name in parts.items() if name in file["models/fox-pro"]}
                self.assertEqual(kept, set(keep.split(",")))

    def test_info_says_what_gradients_are_of(self):
        path = self.run_fixture(extra=["--keep", "loss,values"])
        with h5py.File(path, "r+") as file:
            loss = file["models/fox-pro/loss/per_token_loss"].shape[0]
            gradients = file.create_dataset("models/fox-pro/gradients/log_forget", data=numpy.ones((2, 2, loss), "<f4"))
            gradients.attrs["target"] = "mean of loss[0:8]"
        model = json.loads(self.done("info", path, "--json"))["models"][0]
        self.assertEqual(model["kept"], ["loss", "values", "saliency"])
        self.assertEqual(model["saliency_target"], "mean of loss[0:8]")
        self.assertIn("gradient of mean of loss[0:8]", self.done("info", path))

    def test_saliency_is_the_change_that_a_scaled_gate_makes(self):
        with h5py.File(self.run_fixture(extra=["--keep", "loss,gates,saliency"])) as file:
            model = file["models/fox-pro"]
            gradients = model["gradients/log_forget"]
            length = model["loss/per_token_loss"].shape[0]
            self.assertEqual(gradients.attrs["target"], f"mean of loss[0:{length}]")
            gates = numpy.diff(model["layers/01/cumulative_log_gate"][1], prepend=0)
            owed = float(gates @ gradients[1, 1])

        def mean_loss(scale):
            path = self.run_fixture(extra=["--keep", "loss", "--intervene", f"1:1:scale={scale}", "--force"])
            with h5py.File(path) as file:
                return float(numpy.mean(file["models/fox-pro/loss/per_token_loss"], dtype=float))

        change = (mean_loss(1.02) - mean_loss(0.98)) / 0.04
        self.assertLess(abs(owed - change), 2e-5 + 0.02 * abs(change))

    def test_saliency_of_a_decay_is_the_change_that_a_scaled_decay_makes(self):
        for name in ["gated-deltanet-1m", "mamba2-12m"]:
            model = FOX.parent / name
            source = self.write("text.txt", "The fox ran over the hill, and nobody saw the fox. It ran on and on. " * 2)

            def run(file, *options):
                path = self.folder / file
                self.done("run", "--model", "m=" + str(model), "--text", source, "-o", path, "--force", *options)
                return path

            with h5py.File(run("owed.h5", "--keep", "loss,gates,saliency")) as file:
                gradients = file["models/m/gradients/log_forget"][()].astype(numpy.float64)
                layers = file["models/m/layers"]
                gates = numpy.stack([layers[layer]["cumulative_log_gate"][()] for layer in sorted(layers)])
                losses = file["models/m/loss/per_token_loss"][()]
            owed = (gradients * numpy.diff(gates, prepend=0)).sum(-1)
            with h5py.File(run("plain.h5", "--keep", "loss")) as file:
                self.assertLess(numpy.abs(losses - file["models/m/loss/per_token_loss"][()]).max(), 1e-4)

            def mean_loss(layer, head, scale):
                with h5py.File(run("scaled.h5", "--keep", "loss", "--intervene", f"{layer}:{head}:scale={scale}")) as file:
                    return float(numpy.mean(file["models/m/loss/per_token_loss"], dtype=float))

            largest = numpy.dstack(numpy.unravel_index(numpy.argsort(-abs(owed).ravel())[:3], owed.shape))[0]
            for layer, head in largest:
                change = (mean_loss(layer, head, 1.02) - mean_loss(layer, head, 0.98)) / 0.04
                self.assertLess(abs(owed[layer, head] - change), 3e-5 + 0.02 * abs(change), (name, layer, head))
            self.assertLess(abs(gradients[:, :, 0]).max(), 1e-6 * abs(gradients).max())  # nothing lies before it
            self.fails(2, ["the model's own decays only", "--intervene"], "run", "--model", model, "--text", source, "-o",
                       self.folder / "no.h5", "--keep", "saliency", "--intervene", "0:0:one")
        for name in ["gla", "qwen3_5"]:
            self.fails(2, "every layer is attention, or decays as a whole head: leave saliency out of --keep", "run", "--model",
                       DATA / name, "--ids", self.write("ids.json", "[1, 2, 3]"), "--bos", 0, "-o", self.folder / "no.h5",
                       "--keep", "saliency")

    def test_a_target_of_saliency(self):
        with h5py.File(self.run_fixture(extra=["--keep", "loss,saliency", "--saliency", "8:16"])) as file:
            gradients = file["models/fox-pro/gradients/log_forget"]
            self.assertEqual(gradients.attrs["target"], "mean of loss[8:16]")
            self.assertTrue((gradients[:, :, 16:] == 0).all())
            self.assertTrue((gradients[:, :, 1:8] != 0).any())

    def test_targets_that_are_none(self):
        for extra, message in [
                (["--keep", "loss,saliency", "--saliency", "8:5000"],
                 "--saliency 8:5000: use positions with 0 <= A < B <= "),
                (["--keep", "loss,saliency", "--saliency", "9:9"], "--saliency 9:9: use positions with 0 <= A < B <= "),
                (["--keep", "loss,saliency", "--saliency", "9"],
                 "--saliency 9: write A:B for the positions from A up to, not including, B"),
                (["--keep", "loss", "--saliency", "1:2"],
                 "--saliency chooses the losses whose gradients are computed: add saliency to --keep")]:
            with self.subTest(extra):
                output = self.folder / "none.h5"
                result = self.foxscope("run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", output, *extra)
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr.decode())
                self.assertEqual(result.stderr.count(b"\n"), 1)
                self.assertFalse(output.exists())

    def test_kept_values_are_those_of_the_authors(self):
        values = golden("fox-pro")
        with h5py.File(self.run_fixture(extra=["--keep", "values"])) as file:
            for layer in range(2):
                kept = file[f"models/fox-pro/layers/{layer:02}/value"][()]
                self.assertLess(numpy.abs(kept - values[f"layers.{layer}.v"][0]).max(), 2e-4)

    def test_kept_logits_and_hidden_states_are_those_of_the_authors(self):
        values = golden("fox-pro")
        with h5py.File(self.run_fixture(extra=["--keep", "logits,hidden"])) as file:
            model = file["models/fox-pro"]
            self.assertLess(numpy.abs(model["logits"][()] - values["logits"][0]).max(), 2e-4)
            for index in range(3):
                hidden = model[f"hidden_states/{index:02}"][()]
                self.assertLess(numpy.abs(hidden - values[f"hidden_states.{index}"][0]).max(), 1e-3)


class PositionsTest(CommandLineTest):
    """Position p reads input p and predicts token p: an off-by-one would look right everywhere."""

    def test_an_array_of_ids_gets_bos_before_it(self):
        labels = golden("fox-pro")["labels"][0].tolist()
        ids = self.write("ids.json", json.dumps(labels))
        path = self.folder / "run.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "--bos", 5, "-o", path)
        with h5py.File(path) as file:
            tokens = file["models/fox-pro/tokens"]
            self.assertEqual(tokens["id"][()].tolist(), labels)
            self.assertEqual(tokens["input_id"][()].tolist(), [5] + labels[:-1])
            self.assertNotIn("byte_start", tokens)
            self.assertNotIn("text", file)

    def test_the_loss_at_a_position_is_of_the_token_that_it_predicts(self):
        path = self.run_fixture(extra=["--keep", "loss,logits"])
        with h5py.File(path) as file:
            model = file["models/fox-pro"]
            logits = model["logits"][()].astype(numpy.float64)
            ids = model["tokens/id"][()]
            loss = model["loss/per_token_loss"][()]
        highest = logits.max(axis=1, keepdims=True)
        normalizer = highest[:, 0] + numpy.log(numpy.exp(logits - highest).sum(axis=1))
        self.assertLess(numpy.abs(normalizer - logits[numpy.arange(64), ids] - loss).max(), 1e-4)

    def test_inputs_and_labels_are_used_as_they_are(self):
        values = golden("fox-pro")
        with h5py.File(self.run_fixture()) as file:
            tokens = file["models/fox-pro/tokens"]
            self.assertEqual(tokens["input_id"][()].tolist(), values["input_ids"][0].tolist())
            self.assertEqual(tokens["id"][()].tolist(), values["labels"][0].tolist())

    def test_changing_a_token_changes_what_reads_it_and_nothing_before(self):
        labels = golden("fox-pro")["labels"][0].tolist()
        gates, losses = [], []
        for change in [0, 1]:
            changed = labels[:30] + [(labels[30] + change) % 320] + labels[31:]
            path = self.folder / f"run{change}.h5"
            self.done("run", "--model", DATA / "fox-pro", "--ids", self.write("ids.json", json.dumps(changed)), "-o", path)
            with h5py.File(path) as file:
                gates.append(numpy.diff(file["models/fox-pro/layers/00/cumulative_log_gate"][()], prepend=0))
                losses.append(file["models/fox-pro/loss/per_token_loss"][()])
        # Token 30 is predicted at position 30 and read at position 31.
        self.assertLess(numpy.abs(losses[0][:30] - losses[1][:30]).max(), 1e-5)
        self.assertGreater(abs(losses[0][30] - losses[1][30]), 1e-2)
        self.assertTrue(numpy.array_equal(gates[0][:, :31], gates[1][:, :31]))
        self.assertTrue((gates[0][:, 31] != gates[1][:, 31]).all())

    def test_a_text_s_tokens_and_bytes(self):
        text = self.write("text.txt", TEXT)
        path = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", path)
        with h5py.File(path) as file:
            tokens = file["models/fox-pro-12m/tokens"]
            ids, inputs = tokens["id"][()].tolist(), tokens["input_id"][()].tolist()
            self.assertEqual(inputs, [0] + ids[:-1])
            self.assertEqual(file["text/content"][()].decode(), TEXT)
            self.assertEqual(file["text/content"].attrs["sha256"], hashlib.sha256(TEXT.encode()).hexdigest())
            starts, ends = tokens["byte_start"][()], tokens["byte_end"][()]
            self.assertEqual((starts[0], ends[-1]), (0, len(TEXT.encode())))
            self.assertTrue(numpy.array_equal(starts[1:], ends[:-1]))
            strings = [string.decode() for string in tokens["string"][()]]
            self.assertEqual(strings, [TEXT[start:end] for start, end in zip(starts, ends)])


class NamesTest(CommandLineTest):
    def names(self, *models):
        path = self.folder / "run.h5"
        arguments = [argument for model in models for argument in ("--model", model)]
        self.done("run", *arguments, "--ids", self.ids_file(length=8), "-o", path, "--force")
        with h5py.File(path) as file:
            return sorted(file["models"])

    def test_default_is_the_folder_s_name(self):
        self.assertEqual(self.names(DATA / "fox-pro"), ["fox-pro"])
        self.assertEqual(self.names(f"{DATA}/fox-pro/"), ["fox-pro"])
        self.assertEqual(self.names(f"{DATA}/fox-pro/../fox-pro/."), ["fox-pro"])

    def test_a_given_name(self):
        self.assertEqual(self.names(f"A_b.c-9={DATA}/fox-pro", f"b={DATA}/fox-pro"), ["A_b.c-9", "b"])

    def test_models_stand_in_the_order_in_which_they_are_named(self):
        path = self.folder / "run.h5"
        order = ["m", "z", "a"]
        self.done("run", *(word for name in order for word in ["--model", f"{name}={DATA}/fox-pro"]), "--ids",
                  self.ids_file(), "-o", path)

        def of_info():
            return [model["name"] for model in json.loads(self.done("info", path, "--json"))["models"]]

        self.assertEqual(of_info(), order)
        told = self.done("heads", path)
        self.assertEqual(sorted(order, key=lambda name: told.index(f"{name}, 64 tokens")), order)
        with h5py.File(path, "r+") as file:  # of an older program
            for name in order:
                del file[f"models/{name}"].attrs["order"]
        self.assertEqual(of_info(), ["m", "a", "z"])

    def test_a_path_with_an_equals_sign_is_a_path(self):
        odd = self.folder / "a=b" / "fox"
        odd.parent.mkdir()
        self.copy_of("fox-pro").rename(odd)
        self.assertEqual(self.names(odd), ["fox"])

    def test_two_equal_names(self):
        self.fails(2, ["two models are named fox-pro", "--model fox-pro-2="], "run", "--model", DATA / "fox-pro",
                   "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", self.folder / "o.h5")

    def test_names_that_are_none(self):
        for name in ["a b", "ä", "", "..", "a:b"]:
            with self.subTest(name):
                self.fails(2, ["is not a name", "--model NAME=DIR"], "run", "--model", f"{name}={DATA}/fox-pro", "--ids",
                           self.ids_file(), "-o", self.folder / "o.h5")

    def test_several_models_share_one_table_of_tokens(self):
        path = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--model", TRANSFORMER, "--text", self.write("text.txt", TEXT), "-o", path)
        with h5py.File(path) as file:
            self.assertEqual(file["models/fox-pro-12m/tokens/id"].id, file["models/transformer-pro-12m/tokens/id"].id)


class OptionsTest(CommandLineTest):
    def losses(self, *extra, fixture="fox-pro"):
        with h5py.File(self.run_fixture(fixture, extra=["--force", *extra])) as file:
            return file[f"models/{fixture}/loss/per_token_loss"][()]

    def test_a_limit_stores_the_text_that_was_read(self):
        text = "The fox ran overwhelmingly far over the hill. Nobody saw it."
        source = self.write("text.txt", text)
        for limit in range(1, 8):
            path = self.folder / "part.h5"
            self.done("run", "--model", "fox=" + str(FOX), "--text", source, "--length", limit, "--keep", "loss", "-o", path,
                      "--force")
            with h5py.File(path) as file:
                content = file["text/content"]
                end = file["models/fox/tokens/byte_end"][-1]
                self.assertEqual(content.asstr()[()], text[:end])
                self.assertEqual(content.attrs["sha256"], hashlib.sha256(text[:end].encode()).hexdigest())
                self.assertEqual(content.attrs["unread_bytes"], len(text) - end)
                self.assertEqual(content.attrs["cut_word"], int(text[end] != " "))
            self.assertEqual(json.loads(self.done("info", path, "--json"))["text"]["bytes"], end)
        self.done("run", "--model", FOX, "--text", source, "--keep", "loss", "-o", path, "--force")
        with h5py.File(path) as file:
            self.assertEqual(list(file["text/content"].attrs), ["sha256"])

    def test_limit(self):
        whole, limited = self.losses(), self.losses("--length", 20)
        self.assertEqual(len(limited), 20)
        self.assertLess(numpy.abs(whole[:20] - limited).max(), 1e-5)
        self.assertEqual(len(self.losses("--length", 1000)), 64)

    def test_one_token(self):
        path = self.folder / "run.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", self.write("one.json", "[7]"), "-o", path)
        self.done("run", "--model", FOX, "--text", "-", "-o", path, "--force", stdin=b"a")
        with h5py.File(path) as file:
            self.assertEqual(file["models/fox-pro-12m/tokens/input_id"][()].tolist(), [0])

    def test_standard_input(self):
        path = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", "-", "-o", path, stdin=TEXT.encode())
        with h5py.File(path) as file:
            self.assertEqual(file["text/content"][()].decode(), TEXT)

    def test_bytes_that_are_not_utf8_are_replaced_on_request(self):
        path = self.folder / "run.h5"
        text = self.write("text.txt", b"ab\xff\xfecd")
        self.done("run", "--model", FOX, "--text", text, "--invalid-utf8", "replace", "-o", path)
        with h5py.File(path) as file:
            self.assertEqual(file["text/content"][()].decode(), "ab\ufffd\ufffdcd")

    def test_pruning_tolerance_is_in_the_file(self):
        for given, kept in [("0", 0.0), ("0.001", 0.001)]:
            with h5py.File(self.run_fixture(extra=["--force", "--pruning", given])) as file:
                self.assertEqual(file["models/fox-pro"].attrs["pruning_tolerance"], kept)
        with h5py.File(self.run_fixture(extra=["--force"])) as file:
            self.assertEqual(file["models/fox-pro"].attrs["pruning_tolerance"], 2.0**-24)

    def test_a_pruning_tolerance_of_the_checkpoint_that_is_none(self):
        model = self.copy_of("fox-pro")
        set_config(model, log_pruning_tolerance=0)
        output = self.folder / "x.h5"
        command = ["run", "--model", model, "--ids", self.ids_file(), "-o", output]
        message = self.fails(1, [f"{model}/config.json: log_pruning_tolerance is 0: it must be below 0", "--pruning"], *command,
                             output=output)
        self.assertNotIn("--pruning 1", message)
        self.done("info", model)
        self.done(*command, "--pruning", "0.001")

    def gates(self, *interventions):
        extra = [word for text in interventions for word in ("--intervene", text)]
        with h5py.File(self.run_fixture(extra=["--force", *extra])) as file:
            model = file["models/fox-pro"]
            layers = [numpy.diff(model[f"layers/{layer:02}/cumulative_log_gate"][()], prepend=0) for layer in range(2)]
            return layers, model.attrs["intervention"], model["loss/per_token_loss"][()]

    def test_a_change_of_all_gates_is_left_out_of_models_that_have_none(self):
        text = self.write("text.txt", TEXT)
        output = self.folder / "both.h5"
        models = ("--model", FOX, "--model", TRANSFORMER)
        result = self.foxscope("run", *models, "--text", text, "-o", output, "--intervene", "*:*:one", "--intervene",
                               "0:0:cut")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"transformer-pro-12m: has no gates: --intervene '*:*:one' is left out of its run", result.stderr)
        with h5py.File(output) as file:
            self.assertEqual(json.loads(file["models/fox-pro-12m"].attrs["intervention"]), ["*:*:one", "0:0:cut"])
            self.assertEqual(json.loads(file["models/transformer-pro-12m"].attrs["intervention"]), ["0:0:cut"])
            self.assertTrue((file["models/fox-pro-12m/layers/03/cumulative_log_gate"][()] == 0).all())
        self.fails(2, ["*:*:one", "has no gates"], "run", "--model", TRANSFORMER, "--model", f"again={TRANSFORMER}", "--text",
                   text, "-o", self.folder / "no.h5", "--intervene", "*:*:one", output=self.folder / "no.h5")
        self.fails(2, ["0:0:one", "has no gates"], "run", *models, "--text", text, "-o", self.folder / "no.h5",
                   "--intervene", "0:0:one", output=self.folder / "no.h5")

    def test_interventions(self):
        before, none, loss = self.gates()
        self.assertEqual(none, "")

        layers, text, changed = self.gates("0:1:one")
        self.assertIn("0:1:one", text)
        self.assertTrue((layers[0][1] == 0).all())
        self.assertTrue(numpy.allclose(layers[0][0], before[0][0]))
        self.assertGreater(numpy.abs(changed - loss).max(), 1e-3)

        layers, _, _ = self.gates("*:*:constant=0.5")
        self.assertTrue(numpy.allclose(layers, math.log(0.5)))

        layers, _, _ = self.gates("0:*:scale=2")
        self.assertTrue(numpy.allclose(layers[0], 2 * before[0], atol=1e-6))

        layers, _, _ = self.gates("0:0:mean")
        mean = numpy.exp(before[0][0]).mean()
        self.assertTrue(numpy.allclose(layers[0][0], numpy.log(mean), atol=1e-5))

        layers, _, _ = self.gates("0:0:zero@10")
        self.assertEqual(layers[0][0][10], -1000)
        self.assertTrue(numpy.allclose(numpy.delete(layers[0][0], 10), numpy.delete(before[0][0], 10)))

        layers, _, changed = self.gates("1:1:cut")
        self.assertTrue(numpy.allclose(layers, before, atol=1e-5))
        self.assertGreater(numpy.abs(changed - loss).max(), 1e-3)

    def test_bos_is_asked_for_where_none_is_known(self):
        folder = self.copy_of("fox-pro")
        set_config(folder, bos_token_id=None)
        ids = self.write("ids.json", "[1, 2, 3]")
        self.fails(2, "--bos", "run", "--model", folder, "--ids", ids, "-o", self.folder / "o.h5")
        self.done("run", "--model", folder, "--ids", ids, "--bos", 0, "-o", self.folder / "o.h5")


if __name__ == "__main__":
    unittest.main()
