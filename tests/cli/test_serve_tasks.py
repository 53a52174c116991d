"""The scripts of resources/harness with the harness's own tasks on a few items: every score against runs in process."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import numpy
import tokenizers
from support import FOX, PROGRAM, SOURCE, CommandLineTest
from test_serve_harness import harness, with_own_tasks

ITEMS = json.loads((SOURCE / "tests" / "harness" / "items.json").read_text())
# Where the tasks lie among the harness's own.
FOLDERS = {"wikitext": "wikitext/wikitext", "lambada_openai": "lambada/lambada_openai", "piqa": "piqa/piqa",
           "hellaswag": "hellaswag/hellaswag", "winogrande": "winogrande/default", "arc_easy": "arc/arc_easy",
           "arc_challenge": "arc/arc_challenge", "copa": "super_glue/copa/default", "boolq": "super_glue/boolq/default",
           "openbookqa": "openbookqa/openbookqa", "sciq": "sciq/sciq"}
LONGBENCH = [name for name in ITEMS if name.startswith("longbench_")]


def harness_folder():
    """Where the tasks of the harness are, and what its environment lacks for LongBench."""
    python = pathlib.Path(harness()).parent / "python3"
    code = ("import importlib.util, lm_eval\nprint(lm_eval.__path__[0])\n"
            "print([name for name in ['jieba', 'fuzzywuzzy', 'rouge'] if not importlib.util.find_spec(name)])")
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    folder, missing = result.stdout.splitlines()[-2:]
    return pathlib.Path(folder) / "tasks", missing


def answer_of(document):
    """The right choice of an item, by the columns that it has."""
    if "correct_answer" in document:
        return 3  # behind the three distractors
    if "answerKey" in document:
        return document["choices"]["label"].index(document["answerKey"].strip())
    return int(document["label"]) if "label" in document else int(document["answer"]) - 1


@unittest.skipUnless(harness(), "lm_eval is not installed: ./dev test installs it where PyPI is reached")
class HarnessTasks(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        cls.tasks, cls.missing = harness_folder()
        cls.tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))

    def evaluate(self, script, items, *options):
        """Runs a script on the harness's tasks, whose data are these items; returns results, and samples of each task."""
        local = self.folder / "tasks"
        local.mkdir()
        for name, documents in items.items():
            data = local / (name + ".jsonl")
            data.write_text("".join(json.dumps(document) + "\n" for document in documents))
            own = self.tasks / (FOLDERS.get(name, name.replace("longbench_", "longbench/")) + ".yaml")
            (local / (name + ".yaml")).write_text(json.dumps({
                "include": str(own), "dataset_path": "json", "dataset_name": None,
                "dataset_kwargs": {"data_files": {split: str(data) for split in ["train", "validation", "test"]}}}))
        output = self.folder / "results"
        environment = {**os.environ, "FOXSCOPE": PROGRAM, "LM_EVAL": with_own_tasks(self.folder),
                       "HF_HOME": str(self.folder / "hub"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                       "HF_EVALUATE_OFFLINE": "1"}
        result = subprocess.run([SOURCE / "resources" / "harness" / script, FOX, output, "--include_path", local,
                                 "--log_samples", *options], capture_output=True, text=True, env=environment, timeout=800)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        (results,) = output.rglob("results_*.json")
        samples = {}
        for name in items:
            (path,) = output.rglob(f"samples_{name}_*.jsonl")
            samples[name] = sorted(map(json.loads, path.read_text().splitlines()), key=lambda sample: sample["doc_id"])
        return json.loads(results.read_text())["results"], samples

    def test_the_eleven_short_tasks(self):
        items = {name: documents for name, documents in ITEMS.items() if name in FOLDERS}
        self.assertEqual(len(items), 11)
        results, samples = self.evaluate("short-tasks", items)
        asked = {}  # (task, item, choice): context and continuation
        for name, of_task in samples.items():
            self.assertEqual(len(of_task), len(items[name]), name)
            for n, sample in enumerate(of_task):
                for choice in range(len(sample["arguments"])):
                    arguments = sample["arguments"][f"gen_args_{choice}"]
                    asked[name, n, choice] = (("", arguments["arg_0"]) if name == "wikitext" else
                                              (arguments["arg_0"], arguments["arg_1"]))
        expected = {}
        for key, scored in zip(asked, self.scores(["".join(pair) for pair in asked.values()])):
            context = asked[key][0].rstrip()  # the harness counts spaces between them to the continuation
            own = scored[len(self.tokenizer.encode(context).ids) if context else 0:]
            expected[key] = -sum(surprisal for surprisal, _ in own)
            name, n, choice = key
            response = samples[name][n]["resps"][choice][0]
            value = response[0] if isinstance(response, list) else response
            self.assertLess(abs(float(value) - expected[key]), 1e-4 * len(own), key)
            if name != "wikitext":
                self.assertEqual(str(response[1]), str(all(rank == 1 for _, rank in own)), key)
        for name, of_task in samples.items():
            if name == "wikitext":
                pages = [sample["doc"]["page"] for sample in of_task]
                total = sum(expected[name, n, 0] for n in range(len(pages)))
                self.assertAlmostEqual(results[name]["bits_per_byte,none"],
                                       -total / sum(len(page.encode()) for page in pages) / numpy.log(2), places=4)
                words = sum(len(re.split(r"\s+", page)) for page in pages)
                self.assertLess(abs(results[name]["word_perplexity,none"] / numpy.exp(-total / words) - 1), 1e-3)
                continue
            values = [[expected[name, n, choice] for choice in range(len(sample["arguments"]))]
                      for n, sample in enumerate(of_task)]
            if name == "lambada_openai":
                self.assertLess(abs(results[name]["perplexity,none"] / numpy.exp(-numpy.mean(values)) - 1), 1e-3)
                continue
            answers = [answer_of(document) for document in items[name]]
            right = [numpy.argmax(choices) == answer for choices, answer in zip(values, answers)]
            self.assertEqual(results[name]["acc,none"], numpy.mean(right), name)
            if "acc_norm,none" not in results[name]:
                continue
            # By the characters of each choice, behind the space that is put before it.
            lengths = [[len(asked[name, n, choice][1]) - 1 for choice in range(len(choices))]
                       for n, choices in enumerate(values)]
            right = [numpy.argmax(numpy.divide(choices, own)) == answer
                     for choices, own, answer in zip(values, lengths, answers)]
            self.assertEqual(results[name]["acc_norm,none"], numpy.mean(right), name)

    def test_the_fourteen_of_longbench(self):
        if self.missing != "[]":
            self.skipTest(f"LongBench's tasks need {self.missing}: ./dev test installs them where PyPI is reached")
        self.assertEqual(len(LONGBENCH), 14)
        items, texts = {}, {}
        for name in LONGBENCH:
            task = (self.tasks / (name.replace("longbench_", "longbench/") + ".yaml")).read_text()
            template = json.loads(re.search(r"^doc_to_text: (.*)$", task, re.M)[1])
            tokens = int(re.search(r"max_gen_toks: (\d+)", task)[1])
            until = json.loads(re.search(r"until: (.*)$", task, re.M)[1])
            texts[name] = []
            for document in ITEMS[name]:
                prompt = template.replace("{{context}}", document["context"]).replace("{{question}}", document["question"])
                text = self.done("generate", "--model", FOX, "--prompt", prompt, "--max-tokens", tokens)[:-1]
                for end in ["<|endoftext|>", *until]:
                    text = text.partition(end)[0]
                texts[name].append(text)
            # The first item's answer is what is generated in process, so that it must be found; the other's never is.
            lines = [line for line in texts[name][0].split("\n") if line.strip() and not set("`#") & set(line)]
            answer = {"lcc": lines[0], "repobench-p": lines[0]}.get(name.removeprefix("longbench_"), texts[name][0].strip())
            self.assertNotEqual(answer, "", name)
            first, second = (dict(document) for document in ITEMS[name])
            first.update(answers=[answer], all_classes=[answer, "\u2603\u2603"])
            second.update(answers=["\u2603\u2603"], all_classes=[answer, "\u2603\u2603"])
            items[name] = [first, second]
        results, samples = self.evaluate("longbench", items)
        for name in LONGBENCH:
            self.assertEqual([sample["resps"][0][0] for sample in samples[name]], texts[name], name)
            self.assertAlmostEqual(results[name]["score,none"], 0.5, places=4, msg=name)


if __name__ == "__main__":
    unittest.main()
