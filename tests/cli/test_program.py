"""Help, version, exit codes, streams and benchmarks of the program as a whole."""

import json
import os
import shutil
import stat
import subprocess
import unittest

from support import DATA, DRAWS, FOX, NO_DISPLAY, PROGRAM, CommandLineTest, limited_threads, through_terminal

COMMANDS = ["open", "run", "info", "map", "heads", "eval", "figure", "generate", "serve", "train", "bench"]


class ThreadsTest(CommandLineTest):
    def test_fewer_than_wanted(self):
        """One for the program and one that waits for signals are enough."""
        ids = self.ids_file("fox-llama")
        arguments = ["run", "--model", DATA / "fox-llama", "--ids", ids, "-o"]
        self.done(*arguments, self.folder / "all.h5")
        options = limited_threads(self.folder, 2)
        self.done(*arguments, self.folder / "one.h5", environment={"OMP_NUM_THREADS": "4"}, **options)
        table = self.done("heads", self.folder / "all.h5", "--json")
        alone = self.done("heads", self.folder / "one.h5", "--json", **options)
        self.assertEqual(json.loads(alone)["heads"], json.loads(table)["heads"])

    def test_none_at_all(self):
        self.fails(1, ["starts no more threads", "ulimit -u"], "info", DATA / "fox-pro", **limited_threads(self.folder, 1))


class HelpTest(CommandLineTest):
    def test_help_lists_the_commands(self):
        text = self.done("--help")
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
        self.assertIn("Examples:", text)

    def test_every_command_has_help_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.done(command, "--help")
                self.assertIn("Examples:\n  foxscope " + command, text)
                self.assertIn("--help", text)
                self.assertIn("--quiet", text)

    def test_version(self):
        self.assertRegex(self.done("--version"), r"\Afoxscope \d+\.\d+\.\d+\n\Z")
        self.assertEqual(self.done("-V"), self.done("--version"))

    def test_help_is_a_command_too(self):
        self.assertEqual(self.done("help"), self.done("--help"))
        for command in [["run"], ["eval", "loss"], ["figure", "maps"], ["help"]]:
            self.assertEqual(self.done("help", *command), self.done(*command, "--help"))
        self.fails(2, "did you mean run?", "help", "rnu")

    def test_spellings_of_older_versions_are_taken_and_not_shown(self):
        for command in [["map"], ["figure", "loss"], ["figure", "maps"]]:
            said = self.done(*command, "--help")
            self.assertIn("--colours ", said)
            self.assertNotRegex(said, r"--(colour|color|colors|layer)\b")
        for command in [["run"], ["eval", "sweep"], ["eval", "surprisal"], ["generate"]]:
            said = self.done(*command, "--help")
            self.assertIn("--max-tokens " if command == ["generate"] else "--length ", said)
            self.assertNotRegex(said, r"--(limit|tokens)\b")
        ids, output = self.ids_file(), self.folder / "run.h5"
        for length in ["--length", "--limit"]:
            summary = json.loads(self.done("run", "--model", FOX, "--ids", ids, length, 9, "-o", output, "--force", "--json"))
            self.assertEqual(summary["models"][0]["tokens"], 9)
        for length in ["--max-tokens", "--tokens"]:
            continued = json.loads(self.done("generate", "--model", FOX, "--prompt", "A", length, 3, "--json"))
            self.assertEqual(len(continued["ids"]), 3)


class UsageTest(CommandLineTest):
    def test_without_a_command_it_is_the_window(self):
        self.fails(2 if DRAWS else 1, ["display" if DRAWS else "FOXSCOPE_GUI"], environment=NO_DISPLAY)

    def test_unknown_command(self):
        self.fails(2, ["frobnicate", "no such command, file or folder", "foxscope --help"], "frobnicate")

    def test_unknown_option_names_the_help_of_its_command(self):
        self.fails(2, ["--colour", "foxscope heads --help"], "heads", "run.h5", "--colour")

    def test_missing_option(self):
        self.fails(2, ["--head 0: write LAYER:HEAD", "foxscope map --help"], "map", "run.h5", "--head", "0", "--quantity",
                   "forget", "-o", "x.npy")

    def test_number_that_is_none(self):
        self.fails(2, ["--length", "many"], "run", "--model", "m", "--ids", "i", "-o", "o.h5", "--length", "many")

    def test_a_misspelt_word_is_answered_with_the_nearest(self):
        for arguments, words in [(["rnu"], "rnu: there is no such command, file or folder: did you mean run? else see"),
                                 (["figur", "maps"], "did you mean figure? else see foxscope --help"),
                                 (["figure", "mps", "x.h5"], "there is no such kind: did you mean maps? else use loss"),
                                 (["figure", "hovercraft", "x.h5"], "there is no such kind: use loss"),
                                 (["eval", "los"], "eval los: there is no such command: did you mean loss? else see "
                                                   "foxscope eval --help"),
                                 (["run", "--txt", "t.txt"], "--txt: there is no such option: did you mean --text? else see "
                                                             "foxscope run --help"),
                                 (["eval", "loss", "--model", "m", "--corpus", "c", "-o", "o.h5", "--lenght=3"],
                                  "--lenght: there is no such option: did you mean --length? else see"),
                                 (["run", "--output-file", "a.h5"], "--output-file: there is no such option: did you mean "
                                                                    "--output? else see"),
                                 (["--json", "heads", "r.h5"],
                                  "--json: options stand behind the command: see foxscope heads --help"),
                                 (["--versio"], "--versio: there is no such option: did you mean --version? else see "
                                                "foxscope --help"),
                                 (["figure", "map"], "figure map: there is no such command: did you mean maps? else foxscope "
                                                     "map is another one: see foxscope figure --help"),
                                 (["eval", "los", "--model", "x"], "eval los: there is no such command: did you mean loss?"),
                                 (["eval", "run", "-o", "x.h5"], "eval run: there is no such command: foxscope run is another "
                                                                 "one: see foxscope eval --help"),
                                 (["eval", "decay"], "foxscope figure decay is another one: see foxscope eval --help"),
                                 (["sweep"], "did you mean foxscope eval sweep or foxscope figure sweep? else see foxscope"),
                                 (["heads", "a.h5", "b.h5"], "b.h5: was not expected: this command takes one file: see "
                                                            "foxscope heads --help"),
                                 (["map", "a.h5", "b.h5"], "b.h5: was not expected: this command takes one file: see")]:
            with self.subTest(arguments):
                self.fails(2, words, *arguments)

    def test_a_misspelt_value_is_answered_with_the_nearest(self):
        run = ["run", "--model", "m", "--text", "t", "-o", "o.h5"]
        draw = ["map", "r.h5", "--head", "0:0", "-o", "o.png", "--quantity"]
        for arguments, words in [([*run, "--device", "cdua"], "--device cdua: did you mean cuda? else choose auto, cpu"),
                                 ([*run, "--dtype", "bflaot16"], "did you mean bfloat16? else choose auto, float32 or bfloat16"),
                                 ([*run, "--keep", "loss,gtaes"], "--keep gtaes: did you mean gates? else choose loss, gates"),
                                 ([*draw, "attenton"], "--quantity attenton: did you mean attention? else choose forget"),
                                 ([*draw, "forget", "--colors", "virdis"], "did you mean viridis? else choose viridis"),
                                 ([*draw, "forget", "--reduce", "maen"], "--reduce maen: did you mean mean? else choose max"),
                                 ([*draw, "forget", "--width", "icrl"], "--width icrl: did you mean iclr? else choose neurips"),
                                 (["figure", "text", "r.h5", "-o", "o.pdf", "--tint", "gates"], "did you mean gate? else choose"),
                                 (["figure", "loss", "r.h5", "-o", "o.pdf", "--legend-at", "abvoe"], "did you mean above?"),
                                 (["train", "-o", "o", "--schedule", "cosin"], "--schedule cosin: did you mean cosine? else"),
                                 (["eval", "sweep", "--model", "m", "--text", "t", "-o", "o.h5", "--change", "cutt"],
                                  "--change cutt: did you mean cut? else choose one, cut, mean")]:
            with self.subTest(arguments):
                self.fails(2, words, *arguments)
        for kind, meant in [("onne", "one"), ("scael=0.9", "scale=0.9"), ("zer@4", "zero@4")]:
            self.fails(2, f"'{kind}' is not known (did you mean {meant}?); write LAYER:HEAD:KIND", *run[:3], "--ids",
                       self.ids_file(), "-o", self.folder / "o.h5", "--intervene", f"0:0:{kind}")
        # Others than the words are left to whoever reads them.
        self.fails(2, "--dtype 'int8' is not known", *run[:3], "--ids", self.ids_file(), "-o", self.folder / "o.h5", "--dtype",
                   "int8")

    def test_all_that_is_missing_is_named_at_once(self):
        self.fails(2, "--model, --output, one of --text and --ids are required: see foxscope run --help", "run")
        self.fails(2, "--model, one of --prompt, --text and --ids are required: see", "generate")
        self.fails(2, "--output, one of --corpus and --ids are required: see", "eval", "loss", "--model", "m")
        self.fails(2, ["train needs a folder to write: give one of -o OUT, --resume OUT and --resume-or-start OUT; a model: "
                       "give either --config", "; data: give --data PATH; an end: give --max-tokens N; a learning rate"],
                   "train")
        self.fails(2, "--output is required: see", "run", "--model", "m", "--text", "t")
        self.fails(2, "file, --quantity, --output are required: see foxscope map --help", "map")
        self.fails(2, "file, --output are required: see foxscope figure maps --help", "figure", "maps")
        self.fails(2, "--haystack, --output are required: see", "eval", "needle", "--model", "m")
        self.fails(2, "eval: which command?: use one of loss, heads", "eval")

    def test_a_number_that_is_written_otherwise(self):
        for arguments, words in [(["run", "--model", "m", "--text", "t", "-o", "o.h5", "--length", "1e3"], "--length 1e3: is no"),
                                 (["map", "r.h5", "--layer", "6:2", "--head", "0", "--quantity", "forget", "-o", "x.npy"],
                                  "--layer 6:2: is no number: write --head LAYER:HEAD, as in 2:1")]:
            self.fails(2, words, *arguments)

    def test_line_breaks_in_names_do_not_break_the_line(self):
        self.fails(1, "two lines", "heads", "two\nlines")


class StreamTest(CommandLineTest):
    def test_data_goes_to_standard_output_and_nothing_else_is_said(self):
        result = self.foxscope("info", DATA / "fox-pro")
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"FoX (Pro)", result.stdout)
        self.assertEqual(result.stderr, b"")

    def test_a_reader_that_goes_away_is_no_error(self):
        reading, writing = os.pipe()
        os.close(reading)
        result = subprocess.run([PROGRAM, "info", DATA / "fox-pro"], stdout=writing, stderr=subprocess.PIPE, timeout=60)
        os.close(writing)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, b"")

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, "info", DATA / "fox-pro"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: standard output: No space left on device: [^\n]+\n\Z")

    def test_messages_never_go_into_a_file_that_took_a_closed_stream_s_place(self):
        output = self.folder / "run.h5"
        subprocess.run(["/bin/sh", "-c", '"$0" "$@" >&- 2>&- <&-', PROGRAM, "run", "--model", DATA / "fox-pro", "--ids",
                        self.ids_file(), "-o", output], check=True, timeout=60)
        self.assertEqual(output.read_bytes()[:8], b"\x89HDF\r\n\x1a\n")

    def terminal(self, *arguments, **environment):
        """What the program says on standard error when that is a terminal."""
        return through_terminal(*arguments, streams=["stderr"], **environment)[0].decode()

    def test_errors_are_coloured_on_a_terminal_only_and_not_with_no_color(self):
        self.assertIn("\033[31mfoxscope:", self.terminal("heads", "missing.h5"))
        self.assertNotIn("\033", self.terminal("heads", "missing.h5", NO_COLOR="1"))
        self.assertNotIn(b"\033", self.foxscope("heads", "missing.h5").stderr)

    def test_a_corpus_that_is_longer_than_its_files_say_is_no_flaw(self):
        # Files of /proc say that they hold nothing, as a file does that grows later.
        corpus = self.folder / "corpus"
        corpus.mkdir()
        (corpus / "a.txt").symlink_to("/proc/version")
        (corpus / "b.txt").write_text("A fox.")
        output = self.folder / "loss.h5"
        said = self.terminal("eval", "loss", "--model", FOX, "--corpus", corpus, "--length", "8", "--windows", "1", "-o",
                             output)
        self.assertTrue(output.exists(), said)
        self.assertIn("[" + 24 * "#" + "] 100 %", said)
        self.assertNotIn("flaw", said)

    def test_progress_is_drawn_on_a_terminal_only(self):
        run = self.run_fixture()
        self.assertIn("heads", self.terminal("heads", run))
        self.assertEqual(self.terminal("heads", run, "-q"), "")
        self.assertEqual(self.foxscope("heads", run).stderr, b"")


class BenchTest(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "foxscope"
        shutil.copy(PROGRAM, self.program)

    def bench(self, *arguments):
        return subprocess.run([self.program, "bench", *arguments], capture_output=True, text=True, timeout=60)

    def install(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / "foxscope-bench-text"
        script.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def test_runs_the_program_beside_it_with_the_arguments_that_follow(self):
        self.install(self.folder)
        result = self.bench("text", "--help", "-v", "a b")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "--help -v a b\n", ""))

    def test_runs_the_installed_program(self):
        self.program.rename(self.folder / "moved")
        (self.folder / "bin").mkdir()
        self.program = (self.folder / "moved").rename(self.folder / "bin" / "foxscope")
        self.install(self.folder / "libexec" / "foxscope")
        self.assertEqual(self.bench("text").returncode, 7)

    def test_one_that_is_not_built_says_how_to_build_it(self):
        result = self.bench("text")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Afoxscope: bench text: foxscope-bench-text is not built: run cmake [^\n]+\n\Z")

    def test_wrong_names(self):
        for arguments in [(), ("speed",)]:
            result = self.bench(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertRegex(result.stderr, r"\Afoxscope: bench[^\n]* use attention, gpu-model, gradients, gui, kernels, linear, map, model, text or training\n\Z")


if __name__ == "__main__":
    unittest.main()
