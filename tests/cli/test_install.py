"""`cmake --install`: what a desktop and a shell find afterwards, as their own tools read it."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import DATA, DRAWS, PROGRAM, SOURCE, CommandLineTest


class InstallTest(CommandLineTest):
    shared = tempfile.TemporaryDirectory(prefix="foxscope-cli-install-")
    prefix = None

    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(cls.shared.name)
        subprocess.run([os.environ["FOXSCOPE_CMAKE"], "--install", pathlib.Path(PROGRAM).parent, "--prefix", cls.prefix],
                       capture_output=True, check=True)
        cls.share = cls.prefix / "share"

    def run_tool(self, *command, **more):
        result = subprocess.run(command, capture_output=True, text=True, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def completed(self, *words):
        """What the shell offers for the last of these words."""
        script = f"""source {self.share}/bash-completion/completions/foxscope
COMP_WORDS=({' '.join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}; _foxscope
printf '%s\\n' "${{COMPREPLY[@]}}" """
        return self.run_tool("bash", "-euc", script, cwd=self.folder).split()

    def test_the_program_runs_where_it_was_put(self):
        self.assertIn("foxscope", self.run_tool(self.prefix / "bin" / "foxscope", "--version"))

    def test_models_run_where_it_was_put(self):
        self.run_tool(self.prefix / "bin" / "foxscope", "run", "--model", DATA / "fox-pro", "--ids",
                      self.write("ids.json", b"[1, 2, 3]"), "-o", self.folder / "run.h5")
        self.assertTrue((self.folder / "run.h5").exists())

    def test_without_libtorch_run_files_are_read_and_models_are_refused(self):
        elsewhere = self.folder / "elsewhere"
        shutil.copytree(self.prefix, elsewhere, symlinks=True)
        next(elsewhere.rglob("libfoxscope_forward.so")).unlink()
        program = elsewhere / "bin" / "foxscope"
        run = self.run_fixture()
        picture = ["map", run, "--layer", "0", "--head", "0", "--quantity", "forget", "-o", self.folder / "map.npy"]
        for command in (["info", run], ["heads", run], picture):
            self.run_tool(program, *command)
        refused = subprocess.run([program, "run", "--model", DATA / "fox-pro", "--ids", self.write("ids.json", b"[1, 2, 3]"),
                                  "-o", self.folder / "second.h5"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"\Afoxscope: models cannot be run here: .*libfoxscope_forward.so.*: they "
                         r"need LibTorch 2.11: ./dev setup and ./dev build in a checkout, pip install 'foxscope\[torch\]' "
                         r"beside a wheel; run files are read and drawn without it\n\Z")
        self.assertFalse((self.folder / "second.h5").exists())

    def test_each_command_has_a_manual_page_that_names_every_option(self):
        pages = self.share / "man" / "man1"
        self.run_tool("mandoc", "-Tlint", "-Werror", *sorted(pages.iterdir()))
        for command in [[], ["run"], ["map"], ["eval", "loss"], ["figure", "compare"], ["generate"]]:
            text = plain(self.run_tool("mandoc", "-Tascii", pages / ("-".join(["foxscope", *command]) + ".1")))
            for title in ["OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"]:
                self.assertRegex(text, rf"(?m)^{title}$")
            for word in self.done(*command, "--help").split():
                if word.startswith("--"):
                    self.assertIn(word.split(",")[0], text)
        text = plain(self.run_tool("mandoc", "-Tascii", pages / "foxscope-run.1"))
        for words in ["FILES", "CUDA_VISIBLE_DEVICES", "HF_HOME", "130", "foxscope-eval(1)"]:
            self.assertIn(words, text)
        # Every page that another names is there.
        for page in pages.iterdir():
            for name in re.findall(r"(foxscope[a-z-]*)\(1\)", plain(self.run_tool("mandoc", "-Tascii", "-O", "width=200", page))):
                self.assertTrue((pages / f"{name}.1").exists(), name)

    def test_the_shell_completes_commands_options_choices_and_files(self):
        self.assertEqual(set(self.completed("foxscope", "ge")), {"generate"})
        self.assertEqual(set(self.completed("foxscope", "eval", "")), {"loss", "heads", "needle", "surprisal", "sweep", "atlas",
                                                                "import"})
        self.assertEqual(self.completed("foxscope", "eval", "loss", "--corp"), ["--corpus"])
        self.assertEqual(set(self.completed("foxscope", "figure", "needle", "--tint", "")), {"gain", "mass", "gate"})
        self.assertEqual(self.completed("foxscope", "run", "--dtype", "b"), ["bfloat16"])
        self.assertEqual(self.completed("foxscope", "map", "--quantity", "forget,att"),
                         ["forget,attention", "forget,attention_without_gate"])
        self.assertIn("surprisal", self.completed("foxscope", "eval", ""))
        self.assertEqual(set(self.completed("foxscope", "help", "s")), {"serve"})
        self.assertEqual(set(self.completed("foxscope", "help", "figure", "ma")), {"maps"})
        # Bash takes "=" for a word.
        self.assertEqual(set(self.completed("foxscope", "map", "--format", "=")), {"npy", "csv", "png", "svg", "pdf"})
        self.assertEqual(set(self.completed("foxscope", "map", "--format", "=", "p")), {"png", "pdf"})
        self.write("some.h5", b"")
        self.assertEqual(self.completed("foxscope", "heads", "so"), ["some.h5"])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is missing")
    def test_zsh_takes_its_completion(self):
        script = """compadd() { [[ $1 == -a ]] && print -l -- ${(P)2}; }; compset() { :; }; _files() { print FILES; }
words=(foxscope "$@"); CURRENT=$#words; source $COMPLETION"""
        environment = dict(os.environ, COMPLETION=str(self.share / "zsh/site-functions/_foxscope"))
        for typed, offered in [(["eval", ""], "loss"), (["run", "--dtype", ""], "bfloat16"), (["map", "-"], "--quantity"),
                               (["heads", ""], "FILES"), (["map", "--format=p"], "svg"), (["help", "figure", ""], "maps")]:
            self.assertIn(offered, self.run_tool("zsh", "-fc", script, "zsh", *typed, env=environment).split())

    @unittest.skipUnless(shutil.which("fish"), "fish is missing")
    def test_fish_takes_its_completion(self):
        script = self.share / "fish/vendor_completions.d/foxscope.fish"
        for typed, offered in [("eval lo", "loss"), ("run --dtype b", "bfloat16"), ("map --quant", "--quantity"),
                               ("map --quantity forget,mi", "forget,mixing"), ("run --keep ", "gates"),
                               ("map --format=p", "--format=png"), ("help figure ma", "maps")]:
            said = self.run_tool("fish", "--no-config", "-c", f"source {script}; complete -C 'foxscope {typed}'")
            self.assertIn(offered, [line.split("\t")[0] for line in said.splitlines()])

    @unittest.skipUnless(DRAWS, "built without Qt")
    def test_desktops_take_the_entry_and_its_description(self):
        self.run_tool("desktop-file-validate", self.share / "applications" / "foxscope.desktop")
        self.run_tool("appstreamcli", "validate", "--no-net", "--override", "cid-desktopapp-is-not-rdns=info", self.share / "metainfo" / "foxscope.metainfo.xml")
        self.assertTrue((self.share / "icons/hicolor/scalable/apps/foxscope.svg").exists())

    @unittest.skipUnless(DRAWS, "built without Qt")
    def test_runs_and_sessions_are_known_by_their_content(self):
        self.run_tool("update-mime-database", self.share / "mime")
        environment = dict(os.environ, XDG_DATA_DIRS=f"{self.share}:/usr/share", XDG_DATA_HOME=str(self.folder))
        session = self.write("session.foxscope.json", (SOURCE / "tests/fuzz/corpus/session/whole").read_bytes())
        loss = self.write("loss.h5", (SOURCE / "resources/figures/loss.h5").read_bytes())
        other = self.write("other.json", b'{"sessions": 1}')
        for path, kind in [(session, "x-foxscope-session"), (loss, "x-foxscope-run"), (other, "json")]:
            said = self.run_tool("gio", "info", "-a", "standard::content-type", path, env=environment)
            self.assertIn(f"application/{kind}", said)


def plain(text):
    """Without the overstriking that makes letters bold."""
    letters = []
    for letter in text:
        if letter == "\b":
            letters.pop()
        else:
            letters.append(letter)
    return "".join(letters)


if __name__ == "__main__":
    unittest.main()
