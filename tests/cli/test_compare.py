"""`foxscope compare`: its numbers against numpy and scipy over the losses that h5py reads from the same file."""

import json
import unittest

import h5py
import numpy
from support import DATA, FOX, SOURCE, TEXT, CommandLineTest


def losses_of(path, name):
    with h5py.File(path) as file:
        return file[f"models/{name}/loss/per_token_loss"][:].astype(float)


def jackknife(differences, blocks):
    """Mean and standard error, each block of the text left out in turn."""
    length = len(differences)
    ends = [g * length // blocks for g in range(blocks + 1)]
    means = [numpy.delete(differences, numpy.arange(a, b)).mean() for a, b in zip(ends, ends[1:])]
    mean = differences.mean()
    return mean, ((blocks - 1) / blocks * sum((m - mean) ** 2 for m in means)) ** 0.5


class CompareTest(CommandLineTest):
    def compared(self, path, *options):
        return json.loads(self.done("compare", path, "--json", *options))

    def test_numbers_are_numpys(self):
        path = self.folder / "two.h5"
        self.done("run", "--model", f"fox={FOX}", "--model", f"base={FOX.parent / 'transformer-pro-12m'}", "--text",
                  SOURCE / "resources" / "texts" / "up-from-slavery-1.txt", "--limit", 1500, "--keep", "loss", "-o", path)
        fox, base = losses_of(path, "fox"), losses_of(path, "base")
        difference = fox - base
        answer = self.compared(path)
        self.assertEqual([answer["model"], answer["minus"], answer["rows"], answer["tokens"]], ["fox", "base", [0, 1500], 1500])
        self.assertAlmostEqual(answer["mean_loss"], fox.mean(), places=9)
        self.assertAlmostEqual(answer["minus_mean_loss"], base.mean(), places=9)
        mean, error = jackknife(difference, 1500 // 32)
        self.assertAlmostEqual(answer["difference"], mean, places=9)
        self.assertAlmostEqual(answer["difference_error"], error, places=9)
        self.assertAlmostEqual(answer["perplexity_ratio"], numpy.exp(mean), places=9)
        self.assertEqual([octave["rows"] for octave in answer["octaves"]], [[0, 256], [256, 512], [512, 1024], [1024, 1500]])
        for octave in answer["octaves"]:
            begin, end = octave["rows"]
            mean, error = jackknife(difference[begin:end], (end - begin) // 32)
            self.assertAlmostEqual(octave["difference"], mean, places=9)
            self.assertAlmostEqual(octave["difference_error"], error, places=9)
        with h5py.File(path) as file:
            tokens = [string.decode() for string in file["models/fox/tokens/string"][:]]
        order = numpy.argsort(difference, kind="stable")
        for key, positions in [("better", order[:10]), ("worse", order[::-1][:10])]:
            self.assertEqual([token["position"] for token in answer[key]], positions.tolist())
            for token, position in zip(answer[key], positions):
                self.assertEqual(token["token"], tokens[position])
                self.assertAlmostEqual(token["difference"], difference[position], places=6)
                self.assertAlmostEqual(token["loss"], fox[position], places=6)
                self.assertAlmostEqual(token["minus_loss"], base[position], places=6)
                self.assertTrue("".join(tokens[:position]).endswith(token["context"]))
                self.assertLessEqual(len(token["context"].split(" ")), 5)

        # The other way about, by name, and a part of the text.
        other = self.compared(path, "--model", "base")
        self.assertEqual([other["model"], other["minus"]], ["base", "fox"])
        self.assertAlmostEqual(other["difference"], -answer["difference"], places=12)
        self.assertEqual(self.compared(path, "--minus", "fox"), other)
        part = self.compared(path, "--rows", "1000:1400")
        mean, error = jackknife(difference[1000:1400], 400 // 32)
        self.assertAlmostEqual(part["difference"], mean, places=9)
        self.assertAlmostEqual(part["difference_error"], error, places=9)
        self.assertEqual([octave["rows"] for octave in part["octaves"]], [[1000, 1024], [1024, 1400]])
        self.assertIsNone(part["octaves"][0]["difference_error"])
        self.assertTrue(all(1000 <= token["position"] < 1400 for token in part["better"] + part["worse"]))

        said = self.done("compare", path)
        self.assertIn(f"fox − base: {answer['difference']:.4f} ± {answer['difference_error']:.4f} nats/token over 1,500 tokens",
                      said)
        self.assertIn(f"× {answer['perplexity_ratio']:.4f}", said)
        self.assertIn("± 1 standard error over 46 blocks of 32 tokens", said)
        self.assertIn("yes: 0 is outside" if answer["p_value"] < 0.05 else "no: 0 is in the 95 % interval", said)
        self.assertIn("fox predicts better:", said)
        self.assertIn(json.dumps(answer["worse"][0]["token"], ensure_ascii=False), said)

    def test_what_cannot_be_compared_says_why(self):
        one = self.run_fixture()
        self.fails(2, ["has one model, 'fox-pro'", "--model"], "compare", one)
        path = self.folder / "two.h5"
        pair = ["--model", DATA / "fox-pro", "--model", DATA / "transformer-pro"]
        self.done("run", *pair, "--ids", self.ids_file(), "-o", path)
        self.assertEqual(self.compared(path)["tokens"], 64)
        self.assertIn("no errors: the text gives 2 blocks of 32 tokens, and an error takes 8", self.done("compare", path))
        self.fails(2, ["holds no model 'other'", "fox-pro"], "compare", path, "--minus", "other")
        self.fails(2, ["--minus fox-pro: a model differs from itself in nothing"], "compare", path, "--model", "fox-pro",
                   "--minus", "fox-pro")
        self.fails(2, ["--rows 60:70: use positions with 0 <= A < B <= 64"], "compare", path, "--rows", "60:70")
        self.done("run", *pair, "--ids", self.ids_file(), "-o", path, "--force", "--keep", "gates")
        self.fails(1, ["model 'fox-pro': losses were not kept: run again with --keep loss"], "compare", path)
        self.done("run", *pair, "--model", f"again={DATA / 'fox-pro'}", "--ids", self.ids_file(), "-o", path, "--force")
        self.fails(2, ["has 3 models, fox-pro, transformer-pro, again: choose two by --model A --minus B"], "compare", path)
        self.assertEqual(self.compared(path, "--model", "again", "--minus", "fox-pro")["difference"], 0)
        with h5py.File(path, "r+") as file:
            del file["models/again/tokens"]  # a second link to the first model's
            file.copy("models/fox-pro/tokens", "models/again/tokens")
            file["models/again/tokens/id"][3] += 1
            file["models/transformer-pro/loss/per_token_loss"][17] = numpy.nan
        self.fails(1, ["'again' and 'fox-pro' read different tokens", "choose models of one tokenizer"], "compare", path,
                   "--model", "again", "--minus", "fox-pro")
        self.fails(1, ["model 'transformer-pro': the loss of position 17 is not a finite number", "run the model again"],
                   "compare", path, "--model", "fox-pro", "--minus", "transformer-pro")

    def test_files_of_one_model_are_named(self):
        one, two = self.run_fixture(name="one.h5"), self.run_fixture(name="two.h5")
        self.fails(2, [f"{two}: another file has a model fox-pro too: name it, as in fox-pro-2={two}"], "compare", one, two)
        answer = json.loads(self.done("compare", one, f"after={two}", "--json"))
        self.assertEqual([answer["model"], answer["minus"], answer["difference"]], ["fox-pro", "after", 0])
        other = json.loads(self.done("compare", f"before={one}", f"after={two}", "--model", "after", "--json"))
        self.assertEqual([other["model"], other["minus"]], ["after", "before"])
        self.assertIn("before − after: ", self.done("compare", f"before={one}", f"after={two}"))
        both = self.folder / "both.h5"
        self.done("run", "--model", DATA / "fox-pro", "--model", DATA / "transformer-pro", "--ids", self.ids_file(), "-o", both)
        answer = json.loads(self.done("compare", one, f"new={both}", "--model", "new:fox-pro", "--minus", "fox-pro", "--json"))
        self.assertEqual([answer["model"], answer["difference"]], ["new:fox-pro", 0])
        self.fails(2, ["the file is missing: write NAME=FILE"], "compare", one, "after=")
        self.fails(2, ['"a b" is not a name of letters'], "compare", one, f"a b={two}")
        odd = self.folder / "x=y.h5"
        odd.write_bytes(both.read_bytes())
        self.assertIn("64 tokens", self.done("compare", "x=y.h5", cwd=self.folder))

    def test_ids_before_a_token_are_as_many_as_words(self):
        path = self.folder / "two.h5"
        self.done("run", "--model", DATA / "fox-pro", "--model", DATA / "transformer-pro", "--ids", self.ids_file(), "-o", path)
        answer = self.compared(path)
        for token in answer["better"] + answer["worse"]:
            self.assertEqual(token["context"].count("⟨"), min(5, token["position"]), token)

    def test_two_texts_and_two_lengths_say_so(self):
        runs = {}
        for name, text, limit in (("one", TEXT * 3, 40), ("short", TEXT * 3, 30), ("other", "Another text. " * 30, 40)):
            runs[name] = self.folder / f"{name}.h5"
            self.done("run", "--model", f"{name}={FOX}", "--text", self.write(f"{name}.txt", text), "--limit", limit, "--keep",
                      "loss", "-o", runs[name])
        self.fails(1, ["'one' and 'other' read two texts", "run both on one text"], "compare", runs["one"], runs["other"])
        self.fails(1, ["'one' and 'short' read 40 and 30 tokens", "run both to one --length"], "compare", runs["one"], runs["short"])


if __name__ == "__main__":
    unittest.main()
