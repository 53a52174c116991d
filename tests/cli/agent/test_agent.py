"""Runs and models on another machine: `ssh://HOST/PATH` in the place of a path, and `foxscope agent`, which answers."""

import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import struct
import subprocess
import sys
import time
import unittest

import h5py
import numpy

from agent_support import AgentTest, Sshd, contents, processes_there, program_there, slow_pipe
from support import DRAWS, FOX, NO_DISPLAY, PROGRAM, SOURCE, TEXT, read_png, through_terminal


class ThroughSsh(AgentTest):
    """A real sshd, on the loopback address."""

    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.server_folder = tempfile.TemporaryDirectory(prefix="foxscope-sshd-")
        cls.addClassCleanup(cls.server_folder.cleanup)
        cls.server = Sshd(pathlib.Path(cls.server_folder.name))
        cls.addClassCleanup(cls.server.end)

    def there(self, *arguments, **options):
        return self.done(*arguments, environment=self.server.environment, **options)

    def tearDown(self):
        self.wait_for_none(self.server_folder.name)

    def same_text(self, run, *arguments):
        """A command prints the same of the file here and there, which it calls by the name that it was given."""
        here = self.done(*[run if word == "RUN" else word for word in arguments])
        url = self.server.url(run)
        there = self.there(*[url if word == "RUN" else word for word in arguments])
        self.assertEqual(there.replace(url, str(run)), here)

    def same_file(self, run, name, *arguments):
        here, there = self.folder / f"here-{name}", self.folder / "there" / f"here-{name}"
        there.parent.mkdir(exist_ok=True)
        self.done(*[run if word == "RUN" else word for word in arguments], "-o", here)
        url = self.server.url(run)
        self.there(*[url if word == "RUN" else word for word in arguments], "-o", there)
        if name.endswith(".h5"):
            self.assertEqual(contents(there), contents(here))
        else:
            self.assertEqual(there.read_bytes(), here.read_bytes())

    def test_commands_on_a_run_give_the_bytes_that_they_give_there(self):
        run = self.two_runs()
        self.same_text(run, "info", "RUN")
        self.same_text(run, "info", "RUN", "--json")
        self.same_text(run, "heads", "RUN")
        self.same_text(run, "heads", "RUN", "--json", "--split")
        self.same_text(run, "heads", "RUN", "--csv", "--by-class", "--model", "fox-pro-12m")
        self.same_text(run, "compare", "RUN")
        self.same_text(run, "compare", "RUN", "--json")
        model = ("--model", "fox-pro-12m", "--head", "3:1")
        self.same_file(run, "map.npy", "map", "RUN", *model, "--quantity", "attention")
        self.same_file(run, "map.csv", "map", "RUN", *model, "--quantity", "gate_effect", "--size", "9x9")
        self.same_file(run, "map.h5", "map", "RUN", *model, "--quantity", "forget,attention", "--minus",
                       "fox-pro-12m:2:2")
        self.same_file(run, "heads.h5", "heads", "RUN")
        self.same_file(run, "page.html", "page", "RUN", "--heads", "1:0,3:1")
        if DRAWS:
            self.same_file(run, "map.png", "map", "RUN", *model, "--quantity", "attention")
            self.same_file(run, "figure.pdf", "figure", "maps", "RUN", "--heads", "1:0,3:1", "--model", "fox-pro-12m")
            self.same_file(run, "grid.svg", "figure", "grid", "RUN", "--model", "fox-pro-12m")

    def test_a_recorded_command_has_the_name_of_the_file_there(self):
        run = self.folder / "a b%20.h5"
        run.write_bytes(self.two_runs().read_bytes())
        head = ("--model", "fox-pro-12m", "--head", "3:1")
        self.same_file(run, "map.h5", "map", "RUN", *head, "--quantity", "forget")
        self.same_file(run, "heads.h5", "heads", "RUN")
        self.same_file(run, "page.html", "page", "RUN", "--heads", "1:0,3:1")

    def test_evaluations_are_copied(self):
        losses = SOURCE / "resources" / "figures" / "loss.h5"
        self.same_text(losses, "info", "RUN")
        if DRAWS:
            self.same_file(losses, "loss.svg", "figure", "loss", "RUN")

    def test_a_model_there_runs_there(self):
        text = self.write("text.txt", TEXT)
        here, back, kept = self.folder / "here.h5", self.folder / "back.h5", self.folder / "kept.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", here)
        said = self.there("run", "--model", self.server.url(FOX), "--text", text, "-o", back)
        self.assertEqual(said.splitlines()[-1], f"written to {back}")
        self.there("run", "--model", self.server.url(FOX), "--text", self.server.url(text), "-o",
                   self.server.url(kept))
        expected = contents(here)
        line = "/@command_line"
        self.assertEqual(contents(back) | {line: expected[line]}, expected | {})
        self.assertEqual(contents(kept) | {line: expected[line]}, expected | {})
        self.assertNotIn("/", contents(back)[line].replace("--", ""))  # no folder of either machine
        model = ("generate", "--max-tokens", "8", "--prompt", "The fox", "--model")
        self.assertEqual(self.there(*model, self.server.url(FOX)), self.done(*model, FOX))
        continued = ("generate", "--max-tokens", "8", "--text", "-", "--model")
        self.assertEqual(self.there(*continued, self.server.url(FOX), stdin=TEXT.encode()),
                         self.done(*continued, FOX, stdin=TEXT.encode()))

    def test_an_error_there_names_the_file_here(self):
        empty, output = self.write("empty.txt", ""), self.folder / "run.h5"
        arguments = ("run", "-q", "--text", empty, "-o", output, "--model")
        here = self.fails(1, "empty.txt", *arguments, FOX, output=output)
        there = self.fails(1, "empty.txt", *arguments, self.server.url(FOX), output=output,
                           environment=self.server.environment)
        self.assertEqual(there, here)

    def test_an_evaluation_runs_there_and_its_file_comes_back(self):
        corpus = self.write("corpus.txt", TEXT * 20)
        arguments = ("--corpus", corpus, "--length", "64", "--windows", "3", "--seed", "1")
        self.done("eval", "loss", "--model", FOX, *arguments, "-o", self.folder / "eval.h5")
        self.there("eval", "loss", "--model", self.server.url(FOX), *arguments, "-o", self.folder / "back.h5")
        with h5py.File(self.folder / "eval.h5") as here, h5py.File(self.folder / "back.h5") as back:
            name = "models/fox-pro-12m/loss/per_token_loss"
            numpy.testing.assert_array_equal(here[name], back[name])

    def test_a_model_here_reads_a_text_there(self):
        text = self.write("text.txt", TEXT)
        self.there("run", "--model", FOX, "--text", self.server.url(text), "-o", self.folder / "run.h5")
        self.assertIn("text", contents(self.folder / "run.h5")["/@command_line"])

    def test_a_checkpoint_and_a_check_are_described_there(self):
        url = self.server.url(FOX)
        self.assertEqual(self.there("info", url).replace(url, str(FOX)), self.done("info", FOX))
        run = self.two_runs()
        self.assertEqual(self.there("check", self.server.url(run)), self.done("check", run))
        self.fails(2, ["run files on another machine are read by info, map", "and check: eval reads one that is here: copy the file"],
                   "eval", "import", self.server.url(run), "-o", self.folder / "x.h5", environment=self.server.environment)

    def test_an_output_there_is_written_there(self):
        run = self.two_runs()
        output = self.folder / "map.npy"
        arguments = ("map", run, "--model", "fox-pro-12m", "--head", "0:0", "--quantity", "forget", "-o")
        self.there(*arguments, self.server.url(output))
        self.done(*arguments, self.folder / "here.npy")
        self.assertEqual(output.read_bytes(), (self.folder / "here.npy").read_bytes())
        self.fails(1, ["map.npy", "exists"], *arguments, self.server.url(output), environment=self.server.environment)

    def test_messages_name_files_by_their_url(self):
        environment = self.server.environment
        losses = self.folder / "losses.h5"
        losses.write_bytes((SOURCE / "resources" / "figures" / "loss.h5").read_bytes())
        with h5py.File(losses, "r+") as file:
            del file["models"]
        url = self.server.url(losses)
        here = self.fails(1, "losses.h5", "info", losses)
        self.assertEqual(self.fails(1, url, "info", url, environment=environment), here.replace(str(losses), url))
        text, corpus = self.write("bad.txt", b"a fox \xff"), self.folder / "corpus"
        corpus.mkdir()
        output = self.folder / "out.h5"
        url = self.server.url(text)
        said = self.fails(1, [f"foxscope: {url}: "], "run", "--model", FOX, "--text", url, "-o", output,
                          environment=environment, output=output)
        self.assertNotIn("/foxscope-", said.replace(url, ""))
        # The same of a text beside the model there.
        there = self.fails(1, [f"foxscope: {url}: "], "run", "-q", "--model", self.server.url(FOX), "--text", url, "-o",
                           output, environment=environment, output=output)
        self.assertEqual(there, said)
        missing = self.server.url(self.folder / "none.h5")
        self.fails(1, [f"foxscope: {missing}: cannot be opened"], "heads", missing, environment=environment)
        evaluate = ("eval", "loss", "--length", "64", "-o", output)
        folder_there = self.server.url(corpus)
        self.fails(2, [f"foxscope: {folder_there}: is a folder", "name a model there too"], *evaluate, "--model", FOX,
                   "--corpus", folder_there, environment=environment, output=output)
        self.fails(2, [f"foxscope: {corpus}: is a folder", f"name it as ssh://127.0.0.1:{self.server.port}/PATH"],
                   *evaluate, "--model", self.server.url(FOX), "--corpus", corpus, environment=environment, output=output)

    def test_where_an_output_was_written_is_said_with_the_machine(self):
        text, output = self.write("text.txt", TEXT), self.server.url(self.folder / "run.h5")
        arguments = ("run", "--text", text, "-o", output, "--force", "--model")
        for model in (FOX, self.server.url(FOX)):
            self.assertEqual(self.there(*arguments, model).splitlines()[-1], f"written to {output}")
            self.assertEqual(json.loads(self.there("run", "--json", *arguments[1:], model))["output"], output)

    def test_room_here_is_looked_at_before_a_run_there(self):
        text, output = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        arguments = ("run", "--text", text, "-o", output, "--model")
        limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # noqa: E731
        for model, environment in ((FOX, {}), (self.server.url(FOX), self.server.environment)):
            result = self.foxscope(*arguments, model, "-v", environment=environment, preexec_fn=limited)
            said = result.stderr.decode()
            self.assertEqual(result.returncode, 1, said)
            self.assertRegex(said.splitlines()[-1], rf"\Afoxscope: {re.escape(str(output))}: needs .*raise `ulimit -f`")
            self.assertNotIn(": forward", said)
            self.assertFalse(output.exists())

    def test_what_has_no_room_here_stays_there(self):
        corpus, output = self.write("corpus.txt", TEXT * 20), self.folder / "eval.h5"
        result = self.foxscope("eval", "loss", "-q", "--model", self.server.url(FOX), "--corpus", corpus, "--length", "64",
                               "--windows", "3", "-o", output, environment=self.server.environment,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, 1 << 10)))
        self.assertEqual(result.returncode, 1)
        said = result.stderr.decode()
        self.assertFalse(output.exists())
        url = re.search(rf"\Afoxscope: {re.escape(str(output))}: needs .*kept in (ssh://\S+/eval-\S+\.h5) until", said)
        self.assertIsNotNone(url, said)
        kept = pathlib.Path(url[1].removeprefix(self.server.url("")))
        self.addCleanup(kept.unlink)
        with h5py.File(kept) as file:
            self.assertIn("models/fox-pro-12m/loss/per_token_loss", file)

    def test_errors_are_one_line(self):
        environment = self.server.environment
        missing = self.server.url(self.folder / "none.h5")
        self.fails(1, ["127.0.0.1", "none.h5", "No such file"], "heads", missing, environment=environment)
        nobody = dict(environment, FOXSCOPE_REMOTE_PROGRAM="/nonexistent/foxscope")
        self.fails(1, ["no program /nonexistent/foxscope there", "install foxscope there"], "heads", missing,
                   environment=nobody)
        stranger = self.folder / "stranger"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger], check=True)
        other_key = environment["FOXSCOPE_SSH"].replace(f"{self.server_folder.name}/user_key", str(stranger))
        result = self.foxscope("heads", missing, environment=dict(environment, FOXSCOPE_SSH=other_key))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot be reached", result.stderr)
        self.assertIn(b"Permission denied", result.stderr)
        self.fails(1, ["cannot be reached", "look whether `ssh unknown.invalid` works"], "heads",
                   "ssh://unknown.invalid/x.h5", environment={"FOXSCOPE_SSH": "ssh"})
        self.fails(1, ["/nonexistent/ssh", "install OpenSSH's client"], "heads", missing,
                   environment={"FOXSCOPE_SSH": "/nonexistent/ssh"})
        self.fails(2, ["ssh://x", "names no file"], "heads", "ssh://x")


class ThroughAPipe(AgentTest):
    """Another foxscope behind a pipe that delays 25 ms each way and lets 20 Mbit/s pass."""

    def test_nothing_from_there_moves_the_cursor(self):
        run = self.two_runs()
        environment = slow_pipe(self.folder, 0, 1000, "printf 'Welcome \\033]0;title\\007\\n'; printf '\\033[31mred\\n' >&2")
        said, status = through_terminal("map", f"ssh://box{run}", "--model", "fox-pro-12m", "--head", "0:0", "--quantity",
                                        "forget", "-o", self.folder / "map.npy", streams=("stderr",), **environment)
        self.assertEqual(status, 0, said)
        self.assertIn(rb"Welcome \u001b]0;title\u0007", said)
        self.assertNotIn(b"\033]0", said)
        self.assertNotIn(b"\033[31mred", said)

    def test_a_command_that_is_interrupted_leaves_nothing(self):
        run = self.two_runs()
        environment = {**os.environ, **slow_pipe(self.folder)}
        random.seed(7)
        for number in range(int(os.environ.get("FOXSCOPE_TEST_CUTS", "12"))):
            output = self.folder / f"map-{number}.npy"
            process = subprocess.Popen([PROGRAM, "map", f"ssh://box{run}", "--model", "fox-pro-12m", "--head", "1:1",
                                        "--quantity", "attention", "-o", str(output)], env=environment,
                                       stderr=subprocess.PIPE)
            time.sleep(random.random() * 0.6)
            process.send_signal([signal.SIGINT, signal.SIGTERM, signal.SIGKILL][number % 3])
            process.communicate(timeout=60)
            if process.returncode == 130:
                self.assertFalse(output.exists())
        self.wait_for_none()
        self.assertEqual(list(self.folder.glob("*.tmp*")), [])

    def test_a_run_there_ends_with_who_asked_for_it(self):
        text = self.write("text.txt", TEXT * 400)
        environment = {**os.environ, **slow_pipe(self.folder)}
        process = subprocess.Popen([PROGRAM, "run", "--model", f"ssh://box{FOX}", "--text", str(text), "-o",
                                    str(self.folder / "run.h5")], env=environment, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not processes_there(self.folder) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.wait_for_none()
        self.assertFalse((self.folder / "run.h5").exists())

    def interrupted_evaluation(self, arguments, environment, folder):
        """Interrupts a command when its unfinished work, eval.h5.partial somewhere in a folder, has begun.
        @returns where this work lies, and the last line that the command said"""
        process = subprocess.Popen([PROGRAM, *arguments], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not (begun := list(folder.rglob("eval.h5.partial"))) or begun[0].stat().st_size < 2000:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        return begun[0], said.decode().splitlines()[-1]

    def test_an_evaluation_there_that_is_interrupted_goes_on(self):
        corpus, output = self.write("corpus.txt", TEXT * 480), self.folder / "eval.h5"
        environment = {**os.environ, **slow_pipe(self.folder, 1, 1000)}
        arguments = ["eval", "loss", "--model", f"ssh://box{FOX}", "--corpus", str(corpus), "--length", "64",
                     "--windows", "160", "-o", f"ssh://box{output}"]
        partial, said = self.interrupted_evaluation(arguments, environment, self.folder)
        self.assertEqual(partial, self.folder / "eval.h5.partial")
        self.assertIn(f"ssh://box{partial}, and the same command goes on from it", said)
        self.wait_for_none()
        self.assertTrue(partial.exists())
        said = self.foxscope(*arguments, environment=environment)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(b"were computed before", said.stderr)

    def test_an_evaluation_here_whose_output_is_there_goes_on(self):
        corpus, output = self.write("corpus.txt", TEXT * 240), self.folder / "eval.h5"
        cache = self.folder / "cache"
        environment = {**os.environ, **slow_pipe(self.folder, 1, 1000), "XDG_CACHE_HOME": str(cache)}
        arguments = ["eval", "loss", "--model", str(FOX), "--corpus", str(corpus), "--length", "64", "--windows", "40",
                     "-o", f"ssh://box{output}"]
        partial, said = self.interrupted_evaluation(arguments, environment, cache)
        self.assertIn(f"the work so far is in {partial}, the same command goes on from it", said)
        self.assertTrue(partial.exists())
        self.assertFalse(output.exists())
        said = self.foxscope(*arguments, environment=environment)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(b"were computed before", said.stderr)
        self.assertEqual(said.stdout.decode().splitlines()[-1], f"written to ssh://box{output}")
        here = self.folder / "here" / "eval.h5"
        here.parent.mkdir()
        self.done("eval", "loss", "--model", FOX, "--corpus", corpus, "--length", "64", "--windows", "40", "-o", here)
        self.assertEqual(contents(output), contents(here))
        self.assertEqual(list((cache / "foxscope" / "outputs").iterdir()), [])

    def test_an_output_there_that_cannot_be_written_is_refused_before_the_work(self):
        text = self.write("text.txt", TEXT)
        environment = slow_pipe(self.folder, 0, 1000)
        gone = dict(environment, FOXSCOPE_REMOTE_PROGRAM="/nonexistent/foxscope")
        for path, expected, machine in ((text, "exists already: use --force", environment),
                                        (self.folder / "none" / "run.h5", "does not exist", environment),
                                        (self.folder, "is a folder", environment),
                                        (pathlib.Path("/proc/run.h5"), "cannot write to its folder", environment),
                                        (self.folder / "run.h5", "box", gone)):
            result = self.foxscope("run", "-v", "--model", FOX, "--text", text, "-o", f"ssh://box{path}",
                                   environment=machine)
            said = result.stderr.decode()
            self.assertEqual(result.returncode, 1, said)
            self.assertIn(expected, said.splitlines()[-1])
            self.assertNotIn("forward", said)
            self.assertEqual(result.stdout, b"")
        self.wait_for_none()

    def interrupted_when(self, word, environment, *arguments):
        """Interrupts a command when a line of its standard error has this word; its standard output is empty.
        @returns the last line that it said"""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], env=environment, stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        for line in process.stderr:
            if word.encode() in line:
                break
        process.send_signal(signal.SIGINT)
        written, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(written, b"")
        return said.decode().splitlines()[-1]

    def assert_kept(self, pattern, said):
        """A line names a whole run file, which goes with the test."""
        kept = pathlib.Path(re.search(pattern, said)[1])
        self.addCleanup(kept.parent.rmdir)
        self.addCleanup(kept.unlink)
        self.done("check", kept)

    def test_an_output_that_is_not_sent_is_kept_and_not_called_written(self):
        text, output = self.write("text.txt", TEXT), self.folder / "there.h5"
        environment = {**os.environ, **slow_pipe(self.folder, 0, 0.5)}
        said = self.interrupted_when("sending", environment, "run", "-v", "--model", FOX, "--text", text, "-o",
                                     f"ssh://box{output}")
        self.assertFalse(output.exists())
        self.assert_kept(r"kept on this machine, in (/\S+/there\.h5): ", said)

    def test_an_output_that_is_not_fetched_is_kept_and_not_called_written(self):
        text, output = self.write("text.txt", TEXT), self.folder / "here.h5"
        environment = {**os.environ, **slow_pipe(self.folder, 0, 0.5)}
        for form in ((), ("--json",)):
            said = self.interrupted_when("fetching", environment, "run", "-v", *form, "--model", f"ssh://box{FOX}",
                                         "--text", text, "-o", output)
            self.assertFalse(output.exists())
            self.assert_kept(r"kept in ssh://box(/\S+/here\.h5): ", said)
        written = self.done("run", "--model", f"ssh://box{FOX}", "--text", text, "-o", output,
                            environment=slow_pipe(self.folder, 0, 1000))
        self.assertEqual(written.splitlines()[-1], f"written to {output}")

    def test_what_is_done_there_stays_there_when_the_connection_is_cut(self):
        text, output, cut = self.write("text.txt", TEXT), self.folder / "here.h5", self.folder / "cut"
        pipe = self.write("cutting_pipe.py", """import os, subprocess, sys
_, cut, passes, again, _, program, _ = sys.argv
if os.path.exists(cut) and again == "none":
    sys.exit(255)
there = subprocess.Popen([program, "agent"], stdout=subprocess.PIPE)
while piece := os.read(there.stdout.fileno(), 1 << 16):
    cuts = not os.path.exists(cut) and b'"left"' in piece
    if cuts:
        open(cut, "w").close()
    if not cuts or passes == "passes":
        os.write(1, piece)
    if cuts:
        os._exit(255)
""")
        for passes, again, said, status in (("passes", "again", "", 0),
                                            ("passes", "none", r"box: cannot be reached.*kept in ssh://box(/\S+/here\.h5): ", 1),
                                            ("cut", "again", r"box: the connection has ended.*unless.* in ssh://box(/\S+/here\.h5)$", 1)):
            cut.unlink(missing_ok=True)
            environment = {"FOXSCOPE_SSH": shlex.join([sys.executable, str(pipe), str(cut), passes, again]),
                           "FOXSCOPE_REMOTE_PROGRAM": str(program_there(self.folder))}
            result = self.foxscope("run", "--model", f"ssh://box{FOX}", "--text", text, "-o", output, environment=environment)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual(output.exists(), status == 0)
            self.wait_for_none()
            if status == 0:
                self.done("check", output)
                output.unlink()
                continue
            self.assertEqual(result.stdout, b"")
            found = re.search(said, result.stderr.decode().splitlines()[-1])
            self.assertIsNotNone(found, result.stderr)
            kept = pathlib.Path(found[1])
            self.addCleanup(kept.parent.rmdir)
            self.addCleanup(kept.unlink)
            self.done("check", kept)

    def test_an_agent_that_is_ended_is_not_the_users_interrupt(self):
        text = self.write("text.txt", TEXT * 400)
        environment = {**os.environ, **slow_pipe(self.folder, 0, 1000)}
        process = subprocess.Popen([PROGRAM, "run", "-v", "--model", f"ssh://box{FOX}", "--text", str(text), "-o",
                                    str(self.folder / "run.h5")], env=environment, stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"forward" in line:
                break
        self.signal_agents(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said.decode().splitlines()[-1], r"\Afoxscope: box: .* ended.*start it again\Z")
        self.wait_for_none()
        self.assertFalse((self.folder / "run.h5").exists())

    def test_several_processes_do_not_share_a_path_there(self):
        text = self.write("text.txt", TEXT)
        processes = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        here = ("eval", "loss", "--length", "64", "-o", self.folder / "eval.h5")
        for arguments in ((*here[:-1], "ssh://box/eval.h5", "--model", FOX, "--corpus", text),
                          (*here, "--model", "ssh://box/model", "--corpus", text),
                          (*here, "--model", FOX, "--corpus", "ssh://box/text.txt")):
            self.fails(2, ["ssh://box/", "several processes work together on files of their own machine only", "log in there"],
                       *arguments, environment=processes)

    def test_what_has_no_room_here_stays_there_where_no_cache_can_be_made(self):
        corpus, output = self.write("corpus.txt", TEXT * 20), self.folder / "eval.h5"
        result = self.foxscope("eval", "loss", "-q", "--model", f"ssh://box{FOX}", "--corpus", corpus, "--length", "64",
                               "--windows", "3", "-o", output,
                               environment=slow_pipe(self.folder, 0, 1000, "ulimit -f 100000; export XDG_CACHE_HOME=/proc/none"),
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, 1 << 30)))
        self.assertEqual(result.returncode, 1)
        said = result.stderr.decode()
        self.assertRegex(said, rf"\Afoxscope: {re.escape(str(output))}: needs [^\n]*\n\Z")
        kept = pathlib.Path(re.search(r"kept in ssh://box(/\S+/eval\.h5): copy", said)[1])
        self.addCleanup(kept.parent.rmdir)
        self.addCleanup(kept.unlink)
        with h5py.File(kept) as file:
            self.assertIn("models/fox-pro-12m/loss/per_token_loss", file)

    def test_a_full_temporary_folder_is_named_with_its_machine(self):
        text, output = self.write("text.txt", TEXT * 60), self.folder / "run.h5"
        narrow = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 30))  # noqa: E731
        here = slow_pipe(self.folder, 0, 1000, "ulimit -f 100000")
        of_here, of_there = "temporary folder of this machine, TMPDIR): needs ", "temporary folder of box, TMPDIR there): needs "

        def said(limit, environment, *arguments):
            result = self.foxscope("run", "-q", *arguments, environment=environment, preexec_fn=limit)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertFalse(output.exists())
            return result.stderr.decode().removeprefix("foxscope: ")

        box, short = f"ssh://box{text}", self.write("short.txt", TEXT)
        self.assertIn(f"{box} (copied to the {of_here}", said(narrow, here, "--model", FOX, "--text", box, "-o", output))
        self.assertIn(f"ssh://box{output} (made in the {of_here}",
                      said(narrow, here, "--model", FOX, "--text", short, "-o", f"ssh://box{output}"))
        there = slow_pipe(self.folder, 0, 1000, "ulimit -f 4")
        self.assertIn(f"{text} (copied to the {of_there}",
                      said(None, there, "--model", f"ssh://box{FOX}", "--text", text, "-o", output))
        self.assertIn(f"{output} (made in the {of_there}",
                      said(None, there, "--model", f"ssh://box{FOX}", "--text", short, "-o", output))

    @unittest.skipUnless(DRAWS, "a build without Qt has no window")
    def test_the_window_shows_what_it_shows_of_a_file_here(self):
        run = self.two_runs()
        here, there = self.folder / "here.png", self.folder / "there.png"
        for path, picture, environment in ((run, here, {}), (f"ssh://box{run}", there, slow_pipe(self.folder))):
            self.done("open", path, "--screenshot", picture, "--size", "1400x900",
                      environment={**NO_DISPLAY, **environment})
        # The bar of runs and the status bar name the machine: what lies between them is the same.
        between = slice(60, 865)
        numpy.testing.assert_array_equal(read_png(there)[0][between], read_png(here)[0][between])

    @unittest.skipUnless(DRAWS, "a build without Qt has no window")
    def test_the_window_shows_colours_that_are_a_step_away_at_most(self):
        text, run = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", run)
        here, there = self.folder / "here.png", self.folder / "there.png"
        for path, picture, environment in ((run, here, {}), (f"ssh://box{run}", there, slow_pipe(self.folder))):
            self.done("open", path, "--screenshot", picture, "--size", "1400x900",
                      environment={**NO_DISPLAY, **environment})
        one, two = (read_png(path)[0][60:865].astype(int) for path in (here, there))
        # Beside a map's colours the histogram below their lower limit differs, which has a bar for each decade.
        self.assertLess((numpy.abs(one - two).max(axis=2) > 4).mean(), 0.01)

    def test_bytes_of_a_picture_are_few(self):
        run = self.two_runs()
        environment = slow_pipe(self.folder)
        self.done("map", f"ssh://box{run}", "--model", "fox-pro-12m", "--head", "1:1", "--quantity", "forget", "-o",
                  self.folder / "map.npy", environment=environment)
        asked, answered = map(int, (self.folder / "counts").read_text().split())
        self.assertLess(asked, 4_000)
        self.assertLess(answered, run.stat().st_size // 20)


    def test_a_full_disk_there_is_one_line_and_leaves_nothing_there(self):
        text, run = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", run)
        there = self.folder / "there"
        there.mkdir()
        # No file of more than 32 KiB can be written on the other side.
        environment = slow_pipe(self.folder, 0, 1000, "ulimit -f 64")
        arguments = ("map", run, "--model", "fox-pro-12m", "--head", "0:0", "--quantity", "forget", "--size", "200x200", "-o")
        said = self.fails(1, [f"foxscope: ssh://box{there}/map.npy: needs "], *arguments, f"ssh://box{there}/map.npy",
                          environment=environment)
        # It is not lost.
        kept = pathlib.Path(re.search(r"kept on this machine, in (/\S+/map\.npy): ", said)[1])
        self.done(*arguments, self.folder / "here.npy")
        self.assertEqual(kept.read_bytes(), (self.folder / "here.npy").read_bytes())
        kept.unlink()
        kept.parent.rmdir()
        result = self.foxscope("run", "-q", "--model", f"ssh://box{FOX}", "--text", text, "-o", f"ssh://box{there}/run.h5",
                               environment=environment)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]*run\.h5[^\n]+\n\Z")
        self.wait_for_none()
        self.assertEqual(list(there.iterdir()), [])

    def test_arrays_that_contradict_one_another_are_found_before_anything_is_written(self):
        run = self.two_runs()
        with h5py.File(run, "r+") as file:
            file["models/fox-pro-12m/layers/07/log_normalizer"][...] += 1
        output = self.folder / "map.npy"
        arguments = ("--model", "fox-pro-12m", "--head", "0:0", "--quantity", "forget")
        here = self.fails(1, "layer 7", "map", run, *arguments, "-o", output, output=output)
        environment = slow_pipe(self.folder, 0, 1000)
        there = self.fails(1, "layer 7", "map", f"ssh://box{run}", *arguments, "-o", output, output=output,
                           environment=environment)
        self.assertEqual(there, here.replace("foxscope: ", "foxscope: ssh://box", 1))
        self.assertEqual(self.fails(1, "layer 7", "heads", f"ssh://box{run}", environment=environment), there)
        self.done("map", f"ssh://box{run}", *arguments, "--unchecked", "-o", output, environment=environment)

    def test_statistics_of_heads_come_without_curves(self):
        run = self.two_runs()
        self.done("heads", f"ssh://box{run}", "--json", environment=slow_pipe(self.folder))
        _, answered = map(int, (self.folder / "counts").read_text().split())
        self.assertLess(answered, 64 * 5_000)  # of 64 heads, however long the text is


class WrongAnswers(AgentTest):
    def test_an_answer_of_another_form_names_the_machine(self):
        text, fake = self.write("text.txt", TEXT), self.write("fake.py", """import json, struct, sys
def say(header):
    data = json.dumps(header).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(data)) + data)
    sys.stdout.buffer.flush()
say({"foxscope_agent": 4, "offers": [], "program": "foxscope", "takes": [], "version": "0"})
while length := sys.stdin.buffer.read(4):
    asked = json.loads(sys.stdin.buffer.read(struct.unpack("<I", length)[0]))
    for part in asked.get("parts", []):
        sys.stdin.buffer.read(part["stored"])
    if "id" in asked:
        say({"id": asked["id"], "answer": json.loads(sys.argv[1])})
""")
        for answer in ("null", "{}"):
            environment = {"FOXSCOPE_SSH": shlex.join([sys.executable, str(fake), answer])}
            for arguments in (("run", "--model", f"ssh://box{FOX}", "--text", text, "-o", self.folder / "run.h5"),
                              ("check", "ssh://box/run.h5")):
                self.fails(1, ["box: what came from there is no message of the protocol", "install the same version"],
                           *arguments, environment=environment)

class Protocol(AgentTest):
    def test_the_example_of_the_document_speaks_it(self):
        run = self.two_runs()
        document = (SOURCE / "docs" / "agent.md").read_text()
        example = re.search(r"```python\n(.*?)```", document, re.DOTALL).group(1)
        self.assertLessEqual(len(example.splitlines()), 48)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "foxscope").symlink_to(os.path.abspath(PROGRAM))
        result = subprocess.run([sys.executable, "-c", example], capture_output=True, timeout=120, text=True,
                                cwd=self.folder, env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 0, result.stderr)
        picture = self.folder / "map.npy"
        self.done("map", run, "--model", "fox-pro-12m", "--head", "1:0", "--quantity", "attention", "--size", "8x8", "-o",
                  picture)
        self.assertEqual(result.stdout.split(), [f"{value:.6f}" for value in numpy.load(picture)[-1]])

    def test_garbage_ends_the_agent_with_one_line(self):
        result = self.foxscope("agent", stdin=b"GET / HTTP/1.1\r\n\r\n" * 20)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]+\n\Z")
        length = struct.unpack("<I", result.stdout[:4])[0]
        hello = json.loads(result.stdout[4:4 + length])
        self.assertEqual(hello["foxscope_agent"], 4)
        self.assertEqual(len(result.stdout), 4 + length)

    def test_an_agent_in_a_terminal_says_what_it_is_for(self):
        import pty
        ours, theirs = pty.openpty()
        result = subprocess.run([PROGRAM, "agent"], stdin=theirs, capture_output=True, timeout=60)
        os.close(ours)
        os.close(theirs)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"speaks to another foxscope", result.stderr)


if __name__ == "__main__":
    unittest.main()
