"""`foxscope eval needle`: prompts, scores and heads against other ways to the same numbers, and what is refused."""

import csv
import io
import json
import math
import select
import shutil
import signal
import subprocess
import unittest

import h5py
import numpy
import tokenizers
from support import DATA, DRAWS, FOX, PROGRAM, TRANSFORMER, CommandLineTest, set_config

HAYSTACK = ("The road went on over the hill. \"Is it far?\" asked the boy. Nobody knew! They walked until it was dark "
            "and slept under a tree, for there was no house to be seen. In the morning it rained.\n\n"
            "Later the sun came out again, and the birds began to sing; so they went on.\n")
LENGTHS = [400, 520]
DEPTHS = [0, 30, 100]


def ends_sentence(piece):
    return piece.rstrip("\"')]").endswith((".", "!", "?"))


class Prompts:
    """The prompts once more, by the `tokenizers` package."""

    def __init__(self, words, mode="easy"):
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        encode = lambda text: tokenizer.encode(text).ids  # noqa: E731
        asked = " " + words["question"] if mode == "easy" else ""
        self.instruction = encode(words["instruction"] + "\n\n")
        self.needle = encode(asked + " " + words["needle"])
        self.question = encode("\n\n" + words["question"] + " " + words["opening"])
        self.answer = encode(" " + words["answer"])
        self.haystack = encode(HAYSTACK)
        while len(self.haystack) < 600:
            self.haystack += encode("\n\n" + HAYSTACK)
        self.pieces = [tokenizer.decode([token]) for token in self.haystack]

    def context(self, length):
        return length - 200 - 1 - len(self.instruction) - len(self.needle)

    def with_needle(self, length, depth):
        """Input ids, and the positions that read the needle."""
        context = self.context(length)
        before = context
        if depth < 1:
            before = math.floor(context * depth)
            while before > 0 and not ends_sentence(self.pieces[before - 1]):
                before -= 1
        start = [0] + self.instruction + self.haystack[:before]
        return (start + self.needle + self.haystack[before:context] + self.question,
                range(len(start), len(start) + len(self.needle)))

    def plain(self, length):
        return [0] + self.instruction + self.haystack[:self.context(length) + len(self.needle)] + self.question


class NeedleCase(CommandLineTest):
    def arguments(self, *more, model=FOX, haystack=None, lengths=LENGTHS, depths=DEPTHS):
        def steps(values):
            return values if isinstance(values, str) else ",".join(map(str, values))

        haystack = haystack or self.write("haystack.txt", HAYSTACK)
        return ("eval", "needle", "--model", model, "--haystack", haystack, "--lengths", steps(lengths),
                "--depths", steps(depths), "-o", self.folder / "needle.h5", *more)


class NeedleTest(NeedleCase):
    def run_on(self, inputs, labels, *more, keep="loss,gates,rows,qk"):
        """A run file of a prompt."""
        ids = self.write("ids.json", json.dumps({"input_ids": inputs, "labels": labels}))
        path = self.folder / "run.h5"
        self.done("run", "--model", "m=" + str(FOX), "--ids", ids, "-o", path, "--force", "--keep", keep, *more)
        return path

    def mean_answer(self, prompt, answer, *more):
        inputs = prompt + answer[:-1]
        path = self.run_on(inputs, (prompt + answer)[1:], *more, keep="loss")
        with h5py.File(path) as file:
            return -file["models/m/loss/per_token_loss"][-len(answer):].astype(float).mean()

    def check_heads(self, model, prompt, needle, cell):
        path = self.run_on(prompt, prompt[1:] + [0])
        last = len(prompt) - 1
        with h5py.File(path) as file:
            run = file["models/m"]
            for layer in range(8):
                group = run[f"layers/{layer:02}"]
                query = group["query"][:, last].astype(float)
                key = group["key"][:, needle.start:needle.stop].astype(float)
                c = group["cumulative_log_gate"][()]
                logit = numpy.einsum("hd,hnd->hn", query, key) * run.attrs["softmax_scale"]
                log_gate = c[:, last:] - c[:, needle.start:needle.stop]
                mass = numpy.exp(logit + log_gate - group["log_normalizer"][:, last:].astype(float)).sum(axis=1)
                self.assertLess(numpy.abs(model["needle_mass"][cell][layer] - mass).max(), 2e-6)
                numpy.testing.assert_allclose(model["needle_gate"][cell][layer], numpy.exp(log_gate[:, -1]), rtol=1e-5,
                                              atol=1e-38)
        table = self.folder / "map.npy"
        self.done("map", path, "--layer", 7, "--head", 2, "--quantity", "attention", "--rows", f"{last}:{last + 1}",
                  "--cols", f"{needle.start}:{needle.stop}", "-o", table, "--force")
        self.assertAlmostEqual(numpy.load(table).sum(dtype=float), float(model["needle_mass"][cell][7, 2]), places=6)

    def test_every_number_by_another_way(self):
        self.done(*self.arguments())
        with h5py.File(self.folder / "needle.h5") as file:
            words = json.loads(file.attrs["template"])
            prompts = Prompts(words)
            model = file["models/fox-pro-12m"]
            self.assertEqual(file["length"][()].tolist(), LENGTHS)
            self.assertEqual(file["depth"][()].tolist(), [depth / 100 for depth in DEPTHS])
            for p, length in enumerate(LENGTHS):
                baseline = self.mean_answer(prompts.plain(length), prompts.answer)
                self.assertAlmostEqual(baseline, float(model["baseline_log_probability"][p]), places=4)
                self.assertEqual(model["position"][p], length - 200 + len(prompts.question) - 1)
                for q, depth in enumerate(file["depth"][()]):
                    prompt, needle = prompts.with_needle(length, depth)
                    self.assertEqual(len(prompt), model["position"][p] + 1)
                    self.assertEqual(range(model["needle_begin"][p, q], model["needle_end"][p, q]), needle)
                    answer = self.mean_answer(prompt, prompts.answer)
                    self.assertAlmostEqual(answer, float(model["answer_log_probability"][p, q]), places=4)
                    self.assertAlmostEqual(answer - baseline, float(model["gain"][p, q]), places=4)
                    if q == 1:
                        self.check_heads(model, prompt, needle, (p, q))

    def test_continuation_is_what_generate_gives_and_decides_found(self):
        # An answer that the model is bound to say: what it says by itself.
        words = json.loads(self.done("eval", "needle", "--print-template"))
        self.done(*self.arguments(lengths=[400], depths=[50]))
        with h5py.File(self.folder / "needle.h5") as file:
            said = file["models/fox-pro-12m/continuation"][0].decode()
            self.assertEqual(file["models/fox-pro-12m/found"][0, 0], 0)
        prompt, _ = Prompts(words).with_needle(400, 0.5)
        ids = self.write("prompt.json", json.dumps({"input_ids": prompt, "labels": prompt}))
        tokens = len(Prompts(words).answer) + 16
        generated = json.loads(self.done("generate", "--model", FOX, "--ids", ids, "--max-tokens", tokens, "--json"))
        self.assertEqual(said, generated["text"])

        words["needle"] = words["opening"] + " bread."
        words["answer"] = "bread"
        words["opening"] = "bread, bread, bread, bread, bread, bread, bread, bread, bread,"
        template = self.write("template.json", json.dumps(words))
        self.done(*self.arguments("--template", template, "--force", lengths=[400], depths=[100]))
        with h5py.File(self.folder / "needle.h5") as file:
            model = file["models/fox-pro-12m"]
            self.assertIn("bread", model["continuation"][0].decode())
            self.assertEqual(model["found"][0, 0], 1)
            self.assertEqual(json.loads(file.attrs["template"]), words)

    def test_standard_mode_leaves_the_question_out(self):
        words = json.loads(self.done("eval", "needle", "--print-template"))
        self.done(*self.arguments("--mode", "standard", lengths=[400], depths=[30]))
        prompts = Prompts(words, "standard")
        prompt, needle = prompts.with_needle(400, 0.3)
        with h5py.File(self.folder / "needle.h5") as file:
            model = file["models/fox-pro-12m"]
            self.assertEqual(range(model["needle_begin"][0, 0], model["needle_end"][0, 0]), needle)
            self.assertAlmostEqual(self.mean_answer(prompt, prompts.answer),
                                   float(model["answer_log_probability"][0, 0]), places=4)

    def test_layout(self):
        text = self.done(*self.arguments("--model", "base=" + str(TRANSFORMER), lengths=[400], depths=[0, 100]))
        self.assertIn("gain (nats a token)", text)
        self.assertIn("written to", text)
        with h5py.File(self.folder / "needle.h5") as file:
            self.assertEqual(file.attrs["content"], "eval_needle")
            self.assertEqual(file.attrs["foxscope_schema"], 1)
            self.assertEqual(sorted(file["models"]), ["base", "fox-pro-12m"])
            group = file[file.attrs["default"]]
            self.assertEqual(group.name, "/models/fox-pro-12m")
            self.assertEqual((group.attrs["NX_class"], group.attrs["signal"]), ("NXdata", "gain"))
            self.assertEqual(list(group.attrs["axes"]), ["length", "depth"])
            self.assertEqual([list(scale.keys()) for scale in group["needle_mass"].dims],
                             [["length"], ["depth"], ["layer"], ["head"]])
            self.assertEqual(group["needle_gate"].shape, (1, 2, 8, 4))
            base = file["models/base"]
            self.assertTrue(numpy.all(base["needle_gate"][()] == 1))
            self.assertTrue(numpy.all(base["needle_mass"][()] > 0))
            self.assertEqual((base.attrs["order"], base.attrs["layers"], base.attrs["heads"]), (1, 8, 4))

    def test_layers_may_have_different_numbers_of_heads(self):
        folder = self.samba_with_a_tokenizer()
        said = self.done(*self.arguments("--intervene", "1:*:constant=0.9", model=f"m={folder}", lengths=[400],
                                         depths="0.5,50"))
        self.assertIn("0.5 %", said)
        self.assertIn("most attention on the needle: layer ", said)
        with h5py.File(self.folder / "needle.h5") as file:
            model = file["models/m"]
            mass, gate = model["needle_mass"][:], model["needle_gate"][:]
            self.assertEqual(mass.shape, (1, 2, 4, 64))
            for numbers in (mass, gate):
                self.assertTrue(numpy.isnan(numbers[:, :, 1::2, 4:]).all())
                self.assertTrue(numpy.isfinite(numbers[:, :, ::2]).all())
            distance = model["position"][0] - model["needle_end"][0] + 1
            numpy.testing.assert_allclose(gate[0, :, 1, 0], 0.9 ** distance, rtol=1e-5)
            self.assertTrue((gate[0, :, 3, :4] == 1).all())
        if DRAWS:
            self.done("figure", "needle", self.folder / "needle.h5", "--head", "3:1", "--tint", "mass", "-o",
                      self.folder / "needle.pdf")
            self.fails(2, "heads 0 to 3", "figure", "needle", self.folder / "needle.h5", "--head", "3:9", "--tint", "mass",
                       "-o", self.folder / "none.pdf")

    def test_interventions_and_json(self):
        plain = json.loads(self.done(*self.arguments("--json", lengths=[400], depths=[0])))
        self.assertEqual(list(plain), ["output", "models"])
        self.assertEqual(list(plain["models"][0]), ["name", "cells", "found", "mean_gain",
                                                    "mean_answer_log_probability", "haystack_tokens", "best_head"])
        ungated = json.loads(self.done(*self.arguments("--json", "--force", "--intervene", "*:*:one", lengths=[400],
                                                       depths=[0])))
        self.assertNotEqual(plain["models"][0]["mean_gain"], ungated["models"][0]["mean_gain"])
        with h5py.File(self.folder / "needle.h5") as file:
            self.assertEqual(json.loads(file["models/fox-pro-12m"].attrs["intervention"]), ["*:*:one"])
            self.assertTrue(numpy.all(file["models/fox-pro-12m/needle_gate"][()] == 1))

    def test_csv_and_quiet(self):
        rows = list(csv.DictReader(io.StringIO(self.done(*self.arguments("--csv", lengths=[400, 500], depths=[0])))))
        with h5py.File(self.folder / "needle.h5") as file:
            gain = file["models/fox-pro-12m/gain"][()]
        self.assertEqual([int(row["length"]) for row in rows], [400, 500])
        for row, expected in zip(rows, gain[:, 0]):
            self.assertEqual(numpy.float32(row["gain"]), expected)
        self.assertEqual(self.done(*self.arguments("-q", "--force", lengths=[400], depths=[0])), "")
        self.fails(2, ["--csv", "leave out --json"], *self.arguments("--csv", "--json", "--force"))

    def test_cost_and_training_length_are_said_before_it_starts(self):
        lines = self.foxscope(*self.arguments(lengths=[400, 520], depths=[0, 50])).stderr.decode().splitlines()
        # Each length has a prompt without the needle too.
        self.assertIn("6 prompts, 2,760 tokens to read in all: fewer --lengths or --depths take less time", "".join(lines))
        self.assertNotIn("max_position_embeddings", "".join(lines))
        copy = shutil.copytree(FOX, self.folder / "copy")
        set_config(copy, max_position_embeddings=450)
        arguments = self.arguments("--force", model=copy, lengths=[520], depths=[0])
        self.assertIn("copy: its config.json says max_position_embeddings 450, which longer prompts exceed",
                      self.foxscope(*arguments).stderr.decode())

    def test_a_short_haystack_is_repeated_and_said(self):
        result = self.foxscope(*self.arguments(lengths=[400], depths=[0]))
        self.assertRegex(result.stderr.decode(), r"haystack.txt holds \d+ tokens, and is repeated to fill \d+")

    def test_goes_on_from_where_it_was_interrupted(self):
        arguments = self.arguments("-v", depths="0:100:4")
        whole = self.folder / "needle.h5"
        self.done(*arguments)
        expected = self.contents(whole)
        whole.unlink()
        partial = self.folder / "needle.h5.partial"
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not (partial.exists() and partial.stat().st_size > 1000):
                select.select([process.stderr], [], [], 0.005)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn(b"needle.h5.partial, the same command goes on from it", error)
        self.assertFalse(whole.exists())
        self.fails(1, ["needle.h5.partial", "other settings"], *(word for word in arguments if word != "-v"), "--mode",
                   "standard")
        result = self.foxscope(*arguments)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr.decode(), r"\d+ of 8 cells were computed before")
        self.assertFalse(partial.exists())
        found = self.contents(whole)
        self.assertEqual(expected.keys(), found.keys())
        for name, values in expected.items():
            if values.dtype.kind == "f":
                numpy.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
            else:
                numpy.testing.assert_array_equal(found[name], values, err_msg=name)

    @staticmethod
    def contents(path):
        found = {}
        with h5py.File(path) as file:
            file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
        return found


class RefusalTest(NeedleCase):
    def refuses(self, code, words, *arguments):
        self.fails(code, words, *arguments, output=self.folder / "needle.h5")

    def test_options(self):
        self.refuses(2, ["--lengths 100", "write numbers"], *self.arguments(lengths="100:200"))
        self.refuses(2, ["--lengths", "no room"], *self.arguments(lengths=[230]))
        self.refuses(2, ["--lengths", "above"], *self.arguments(lengths=[500, 400]))
        self.refuses(2, ["--lengths", "no number of tokens"], *self.arguments(lengths=[0]))
        self.refuses(2, ["--depths", "0 to 100"], *self.arguments(depths=[0, 101]))
        self.refuses(2, ["--depths", "write numbers"], *self.arguments(depths=["x"]))
        self.refuses(2, ["--mode hard", "easy or standard"], *self.arguments("--mode", "hard"))
        self.refuses(2, ["--intervene", "constant=f"], *self.arguments("--intervene", "*:*:mean"))
        self.refuses(2, ["--haystack is required"], "eval", "needle", "--model", FOX, "-o", self.folder / "needle.h5")

    def test_files(self):
        empty = self.write("empty.txt", "")
        self.refuses(1, ["empty.txt"], *self.arguments(haystack=empty))
        self.refuses(1, ["nowhere.txt"], *self.arguments(haystack=self.folder / "nowhere.txt"))
        self.refuses(1, ["template.json", "not JSON"],
                     *self.arguments("--template", self.write("template.json", "{")))
        self.refuses(1, ["tokenizer"], *self.arguments(model=DATA / "fox-pro"))
        output = self.write("needle.h5", "mine")
        self.fails(1, ["needle.h5", "--force"], *self.arguments())
        self.assertEqual(output.read_text(), "mine")

    def test_more_than_fits(self):
        self.refuses(1, ["GiB", "--lengths"], *self.arguments(lengths=[400000000]))

    def test_a_tokenizer_of_another_model(self):
        folder = self.copy_of("fox-pro")
        shutil.copy(FOX / "tokenizer.json", folder)
        self.refuses(1, ["outside the model's vocabulary (0 to 319)"], *self.arguments(model=folder))
        set_config(folder, bos_token_id=None)
        self.refuses(2, ["--bos"], *self.arguments(model=folder))


if __name__ == "__main__":
    unittest.main()
