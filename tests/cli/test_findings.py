"""resources/findings/what-heads-forget, which measures what docs/heads.md says, on a small corpus."""

import importlib.machinery
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import unittest

import h5py
import numpy
from support import DRAWS, FOX, SOURCE, TRANSFORMER, CommandLineTest, png_size

SCRIPT = SOURCE / "resources" / "findings" / "what-heads-forget"
TEXT = (SOURCE / "resources" / "texts" / "up-from-slavery-1.txt").read_text()
DELTA = SOURCE / "resources" / "models" / "gated-deltanet-1m"


def corpus(size=5000, documents=6):
    """Documents of one length, pieces of a sample text."""
    return "".join(json.dumps({"id": f"doc-{n}", "text": TEXT[n * size:(n + 1) * size]}) + "\n" for n in range(documents))


def script():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("what_heads_forget", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


@unittest.skipUnless(DRAWS, "built without Qt")
class FindingsTest(CommandLineTest):
    def test_a_small_corpus(self):
        path, output = self.write("corpus.jsonl", corpus(documents=5)), self.folder / "found"
        models = [word for name, folder in [("fox", FOX), ("base", TRANSFORMER), ("delta", DELTA)]
                  for word in ("--model", f"{name}={folder}")]
        command = [sys.executable, SCRIPT, output, path, *models, "--length", "128", "--windows", "2", "--runs", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        findings = json.loads((output / "findings.json").read_text())
        self.assertEqual(json.loads(done.stdout), findings)
        self.assertEqual(set(findings), {"fox", "delta", "across"})
        self.check_progress(done.stderr.splitlines(), 5)
        for name in ["scatter", "gates", "tokens", "passages", "similarity"]:
            self.assertGreater(png_size(output / f"heads-{name}.png")[0], 400)
        self.check_numbers(findings, output)
        other = subprocess.run([*command[:-1], "2"], capture_output=True, text=True, check=False)
        self.assertEqual((other.returncode, other.stderr), (1, f"{output}: holds atlases of other settings: name another folder\n"))
        # What is there is not made again, and the numbers are the same.
        (output / "findings.json").unlink()
        again = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(json.loads((output / "findings.json").read_text()), findings)
        self.assertIn("what-heads-forget: making atlases, 5 of 5 documents", again.stderr)
        self.assertNotRegex(again.stderr, "making atlases.* left")

    def check_progress(self, lines, documents):
        """What is done, how far it is, and the time left of what has begun and is not done."""
        stages = {}
        for line in lines:
            found = re.fullmatch(r"what-heads-forget: (.+), (\d+) of (\d+) (\w+)(, \d.* left)?", line)
            self.assertTrue(found, line)
            name, count, total, unit, left = found.groups()
            stages.setdefault((name, unit), []).append((int(count), int(total), left is not None))
        for steps in stages.values():
            total = steps[0][1]
            self.assertEqual(steps, [(n, total, 0 < n < total) for n in range(total + 1)])
        self.assertEqual({name: steps[0][1] for name, steps in stages.items()},
                         {("making atlases", "documents"): documents, ("merging them", "atlas"): 1,
                          ("measuring heads", "models"): 2, ("reading speech with fox", "documents"): documents,
                          ("reading speech with delta", "documents"): documents, ("drawing", "figures"): 5})

    def check_numbers(self, findings, output):
        with h5py.File(output / "atlas.h5") as file:
            for name in ["fox", "delta"]:
                found, model = findings[name], file["models"][name]
                self.assertEqual((found["positions"], found["documents"]), (5 * 2 * 127, 5))
                numpy.testing.assert_allclose(found["depth"]["decay_time"]["value"], model["numbers/rate_decay_time"][()].ravel(),
                                              rtol=2e-5)
                # The jackknife over documents is that of the program.
                of = script().Documents(sorted(output.glob("book-*.h5")), name)
                mean = of.measure(lambda sums: sums.log_gate / sums.positions)
                for values, suffix in [(mean.value, ""), (mean.error, "_errors")]:
                    numpy.testing.assert_allclose(values, model[f"numbers/mean_log_gate{suffix}"][()].ravel(), rtol=1e-6)
                table = model["similarity/log_gate"][()]
                pair = found["alike"]["most_alike"][0]
                heads = [layer * int(model.attrs["heads"]) + head for layer, head in (pair["a"], pair["b"])]
                self.assertAlmostEqual(pair["correlation"], float(table[tuple(heads)]), places=4)
                self.assertAlmostEqual(pair["correlation"], float(numpy.max(table - 2 * numpy.eye(len(table)))), places=4)
                # Of the first layer a gate reads its token and nothing else.
                self.assertGreater(found["token_alone"]["share_by_layer"]["value"][0], 0.999)
                self.assertEqual(set(found["speech"]), {"positions", "share_of_speech", "windows_of_a_document", "all", "letters"})

    def test_without_numpy(self):
        """Of the two scripts that need numpy and h5py: --help does not, and all else says so."""
        for script_path, words in [(SCRIPT, ["OUT", "CORPUS"]),
                                   (SOURCE / "tests/bench/architectures.py", ["FOXSCOPE", "--data", "x", "--heldout", "y", "-o", "z"])]:
            bare = [sys.executable, "-I", "-S", script_path]
            helped = subprocess.run([*bare, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual((helped.returncode, helped.stderr), (0, ""))
            self.assertIn("usage:", helped.stdout)
            refused = subprocess.run([*bare, *words], capture_output=True, text=True, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, f"^{script_path.name}: needs numpy and h5py .*pip install numpy h5py\n$")

    def test_the_jackknife_and_chance(self):
        module = script()
        random = numpy.random.default_rng(1)
        a, b = random.normal(size=(2, 40))
        self.assertAlmostEqual(module.rank_correlation(a, a**3), 1)
        self.assertGreater(module.permutation_p(a, b, 999), 0.01)
        self.assertLess(module.permutation_p(a, a + 0.1 * b, 999), 0.01)

    def test_speech(self):
        state = script().speech_of(['He', ' said', '.', '\n', '\n', '"', 'Oh', '!"', '\n\n', 'Then', ' he', '\n', '"', 'x'])
        self.assertEqual(state, [None] * 5 + [True] * 3 + [True] + [False] * 5)

    def test_the_page_has_what_was_measured(self):
        """Every number in a table of docs/heads.md stands in the findings beside the script."""
        findings = (SCRIPT.parent / "findings.json").read_text()
        known = [float(one) for one in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", findings)]
        rows = [line for line in (SOURCE / "docs" / "heads.md").read_text().splitlines() if line.startswith("| ")]
        for row in rows:
            for text in re.findall(r"(?<![\w:.])\d+\.\d+", row):
                digits = len(text.split(".")[1])
                near = any(math.isclose(float(text), scale * one, abs_tol=0.51 * 10.0**-digits, rel_tol=0)
                           for one in known for scale in (1, 100))
                self.assertTrue(near, f"{text} in {row}")


if __name__ == "__main__":
    unittest.main()
