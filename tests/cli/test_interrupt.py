"""Ctrl+C and SIGTERM: the program ends within a second with 130 and leaves nothing behind."""

import json
import os
import pathlib
import select
import signal
import subprocess
import time
import unittest

from support import DATA, FOX, PROGRAM, SOURCE, SYSTEM_CALLS, CommandLineTest, no_nameless_files

PATIENCE = 2.0  # seconds; one is promised, loaded machines get another


class InterruptTest(CommandLineTest):
    def start(self, *arguments, **options):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                **options)

    def wait_for_stage(self, process, words):
        """Reads standard error until it has said the words."""
        said = b""
        deadline = time.monotonic() + 120
        while words not in said:
            self.assertLess(time.monotonic(), deadline, said)
            ready, _, _ = select.select([process.stderr], [], [], 1)
            if ready:
                piece = os.read(process.stderr.fileno(), 65536)
                self.assertTrue(piece, f"ended early: {said}")
                said += piece

    def ends(self, process, number):
        begin = time.monotonic()
        process.send_signal(number)
        process.wait(timeout=60)
        taken = time.monotonic() - begin
        said = process.stderr.read().decode()
        self.assertEqual(process.returncode, 130, said)
        self.assertLess(taken, PATIENCE)
        self.assertEqual(process.stdout.read(), b"")
        self.assertEqual(said.splitlines()[-1:], ["foxscope: interrupted, no unfinished file is left"])
        process.stdout.close()
        process.stderr.close()

    def long_run(self, output, *extra):
        ids = self.write("long.json", json.dumps([index % 8000 for index in range(60_000)]))
        return self.start("run", "-v", "--model", FOX, "--ids", ids, "-o", output, *extra)

    def test_a_run(self):
        output = self.folder / "run.h5"
        for number in [signal.SIGINT, signal.SIGTERM]:
            process = self.long_run(output)
            self.wait_for_stage(process, b"forward")
            self.ends(process, number)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["long.json"])

    def test_a_file_with_a_temporary_name(self):
        """Where files must have names, and the work cannot stop because the disk does not answer."""
        old = self.write("run.h5", "old")
        for output, extra in [(self.folder / "new.h5", []), (old, ["--force"])]:
            try:
                process = self.start("run", "-v", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", output, *extra,
                                     **no_nameless_files(flushes=False))
            except (OSError, subprocess.SubprocessError) as error:
                self.skipTest(f"cannot filter system calls here: {error}")
            self.wait_until_flushing(process)
            self.assertEqual(len(list(self.folder.glob(f".{output.name}.*"))), 1)
            self.ends(process, signal.SIGINT)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["ids.json", "run.h5"])
        self.assertEqual(old.read_text(), "old")

    def test_the_old_file_stays(self):
        output = self.write("run.h5", "old")
        process = self.long_run(output, "--force")
        self.wait_for_stage(process, b"forward")
        self.ends(process, signal.SIGINT)
        self.assertEqual(output.read_text(), "old")

    def test_a_large_file_is_announced_before_the_run(self):
        output = self.folder / "run.h5"
        ids = self.write("long.json", json.dumps([1] * 140_000))
        process = self.start("run", "-v", "--model", FOX, "--ids", ids, "--keep", "loss,logits", "-o", output)
        self.wait_for_stage(process, b"run.h5 will take about 4.6 GB, 4.6 GB of it for logits: leave logits out of --keep")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        process.stdout.close()
        process.stderr.close()
        self.assertIn(process.returncode, (1, 130))
        self.assertFalse(output.exists())

    def test_many_checkpoints_are_announced_before_the_training(self):
        text = self.write("text.txt", "A fox saw a fox. " * 400)
        process = self.start("train", "--recipe", SOURCE / "resources/recipes/fox-pro-1m.json", "--data", text,
                             "--save-every", 10, "-o", self.folder / "out")
        self.wait_for_stage(process, b"out will take about 1.6 GB: 100 checkpoints of 16.0 MB: --keep last keeps one")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        process.stdout.close()
        process.stderr.close()

    def test_waiting_for_standard_input(self):
        reading, writing = os.pipe()
        process = subprocess.Popen([PROGRAM, "run", "--model", FOX, "--text", "-", "-o", self.folder / "run.h5"],
                                   stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(reading)
        self.wait_until_blocked(process, signal.SIGINT)
        self.ends(process, signal.SIGINT)
        os.close(writing)

    def wait_until_flushing(self, process):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "ended before its file was flushed")
            if pathlib.Path(f"/proc/{process.pid}/syscall").read_text().split()[0] == str(SYSTEM_CALLS["fsync"]):
                return
            time.sleep(0.01)
        self.fail("the file was never flushed")

    def test_a_map(self):
        ids = self.write("ids.json", json.dumps([index * 7 % 320 for index in range(20_000)]))
        run_file = self.folder / "run.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "-o", run_file)
        for output in [self.folder / "map.h5", self.folder / "map.csv"]:
            process = self.start("map", "-v", run_file, "--layer", 0, "--head", 0, "--quantity", "gate_effect", "-o", output)
            self.wait_for_stage(process, output.name.encode() + b": ")
            self.ends(process, signal.SIGINT)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["ids.json", "run.h5"])


if __name__ == "__main__":
    unittest.main()
