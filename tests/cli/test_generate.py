"""`foxscope generate`: the continuation, its figures, and what is refused."""

import json
import signal
import subprocess
import unittest

import h5py
import numpy
import tokenizers
from support import DATA, FOX, PROGRAM, TEXT, TRANSFORMER, CommandLineTest, set_config

FIELDS = ["model", "text", "ids", "log_probabilities", "prompt_ids", "temperature", "seed", "tokens_per_second",
          "seconds", "held_keys", "pruning_tolerance", "device", "dtype"]


# Threads that wait for each other at every token are slow where other tests run beside.
ALONE = {"OMP_NUM_THREADS": "1"}


class GenerateTest(CommandLineTest):
    def foxscope(self, *arguments, **options):
        return super().foxscope(*arguments, environment=ALONE, **options)

    def generate(self, *arguments, **options):
        return json.loads(self.done("generate", *arguments, "--json", **options))

    def test_text_is_that_of_the_tokens(self):
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        summary = self.generate("--model", FOX, "--prompt", TEXT, "--max-tokens", 40)
        self.assertEqual(list(summary), FIELDS)
        self.assertEqual(summary["prompt_ids"], [0] + tokenizer.encode(TEXT).ids)
        self.assertEqual(len(summary["ids"]), 40)
        self.assertEqual(summary["text"], tokenizer.decode(summary["ids"]))
        self.assertEqual(numpy.shape(summary["held_keys"]), (8, 4))
        streamed = self.done("generate", "--model", FOX, "--prompt", TEXT, "--max-tokens", 40)
        self.assertEqual(streamed, summary["text"] + "\n")
        path = self.write("prompt.txt", TEXT)
        self.assertEqual(self.done("generate", "--model", FOX, "--text", path, "--max-tokens", 40), streamed)
        self.assertEqual(self.done("generate", "--model", FOX, "--text", "-", "--max-tokens", 40, stdin=TEXT.encode()),
                         streamed)

    def test_log_probabilities_are_the_losses_of_a_run_over_the_same_tokens(self):
        for model in [FOX, TRANSFORMER]:
            summary = self.generate("--model", model, "--prompt", TEXT, "--max-tokens", 30)
            inputs = summary["prompt_ids"] + summary["ids"]
            ids = self.write("both.json", json.dumps({"input_ids": inputs[:-1], "labels": inputs[1:]}))
            run = self.folder / "run.h5"
            self.done("run", "--model", "m=" + str(model), "--ids", ids, "-o", run, "--keep", "loss", "--force")
            with h5py.File(run) as file:
                loss = file["models/m/loss/per_token_loss"][-30:]
            self.assertLess(numpy.abs(loss + summary["log_probabilities"]).max(), 2e-4)

    def test_an_empty_prompt_is_bos_alone(self):
        empty = self.write("empty.txt", "")
        self.assertEqual(self.generate("--model", FOX, "--prompt", "", "--max-tokens", 3)["prompt_ids"], [0])
        self.assertEqual(self.generate("--model", FOX, "--text", empty, "--max-tokens", 3)["prompt_ids"], [0])
        other = self.generate("--model", FOX, "--prompt", "", "--max-tokens", 3, "--bos", 7)
        self.assertEqual(other["prompt_ids"], [7])

    def test_ids_as_they_are_and_behind_bos(self):
        array = self.write("array.json", "[5, 6]")
        both = self.write("object.json", '{"input_ids": [5, 6], "labels": [6, 7]}')
        self.assertEqual(self.generate("--model", DATA / "fox-pro", "--ids", array, "--max-tokens", 1)["prompt_ids"],
                         [0, 5, 6])
        self.assertEqual(self.generate("--model", DATA / "fox-pro", "--ids", both, "--max-tokens", 1)["prompt_ids"], [5, 6])

    def test_temperature_needs_a_seed_to_differ(self):
        def ids(*arguments):
            return self.generate("--model", FOX, "--prompt", TEXT, "--max-tokens", 25, *arguments)["ids"]

        greedy = ids()
        self.assertEqual(ids("--seed", 3), greedy)
        self.fails(2, ["--seed", f"{2**64} is too large"], "generate", "--model", FOX, "--prompt", "x", "--seed", 2**64)
        warm = ids("--temperature", 1, "--seed", 3)
        self.assertEqual(ids("--temperature", 1, "--seed", 3), warm)
        self.assertNotEqual(ids("--temperature", 1, "--seed", 4), warm)
        self.assertNotEqual(warm, greedy)
        self.assertEqual(ids("--temperature", 1e-9, "--seed", 4), greedy)

    def test_forgotten_keys_leave_the_cache_and_nothing_changes(self):
        words = self.write("long.txt", TEXT * 60)
        arguments = ("--model", FOX, "--text", words, "--max-tokens", 20)
        exact = self.generate(*arguments, "--pruning", 0)
        pruned = self.generate(*arguments)
        everything = len(exact["prompt_ids"]) + 19
        self.assertTrue(numpy.all(numpy.array(exact["held_keys"]) == everything))
        self.assertLess(numpy.min(pruned["held_keys"]), everything / 2)
        self.assertEqual(pruned["ids"], exact["ids"])
        self.assertLess(numpy.abs(numpy.subtract(pruned["log_probabilities"], exact["log_probabilities"])).max(), 1e-4)

    def test_interventions(self):
        plain = self.generate("--model", FOX, "--prompt", TEXT, "--max-tokens", 5)
        changed = self.generate("--model", FOX, "--prompt", TEXT, "--max-tokens", 5, "--intervene", "*:*:one")
        self.assertNotEqual(plain["log_probabilities"], changed["log_probabilities"])
        self.fails(2, ["0:0:mean", "constant=f"], "generate", "--model", FOX, "--prompt", TEXT, "--intervene",
                   "0:0:mean")

    def test_no_tokens_are_none(self):
        summary = self.generate("--model", FOX, "--prompt", TEXT, "--max-tokens", 0)
        self.assertEqual((summary["ids"], summary["text"], summary["tokens_per_second"]), ([], "", None))

    def test_verbose_says_what_was_held(self):
        result = self.foxscope("generate", "--model", FOX, "--prompt", TEXT, "--max-tokens", 5, "-v")
        self.assertRegex(result.stderr.decode(), r"tokens/s\); keys held: \d+ a head on average")

    def test_ctrl_c(self):
        with subprocess.Popen([PROGRAM, "generate", "--model", FOX, "--prompt", TEXT, "--max-tokens", "100000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(20)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"interrupted", error)

    def test_a_reader_that_goes_away_ends_it(self):
        with subprocess.Popen([PROGRAM, "generate", "--model", FOX, "--prompt", TEXT, "--max-tokens", "100000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(process.wait(timeout=60), 0)


class RefusalTest(CommandLineTest):
    def refuses(self, code, words, *arguments, **options):
        self.fails(code, words, "generate", "--model", FOX, *arguments, **options)

    def test_inputs(self):
        self.refuses(2, "needs one input")
        self.refuses(2, "needs one input", "--prompt", "a", "--text", "b")
        self.refuses(1, "nowhere.txt", "--text", self.folder / "nowhere.txt")
        self.refuses(2, "--prompt: byte 1 is not UTF-8", "--prompt", "a\udcff")
        self.refuses(1, ["ids.json", "9999"], "--ids", self.write("ids.json", "[1, 9999]"))
        self.refuses(1, ["none.json", "no token ids"], "--ids", self.write("none.json", "[]"))

    def test_options(self):
        self.refuses(2, "--max-tokens -1", "--prompt", "a", "--max-tokens", -1)
        self.refuses(2, "--temperature -1", "--prompt", "a", "--temperature", -1)
        self.refuses(2, "--pruning 1", "--prompt", "a", "--pruning", 1)
        self.refuses(2, "--bos 8192", "--prompt", "a", "--bos", 8192)
        self.refuses(2, "--dtype", "--prompt", "a", "--dtype", "int8")
        self.refuses(2, "--device", "--prompt", "a", "--device", "tpu")

    def test_more_than_fits(self):
        self.refuses(1, ["GiB", "--max-tokens"], "--prompt", "a", "--max-tokens", 1 << 40)

    def test_no_tokenizer(self):
        ids = self.write("ids.json", "[1, 2]")
        self.fails(1, ["no tokenizer", "--json"], "generate", "--model", DATA / "fox-pro", "--ids", ids)

    def test_no_bos(self):
        folder = self.copy_of("fox-pro")
        set_config(folder, bos_token_id=None)
        ids = self.write("ids.json", "[1, 2]")
        self.fails(2, "--bos", "generate", "--model", folder, "--ids", ids, "--json")


if __name__ == "__main__":
    unittest.main()
