"""What files say of their making: names of files, never their folders, and a command that makes them again."""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import unittest
import zlib

import h5py
import numpy
from support import DATA, DRAWS, FOX, SOURCE, TRANSFORMER, CommandLineTest, set_config

TEXT = "The fox ran over the hill. The hill was green, and the fox was quick; nobody saw the fox.\n" * 12
# Folders of two authors; a search for their names finds any part of a path.
ANNA, BERT = "anna-home-4711", "bert-home-0815"


def png_texts(content):
    """Everything that a PNG says in its text chunks, uncompressed."""
    said, place = b"", 8
    while place < len(content):
        (size,) = struct.unpack(">I", content[place:place + 4])
        kind, data = content[place + 4:place + 8], content[place + 8:place + 8 + size]
        if kind == b"tEXt":
            said += data + b"\n"
        elif kind == b"zTXt":
            key, _, rest = data.partition(b"\0")
            said += key + b"\0" + zlib.decompress(rest[1:]) + b"\n"
        elif kind == b"iTXt":
            key, _, rest = data.partition(b"\0")
            words = rest[2:].split(b"\0", 2)[2]
            said += key + b"\0" + (zlib.decompress(words) if rest[0] else words) + b"\n"
        place += size + 12
    return said


def pdf_texts(path):
    """What a PDF says of itself, and its streams, uncompressed."""
    said = b"".join(subprocess.run(["pdfinfo", *options, path], capture_output=True, check=True).stdout
                    for options in [[], ["-meta"], ["-custom"]])
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL):
        try:
            said += zlib.decompress(stream)
        except zlib.error:
            said += stream
    return said


def hdf5_content(path):
    """Every attribute and dataset of a file by its path; the time of writing left out."""
    content = {}

    def add(name, item):
        for key, value in item.attrs.items():
            if not isinstance(value, h5py.Reference) and key not in ("created", "REFERENCE_LIST", "DIMENSION_LIST"):
                content[f"{name}@{key}"] = value
        if isinstance(item, h5py.Dataset):
            is_text = h5py.check_string_dtype(item.dtype) is not None
            content[name] = item.asstr()[()] if is_text else item[()]

    with h5py.File(path) as file:
        add("", file)
        file.visititems(add)
    return content


def said_by(path):
    """All that can be read in a file, also by programs that know its format."""
    content = path.read_bytes()
    if path.suffix == ".png":
        content += png_texts(content)
    if path.suffix == ".pdf":
        content += pdf_texts(path)
    if path.suffix == ".h5":
        content += repr(hdf5_content(path)).encode()
    return content


def command_of(path):
    """The command that a file says it was made by."""
    if path.suffix == ".h5":
        return hdf5_content(path)["@command_line"]
    if path.suffix == ".svg":
        description = re.search(r"<desc>(.*?)</desc>", path.read_text(), re.DOTALL).group(1)
        entities = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&"}
        return re.sub("&[a-z]+;", lambda found: entities[found.group()], description.partition("command: ")[2])
    if path.suffix == ".png":
        return re.search(rb"Command\0(.*)\n", png_texts(path.read_bytes())).group(1).decode()
    keywords = re.search(r"Keywords: *(.*)", subprocess.run(["pdfinfo", path], capture_output=True, check=True,
                                                            text=True).stdout).group(1)
    return keywords.partition("; command: ")[2]


class PublishedTest(CommandLineTest):
    def author(self, name):
        """An author's folder with models, a text, a corpus, and results of the paper's own program."""
        home = self.folder / name / "work"
        home.mkdir(parents=True)
        for model, source in [("fox-pro", FOX), ("transformer-pro", TRANSFORMER)]:
            shutil.copytree(source, home / model, copy_function=os.symlink)
        (home / "fox-pro" / "config.json").unlink()
        shutil.copy(FOX / "config.json", home / "fox-pro")
        # What a program that saves a model leaves there.
        set_config(home / "fox-pro", _name_or_path=str(home / "fox-pro"))
        (home / "text.txt").write_text(TEXT)
        (home / "ids.json").write_text(json.dumps(list(range(40))))
        numpy.save(home / "windows.npy", numpy.arange(96).reshape(2, 48))
        (home / "corpus").mkdir()
        for number in range(3):
            (home / "corpus" / f"{number}.txt").write_text(TEXT)
        (home / "lines.jsonl").write_text("".join(
            json.dumps({"id": str(home / f"{number}.txt"), "text": TEXT}) + "\n" for number in range(3)))
        losses = numpy.random.default_rng(0).normal(3, 0.5, (4, 300)).astype(numpy.float32)
        numpy.savez(home / "losses.npz", **{"val/loss_per_token": losses})
        (home / "words.json").write_bytes(self.foxscope("eval", "needle", "--print-template").stdout)
        for kind in ["loss", "maps"]:
            (home / f"{kind}.json").write_text(json.dumps({"foxscope_figure": 1, "kind": kind, "options": {}}))
        return home

    def commands(self, place):
        """Every command that writes a file, by what it writes; place() turns the name of a file into an argument."""
        fox = f"fox={place('fox-pro')}"
        base = f"base={place('transformer-pro')}"
        window = ("--length", "32", "--windows", "6")
        commands = {
            "run.h5": ("run", "--model", fox, f"--model={base}", f"--text={place('text.txt')}", "--length", "60", "-o"),
            "ids.h5": ("run", "--model", place("fox-pro"), "--ids", place("ids.json"), "--output"),
            "heads.h5": ("heads", place("run.h5"), "--model", "fox", "--split", "--by-class", "-o"),
            "heads.json": ("heads", place("run.h5"), "--model", "fox", "-o"),
            "heads.csv": ("heads", place("run.h5"), "--model", "fox", "-o"),
            "losses.h5": ("eval", "loss", "--model", fox, "--model", base, "--corpus", place("corpus"), *window, "-o"),
            "lines.h5": ("eval", "loss", "--model", fox, "--corpus", place("lines.jsonl"), *window, "-o"),
            "rows.h5": ("eval", "heads", "--model", fox, "--ids", place("windows.npy"), "-o"),
            "rows.json": ("eval", "heads", "--model", fox, "--corpus", place("corpus"), *window, "-o"),
            "rows.csv": ("eval", "heads", "--model", fox, "--corpus", place("lines.jsonl"), *window, "-o"),
            "needle.h5": ("eval", "needle", "--model", fox, "--haystack", place("text.txt"), "--template",
                          place("words.json"), "--lengths", "300", "--depths", "0,100", "-o"),
            "imported.h5": ("eval", "import", place("losses.npz"), "--name", "authors", "-o"),
        }
        chosen = ("map", place("run.h5"), "--model", "fox", "--layer", "0", "--head", "0", "--quantity", "forget")
        for ending in ["h5", "npy", "csv"] + (["png", "svg", "pdf"] if DRAWS else []):
            commands[f"map.{ending}"] = (*chosen, "-o")
        if not DRAWS:
            return commands
        for kind, file in [("maps", "run.h5"), ("grid", "run.h5"), ("compare", "run.h5"), ("text", "run.h5"),
                           ("loss", "losses.h5"), ("perplexity", "lines.h5"), ("ablation", "losses.h5"),
                           ("decay", "rows.h5"), ("distance", "heads.h5"), ("needle", "needle.h5")]:
            for ending in ["png", "svg", "pdf"]:
                commands[f"{kind}.{ending}"] = ("figure", kind, place(file), "-o")
        commands["spec.pdf"] = ("figure", "spec", place("loss.json"), place("losses.h5"), "-o")
        commands["spec.svg"] = ("figure", "spec", place("maps.json"), place("run.h5"), "-o")
        return commands

    def make_all(self, home):
        for name, words in self.commands(lambda file: str(home / file)).items():
            self.done(*words, str(home / name), "--force")

    def test_no_file_names_a_folder_both_authors_files_are_equal_and_commands_make_them_again(self):
        anna, bert = self.author(ANNA), self.author(BERT)
        for home in [anna, bert]:
            self.make_all(home)
        forbidden = [ANNA.encode(), BERT.encode(), self.folder.name.encode(), str(SOURCE).encode()]
        for name in self.commands(str):
            with self.subTest(name):
                said = said_by(anna / name) + said_by(bert / name)
                for word in forbidden:
                    for coded in [word, word.decode().encode("utf-16-be")]:
                        self.assertFalse(coded in said, f"{name} names {word.decode()}")
                if name.endswith(".h5"):
                    left, right = hdf5_content(anna / name), hdf5_content(bert / name)
                    self.assertEqual(left.keys(), right.keys())
                    for key in left:
                        numpy.testing.assert_array_equal(left[key], right[key], err_msg=key)
                else:
                    self.assertEqual((anna / name).read_bytes(), (bert / name).read_bytes())
        self.expect_made_again(anna)

    def expect_made_again(self, home):
        """The command that a file names makes it again beside its files."""
        for name in self.commands(str):
            if name.rpartition(".")[2] not in ("h5", "png", "svg", "pdf"):
                continue
            with self.subTest(name):
                made, before = home / name, said_by(home / name)
                content = hdf5_content(made) if made.suffix == ".h5" else None
                program, *words = shlex.split(command_of(made))
                self.assertEqual(program, "foxscope")
                self.done(*words, cwd=home)
                if content is None:
                    self.assertEqual(said_by(made), before)
                else:
                    again = hdf5_content(made)
                    self.assertEqual(content.keys(), again.keys())
                    for key in content:
                        numpy.testing.assert_array_equal(content[key], again[key], err_msg=key)

    def test_files_of_older_versions_lose_their_folders_in_what_is_made_of_them(self):
        home = self.author(ANNA)
        old = home / "losses.h5"
        self.done("eval", "loss", "--model", home / "fox-pro", "--corpus", home / "corpus", "--length", 32, "--windows", 4,
                  "-o", old)
        with h5py.File(old, "a") as file:
            file.attrs["source"] = str(home / "corpus")
        self.assertEqual(json.loads(self.done("info", old, "--json"))["source"], "corpus")
        if DRAWS:
            self.done("figure", "loss", old, "-o", home / "loss.svg")
            self.assertNotIn(ANNA, (home / "loss.svg").read_text())

    def recorded(self, *arguments, cwd=None, output="run.h5"):
        """The command that a run file names, as words."""
        self.done(*arguments, cwd=cwd)
        return shlex.split(hdf5_content((cwd or self.folder) / output)["@command_line"])

    def test_every_way_to_write_a_path(self):
        home = self.author(ANNA)
        output = home / "run.h5"
        ids = ("--ids", home / "ids.json", "--length", "9", "--force")
        for model, written in [(f"{home}/fox-pro", "fox-pro"), (f"{home}/fox-pro/", "fox-pro"),
                               (f"{home}/corpus/../fox-pro/.", "fox-pro"), (f"fox={home}/fox-pro", "fox=fox-pro"),
                               ("../work/fox-pro", "fox-pro"), ("./fox-pro", "fox-pro"), ("fox-pro", "fox-pro")]:
            with self.subTest(model):
                words = self.recorded("run", "--model", model, *ids, "-o", output, cwd=home)
                self.assertEqual(words, ["foxscope", "run", "--model", written, "--ids", "ids.json", "--length", "9",
                                         "--force", "-o", "run.h5"])
        for before, after in [(["-o", str(output)], ["-o", "run.h5"]), ([f"-o{output}"], ["-orun.h5"]),
                              (["--output", "../work/run.h5"], ["--output", "run.h5"]),
                              ([f"--output={output}"], ["--output=run.h5"]), ([f"-qo{output}"], ["-qorun.h5"])]:
            with self.subTest(before):
                words = self.recorded("run", "--model", home / "fox-pro", *ids, *before, cwd=home)
                self.assertEqual(words[-len(after):], after)
        # The working folder's own name is what the model is called.
        words = self.recorded("run", "--model", ".", *ids, "-o", output, cwd=home / "fox-pro", output="../run.h5")
        self.assertEqual(words[3], "fox-pro")

    def test_names_that_would_be_something_else_without_their_folder(self):
        home = self.author(ANNA)
        os.rename(home / "fox-pro", home / "a=b")
        (home / "-x").symlink_to(home / "ids.json")
        words = self.recorded("run", "--model", f"fox={home / 'a=b'}", "--ids", home / "-x", "-o", home / "run.h5", cwd=home)
        self.assertEqual(words[2:], ["--model", "fox=a=b", "--ids", "./-x", "-o", "run.h5"])
        words = self.recorded("run", "--model", f"fox={home / 'a=b'}", "--ids", home / "-x", "-o", home / "-.h5",
                              cwd=home, output="-.h5")
        self.assertEqual(words[-1], "./-.h5")

    def test_hub_ids_stay_as_they_are(self):
        snapshot = self.folder / ANNA / "hub" / "models--owner--name" / "snapshots" / "aaa"
        shutil.copytree(DATA / "fox-pro", snapshot)
        ids = self.ids_file(length=9)
        self.done("run", "--model", "owner/name", "--model", "x=owner/name", "--ids", ids, "-o", self.folder / "run.h5",
                  environment={"HF_HUB_CACHE": str(self.folder / ANNA / "hub")})
        self.assertEqual(hdf5_content(self.folder / "run.h5")["@command_line"],
                         "foxscope run --model owner/name --model x=owner/name --ids ids.json -o run.h5")
        # A folder of that form is a folder.
        shutil.copytree(DATA / "fox-pro", self.folder / "owner" / "name")
        words = self.recorded("run", "--model", "owner/name", "--ids", ids, "-o", "run.h5", "--force", cwd=self.folder)
        self.assertEqual(words[3], "name")

    def test_standard_input_stays_what_it_is(self):
        home = self.author(ANNA)
        self.done("run", "--model", home / "fox-pro", "--text", "-", "-o", home / "run.h5", stdin=TEXT.encode())
        self.assertIn("--text - ", hdf5_content(home / "run.h5")["@command_line"])

    @unittest.skipUnless(DRAWS, "a build without Qt")
    def test_texts_that_look_like_paths_are_texts(self):
        home = self.author(ANNA)
        self.done("eval", "import", home / "losses.npz", "-o", home / "losses.h5")
        for name, words in [("a.svg", ["--title", "GLA/FoX"]), ("b.svg", ["--title=GLA/FoX"]),
                            ("c.svg", ["--label", "losses=GLA/FoX"]), ("d.svg", ["--title", "losses.h5"])]:
            self.done("figure", "loss", "losses.h5", *words, "-o", home / name, cwd=home)
            self.assertEqual(shlex.split(command_of(home / name)),
                             ["foxscope", "figure", "loss", "losses.h5", *words, "-o", name])
        self.done("figure", "loss", f"a={home / 'losses.h5'}", "-o", home / "e.svg")
        self.assertEqual(shlex.split(command_of(home / "e.svg")), ["foxscope", "figure", "loss", "a=losses.h5", "-o", "e.svg"])

    def test_every_option_is_known_to_take_a_path_or_not(self):
        """A new kind of argument is added to one of the lists here, and to takesPath if it is a path."""
        paths = {"FILE", "FILE|FOLDER", "PATH", "DIR", "[NAME=]DIR", "[NAME=]FILE.h5", "[NAME=]RUN.h5", "RUN.h5", "FILE.h5", "EVAL.h5",
                 "NEEDLE.h5", "RESULTS.npz", "SPEC.json", "SWEEP.h5"}
        others = {"A", "A,B", "A:B", "ARRAY,...", "DEVICE", "DTYPE", "FAMILY", "ID", "L:H", "L:H,...", "LAYER:HEAD",
                  "LAYER:HEAD:KIND", "LENGTH", "LIST", "MAP", "N", "NAME", "NAME,...", "NAME=#RRGGBB", "NAME=N[:N]", "NAME=TEXT",
                  "NAME[:LAYER:HEAD]", "P", "PT", "Q", "Q=A:B", "QUANTITY,...", "RxC", "S", "STATISTIC", "STRING", "T",
                  "TEXT", "TOLERANCE", "WxH", "X,...", "Y,...", "easy|standard", "gain|mass|gate",
                  "max|mean|min|absmax", "auto|linear|log", "auto|above|none", "light|dark", "loss|gate|forget|attention",
                  "npy|csv|png|svg|pdf", "pdf|svg|png|csv", "E", "gate|time|log", "L", "auto|head|layer", "label|layer|NAME", "key|distance", "key|distance|auto", "POSITION,...", "viridis|cividis|magma|grey|diverging", "one|cut|mean|constant=f|scale=s", "refuse|replace"}
        commands = [[name] for name in ["open", "run", "info", "map", "heads", "compare", "page", "generate"]]
        commands += [["eval", name] for name in ["loss", "heads", "needle", "sweep", "import"]]
        commands += [["figure", name] for name in ["spec", "maps", "grid", "compare", "text", "loss", "perplexity",
                                                   "ablation", "decay", "distance", "labels", "needle", "sweep", "gates", "scatter",
                                                   "pruning", "comparison"]]
        found = set()
        for command in commands:
            for lists in re.findall(r"(?m)^(?:Positionals|Options):\n((?:  .*\n)+)", self.done(*command, "--help")):
                found |= set(re.findall(r"(?m)^  (?:(?:-\w,)?--[\w,-]+|[a-z]+) (\S+)", lists))
        self.assertEqual(found - paths - others, set())
        self.assertEqual(paths - found, set())


if __name__ == "__main__":
    unittest.main()
