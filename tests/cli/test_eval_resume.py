"""`foxscope eval loss` killed, interrupted or started twice: the work so far is kept and gone on with."""

import json
import select
import signal
import struct
import subprocess
import time
import unittest

import h5py
import numpy
from support import FOX, PROGRAM, TRANSFORMER
from test_eval_loss import EvalTest
from test_run import contents


class PartialTest(EvalTest):
    LENGTH = 256

    def size_after(self, windows):
        """Bytes of the work so far: its head, then of each window its numbers and losses."""
        return 72 + windows * (20 + 4 * self.LENGTH)

    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for_windows(self, process, partial, size):
        """Until the work so far is of that size."""
        deadline = time.monotonic() + 120
        while not partial.exists() or partial.stat().st_size < size:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), "ended early")
            select.select([process.stderr], [], [], 0.005)

    def arguments(self, output, *extra, windows=8):
        return ["eval", "loss", "--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--corpus", self.path,
                "--length", self.LENGTH, "--windows", windows, "-o", output, *extra]

    def setUp(self):
        super().setUp()
        self.path = self.corpus("corpus.jsonl", repeat=4)
        self.output = self.folder / "eval.h5"
        self.partial = self.folder / "eval.h5.partial"


class ResumeTest(PartialTest):
    def test_a_killed_evaluation_goes_on(self):
        self.done(*self.arguments(self.folder / "whole.h5"))
        for count in [2, 10]:
            process = self.start(*self.arguments(self.output))
            self.wait_for_windows(process, self.partial, self.size_after(count))
            process.kill()
            process.communicate()
            self.assertFalse(self.output.exists())
        before = self.partial.read_bytes()
        self.partial.write_bytes(before + before[72:172])  # a record cut short
        summary = json.loads(self.done(*self.arguments(self.output, "--json")))
        self.assertGreaterEqual(sum(model["windows_resumed"] for model in summary["models"]), 10)
        self.assertFalse(self.partial.exists())
        expected, found = contents(self.folder / "whole.h5"), contents(self.output)
        self.assertEqual(expected.keys(), found.keys())
        for key in expected.keys() - {"@command_line"}:
            numpy.testing.assert_array_equal(expected[key], found[key], err_msg=key)

    def test_a_record_of_another_window_is_not_believed(self):
        self.done(*self.arguments(self.folder / "whole.h5"))
        process = self.start(*self.arguments(self.output))
        self.wait_for_windows(process, self.partial, self.size_after(3))
        process.kill()
        process.communicate()
        before = bytearray(self.partial.read_bytes()[:self.size_after(3)])
        begin = self.size_after(1)
        model, window, tokens = struct.unpack_from("<3I", before, begin)
        self.assertEqual((model, tokens), (0, self.LENGTH))
        struct.pack_into("<I", before, begin + 4, (window + 1) % 8)
        self.partial.write_bytes(before + bytes(4096))
        process = self.start(*self.arguments(self.output, "--json"))
        summary, said = process.communicate(timeout=120)
        self.assertIn(f"{self.partial}: 1 of 3 parts is damaged: what it held is computed again", said.decode())
        self.assertEqual([model["windows_resumed"] for model in json.loads(summary)["models"]], [2, 0])
        with h5py.File(self.folder / "whole.h5") as whole, h5py.File(self.output) as found:
            for name in ["fox", "base"]:
                path = f"models/{name}/loss/per_token_loss"
                numpy.testing.assert_array_equal(whole[path], found[path])

    def test_an_interrupted_evaluation_goes_on(self):
        process = self.start(*self.arguments(self.output))
        self.wait_for_windows(process, self.partial, self.size_after(1))
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, b""))
        self.assertIn(f"interrupted: the work so far is in {self.partial}", said.decode().splitlines()[-1])
        self.assertFalse(self.output.exists())
        self.fails(1, ["eval.h5.partial", "other settings", "--force"], *self.arguments(self.output, "--seed", "3"),
                   output=self.output)
        self.done(*self.arguments(self.output, "--seed", "3", "--force"))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["corpus.jsonl", "eval.h5"])

    def test_one_that_is_interrupted_before_it_goes_on_says_what_is_left(self):
        process = self.start(*self.arguments(self.output))
        self.wait_for_windows(process, self.partial, self.size_after(1))
        process.kill()
        process.communicate()
        process = self.start(*self.arguments(self.output))
        self.wait_until_blocked(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn(f"interrupted: the work so far is in {self.partial}", said.decode().splitlines()[-1])
        self.assertTrue(self.partial.exists())

    def test_two_at_the_same_output(self):
        process = self.start(*self.arguments(self.output))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for_windows(process, self.partial, self.size_after(0))
        process.send_signal(signal.SIGSTOP)  # still at work, however fast the machine
        self.fails(1, ["eval.h5.partial", "another process"], *self.arguments(self.output), output=self.output)

    def test_something_else_in_the_way(self):
        self.partial.write_text("a letter of mine")
        self.fails(1, ["eval.h5.partial", "Foxscope did not write it"], *self.arguments(self.output))
        self.assertEqual(self.partial.read_text(), "a letter of mine")


if __name__ == "__main__":
    unittest.main()
