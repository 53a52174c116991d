"""How a training ends before its last step, and goes on: signals, lost standard output, a folder with two writers. What it
leaves in the end has the same bits as that of one that was never disturbed."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import numpy
from support import FOX, PROGRAM, SYSTEM_CALLS, TogetherMixin, limited_memory
from test_train import TRAINING, TrainTest, exact, last_checkpoint, lines

STEPS = 120


def no_locks():
    """What a program is started with whose file system knows no locks."""
    load, equal, allow, refuse = 0x20, 0x15, 0x7fff0000, 0x00050000 | 37  # ENOLCK
    if "fcntl" not in SYSTEM_CALLS:
        raise unittest.SkipTest("numbers of system calls are not known here")
    # The call's number, then the low word of its second argument: F_OFD_SETLK.
    rules = [(load, 0, 0, 0), (equal, 0, 3, SYSTEM_CALLS["fcntl"]), (load, 0, 0, 24), (equal, 0, 1, 37),
             (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    libc = ctypes.CDLL(None, use_errno=True)

    def forbid():
        if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
            raise OSError(ctypes.get_errno(), "prctl")
        program = struct.pack("=H6xQ", len(rules), ctypes.addressof(code))
        if libc.syscall(SYSTEM_CALLS["seccomp"], 1, 0, program) < 0:  # SECCOMP_SET_MODE_FILTER
            raise OSError(ctypes.get_errno(), "seccomp")

    return {"preexec_fn": forbid}


class EndTest(TrainTest):
    def setUp(self):
        super().setUp()
        self.rows = self.folder / "rows.npy"
        numpy.save(self.rows, numpy.random.default_rng(3).integers(0, 320, (96, 128)))
        self.output = self.folder / "out"

    def evaluated(self, output, *extra):
        """A training with held-out rows, of which each evaluation takes longer than a step."""
        return self.golden_arguments(output, "fox-pro", "--max-tokens", 512 * STEPS, "--eval", self.rows,
                                     "--micro-batch-tokens", 128, *extra)

    def long_training(self, *extra):
        return self.golden_arguments(self.output, "fox-pro", "--max-tokens", 512 * 100_000, *extra)

    def start(self, arguments, **options):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], env={**os.environ, **self.environment},
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
        self.addCleanup(process.kill)
        return process

    def interrupt(self, process, number=signal.SIGINT):
        """Once the program takes the signal itself; one that has ended already is left."""
        with contextlib.suppress(FileNotFoundError):
            while process.poll() is None and not self.is_blocked(process, number):
                time.sleep(0.001)
        process.send_signal(number)

    def ended(self, process, code=130):
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, said)
        return said.decode()

    def expect_saved(self):
        steps = len(lines(self.output / "log.jsonl"))
        self.assertEqual(last_checkpoint(self.output).name, f"step-{steps:06}")
        return steps

    def wait_for_lines(self, process, path, count):
        deadline = time.monotonic() + 120
        while not path.exists() or path.read_bytes().count(b"\n") < count:
            if process.poll() is not None:
                return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)


def done_and_saved(steps):
    return "1 step is done and saved" if steps == 1 else f"{steps} steps are done and saved"


class SignalTest(EndTest):
    def test_each_saves_and_ends(self):
        whole = self.folder / "whole"
        options = ["--save-every", 50, "--eval-every", 40]
        self.trained(self.evaluated(whole, *options))
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]:
            process = self.start(self.evaluated(self.output, *options),
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
            self.wait_for_steps(process, self.output, 7)
            process.send_signal(number)
            said = self.ended(process)
            self.assertIn(f"{done_and_saved(self.expect_saved())}, go on with foxscope train --resume", said)
            self.trained(["train", "--resume", self.output])
            self.expect_equal(self.output, whole)
            shutil.rmtree(self.output)

    # As `timeout` sends its signal, and a terminal with a starter: before the step at hand can be finished.
    def test_several_at_once_are_one(self):
        for _ in range(3):
            process = self.start(self.golden_arguments(self.output, "fox-pro", "--batch-tokens", 8192, "--max-tokens",
                                                       8192 * 10_000, "--micro-batch-tokens", 128))
            self.wait_for_steps(process, self.output, 1)
            for number in [signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM]:
                process.send_signal(number)
                time.sleep(0.002)
            said = self.ended(process)
            self.assertIn(done_and_saved(self.expect_saved()), said)
            shutil.rmtree(self.output)

    def test_the_same_one_later_ends_at_once(self):
        tokens = 128 * 2**16
        process = self.start(self.golden_arguments(self.output, "fox-pro", "--batch-tokens", tokens, "--max-tokens", tokens,
                                                   "--warmup-tokens", 0, "--micro-batch-tokens", 128))
        self.wait_for_lines(process, self.output / "recipe.json", 1)
        began = time.monotonic()
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        self.assertGreaterEqual(time.monotonic() - began, 2)
        said = self.ended(process).splitlines()
        self.assertEqual(said[-1], f"foxscope: ended at once: what was not saved is lost, go on with foxscope train "
                                   f"--resume {self.output}")
        # Before the step has begun there is nothing that would be finished.
        for line in said[:-1]:
            self.assertIn("the same signal again, after two seconds, ends at once", line)
        self.assertLessEqual(len(said), 2)
        self.assertEqual(list((self.output / "checkpoints").iterdir()), [])

    def test_nohup(self):
        process = self.start(self.long_training(), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_steps(process, self.output, 5)
        process.send_signal(signal.SIGHUP)
        self.wait_for_steps(process, self.output, len(lines(self.output / "log.jsonl")) + 20)
        process.send_signal(signal.SIGTERM)
        self.ended(process)
        self.assertGreater(self.expect_saved(), 20)

    # While texts are cut into tokens, which takes a while.
    def test_before_the_first_step(self):
        data = self.write("large.txt", "The fox ran over the hill, and the hill was green. " * 400_000)
        process = self.start(self.text_arguments(self.output, "--data", data))
        self.wait_until_blocked(process, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        self.assertIn("interrupted before a step was done, nothing is written\n", self.ended(process))
        self.assertFalse(self.output.exists())

    # An evaluation that is interrupted is made when the training goes on: the last one too.
    def test_while_it_evaluates(self):
        for options in [["--eval-every", 20, "--save-every", 30], []]:
            whole = self.folder / "whole"
            self.trained(self.evaluated(whole, *options))
            for turn in range(12):
                process = self.start(self.evaluated(self.output, *options) if turn == 0 else ["train", "--resume", self.output])
                self.wait_for_steps(process, self.output, 20 * (turn + 1) if options else STEPS)
                self.interrupt(process)
                _, said = process.communicate(timeout=120)
                self.assertIn(process.returncode, (0, 130), said)
                self.expect_saved()
                if process.returncode == 0:
                    break
            self.trained(["train", "--resume", self.output])
            self.expect_equal(self.output, whole)
            shutil.rmtree(self.output)
            shutil.rmtree(whole)


class TogetherTest(TogetherMixin, EndTest):
    def test_interrupted_together(self):
        whole = self.folder / "whole"
        options = ["--save-every", 50, "--eval-every", 40]
        self.done_together(self.evaluated(whole, *options))
        for number in [signal.SIGUSR1, signal.SIGTERM]:
            processes = self.start(self.evaluated(self.output, *options))
            self.wait_for_steps(processes[0], self.output, 7)
            for process in processes:
                process.send_signal(number)
            for output, errors, status in self.ended(processes):
                self.assertEqual(status, 130, output + errors)
            self.expect_saved()
            self.done_together(["train", "--resume", self.output])
            self.expect_equal(self.output, whole)
            shutil.rmtree(self.output)


class OutputLostTest(EndTest):
    def test_its_reader_leaves(self):
        whole = self.folder / "whole"
        self.trained(self.evaluated(whole))
        process = self.start(self.evaluated(self.output))
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        self.assertEqual(process.wait(timeout=120), 0, said)
        self.assertEqual(said, "foxscope: standard output: its reader has left; the training goes on, and log.jsonl has every step\n")
        self.expect_equal(self.output, whole)

    def test_it_is_full(self):
        with open("/dev/full", "wb") as full:
            process = self.start(self.golden_arguments(self.output), stdout=full)
            said = self.ended(process, 0)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("standard output: No space left on device", said)
        self.assertIn("; the training goes on", said)
        self.expect_golden(self.output, "fox-pro")


class WriterTest(EndTest):
    def test_who_comes_second_is_told_who_trains(self):
        process = self.start(self.long_training("--save-every", 5))
        self.wait_for_steps(process, self.output, 11)
        holder = f"process {process.pid} on {socket.gethostname()}, since 2"
        for _ in range(3):
            self.fails(1, [str(self.output), holder, "one writer"], "train", "--resume", self.output)
        self.fails(1, [str(self.output), holder, "one writer"], *self.golden_arguments(self.output))
        steps = len(lines(self.output / "log.jsonl"))
        self.wait_for_steps(process, self.output, steps + 5)
        process.kill()
        process.wait(timeout=60)
        resumed = self.start(["train", "--resume", self.output])
        self.wait_for_steps(resumed, self.output, steps + 20)
        self.interrupt(resumed)
        self.ended(resumed)
        log = exact(self.output)
        self.assertEqual([line[0] for line in log], list(range(1, len(log) + 1)))

    def test_of_two_that_begin_one_trains(self):
        processes = [self.start(self.golden_arguments(self.output)) for _ in range(2)]
        said = sorted((process.wait(timeout=120), process.stderr.read().decode()) for process in processes)
        self.assertEqual([code for code, _ in said], [0, 1], said)
        self.assertRegex(said[1][1], r"trains there|exists: go on with --resume")
        self.expect_golden(self.output, "fox-pro")

    def test_a_file_system_without_locks(self):
        try:
            result = self.foxscope(*self.golden_arguments(self.output), **no_locks())
        except (OSError, subprocess.SubprocessError) as error:
            self.skipTest(f"cannot filter system calls here: {error}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.decode(), f"foxscope: {self.output}: its file system has no locks: make sure that no "
                                                 "other process trains there\n")

    def test_killed_before_it_began(self):
        (self.output / "checkpoints").mkdir(parents=True)
        (self.output / "lock").touch()
        self.fails(1, ["holds no training yet", f"-o {self.output}"], "train", "--resume", self.output)
        self.trained(self.golden_arguments(self.output))
        self.expect_golden(self.output, "fox-pro")

    def test_a_damaged_log_is_cut(self):
        self.trained(self.golden_arguments(self.output, "fox-pro", "--save-every", 10, "--keep", "all"))
        shutil.rmtree(self.output / "checkpoints" / "step-000030")
        log = self.output / "log.jsonl"
        before = log.read_text().splitlines(keepends=True)
        log.write_text("".join(before[:12]) + "\0\0\0\0\n" + "".join(before[12:]))
        result = self.foxscope("train", "--resume", self.output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.decode(), f"foxscope: {log}: a line is damaged: this line and all after it are moved to "
                                                 f"log.jsonl.damaged\nfoxscope: {log}: 8 of the 20 steps before have no line: "
                                                 "figures of the training will lack them\n")
        self.assertEqual([line[0] for line in exact(self.output)], [*range(1, 13), *range(21, 31)])


class ResumeOrStartTest(EndTest):
    def command_line(self, *extra):
        return [*self.text_arguments(self.output, "--max-tokens", 256 * 40, *extra)[:-2], "--resume-or-start", self.output]

    def test_one_line_for_every_time(self):
        whole = self.folder / "whole"
        self.trained(self.text_arguments(whole, "--max-tokens", 256 * 40))
        for steps in [3, 9, 20]:
            process = self.start(self.command_line())
            self.wait_for_steps(process, self.output, steps)
            self.interrupt(process, signal.SIGUSR1)
            process.communicate(timeout=120)
        self.trained(self.command_line())
        self.expect_equal(self.output, whole)
        self.assertIn("all 40 steps are done", self.trained(self.command_line()))
        self.expect_equal(self.output, whole)

    def test_what_may_change(self):
        self.trained(self.command_line())
        shutil.copy(self.folder / "book.txt", self.folder / "moved.txt")
        self.trained(self.command_line("--data", self.folder / "moved.txt", "--save-every", 7))
        self.fails(1, ["recipe.json", "another training", f"--resume {self.output}"], *self.command_line("--lr", 0.02))
        self.fails(1, "not the data", *self.command_line("--data", self.write("other.txt", "The hill. " * 900)),
                   environment=self.environment)

    def test_what_goes_together(self):
        self.fails(2, "-o OUT", *self.command_line(), "-o", self.output)
        self.fails(2, "leave other options out", "train", "--resume", self.output, "--resume-or-start", self.output)


class GoneOnTest(EndTest):
    def tokenizer_of(self, checkpoint):
        return (checkpoint / "tokenizer.json").read_bytes()

    def test_the_tokenizer_stays(self):
        whole = self.folder / "whole"
        options = ["--max-tokens", 256 * 60, "--save-every", 4]
        self.trained(self.text_arguments(whole, *options))
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        shutil.copy(FOX / "tokenizer.json", tokenizer)
        process = self.start(self.text_arguments(self.output, *options, "--tokenizer", tokenizer))
        for steps in [5, 13, 30]:
            self.wait_for_steps(process, self.output, steps)
            self.interrupt(process)
            process.communicate(timeout=120)
            self.assertEqual(self.tokenizer_of(last_checkpoint(self.output)), self.tokenizer_of(FOX))
            if tokenizer.exists():
                shutil.rmtree(tokenizer)
            process = self.start(["train", "--resume", self.output])
        self.ended(process, 0)
        self.expect_equal(self.output, whole)
        self.assertEqual(self.tokenizer_of(last_checkpoint(self.output)), self.tokenizer_of(FOX))
        self.done("generate", "--model", last_checkpoint(self.output), "--prompt", "The fox", "--max-tokens", 2)

    # Of checkpoints that were left without it.
    def test_a_tokenizer_that_is_missing_comes_from_where_it_lay(self):
        self.trained(self.text_arguments(self.output, "--save-every", 4, "--keep", "all"))
        shutil.rmtree(self.output / "checkpoints" / "step-000010")
        (self.output / "checkpoints" / "step-000008" / "tokenizer.json").unlink()
        self.trained(["train", "--resume", self.output])
        self.assertEqual(self.tokenizer_of(last_checkpoint(self.output)), self.tokenizer_of(FOX))

    def test_micro_batches_stay(self):
        self.trained(self.text_arguments(self.output, "--save-every", 4, "--keep", "all"))
        shutil.rmtree(self.output / "checkpoints" / "step-000010")
        path = self.output / "checkpoints" / "step-000008" / "training.json"
        state = json.loads(path.read_text())
        self.assertEqual(state["micro_batch_tokens"], 256)  # all of a step
        self.assertNotIn("curves", state)
        path.write_text(json.dumps({**state, "micro_batch_tokens": 128}))
        self.assertIn("micro-batches of 128 tokens", self.trained(["train", "--resume", self.output]))
        self.assertEqual(json.loads((last_checkpoint(self.output) / "training.json").read_text())["micro_batch_tokens"], 128)

    def test_a_log_that_is_gone_is_told(self):
        self.trained(self.text_arguments(self.output, "--save-every", 4, "--keep", "all"))
        shutil.rmtree(self.output / "checkpoints" / "step-000010")
        (self.output / "log.jsonl").unlink()
        result = self.foxscope("train", "--resume", self.output, environment=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("log.jsonl: 8 of the 8 steps before have no line", result.stderr.decode())

    def test_micro_batches_that_memory_does_not_hold(self):
        options = ["--length", 1024, "--batch-tokens", 8192, "--max-tokens", 8192 * 2]
        data = self.write("long.txt", "The fox ran over the hill, and the hill was green. " * 2000)
        self.trained(self.text_arguments(self.output, *options, "--data", data, "--save-every", 1, "--keep", "all"))
        shutil.rmtree(self.output / "checkpoints" / "step-000002")
        limit = 8 << 30
        said = self.fails(1, "GiB", *self.text_arguments(self.folder / "none", *options, "--data", data, "--batch-tokens", 2**30,
                                                         "--max-tokens", 2**30, "--micro-batch-tokens", 2**30),
                          environment=self.environment, **limited_memory(limit))
        free = float(said.split("and ")[1].split(" GiB")[0])
        self.assertLess(free, 8)
        # Between the least memory that it goes on with and what holds all of a step: searched for, since what a program
        # holds before it trains differs from machine to machine.
        low, high = limit - int(free * 2**30), limit
        for _ in range(14):
            room = (low + high) // 2
            result = self.foxscope("train", "--resume", self.output, environment=self.environment, **limited_memory(room))
            if result.returncode != 0:
                low = room
            elif b"micro-batches of" in result.stderr:
                break
            else:
                high = room
                shutil.rmtree(self.output / "checkpoints" / "step-000002")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr.decode(), r"foxscope: micro-batches of \d+ tokens, not of 8192 as before: no more memory "
                                                 r"is free; from here on digits may differ\n")

    def test_curves_of_another_model(self):
        self.trained(self.text_arguments(self.output))
        path = last_checkpoint(self.output) / "training.json"
        state = json.loads(path.read_text())
        for sums in [{"sequences": 1, "loss": [1.0] * 63, "log_gate": [0.0] * 4},
                     {"sequences": 1, "loss": [1.0] * 64, "log_gate": [0.0] * 3},
                     {"sequences": -1, "loss": [1.0] * 64, "log_gate": [0.0] * 4}]:
            path.write_text(json.dumps({**state, "curves": [sums]}))
            self.fails(1, ["training.json", "curves of another model"], "train", "--resume", self.output,
                       environment=self.environment)

    # When a training is saved changes nothing of it.
    def test_saving_changes_nothing(self):
        self.trained(self.golden_arguments(self.folder / "end"))
        self.trained(self.golden_arguments(self.output, "fox-pro", "--save-every", 1))
        self.assertEqual(exact(self.output), exact(self.folder / "end"))
        for name in ["model.safetensors", "optimizer.safetensors"]:
            self.assertEqual((last_checkpoint(self.output) / name).read_bytes(),
                             (last_checkpoint(self.folder / "end") / name).read_bytes())


class SaidTest(EndTest):
    def test_weights_that_are_not_finite_are_not_saved(self):
        self.fails_after_steps(["--lr", 1e39, "--warmup-tokens", 512, "--save-every", 1, "--max-tokens", 2048],
                               r"step 2: a weight is not a finite number: the step is not saved, and step-000001 stays; try ")
        shutil.rmtree(self.output)
        self.fails_after_steps(["--lr", 1e39, "--warmup-tokens", 512, "--save-every", 2, "--max-tokens", 2048],
                               r"step 2: a weight is not a finite number: the step is not saved, and no checkpoint was saved; try ")
        self.assertEqual(list((self.output / "checkpoints").iterdir()), [])

    def fails_after_steps(self, options, words):
        result = self.foxscope(*self.golden_arguments(self.output, "fox-pro", *options))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: " + words + r"[^\n]+\n\Z")

    def test_how_often_rows_are_read(self):
        rows = self.folder / "one.npy"
        numpy.save(rows, numpy.arange(128))
        said = self.trained(self.golden_arguments(self.output, "fox-pro", "--data", rows, "--max-tokens", 512 * 300))
        self.assertIn("1 row of 128 tokens; each is read 1,200 times\n", said)
        shutil.rmtree(self.output)
        # 32 steps of 4 rows, of 64 rows.
        self.assertIn("each is read 2 times", self.trained(self.golden_arguments(self.output, "fox-pro", "--max-tokens", 512 * 32)))
        shutil.rmtree(self.output)
        self.assertNotIn("times", self.trained(self.golden_arguments(self.output, "fox-pro", "--max-tokens", 512 * 20)))

    def test_rows_of_an_array_say_their_length(self):
        arguments = self.golden_arguments(self.output)
        where = arguments.index("--length")
        self.trained(arguments[:where] + arguments[where + 2:])
        self.assertEqual(json.loads((self.output / "recipe.json").read_text())["length"], 128)
        self.expect_golden(self.output, "fox-pro")

    def test_a_recipes_model_gives_way(self):
        recipe = json.loads((TRAINING / "recipe.json").read_text())
        recipe["config"] = {"model_type": "llama", "hidden_size": 8}
        path = self.write("recipe.json", json.dumps(recipe))
        self.trained(self.golden_arguments(self.output, "fox-pro", "--recipe", path))
        self.expect_golden(self.output, "fox-pro")


if __name__ == "__main__":
    unittest.main()
