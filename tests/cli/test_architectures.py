"""tests/bench/architectures.py on small models: its numbers against the program's own, and that it goes on."""

import csv
import json
import subprocess
import sys
import unittest

from support import DRAWS, PROGRAM, SOURCE, CommandLineTest

TEXTS = SOURCE / "resources" / "texts"
MODELS = ["FoX", "Transformer", "Gated-DeltaNet"]


class ArchitecturesTest(CommandLineTest):
    def compare(self, *more, program=PROGRAM):
        return subprocess.run(
            [sys.executable, SOURCE / "tests/bench/architectures.py", program, "--data", TEXTS / "up-from-slavery-1.txt",
             "--heldout", TEXTS, "-o", self.folder / "out", "--size", "1m", "--models", *MODELS, "--seeds", "0", "1",
             "--length", "64", "--batch-tokens", "128", "--max-tokens", "640", "--warmup-tokens", "128", "--lengths", "64",
             "128", "--windows", "8", "--head-windows", "4", "--smooth", "31", "--devices", "cpu", *more],
            capture_output=True, text=True)

    def test_numbers_and_going_on(self):
        out = self.folder / "out"
        ended = self.compare("--seconds", "0")
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertEqual(ended.stderr.splitlines(), [f"{model}, seed {seed}: not done: the same command goes on"
                                                     for model in sorted(MODELS) for seed in (0, 1)])
        result = self.compare()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, (out / "losses.md").read_text())
        results = json.loads((out / "results.json").read_text())

        # Losses and errors over documents are those that the program says of the whole windows.
        for model in MODELS:
            entry = results["models"][model]
            for seed in (0, 1):
                checkpoint = out / f"{model}-{seed}" / "checkpoints" / "step-000005"
                self.assertTrue(checkpoint.is_dir())
                said = json.loads(self.foxscope(
                    "eval", "loss", "--model", checkpoint, "--corpus", TEXTS, "--length", 128, "--windows", 8, "--device",
                    "cpu", "--json", "-o", self.folder / "again.h5", "--force").stdout)
                self.assertAlmostEqual(entry["lengths"]["128"]["seeds"][seed], said["models"][0]["nats_per_token"], 6)
            first, second = entry["lengths"]["128"]["seeds"]
            self.assertAlmostEqual(entry["lengths"]["128"]["mean"], (first + second) / 2, 12)
            self.assertAlmostEqual(entry["lengths"]["128"]["seed_error"], abs(first - second) / 2, 12)
            self.assertNotEqual(entry["lengths"]["64"]["mean"], entry["lengths"]["128"]["mean"])
        more = results["models"]["Transformer"]["lengths"]["64"]["more_than_FoX"]
        means = [results["models"][model]["lengths"]["64"]["mean"] for model in ("Transformer", "FoX")]
        self.assertAlmostEqual(more["mean"], means[0] - means[1], 12)

        # Decay times are those of the heads on held-out text, and models without decays have none.
        last = json.loads((out / "memories" / "FoX" / "evaluation.jsonl").read_text().splitlines()[-1])
        with open(out / "FoX-heads.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] == "5"]
        self.assertEqual([time for layer in last["decay_time"] for time in layer],
                         [float(row["rate_decay_time"]) for row in rows])
        self.assertNotIn("decay_time", (out / "memories" / "Transformer" / "evaluation.jsonl").read_text())

        # What is there is not made again.
        (out / "losses.md").unlink()
        written = {path: path.stat().st_mtime_ns for path in out.rglob("*.h5")}
        self.assertEqual(self.compare().stdout, result.stdout)
        self.assertEqual({path: path.stat().st_mtime_ns for path in out.rglob("*.h5")}, written)
        if DRAWS:
            drawn = self.foxscope("figure", "spec", out / "figure.json", "-o", self.folder / "figure.csv")
            self.assertEqual(drawn.returncode, 0, drawn.stderr.decode())
            with open(self.folder / "figure.csv", newline="") as file:
                series = {row["series"] for row in csv.DictReader(file)}
            self.assertTrue(set(MODELS) <= series, series)

    def test_the_error_over_documents(self):
        sys.path.insert(0, str(SOURCE / "tests" / "bench"))
        import architectures
        import numpy

        # Four documents of one window each: the jackknife is the standard error of a mean.
        losses = numpy.array([[1.0, 2.0, 4.0, 9.0], [3.0, 2.0, 6.0, 9.0]])
        found = architectures.estimate(losses, numpy.array([7, 3, 1, 2]))
        self.assertAlmostEqual(found["mean"], 4.5)
        self.assertAlmostEqual(found["document_error"], numpy.array([2.0, 2.0, 5.0, 9.0]).std(ddof=1) / 2)
        self.assertAlmostEqual(found["seed_error"], 0.5)
        alone = architectures.estimate(losses[:1], numpy.zeros(4, int))
        self.assertIsNone(alone["document_error"])
        self.assertIsNone(alone["seed_error"])
        self.assertEqual(architectures.with_errors(alone), "4.000 ± – ± –")

    def test_what_fails_is_said_by_the_program(self):
        (self.folder / "empty.txt").write_text("")
        ended = self.compare("--data", self.folder / "empty.txt", "--models", "FoX", "--seeds", "0")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("FoX, seed 0: foxscope: ", ended.stderr)
        self.assertIn("empty.txt: holds no text", ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)


if __name__ == "__main__":
    unittest.main()
