"""`cmake --install`: what a desktop and a shell find afterwards, as their own tools read it."""

import os
import pathlib
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
        self.assertRegex(refused.stderr, r"\Afoxscope: models cannot be run here: .*libfoxscope_forward.so.*: install "
                         r"LibTorch with ./dev setup and build again; run files are read and drawn without it\n\Z")
        self.assertFalse((self.folder / "second.h5").exists())

    def test_the_manual_names_every_option_of_every_command(self):
        page = self.share / "man" / "man1" / "foxscope.1"
        self.run_tool("mandoc", "-Tlint", "-Werror", page)
        text = plain(self.run_tool("mandoc", "-Tascii", page))
        for command in [["run"], ["map"], ["eval", "loss"], ["figure", "compare"], ["generate"]]:
            for word in self.done(*command, "--help").split():
                if word.startswith("--"):
                    self.assertIn(word.split(",")[0], text)

    def test_the_shell_completes_commands_options_choices_and_files(self):
        self.assertEqual(set(self.completed("foxscope", "ge")), {"generate"})
        self.assertEqual(set(self.completed("foxscope", "eval", "")), {"loss", "heads", "needle", "surprisal", "sweep", "import"})
        self.assertEqual(self.completed("foxscope", "eval", "loss", "--corp"), ["--corpus"])
        self.assertEqual(set(self.completed("foxscope", "figure", "needle", "--tint", "")), {"gain", "mass", "gate"})
        self.write("some.h5", b"")
        self.assertEqual(self.completed("foxscope", "heads", "so"), ["some.h5"])

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
