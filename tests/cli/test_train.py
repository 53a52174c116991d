"""`foxscope train`: the goldens' steps, what it writes, going on after it was killed or interrupted, bad input."""

import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

import numpy
import safetensors.numpy
from support import DATA, FOX, PROGRAM, CommandLineTest, set_config

TRAINING = DATA / "training"
EXACT = ["step", "tokens", "loss", "grad_norm", "lr"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def exact(folder):
    """What a log has that does not depend on the clock."""
    return [[line[key] for key in EXACT] for line in lines(folder / "log.jsonl")]


def last_checkpoint(folder):
    return sorted((folder / "checkpoints").iterdir())[-1]


class TrainTest(CommandLineTest):
    def golden_arguments(self, output, name="fox-pro", *extra):
        options = {"--recipe": [TRAINING / "recipe.json"], "--init": [TRAINING / name / "init"],
                   "--data": [TRAINING / "ids.safetensors"], "--length": [128], "--order": ["sequential"]}
        return self.command(options, output, extra)

    def command(self, options, output, extra):
        """The command with options, those of `extra` in the place of their own."""
        for word in extra:
            if str(word).startswith("--"):
                own = options[word] = []
            else:
                own.append(word)
        words = [word for option, values in options.items() for word in [option, *values]]
        return ["train", *words, "-o", output]

    def text_arguments(self, output, *extra):
        data = self.write("book.txt", "The fox ran over the hill, and the hill was green. " * 400)
        config = self.write("config.json", json.dumps({
            "model_type": "forgetting_transformer-project_fox", "vocab_size": 8192, "hidden_size": 32,
            "num_hidden_layers": 2, "num_heads": 2, "bos_token_id": 0, "qk_norm": True, "use_k_shift": True,
            "use_v_shift": True, "use_output_gate": True, "use_output_norm": True}))
        options = {"--config": [config], "--tokenizer": [FOX], "--data": [data], "--length": [64],
                   "--batch-tokens": [256], "--max-tokens": [2560], "--lr": [0.01]}
        return self.command(options, output, extra)

    def setUp(self):
        super().setUp()
        self.environment = {"XDG_CACHE_HOME": str(self.folder / "cache")}

    def trained(self, arguments):
        return self.done(*arguments, environment=self.environment)

    def wait_for_steps(self, process, output, steps):
        deadline = time.monotonic() + 120
        log = output / "log.jsonl"
        while not log.exists() or log.read_bytes().count(b"\n") < steps:
            if process.poll() is not None:
                return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)

    def expect_equal(self, output, whole):
        self.assertEqual(exact(output), exact(whole))
        for name in ["model.safetensors", "optimizer.safetensors"]:
            self.assertEqual((last_checkpoint(output) / name).read_bytes(), (last_checkpoint(whole) / name).read_bytes())
        self.assertEqual(lines(output / "evaluation.jsonl"), lines(whole / "evaluation.jsonl"))

    def expect_golden(self, output, name):
        golden = safetensors.numpy.load_file(TRAINING / name / "golden.safetensors")
        log = lines(output / "log.jsonl")
        self.assertEqual([line["step"] for line in log], list(range(1, 31)))
        self.assertEqual(log[-1]["tokens"], 15360)
        numpy.testing.assert_allclose([line["loss"] for line in log], golden["loss"], rtol=0, atol=3e-5)
        numpy.testing.assert_allclose([line["grad_norm"] for line in log], golden["grad_norm"], rtol=1.5e-3)
        numpy.testing.assert_allclose([line["lr"] for line in log], golden["lr"], rtol=0, atol=1e-6 * 0.01)
        weights = safetensors.numpy.load_file(output / "checkpoints" / "step-000030" / "model.safetensors")
        start = safetensors.numpy.load_file(TRAINING / name / "init" / "model.safetensors")
        off = change = 0
        self.assertEqual(set(weights), set(start))
        for parameter, values in weights.items():
            self.assertEqual(values.dtype, numpy.float32)
            difference = values.astype(numpy.float64) - golden[parameter]
            self.assertLess(numpy.abs(difference).max(), 2e-4, parameter)
            off += (difference**2).sum()
            change += ((golden[parameter].astype(numpy.float64) - start[parameter])**2).sum()
        self.assertLess(math.sqrt(off / change), 2e-4)


class GoldenTest(TrainTest):
    def check(self, name):
        output = self.folder / name
        said = self.trained(self.golden_arguments(output, name))
        self.assertIn("step 30/30", said)
        self.expect_golden(output, name)

    def test_fox(self):
        self.check("fox-pro")

    def test_transformer(self):
        self.check("transformer-pro")

    def test_micro_batches_change_rounding_alone(self):
        self.trained(self.golden_arguments(self.folder / "whole"))
        self.trained(self.golden_arguments(self.folder / "parts", "fox-pro", "--micro-batch-tokens", 128))
        for whole, parts in zip(exact(self.folder / "whole"), exact(self.folder / "parts"), strict=True):
            self.assertEqual(whole[:2], parts[:2])
            numpy.testing.assert_allclose(whole[2:], parts[2:], rtol=1e-3)


class OutputTest(TrainTest):
    def test_what_a_training_writes(self):
        output = self.folder / "out"
        held_out = self.write("held-out.txt", "Nobody saw the fox, for the fox was quick. " * 60)
        said = self.trained(self.text_arguments(output, "--save-every", 4, "--keep", "all", "--eval", held_out))
        # One text: its rows are blocks of it, of one size.
        self.assertRegex(said, r"held-out loss \d+\.\d{4} ± \d+\.\d{4} over \d+ rows of one document")
        self.assertEqual([line["step"] for line in lines(output / "log.jsonl")], list(range(1, 11)))
        self.assertEqual(sorted(path.name for path in (output / "checkpoints").iterdir()),
                         ["step-000004", "step-000008", "step-000010"])
        measures = lines(output / "evaluation.jsonl")
        self.assertEqual([line["step"] for line in measures], [4, 8, 10])
        for line in measures:
            self.assertEqual(numpy.array(line["decay_time"]).shape, (2, 2))
            # f is near 0.5 at the start
            self.assertTrue(all(1 < time < 2 for layer in line["decay_time"] for time in layer))
            for losses in [line["loss_by_position"], line["training_loss_by_position"]]:
                self.assertEqual(losses["edges"][0], 0)
                self.assertEqual(losses["edges"][-1], 64)
                self.assertEqual(len(losses["loss"]), len(losses["edges"]) - 1)
            widths = numpy.diff(line["loss_by_position"]["edges"])
            mean = (widths * numpy.array(line["loss_by_position"]["loss"])).sum() / 64
            self.assertAlmostEqual(mean, line["loss"], places=9)
            self.assertEqual(line["error_over"], {"blocks": line["rows"], "tokens": 64,
                                                  "degrees_of_freedom": line["error_over"]["degrees_of_freedom"]})
            self.assertAlmostEqual(line["error_over"]["degrees_of_freedom"], line["rows"] - 1, places=9)
        first = [line["loss"] for line in lines(output / "log.jsonl")[:4]]
        widths = numpy.diff(measures[0]["training_loss_by_position"]["edges"])
        mean = (widths * numpy.array(measures[0]["training_loss_by_position"]["loss"])).sum() / 64
        self.assertAlmostEqual(mean, sum(first) / 4, places=6)
        # Every other command opens its checkpoints.
        checkpoint = output / "checkpoints" / "step-000010"
        self.assertIn("584,420", self.done("info", checkpoint))
        text = self.write("text.txt", "The fox ran over the hill.")
        self.done("run", "--model", checkpoint, "--text", text, "-o", self.folder / "run.h5")
        recipe = json.loads((output / "recipe.json").read_text())
        self.assertEqual(recipe["max_tokens"], 2560)
        self.assertEqual(recipe["config"]["hidden_size"], 32)

    def test_held_out_text_that_is_trained_on_is_told(self):
        options = ["--max-tokens", 256]
        for name, held_out in [("itself", lambda: self.folder / "book.txt"),
                               ("a copy", lambda: self.write("copy.txt", (self.folder / "book.txt").read_bytes()))]:
            with self.subTest(name):
                output = self.folder / name.replace(" ", "-")
                self.text_arguments(output)  # writes the book
                path = held_out()
                done = self.foxscope(*self.text_arguments(output, *options, "--eval", path), environment=self.environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"--eval {path}: is part of --data, so it is trained on too: its loss says nothing about other texts",
                              done.stderr.decode())
        other = self.write("other.txt", "Nobody saw the fox, for the fox was quick. " * 60)
        done = self.foxscope(*self.text_arguments(self.folder / "other", *options, "--eval", other),
                             environment=self.environment)
        self.assertNotIn("trained on too", done.stderr.decode())

    def test_evaluation_is_the_checkpoints_own(self):
        output = self.folder / "out"
        rows = self.folder / "rows.npy"
        numpy.save(rows, numpy.random.default_rng(3).integers(0, 320, (5, 128)))
        self.trained(self.golden_arguments(output, "fox-pro", "--eval", rows))
        result = json.loads(self.done("eval", "loss", "--model", last_checkpoint(output), "--ids", rows, "--json", "-o",
                                      self.folder / "loss.h5"))
        measured = lines(output / "evaluation.jsonl")[-1]
        self.assertAlmostEqual(result["models"][0]["nats_per_token"], measured["loss"], places=5)

    def test_a_loss_that_leaps_is_told_with_its_rows(self):
        rows = self.folder / "rows.npy"
        numpy.save(rows, numpy.concatenate([numpy.full((80, 128), 7), numpy.random.default_rng(4).integers(0, 320, (4, 128))]))
        result = self.foxscope(*self.golden_arguments(self.folder / "out", "fox-pro", "--data", rows, "--max-tokens", 10752,
                                                      "--warmup-tokens", 0))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr.decode(), r"step 21: the loss leaps to .* \(rows 80, 81, 82, 83 of the data\)")
        self.assertEqual(result.stderr.count(b"leaps"), 1)

    def test_only_the_newest_checkpoints_stay(self):
        for keep, left in [("last", ["step-000010"]), ("2", ["step-000008", "step-000010"])]:
            output = self.folder / keep
            self.trained(self.text_arguments(output, "--save-every", 2, "--keep", keep))
            self.assertEqual(sorted(path.name for path in (output / "checkpoints").iterdir()), left)

    def test_the_same_seed_gives_the_same_training(self):
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
            self.trained(self.text_arguments(self.folder / name, "--seed", seed))
        self.assertEqual(exact(self.folder / "a"), exact(self.folder / "b"))
        self.assertNotEqual(exact(self.folder / "a"), exact(self.folder / "c"))

    def test_every_file_of_the_tokenizer_goes_with_a_checkpoint(self):
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        shutil.copy(FOX / "tokenizer.json", tokenizer)
        (tokenizer / "added_tokens.json").write_text("{}")
        output = self.folder / "out"
        self.trained(self.text_arguments(output, "--tokenizer", tokenizer, "--max-tokens", 256))
        for name in ["tokenizer.json", "added_tokens.json"]:
            self.assertEqual((last_checkpoint(output) / name).read_bytes(), (tokenizer / name).read_bytes())

    def test_paths_of_a_recipe_are_meant_from_its_folder(self):
        (self.folder / "recipes").mkdir()
        self.text_arguments(self.folder / "out")
        recipe = self.folder / "recipes" / "mine.json"
        recipe.write_text(json.dumps({"config": "../config.json", "data": ["../book.txt"], "tokenizer": str(FOX), "length": 64,
                                      "batch_tokens": 256, "max_tokens": 512, "lr": 0.01}))
        self.trained(["train", "--recipe", recipe, "-o", self.folder / "out"])
        self.assertEqual(len(lines(self.folder / "out" / "log.jsonl")), 2)


class ResumeTest(TrainTest):
    def start(self, arguments):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **self.environment})

    def test_killed_at_any_moment(self):
        whole = self.folder / "whole"
        held_out = self.write("held-out.txt", "Nobody saw the fox, for the fox was quick. " * 60)
        options = ["--max-tokens", 256 * 30, "--save-every", 3, "--eval", held_out, "--eval-every", 4]
        self.trained(self.text_arguments(whole, *options))
        chance = random.Random(5)
        for turn in range(20):
            output = self.folder / f"killed-{turn}"
            process = self.start(self.text_arguments(output, *options))
            self.wait_for_steps(process, output, chance.randrange(0, 30))
            time.sleep(chance.random() * 0.02)
            process.kill()
            process.communicate()
            if not (output / "recipe.json").exists():
                continue  # nothing had begun
            self.trained(["train", "--resume", output])
            self.expect_equal(output, whole)
            self.assertEqual([path.name for path in (output / "checkpoints").iterdir()], ["step-000030"])
            self.assertTrue((last_checkpoint(output) / "tokenizer.json").exists())
            shutil.rmtree(output)

    def test_interrupted_saves_and_ends(self):
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole))
        output = self.folder / "out"
        process = self.start(self.golden_arguments(output))
        self.wait_for_steps(process, output, 5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertIn(b"--resume", said)
        steps = len(lines(output / "log.jsonl"))
        self.assertEqual(last_checkpoint(output).name, f"step-{steps:06}")
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)

    def test_data_that_shrink_lose_no_step(self):
        data = self.folder / "ids.npy"
        numpy.save(data, safetensors.numpy.load_file(TRAINING / "ids.safetensors")["tokens"].astype(numpy.uint16))
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole, "fox-pro", "--data", data))
        output = self.folder / "out"
        process = self.start(self.golden_arguments(output, "fox-pro", "--data", data))
        self.wait_for_steps(process, output, 3)
        content = data.read_bytes()
        os.truncate(data, len(content) - 100)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, said)
        steps = len(lines(output / "log.jsonl"))
        self.assertRegex(said.decode(), rf"foxscope: {data}: was cut short from {len(content)} to {len(content) - 100} bytes "
                         rf"while it was being read: put the whole file back; step-{steps:06} stays, from which --resume "
                         r"goes on\n\Z")
        self.assertLess(steps, 30)
        data.write_bytes(content)
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)

    def test_a_stop_before_the_first_step_is_told_once(self):
        def stopped():
            # Blocked, the signal waits for the program that takes this process's place.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)

        output = self.folder / "out"
        ended = subprocess.run([PROGRAM, *map(str, self.text_arguments(output))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, **self.environment}, preexec_fn=stopped)
        self.assertEqual(ended.returncode, 130, ended.stderr)
        self.assertRegex(ended.stderr.decode(), r"\Afoxscope: interrupted[^\n]+\n\Z")
        self.assertNotIn(b"saved", ended.stderr)
        self.assertFalse(output.exists())

    def test_a_torn_line_is_cut(self):
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole, "fox-pro", "--save-every", 10, "--keep", "all"))
        output = self.folder / "out"
        shutil.copytree(whole, output)
        for step in [20, 30]:
            shutil.rmtree(output / "checkpoints" / f"step-0000{step}")
        with (output / "log.jsonl").open("a") as log:
            log.write('{"step": 31, "lo')
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)

    def test_what_it_began_with_may_be_gone(self):
        init = self.folder / "init"
        shutil.copytree(TRAINING / "fox-pro" / "init", init)
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole, "fox-pro", "--init", init, "--save-every", 10, "--keep", "all"))
        output = self.folder / "out"
        shutil.copytree(whole, output)
        for step in [20, 30]:
            shutil.rmtree(output / "checkpoints" / f"step-0000{step}")
        shutil.rmtree(init)
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)

    def test_a_config_goes_on_whatever_the_order_of_its_keys(self):
        whole = self.folder / "whole"
        self.trained(self.text_arguments(whole, "--save-every", 4, "--keep", "all"))
        self.assertNotEqual(list(json.loads((self.folder / "config.json").read_text())),
                            sorted(json.loads((self.folder / "config.json").read_text())))
        output = self.folder / "out"
        shutil.copytree(whole, output)
        shutil.rmtree(last_checkpoint(output))
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)

    def test_what_cannot_be_gone_on_with(self):
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole, "fox-pro", "--save-every", 10, "--keep", "all"))
        for step in [20, 30]:
            shutil.rmtree(whole / "checkpoints" / f"step-0000{step}")
        checkpoint = whole / "checkpoints" / "step-000010"

        def refused(words, change):
            output = self.folder / "changed"
            shutil.copytree(whole, output)
            change(output, output / "checkpoints" / checkpoint.name)
            log = (output / "log.jsonl").read_bytes()
            self.fails(1, words, "train", "--resume", output)
            self.assertEqual((output / "log.jsonl").read_bytes(), log)
            shutil.rmtree(output)

        def other_data(output, _):
            rows = safetensors.numpy.load_file(TRAINING / "ids.safetensors")["tokens"]
            safetensors.numpy.save_file({"tokens": rows[::-1].copy()}, output / "other.safetensors")
            recipe = json.loads((output / "recipe.json").read_text())
            recipe["data"] = [str(output / "other.safetensors")]
            (output / "recipe.json").write_text(json.dumps(recipe))

        def other_rate(output, _):
            recipe = json.loads((output / "recipe.json").read_text())
            recipe["lr"] = 0.5
            (output / "recipe.json").write_text(json.dumps(recipe))

        def truncated(_, step):
            path = step / "optimizer.safetensors"
            path.write_bytes(path.read_bytes()[:-100])

        def no_moment(_, step):
            path = step / "optimizer.safetensors"
            tensors = safetensors.numpy.load_file(path)
            tensors.pop("exp_avg.lm_head.weight")
            safetensors.numpy.save_file(tensors, path)

        refused("not the data", other_data)
        refused("was changed", other_rate)
        refused("optimizer.safetensors", truncated)
        refused(["optimizer.safetensors", "exp_avg.lm_head.weight"], no_moment)
        refused("optimizer.safetensors", lambda _, step: (step / "optimizer.safetensors").unlink())
        refused("training.json", lambda _, step: (step / "training.json").write_text("{"))
        refused("another step", lambda _, step: step.rename(step.parent / "step-000011"))
        refused("model.safetensors", lambda _, step: (step / "model.safetensors").unlink())

    def test_a_full_disk_loses_nothing(self):
        whole = self.folder / "whole"
        self.trained(self.golden_arguments(whole, "fox-pro", "--save-every", 10))
        output = self.folder / "out"
        size = (last_checkpoint(whole) / "model.safetensors").stat().st_size
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))}
        result = self.foxscope(*self.golden_arguments(output, "fox-pro", "--save-every", 10), **limit)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]+\n\Z")
        self.assertEqual(list((output / "checkpoints").iterdir()), [])
        self.trained(["train", "--resume", output])
        self.expect_equal(output, whole)


def as_word(argument):
    return argument if isinstance(argument, (bytes, os.PathLike)) else str(argument)


class OddNameTest(TrainTest):
    def test_a_name_that_recipe_json_cannot_hold_is_told(self):
        data = os.fsencode(self.folder) + b"/b\xfccher.txt"
        with open(data, "wb") as file:
            file.write(b"The fox ran over the hill. " * 400)
        output = self.folder / "out"
        arguments = self.text_arguments(output)
        arguments[arguments.index("--data") + 1] = data
        result = subprocess.run([PROGRAM, *map(os.fsencode, map(as_word, arguments))], capture_output=True)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertRegex(result.stderr, rb"\Afoxscope: [^\n]*cher.txt: this name is not UTF-8, and recipe.json[^\n]*link to "
                                        rb"it\n\Z")
        self.assertFalse(output.exists())

    def test_a_folder_may_be_called_anything_and_quiet_says_nothing(self):
        output = os.fsencode(self.folder) + b"/\xe9"
        arguments = [*self.text_arguments(output, "--max-tokens", 256), "-q"]
        result = subprocess.run([PROGRAM, *map(os.fsencode, map(as_word, arguments))], capture_output=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
        self.assertTrue(os.path.exists(output + b"/checkpoints/step-000001"))


class BadInputTest(TrainTest):
    def refused(self, code, words, *extra, arguments=None):
        output = self.folder / "out"
        arguments = arguments or self.golden_arguments(output, "fox-pro", *extra)
        self.fails(code, words, *arguments, environment=self.environment)
        self.assertFalse(output.exists(), "a refused training left its folder")

    def test_options(self):
        self.refused(2, ["--lr", "number"], "--lr", "fast")
        self.refused(2, "--lr 0", "--lr", 0)
        self.refused(2, "--lr", "--lr", "nan")
        self.refused(2, ["--length 0", "from 1"], "--length", 0)
        self.refused(2, ["--batch-tokens 500", "128"], "--batch-tokens", 500)
        self.refused(2, ["--micro-batch-tokens 384", "512"], "--micro-batch-tokens", 384)
        self.refused(2, ["--max-tokens 15361", "15360", "15872"], "--max-tokens", 15361)
        self.refused(2, ["--warmup-tokens 15360", "longer than the training"], "--warmup-tokens", 15360)
        self.refused(2, "cosine or linear or constant", "--schedule", "step")
        self.refused(2, "none or mlp or layers", "--recompute", "all")
        self.refused(2, "shuffled or sequential", "--order", "random")
        self.refused(2, "last, all", "--keep", "none")
        self.refused(2, "--betas", "--betas", 0.9, 1)
        self.refused(2, "--eps", "--eps", 0)
        self.refused(2, "--pruning", "--pruning", 1)
        self.refused(2, "float32 or bfloat16", "--dtype", "float16")
        self.refused(2, "--device", "--dtype", "bfloat16", "--device", "cpu")
        self.refused(2, "adamw", "--optimizer", "lion")
        self.refused(2, "--eval", "--eval-every", 5)
        self.refused(2, "--config", "--config", TRAINING / "fox-pro" / "init")
        self.fails(2, "-o OUT", *self.golden_arguments(self.folder / "out")[:-2])
        self.fails(2, "--resume", "train", "--resume", self.folder, "--lr", 0.1)
        self.fails(1, "is no training: name the folder that `foxscope train` wrote", "train", "--resume", self.folder)

    def test_what_is_missing(self):
        data = TRAINING / "ids.safetensors"
        model = TRAINING / "fox-pro" / "init"
        full = {"--init": model, "--data": data, "--lr": 0.1, "--max-tokens": 65536}
        for missing, words in [("--init", "--config"), ("--data", "--data"), ("--lr", "--lr"), ("--max-tokens", "--max-tokens")]:
            arguments = [word for name, value in full.items() if name != missing for word in (name, value)]
            self.refused(2, words, arguments=["train", *arguments, "-o", self.folder / "out"])

    def test_recipes(self):
        def with_recipe(content):
            path = self.write("recipe.json", content)
            return ["train", "--recipe", path, "--init", TRAINING / "fox-pro" / "init", "--data",
                    TRAINING / "ids.safetensors", "-o", self.folder / "out"]

        self.refused(1, ["recipe.json", "learning_rate"], arguments=with_recipe('{"learning_rate": 1}'))
        self.refused(1, "not JSON", arguments=with_recipe('{"lr": '))
        self.refused(1, "object", arguments=with_recipe("[1]"))
        self.refused(1, ["recipe.json", "lr", "number"], arguments=with_recipe('{"lr": "fast"}'))
        self.refused(1, ["recipe.json", "lr -1"], arguments=with_recipe('{"lr": -1, "max_tokens": 65536}'))
        self.refused(1, ["recipe.json", "deterministic"], arguments=with_recipe('{"deterministic": 1}'))
        self.refused(1, ["recipe.json: the key 'lr' is given twice: leave one of them out"],
                     arguments=with_recipe('{"lr": 1, "max_tokens": 65536, "lr": 0.1}'))
        self.refused(1, ["recipe.json: the key 'config.hidden_size' is given twice"],
                     arguments=with_recipe('{"config": {"hidden_size": 1, "x": {"lr": 1}, "hidden_size": 2}, "lr": 1}'))
        self.refused(1, ["recipe.json", "deeper than 256 levels"], arguments=with_recipe("[" * 400_000))
        self.refused(1, "missing.json", arguments=["train", "--recipe", self.folder / "missing.json", "-o", self.folder / "out"])

    def test_misspelt_keys_of_a_config(self):
        output = self.folder / "out"
        for key, value, meant in [("fgate_typ", "none", "fgate_type"), ("use_output_gat", True, "use_output_gate"),
                                  ("use_k_shif", False, "use_k_shift")]:
            arguments = self.text_arguments(output)
            set_config(self.folder, **{key: value})
            words = [f'"{key}" is', f'did you mean "{meant}"?', "correct it or remove it"]
            self.refused(1, words, arguments=arguments)
            recipe = self.write("recipe.json", json.dumps({"config": json.loads((self.folder / "config.json").read_text())}))
            at = arguments.index("--config")
            self.refused(1, words, arguments=arguments[:at] + ["--recipe", recipe] + arguments[at + 2:])

    def test_data(self):
        output = self.folder / "out"
        self.refused(1, "missing.npy", "--data", self.folder / "missing.npy")
        numpy.save(self.folder / "large.npy", numpy.full((4, 128), 320))
        self.refused(1, ["320"], "--data", self.folder / "large.npy")
        numpy.save(self.folder / "short.npy", numpy.zeros(100, numpy.int32))
        self.refused(1, "short.npy", "--data", self.folder / "short.npy")
        empty = self.write("empty.txt", "")
        for option in ["--data", "--eval"]:
            self.refused(1, "empty.txt: holds no text: name a file or a folder that holds some",
                         arguments=self.text_arguments(output, option, empty))
        no_tokenizer = [word for word in self.text_arguments(output) if word not in ("--tokenizer", FOX)]
        self.refused(2, "--tokenizer", arguments=no_tokenizer)
        set_config(self.folder, vocab_size=500)
        arguments = self.text_arguments(output)
        set_config(self.folder, vocab_size=500)
        self.refused(1, ["8192", "500"], arguments=arguments)

    def test_the_folder_exists(self):
        output = self.folder / "out"
        output.mkdir()
        kept = output / "file.txt"
        kept.write_text("mine")
        self.fails(1, ["out", "exists"], *self.golden_arguments(output))
        self.assertEqual(kept.read_text(), "mine")
        self.trained(self.golden_arguments(self.folder / "done", "fox-pro", "--max-tokens", 2048, "--warmup-tokens", 0))
        self.fails(1, "--resume", *self.golden_arguments(self.folder / "done"))

    def test_too_little_memory(self):
        many = 2**33
        message = self.fails(1, [f"--micro-batch-tokens {many}", "GiB"],
                             *self.golden_arguments(self.folder / "out", "fox-pro", "--batch-tokens", many, "--max-tokens", many,
                                                    "--warmup-tokens", 0, "--micro-batch-tokens", many))
        fitting = int(message.split("use --micro-batch-tokens ")[1])
        self.assertEqual(many % fitting, 0)
        self.assertEqual(fitting % 128, 0)

    def test_a_model_that_cannot_be_trained(self):
        copy = self.copy_of("gpt2")
        set_config(copy, scale_attn_by_inverse_layer_idx=True)
        self.refused(1, "scale_attn_by_inverse_layer_idx", "--init", copy)

    def test_gates_that_begin_long(self):
        """By the first step's measures the heads forget over the times that were asked for."""
        output = self.folder / "long"
        self.trained(self.text_arguments(output, "--max-tokens", 256, "--save-every", 1, "--gate-decay-times", 4, 256))
        line = json.loads((output / "evaluation.jsonl").read_text().splitlines()[0])
        for layer in line["decay_time"]:
            for time, expected in zip(layer, [4, 256], strict=True):
                self.assertLess(abs(math.log(time / expected)), 0.5, layer)
        self.assertEqual(json.loads((output / "recipe.json").read_text())["gate_decay_times"], [4, 256])

    def test_gates_that_cannot_begin(self):
        arguments = self.text_arguments(self.folder / "out")
        for values, words in [({"fgate_bias_init": True}, "fgate_bias_init"), ({"fgate_type": "fixed"}, "decay_time_min"),
                              ({"fgate_type": "fixed", "decay_time_min": 8, "decay_time_max": 4}, "decay_time_max")]:
            arguments = self.text_arguments(self.folder / "out")
            set_config(self.folder, **values)
            self.refused(1, words, arguments=arguments)

    def test_a_loss_that_is_no_number(self):
        output = self.folder / "out"
        result = self.foxscope(*self.golden_arguments(output, "fox-pro", "--lr", 1e30, "--init-lr", 0.001, "--clip", 0,
                                                      "--save-every", 1, "--warmup-tokens", 2048))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr.decode(), r"foxscope: step \d+: the .* is -?(nan|inf).*rows \d+.*step-0000\d\d stays")
        checkpoint = last_checkpoint(output)
        self.done("info", checkpoint)
        for values in safetensors.numpy.load_file(checkpoint / "model.safetensors").values():
            self.assertTrue(numpy.isfinite(values).all())


if __name__ == "__main__":
    unittest.main()
