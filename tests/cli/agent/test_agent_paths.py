"""Paths of another machine, `ssh://HOST/PATH`: every option that takes a path takes one or refuses it in a line, odd names, and
what stays where a command is interrupted."""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import time
import unittest

import h5py
import numpy

from agent_support import AgentTest, contents, slow_pipe
from support import DATA, DRAWS, FOX, NO_DISPLAY, PROGRAM, SOURCE, TEXT, TRANSFORMER


class ThroughAFastPipe(AgentTest):
    """Another foxscope behind a pipe; its temporary files and its cache lie in the test's folder."""

    def setUp(self):
        super().setUp()
        self.there, self.temporary = self.folder / "there", self.folder / "temporary"
        self.there.mkdir()
        self.temporary.mkdir()
        self.fast = self.pipe()

    def pipe(self, delay=0, rate=1000, also=""):
        before = f"export TMPDIR={self.temporary} XDG_CACHE_HOME={self.folder / 'cache'}{also}"
        return {**slow_pipe(self.folder, delay, rate, before), "TMPDIR": str(self.folder)}

    def refused(self, words, *arguments, code=2):
        return self.fails(code, words, *arguments, environment=self.fast)


class CommandLines(ThroughAFastPipe):
    def test_flags_before_the_command_change_no_path(self):
        text = self.write("text.txt", TEXT)
        for flag in ("-v", "-q"):
            output = self.folder / f"run{flag}.h5"
            self.done(flag, "run", "--model", f"ssh://box{FOX}", "--text", text, "-o", output, environment=self.fast)
            with h5py.File(output) as file:
                self.assertIn("models/fox-pro-12m", file)
        there = self.there / "loss.h5"
        self.done("-v", "--quiet", "eval", "loss", "--model", f"ssh://box{FOX}", "--corpus", text, "--length", "16", "-o",
                  f"ssh://box{there}", environment=self.fast)
        self.assertTrue(there.exists())
        self.assertIn("fox-pro-12m", self.done("-q", "info", f"ssh://box{there}", environment=self.fast))

    def test_a_file_may_have_the_name_of_a_command(self):
        self.write("text.txt", TEXT)
        self.done("run", "--model", FOX, "--text", "text.txt", "-o", "heads", cwd=self.folder)
        self.assertIn("fox-pro-12m", self.done("info", "heads", cwd=self.folder))
        self.assertIn("fox-pro-12m", self.done("-q", "info", "heads", cwd=self.folder))

    def test_a_training_is_started_where_its_files_are(self):
        text, out = self.write("text.txt", TEXT * 50), self.folder / "out"
        recipe = SOURCE / "resources" / "recipes" / "fox-pro-1m.json"
        whole = {"--recipe": recipe, "--data": text, "-o": out}
        for option in ("-o", "--data", "--recipe", "--resume-or-start", "--eval", "--tokenizer", "--init", "--config"):
            words = [word for pair in (whole | {option: "ssh://box/x"}).items() for word in pair]
            self.refused(["ssh://box/x: a training works on files of its own machine", "log in to box"], "train", *words)
        self.refused(["log in to box"], "train", "--resume", "ssh://box/x")
        named = self.write("recipe.json", json.dumps({"data": ["ssh://box/x.txt"]}))
        self.refused(["recipe.json: data", "ssh://box/x.txt"], "train", "--recipe", named, "-o", out, code=1)
        self.refused(["log in to box"], "serve", "--model", f"ssh://box{FOX}")
        self.assertFalse(out.exists())
        self.assertFalse(pathlib.Path("ssh:").exists())

    def test_a_spec_names_files_there(self):
        losses = SOURCE / "resources" / "figures" / "loss.h5"
        pages = []
        for name in (f"ssh://box{losses}", str(losses)):
            panel = {"kind": "loss", "files": [name]}
            spec = self.write("spec.json", json.dumps({"foxscope_figure": 1, "panels": [[panel], [panel]]}))
            page = self.folder / f"page{len(pages)}.svg"
            self.done("figure", "spec", spec, "-o", page, environment=self.fast)
            pages.append(page)
        # The pages name their files, and draw the same.
        here, there = (re.sub(r"<desc>.*?</desc>", "", page.read_text(), flags=re.S) for page in pages)
        self.assertEqual(here, there)

    def test_losses_of_two_machines_are_compared(self):
        text = self.write("text.txt", TEXT * 20)
        one, two, both = (self.folder / name for name in ("one.h5", "two.h5", "both.h5"))
        self.done("run", "--model", FOX, "--text", text, "-o", one)
        self.done("run", "--model", TRANSFORMER, "--text", text, "-o", two)
        self.done("run", "--model", FOX, "--model", TRANSFORMER, "--text", text, "-o", both)
        expected = self.done("compare", both)
        self.assertEqual(self.done("compare", one, two), expected)
        self.assertEqual(self.done("compare", one, f"ssh://box{two}", environment=self.fast), expected)
        other = {**self.fast, "FOXSCOPE_REMOTE_PROGRAM": self.fast["FOXSCOPE_REMOTE_PROGRAM"]}
        self.assertEqual(self.done("compare", f"ssh://box{one}", f"ssh://crate{two}", environment=other), expected)
        answer = json.loads(self.done("compare", "--json", one, f"ssh://box{two}", environment=self.fast))
        self.assertEqual(answer["path"], [str(one), f"ssh://box{two}"])
        self.refused(["another file has a model fox-pro-12m too", "name it, as in fox-pro-12m-2=ssh://box"], "compare", one, f"ssh://box{both}")


class Names(ThroughAFastPipe):
    def test_odd_names_are_opened_by_their_url(self):
        source = DATA / "fox-pro"
        run = self.folder / "run.h5"
        self.done("run", "--model", source, "--ids", self.ids_file(), "-o", run)
        for name, written in (("50%.h5", "50%25.h5"), ("a%20b.h5", "a%2520b.h5"), ("a b.h5", "a b.h5"), ("a b.h5", "a%20b.h5"),
                              ("q'\".h5", "q'\".h5"), ("$(x) `y`;z.h5", "$(x) `y`;z.h5"), ("a?b#c.h5", "a?b#c.h5")):
            (self.there / name).write_bytes(run.read_bytes())
            url = f"ssh://box{self.there}/{written}"
            self.assertIn(f"run file   {url},", self.done("info", url, environment=self.fast))
            copy = self.there / f"copy of {name}"
            there = f"ssh://box{self.there}/copy of {written}"
            self.done("heads", url, "-o", there, environment=self.fast)
            self.assertTrue(copy.exists(), name)
            self.refused([copy.name.replace("%", "%25") + ": exists"], "heads", url, "-o", there, code=1)
            for path in (self.there / name, copy):
                path.unlink()
        self.refused(["50%.h5: a % needs two hexadecimal digits", "written %25"], "info", f"ssh://box{self.there}/50%.h5")
        self.refused(["none%25.h5: cannot be opened"], "heads", f"ssh://box{self.there}/none%25.h5", code=1)

    def test_bytes_that_are_no_utf8_are_one_line(self):
        name = os.fsencode(self.there) + b"/bad\xff.txt"
        with open(name, "wb") as file:
            file.write(TEXT.encode())
        output = self.folder / "run.h5"
        for url in (f"ssh://box{self.there}/bad%ff.txt", os.fsdecode(b"ssh://box" + name)):
            self.refused(["this name is not UTF-8", "rename the file there, or make a link to it"], "run", "--model", FOX,
                         "--text", url, "-o", output)


    def test_the_home_folder_there_is_known_to_commands_that_run_there(self):
        home = self.folder / "home"
        home.mkdir()
        (home / "fox").symlink_to(FOX)
        (home / "text.txt").write_text(TEXT)
        fast = {**self.fast, "HOME": str(home)}
        self.done("run", "-q", "--model", "ssh://box/~/fox", "--text", "ssh://box/~/text.txt", "-o", "ssh://box/~/run.h5",
                  environment=fast)
        self.assertEqual(self.done("info", "ssh://box/~/fox", environment=fast).replace("ssh://box/~/fox", "FOX"),
                         self.done("info", home / "fox").replace(str(home / "fox"), "FOX"))
        self.assertIn("fox:", self.done("check", "ssh://box/~/run.h5", environment=fast))
        self.assertEqual({path.name for path in home.iterdir()}, {"fox", "text.txt", "run.h5"})

    def test_what_is_no_file_is_one_line(self):
        os.mkfifo(self.there / "pipe")
        (self.there / "loop").symlink_to("loop")
        text, output = self.write("text.txt", TEXT), self.folder / "run.h5"
        there = f"ssh://box{self.there}"
        for words, url in (("is a device or a stream", f"{there}/pipe"), ("symbolic links", f"{there}/loop"),
                           ("is a device or a stream", "ssh://box/dev/zero"), ("No such file", f"{there}/none"),
                           ("Not a directory", f"ssh://box{text}/")):
            self.refused([f"foxscope: {url}: ", words], "run", "--model", FOX, "--text", url, "-o", output, code=1)
        for words, url in (("is not a file", f"{there}/pipe"), ("is not a file", there), ("symbolic links", f"{there}/loop"),
                           ("is not an HDF5 file", f"ssh://box{text}")):
            self.refused([f"foxscope: {url}: ", words], "heads", url, code=1)
        self.refused([f"{there}: is a folder", "machine: copy the folder to this machine"], "import", "x.safetensors",
                     "--tokenizer", there, "-o", output)
        self.assertFalse(output.exists())

    def test_folders_of_two_machines_are_one_line(self):
        one, two = self.there / "one", self.folder / "two"
        for folder in (one, two):
            folder.mkdir()
            (folder / "recipe.json").write_text("{}")
        output = self.folder / "training.csv"
        for other in (f"b={two}", str(two), f"b=ssh://crate{two}", f"ssh://crate{two}"):
            self.refused([f"foxscope: {other.removeprefix('b=')}: is a folder, and only files are sent to box"], "figure",
                         "training", f"a=ssh://box{one}", other, "-o", output)
        if DRAWS:
            self.refused([f"ssh://box{one}: holds a training's recipe.json, and no folder checkpoints"], "figure",
                         "training", f"a=ssh://box{one}", "-o", output, code=1)
        self.assertFalse(output.exists())

    def test_every_output_may_lie_there(self):
        run = self.run_fixture()
        there = f"ssh://box{self.there}"
        self.done("heads", run, "-o", f"{there}/heads.csv", environment=self.fast)
        self.done("page", run, "-o", f"{there}/page.html", environment=self.fast)
        self.done("import", run, "-o", f"{there}/import.h5", environment=self.fast)
        written = {"heads.csv", "page.html", "import.h5"}
        if DRAWS:
            self.done("figure", "decay", run, "-o", f"{there}/decay.csv", "--write-spec", f"{there}/decay.json",
                      environment=self.fast)
            (self.there / "window.png").write_bytes(b"a picture of before")
            self.done("open", run, "--screenshot", f"{there}/window.png", environment={**NO_DISPLAY, **self.fast})
            self.assertEqual((self.there / "window.png").read_bytes()[:4], b"\x89PNG")
            written |= {"decay.csv", "decay.json", "window.png"}
        self.assertEqual({path.name for path in self.there.iterdir()}, written)


class Damaged(ThroughAFastPipe):
    def same(self, path):
        """`foxscope info` says the same of a file here and there. @returns its exit status and what it said"""
        here, there = (self.foxscope("info", name, environment=self.fast) for name in (path, f"ssh://box{path}"))
        said = (here.returncode, here.stdout, here.stderr)
        url = f"ssh://box{path}".encode()
        self.assertEqual((there.returncode, *(text.replace(url, os.fsencode(path)) for text in (there.stdout, there.stderr))), said)
        return here.returncode, here.stderr.decode()

    def evaluations(self):
        text, run = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", run)
        self.done("map", run, "--head", "1:1", "--quantity", "forget", "-o", self.folder / "map.h5")
        self.done("heads", run, "-o", self.folder / "heads.h5")
        for kind in ("loss", "atlas"):
            self.done("eval", kind, "--model", FOX, "--corpus", text, "--length", "32", "--windows", "2", "-o",
                      self.folder / f"{kind}.h5")
        return [self.folder / f"{kind}.h5" for kind in ("run", "map", "heads", "loss", "atlas")]

    def test_what_is_said_of_a_damaged_file_is_said_of_it_there(self):
        bad = self.there / "bad.h5"

        def set_attribute(name, value):
            def damage(file):
                del file.attrs[name]
                if value is not None:
                    file.attrs[name] = value
            return damage

        def put(value):
            def damage(file):
                group = file["models"] if "models" in file else file["maps"]
                name = sorted(group)[0]
                table = f"{group.name}/{name}/" + sorted(group[name])[0]
                del file[table]
                if value is not None:
                    file[table] = value
            return damage

        def number_for_group(file):
            group = "models" if "models" in file else "maps"
            del file[group]
            file[group] = 3

        damages = [set_attribute("created", 3), set_attribute("created", numpy.bytes_(b"\xff")),
                   set_attribute("foxscope_schema", "old"), put(None), put(numpy.arange(3)), number_for_group]
        for path in self.evaluations():
            whole = path.read_bytes()
            bad.write_bytes(whole)
            self.assertEqual(self.same(bad)[0], 0, path)
            for cut in (0, 100, len(whole) // 2, len(whole) - 1):
                bad.write_bytes(whole[:cut])
                self.assertEqual(self.same(bad)[0], 1, (path, cut))
            for number, damage in enumerate(damages):
                bad.write_bytes(whole)
                with h5py.File(bad, "r+") as file:
                    damage(file)
                status, said = self.same(bad)
                if number < 2:
                    self.assertNotIn("no runs", said)
                    self.assertIn("/@created", said)
                    self.assertEqual(status, 1)


class Interrupted(ThroughAFastPipe):
    def interrupted_while_fetched(self, number, rate):
        """A run there whose output is on its way here when a signal comes. @returns what the command said"""
        text, output = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        process = subprocess.Popen([PROGRAM, "run", "-v", "--model", f"ssh://box{FOX}", "--text", str(text), "-o", str(output)],
                                   env={**os.environ, **self.pipe(0, rate)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for line in process.stderr:
            if b"fetching" in line:
                break
        time.sleep(0.3)
        process.send_signal(number)
        written, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130 if number == signal.SIGINT else -number, said)
        self.assertFalse(output.exists())
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".")], [])
        self.wait_for_none()
        return said.decode().splitlines()

    def test_an_output_on_its_way_is_kept_there(self):
        said = self.interrupted_while_fetched(signal.SIGINT, 8)
        kept = re.fullmatch(r"foxscope: interrupted while it was fetched; what was made is kept in ssh://box(/\S+/run\.h5): "
                            "copy it from there", said[-1])
        self.assertIsNotNone(kept, said)
        kept = pathlib.Path(kept[1])
        self.assertEqual([kept], list(self.temporary.rglob("*.h5")))
        self.done("check", kept)

    def test_a_process_that_is_killed_loses_nothing(self):
        self.interrupted_while_fetched(signal.SIGKILL, 8)
        self.done("check", *self.temporary.rglob("*.h5"))

    def test_an_output_comes_although_the_connection_ends(self):
        text, output = self.write("text.txt", TEXT * 20), self.folder / "run.h5"
        process = subprocess.Popen([PROGRAM, "run", "-v", "--model", f"ssh://box{FOX}", "--text", str(text), "-o", str(output)],
                                   env={**os.environ, **self.pipe(0, 8)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for line in process.stderr:
            if b"fetching" in line:
                break
        time.sleep(0.3)
        self.signal_agents(signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn(b"the connection ended, once more", said)
        self.done("check", output)
        self.wait_for_none()
        self.assertEqual(list(self.temporary.rglob("*.h5")), [])

    def test_folders_of_an_agent_that_is_killed_go_with_the_next_one(self):
        text = self.write("text.txt", TEXT * 400)
        process = subprocess.Popen([PROGRAM, "run", "-v", "--model", f"ssh://box{FOX}", "--text", str(text), "-o",
                                    str(self.folder / "run.h5")], env={**os.environ, **self.fast}, stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"forward" in line:
                break
        self.signal_agents(signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.wait_for_none()
        self.assertGreater(len(list(self.temporary.iterdir())), 0)
        kept = self.temporary / "foxscope-agent-kept"
        kept.mkdir()
        self.done("info", f"ssh://box{FOX}", environment=self.fast)
        self.assertEqual(list(self.temporary.iterdir()), [kept])

    def test_nothing_is_left_there_of_an_output_that_came(self):
        text = self.write("text.txt", TEXT)
        self.done("run", "--model", f"ssh://box{FOX}", "--text", text, "-o", self.folder / "run.h5", environment=self.fast)
        self.done("run", "--model", FOX, "--text", text, "-o", self.folder / "here.h5")
        line = "/@command_line"
        self.assertEqual(contents(self.folder / "run.h5") | {line: ""}, contents(self.folder / "here.h5") | {line: ""})
        self.wait_for_none()
        self.assertEqual(list(self.temporary.iterdir()), [])


class Unsent(ThroughAFastPipe):
    """An evaluation is made here, and its file cannot be sent there."""

    def setUp(self):
        super().setUp()
        self.corpus, self.output = self.write("corpus.txt", TEXT * 20), self.there / "eval.h5"
        self.cache = self.folder / "cache-here"
        self.arguments = ("eval", "loss", "--model", FOX, "--corpus", self.corpus, "--length", "64", "--windows", "3", "-o",
                          f"ssh://box{self.output}")

    def here(self, rate=1000, blocks=None):
        """The environment in which there is room for files of so many blocks there."""
        return {**self.pipe(0, rate, "" if blocks is None else f"; ulimit -f {blocks}"), "XDG_CACHE_HOME": str(self.cache)}

    def kept(self):
        """Makes the evaluation, which has no room there. @returns where it is kept, and its bytes"""
        result = self.foxscope(*self.arguments, environment=self.here(blocks=4))
        self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
        kept = re.fullmatch(rf"foxscope: ssh://box{re.escape(str(self.output))}: needs .*; what was made is kept on this machine, "
                            r"in (/\S+/eval\.h5): the same command sends it, for seven days", result.stderr.decode().splitlines()[-1])
        self.assertIsNotNone(kept, result.stderr)
        kept = pathlib.Path(kept[1])
        self.assertFalse(self.output.exists())
        return kept, kept.read_bytes()

    def test_the_same_command_sends_what_is_made(self):
        _, made = self.kept()
        self.assertEqual(self.kept()[1], made)  # it is still full there
        result = self.foxscope(*self.arguments, environment=self.here())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"ssh://box{self.output}: was made before, and is sent now", result.stderr.decode())
        self.assertEqual(self.output.read_bytes(), made)
        self.assertEqual(list((self.cache / "foxscope" / "outputs").iterdir()), [])
        # It prints what it would have printed.
        here = self.folder / "here" / "eval.h5"
        here.parent.mkdir()
        expected = self.done(*self.arguments[:-1], here).replace(str(here), f"ssh://box{self.output}")
        rate = re.compile(r" *[\d,]+\n")
        self.assertEqual(rate.sub("", result.stdout.decode()), rate.sub("", expected))

    def test_it_is_sent_although_the_process_was_killed_meanwhile(self):
        slow = {**os.environ, **self.here(rate=0.05)}
        process = subprocess.Popen([PROGRAM, *map(str, self.arguments), "-v"], env=slow, stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"sending" in line:
                break
        process.kill()
        process.communicate(timeout=60)
        self.assertFalse(self.output.exists())
        made = next(self.cache.rglob("eval.h5")).read_bytes()
        self.wait_for_none()
        self.done(*self.arguments, "--force", environment=self.here())
        self.assertEqual(self.output.read_bytes(), made)

    def test_other_work_is_not_sent_in_its_place(self):
        kept, made = self.kept()
        other = [word if word != "3" else "2" for word in self.arguments]
        words = [f"foxscope: {kept}: was made for ssh://box{self.output} by another command", "--force"]
        self.fails(1, words, *other, environment=self.here())
        text = self.corpus.read_text()
        self.corpus.write_text(text.replace("fox", "cat"))
        self.fails(1, words, *self.arguments, environment=self.here())
        self.assertEqual(kept.read_bytes(), made)
        self.assertFalse(self.output.exists())
        self.done(*other, "--force", environment=self.here())
        with h5py.File(self.output) as file:
            self.assertEqual(file["models/fox-pro-12m/loss/per_token_loss"].shape[0], 2)
        self.assertEqual(list((self.cache / "foxscope" / "outputs").iterdir()), [])


class Pages(ThroughAFastPipe):
    def test_a_page_takes_few_messages(self):
        text, run = self.write("text.txt", TEXT * 10), self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", text, "-o", run)
        here, there = self.folder / "here.html", self.folder / "there.html"
        self.done("page", run, "-o", here)
        self.done("page", f"ssh://box{run}", "-o", there, environment=self.fast)
        self.assertEqual(there.read_bytes().replace(b"there.html", b"here.html"), here.read_bytes())
        # Of each of 8 heads queries, keys, c and normalisers, and no rows of A: a request has 300 bytes and more.
        asked, _ = map(int, (self.folder / "counts").read_text().split())
        self.assertLess(asked, 30_000)


class Weights(ThroughAFastPipe):
    def test_weights_are_read_once_as_long_as_their_files_stay(self):
        """What is told of is looked at: with other bytes, but the size and times of before, the checksum is the old one."""
        model = self.folder / "model"
        model.mkdir()
        for file in FOX.iterdir():
            (model / file.name).write_bytes(file.read_bytes())
        weights = sorted(model.glob("*.safetensors"))[0]
        agent = subprocess.Popen([PROGRAM, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def send(header):
            message = json.dumps(header).encode()
            agent.stdin.write(struct.pack("<I", len(message)) + message)
            agent.stdin.flush()

        def receive():
            while True:
                header = json.loads(agent.stdout.read(struct.unpack("<I", agent.stdout.read(4))[0]))
                if "progress" not in header:
                    return header

        def checksum():
            send({"id": 1, "do": "weights", "path": str(model)})
            return receive()["answer"]

        send({"foxscope_agent": 4, "program": "test", "version": "1"})
        self.assertIn("weights", receive()["offers"])
        first = checksum()
        told = json.loads(self.done("info", model, "--checksum", "--json"))["weights_sha256"]
        self.assertEqual(first, told)
        times = weights.stat()
        with open(weights, "r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 1]))
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(checksum(), first)
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
        self.assertNotEqual(checksum(), first)
        agent.stdin.close()
        self.assertEqual(agent.wait(timeout=30), 0)
        agent.stdout.close()


if __name__ == "__main__":
    unittest.main()
