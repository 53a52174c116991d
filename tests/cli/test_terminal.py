"""What reaches a terminal: nothing from outside can move its cursor, set its title, or turn the writing around."""

import json
import re
import shutil
import subprocess
import unittest

import h5py
import numpy
from support import DATA, FOX, PROGRAM, CommandLineTest, set_config, through_terminal

# ESC, BEL, DEL, C1's CSI (U+009B) and an override of the writing's direction, each followed by what it would act on.
EVIL = "\x1b]0;owned\x07\x7f\u009b31m\u202eabc"
SHOWN = r"\u001b]0;owned\u0007\u007f\u009b31m\u202eabc"
# What the program itself tells a terminal: a line anew, colour.
OWN = re.compile("\r\033\\[K|\033\\[31m|\033\\[0m|\r\n|\n|\t")


class TerminalTest(CommandLineTest):
    def harmless(self, said):
        """Fails where anything is left that a terminal would act on, were it to read UTF-8 or single bytes."""
        text = OWN.sub("", said.decode() if isinstance(said, bytes) else said)
        self.assertNotRegex(text, "[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

    def evil_run(self):
        """A run file whose every attribute of text is evil; names of models are checked by who reads them."""
        path = self.run_fixture()
        with h5py.File(path, "a") as file:
            for key in ["command_line", "created", "program_version"]:
                file.attrs[key] = EVIL + "\nnext line"
            model = file["models/fox-pro"]
            for key in ["model_type", "device", "weights_sha256"]:
                model.attrs[key] = EVIL
        return path.rename(self.folder / f"{EVIL}.h5")

    def test_info_of_a_run_file(self):
        run = self.evil_run()
        for said in [through_terminal("info", run)[0], self.done("info", run)]:
            self.harmless(said)
            text = said.decode() if isinstance(said, bytes) else said
            self.assertIn(SHOWN, text)
            # A value stays on its line.
            self.assertRegex(text, r"command +\\u001b.*\\u000anext line")

    def test_json_is_the_same_json_on_a_terminal(self):
        run = self.evil_run()
        said, code = through_terminal("info", run, "--json")
        self.assertEqual(code, 0)
        self.harmless(said)
        described = json.loads(said.decode())
        self.assertEqual(described, json.loads(self.done("info", run, "--json")))
        self.assertEqual(described["models"][0]["device"], EVIL)

    def test_info_of_a_checkpoint(self):
        folder = self.folder / EVIL
        shutil.copytree(DATA / "fox-pro", folder)
        set_config(folder, fuse_norm=EVIL)
        for said in [through_terminal("info", folder)[0], self.done("info", folder)]:
            self.harmless(said)

    def test_evaluations(self):
        # The output's name is said again, in a pipe and on a terminal.
        windows = self.folder / "windows.npy"
        numpy.save(windows, numpy.arange(96).reshape(2, 48))
        for command, ids in [(["eval", "loss"], windows), (["eval", "heads"], windows), (["run"], self.ids_file())]:
            with self.subTest(command):
                arguments = (*command, "--model", DATA / "fox-pro", "--ids", ids, "-o", self.folder / f"{EVIL}.h5", "--force")
                said, code = through_terminal(*arguments)
                self.assertEqual(code, 0, said)
                self.harmless(said)
                self.assertIn(SHOWN, said.decode())
                self.harmless(self.done(*arguments))

    def test_errors_and_progress(self):
        for name in [EVIL, EVIL + "\nb", "a\tb\rc", "\u0085", "\u2066"]:
            with self.subTest(name):
                said, code = through_terminal("info", self.folder / name, streams=["stderr"])
                self.assertEqual(code, 1)
                self.harmless(said)
                self.assertEqual(said.count(b"\n"), 1)
                self.harmless(self.fails(1, "no such folder", "info", self.folder / name))
        # An outer program's bytes that are no UTF-8: 0x9b is CSI to a terminal that reads single bytes.
        for name in [b"a\x9b31mb", b"caf\xe9", b"\xc2", b"\xe2\x80"]:
            with self.subTest(name):
                result = subprocess.run([PROGRAM, "info", name], capture_output=True, timeout=60)
                self.harmless(result.stderr)
                self.assertIn(b"\\x", result.stderr)
        # What is being done is told beside the output's name.
        run, output = self.run_fixture(), self.folder / f"{EVIL}.csv"
        said, code = through_terminal("map", run, "--layer", 0, "--head", 0, "--quantity", "attention", "-o", output,
                                      streams=["stderr"])
        self.assertEqual(code, 0)
        self.assertIn(SHOWN, said.decode())
        self.harmless(said)
        with h5py.File(run, "a") as file:
            file.move("models/fox-pro", "models/" + EVIL)
        self.assertIn(SHOWN, self.fails(1, "is not a name of a model", "heads", run))

    def test_letters_of_all_languages_stay(self):
        for name in ["naïve", "狐狸", "שלום", "🦊", "a\u200db", "\u00a0x"]:
            self.assertIn(name, self.fails(1, "no such folder", "info", self.folder / name))


class GenerateTest(CommandLineTest):
    def evil_model(self):
        """A model whose likeliest token is written as ESC: every token is."""
        folder = self.folder / "model"
        shutil.copytree(FOX, folder)
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        # Byte-level tokens: ESC is written as "ě", 0xC2 as "Â", 0x9B as "Ľ"; every token begins with them.
        added = {token["content"] for token in tokenizer["added_tokens"]}
        for token, number in list(vocabulary.items()):
            if len(token) > 3 and token not in added:
                del vocabulary[token]
                vocabulary[f"ěÂĽ{token}"] = number
        tokenizer["model"]["merges"] = []
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return folder

    def test_generated_text_is_exact_in_a_pipe_and_visible_on_a_terminal(self):
        arguments = ("generate", "--model", self.evil_model(), "--prompt", "fox", "--max-tokens", 30, "-q")
        summary = json.loads(self.done(*arguments, "--json"))
        self.assertIn("\x1b\u009b", summary["text"])
        result = self.foxscope(*arguments)
        self.assertEqual(result.stdout, summary["text"].encode() + b"\n")
        said, code = through_terminal(*arguments)
        self.assertEqual(code, 0)
        TerminalTest.harmless(self, said)
        expected = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\u{ord(found.group()):04x}", summary["text"])
        self.assertEqual(said.decode().replace("\r\n", "\n"), expected + "\n")


if __name__ == "__main__":
    unittest.main()
