"""The real lm-evaluation-harness against `foxscope serve`: every log-likelihood, flag and text against runs in process."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import h5py
import numpy
import tokenizers
from serve_support import Server
from support import FOX, SOURCE, CommandLineTest

BOS = 0
MAX_LENGTH = 128
TASKS = ["foxscope_endings", "foxscope_last_word", "foxscope_pages", "foxscope_sentences"]


def harness():
    """The program of the harness, from an environment of its own or the PATH."""
    own = SOURCE / ".venv" / "harness" / "bin" / "lm_eval"
    return os.environ.get("FOXSCOPE_LM_EVAL") or (str(own) if own.exists() else shutil.which("lm_eval"))


def with_own_tasks(folder):
    """The program of the harness that knows no tasks but those of --include_path."""
    program = folder / "lm_eval"
    python = pathlib.Path(harness()).parent / "python3"
    program.write_text(f'#!/bin/sh\nexec "{python}" "{SOURCE}/tests/harness/own_tasks.py" "$@"\n')
    program.chmod(0o755)
    return str(program)


@unittest.skipUnless(harness(), "lm_eval is not installed: ./dev test installs it where PyPI is reached")
class HarnessTest(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FOX)
        cls.addClassCleanup(cls.server.stop)
        cls.tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))

    def evaluate(self, folder, *options, model_args=""):
        """Runs the harness on the local tasks; returns its results and samples by task."""
        tasks = self.folder / "tasks"
        if not tasks.exists():
            tasks.mkdir()
            for path in (SOURCE / "tests" / "harness" / "tasks").iterdir():
                (tasks / path.name).write_text(path.read_text().replace("DATA", str(tasks)))
        output = self.folder / folder
        environment = {**os.environ, "HF_HOME": str(self.folder / "hub"), "HF_HUB_OFFLINE": "1",
                       "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "NO_PROXY": "127.0.0.1"}
        arguments = (f"model=fox-pro-12m,base_url={self.server.url}/v1/completions,max_length={MAX_LENGTH}" + model_args)
        result = subprocess.run([with_own_tasks(self.folder), "run", "--model", "local-completions", "--model_args",
                                 arguments, "--tasks", *TASKS, "--include_path", str(tasks), "--output_path", str(output),
                                 "--log_samples", *options], capture_output=True, text=True, env=environment, timeout=600)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        (results,) = output.rglob("results_*.json")
        samples = {}
        for task in TASKS:
            (path,) = output.rglob(f"samples_{task}_*.jsonl")
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            samples[task] = sorted(lines, key=lambda sample: sample["doc_id"])
        return json.loads(results.read_text())["results"], samples

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def likelihood(self, read, predicted):
        """The sum of log p of tokens at the end of those that are read."""
        everything = read + predicted
        file = self.write("ids.json", json.dumps({"input_ids": everything[:-1], "labels": everything[1:]}))
        run = self.folder / "run.h5"
        self.done("run", "--model", "m=" + str(FOX), "--ids", file, "-o", run, "--keep", "loss,logits", "--force")
        with h5py.File(run) as stored:
            logits = stored["models/m/logits"][-len(predicted):].astype(numpy.float64)
        log_p = logits - logits.max(-1, keepdims=True)
        log_p -= numpy.log(numpy.exp(log_p).sum(-1, keepdims=True))
        return log_p[range(len(predicted)), predicted].sum()

    def pairs(self, asked):
        """What the harness asks of contexts and endings: of each the likelihood, whether it is the likeliest, and its
        tokens. Spaces between the two are the ending's."""
        expected = []
        for (context, _), scored in zip(asked, self.scores([context + ending for context, ending in asked])):
            own = scored[len(self.ids(context.rstrip())):]
            expected.append((-sum(surprisal for surprisal, _ in own), all(rank == 1 for _, rank in own), len(own)))
        return expected

    def assert_likelihood(self, response, expected):
        self.assertLess(abs(float(response[0]) - expected[0]), 1e-4 * expected[2])
        self.assertEqual(str(response[1]), str(expected[1]))

    def test_scores_are_those_in_process(self):
        results, samples = self.evaluate("out", "--batch_size", "4", model_args=",num_concurrent=4")
        asked = [(arguments["arg_0"], arguments["arg_1"]) for task in ["foxscope_endings", "foxscope_last_word"]
                 for sample in samples[task] for arguments in sample["arguments"].values()]
        expected = dict(zip(asked, self.pairs(asked)))
        right, right_by_length = [], []
        for sample in samples["foxscope_endings"]:
            likelihoods = []
            for n, response in enumerate(sample["resps"]):
                arguments = sample["arguments"][f"gen_args_{n}"]
                one = expected[arguments["arg_0"], arguments["arg_1"]]
                self.assert_likelihood(response[0], one)
                likelihoods.append(one[0])
            endings = sample["doc"]["endings"]
            right.append(numpy.argmax(likelihoods) == sample["doc"]["label"])
            lengths = [len(ending) for ending in endings]
            right_by_length.append(numpy.argmax(numpy.divide(likelihoods, lengths)) == sample["doc"]["label"])
        self.assertAlmostEqual(results["foxscope_endings"]["acc,none"], numpy.mean(right))
        self.assertAlmostEqual(results["foxscope_endings"]["acc_norm,none"], numpy.mean(right_by_length))

        words = []
        for sample in samples["foxscope_last_word"]:
            arguments = sample["arguments"]["gen_args_0"]
            one = expected[arguments["arg_0"], arguments["arg_1"]]
            self.assert_likelihood(sample["resps"][0][0], one)
            words.append(one)
        self.assertLess(abs(results["foxscope_last_word"]["perplexity,none"]
                            / numpy.exp(-numpy.mean([value for value, _, _ in words])) - 1), 1e-3)
        self.assertAlmostEqual(results["foxscope_last_word"]["acc,none"], numpy.mean([greedy for _, greedy, _ in words]))

        total, size, count = 0, 0, 0
        for sample in samples["foxscope_pages"]:
            page = sample["doc"]["page"]
            ids = self.ids(page)
            expected = 0
            # Windows of the harness: those after the first begin with tokens before them, and have the server's BOS.
            size_of_window = MAX_LENGTH - 2
            for start in range(0, len(ids), size_of_window):
                window = ids[start:start + size_of_window]
                reach = ids[start + len(window) - size_of_window - 1:start] if start else []
                expected += self.likelihood([BOS] + reach, window)
            response = sample["resps"][0][0]
            value = float(response[0] if isinstance(response, list) else response)
            self.assertLess(abs(value - expected), 1e-4 * len(ids), page[:40])
            total, size, count = total + expected, size + len(page.encode()), count + len(re.split(r"\s+", page))
        self.assertLess(abs(results["foxscope_pages"]["bits_per_byte,none"] + total / size / numpy.log(2)), 1e-4)
        self.assertLess(abs(results["foxscope_pages"]["word_perplexity,none"] / numpy.exp(-total / count) - 1), 1e-3)

        for sample in samples["foxscope_sentences"]:
            text = self.done("generate", "--model", FOX, "--prompt", sample["doc"]["beginning"], "--max-tokens", 24)[:-1]
            self.assertEqual(sample["resps"][0][0], text.partition(".")[0].partition("<|endoftext|>")[0])

    def test_texts_instead_of_ids_and_one_at_a_time(self):
        _, by_ids = self.evaluate("ids", "--batch_size", "1")
        _, by_text = self.evaluate("text", "--batch_size", "2", model_args=",tokenized_requests=False,num_concurrent=2")
        for task in ["foxscope_endings", "foxscope_last_word", "foxscope_sentences"]:
            for one, other in zip(by_ids[task], by_text[task]):
                for a, b in zip(one["resps"], other["resps"]):
                    if task == "foxscope_sentences":
                        self.assertEqual(a, b)
                    else:
                        self.assertLess(abs(float(a[0][0]) - float(b[0][0])), 2e-3)
                        self.assertEqual(a[0][1], b[0][1])


if __name__ == "__main__":
    unittest.main()
