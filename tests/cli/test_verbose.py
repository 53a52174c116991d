"""-v: what was read and what of it was skipped, one line each on standard error; nothing of it without -v."""

import re
import unittest

import h5py
import numpy
import safetensors.numpy

from support import DATA, DRAWS, FOX, NO_DISPLAY, TEXT, CommandLineTest, read_safetensors, set_config, set_tensor


class VerboseTest(CommandLineTest):
    def lines(self, *arguments, **options):
        """Lines of categories of a command with -v, without the program's name."""
        result = self.foxscope(*arguments, "-v", **options)
        messages = result.stderr.decode()
        self.assertEqual(result.returncode, 0, messages)
        for line in messages.splitlines():
            self.assertRegex(line, r"\Afoxscope: ", "a line of its own")
        return re.findall(r"^foxscope: (\[(?:file|text|model|map|eval|window)\] .*)$", messages, re.MULTILINE)

    def line(self, start, lines):
        found = {line for line in lines if line.startswith(start)}  # a checkpoint is opened to plan and to run
        self.assertEqual(len(found), 1, lines)
        return found.pop()

    def test_says_nothing_without_it(self):
        text = self.write("text.txt", TEXT)
        for option in [[], ["-q"]]:
            result = self.foxscope("run", "--model", FOX, "--text", text, "--length", 8, "-o", self.folder / "run.h5",
                                   "--force", *option)
            self.assertEqual(result.stderr, b"")

    def test_a_run_tells_of_configuration_weights_tokenizer_and_kernel(self):
        text = self.write("text.txt", TEXT)
        lines = self.lines("run", "--model", f"fox={FOX}", "--text", text, "--length", 8, "--pruning", 0, "-o",
                           self.folder / "run.h5")
        configuration = next(line for line in lines if line.startswith(f"[model] {FOX}/config.json: "))
        self.assertIn("8 layers, 4 heads of 64", configuration)
        ignored = configuration.split("ignored keys: ")[1].split(", ")
        self.assertIn("architectures", ignored)
        for read in ["hidden_size", "num_heads", "use_k_shift", "fgate_type", "qk_norm"]:
            self.assertNotIn(read, ignored)
        shards = sorted(FOX.glob("*.safetensors"))
        self.assertGreater(len(shards), 1)
        for shard in shards:
            header, _ = read_safetensors(shard)
            formats = [entry["dtype"] for name, entry in header.items() if name != "__metadata__"]
            self.assertEqual(set(formats), {"BF16"})
            self.assertIn(f"[model] {shard}: {len(formats)} tensors in {shard.stat().st_size} bytes: "
                          f"{len(formats)} of BF16", lines)
        self.assertTrue(any(re.match(rf"\[text\] {FOX}: tokenizer of tokenizer\.json.*: 8192 ids", line)
                            for line in lines), lines)
        self.assertIn(f"[text] {text}: {len(TEXT)} bytes of text read", lines)
        cut = self.line(f"[text] {text}: {len(TEXT)} bytes are ", lines)
        self.assertRegex(cut, r"are \d+ tokens, of which the first 8 are read$")
        self.line("[model] fox: 8 tokens on cpu in float32, pruning tolerance 0, queries and keys in memory", lines)
        self.assertRegex(self.line("[model] fox: attention by cpu-tiled", lines), r"0 of \d+ pairs of blocks skipped$")

    def test_the_vocabulary_of_two_files_is_named_and_the_one_that_is_not_read(self):
        folder = self.copy_of("fox-llama")
        tokenizer = DATA / "tokenizer"
        for name in ["vocab.json", "merges.txt", "tokenizer.json"]:
            (folder / name).write_bytes((tokenizer / name).read_bytes())
        prompt = ["generate", "--model", folder, "--ids", self.ids_file("fox-llama", length=4), "--max-tokens", 1]
        self.line(f"[text] {folder}: tokenizer of tokenizer.json, vocab.json (skipped), merges.txt (skipped): ",
                  self.lines(*prompt))
        (folder / "tokenizer.json").unlink()
        self.line(f"[text] {folder}: tokenizer of vocab.json, merges.txt: ", self.lines(*prompt))

    def test_a_tensor_that_tied_embeddings_do_not_need_is_skipped(self):
        folder = self.copy_of("fox-llama")
        set_config(folder, tie_word_embeddings=True)
        embeddings = safetensors.numpy.load_file(folder / "model.safetensors")["model.embeddings.weight"]
        set_tensor(folder, "lm_head.weight", lambda tensor: embeddings)
        run = ["run", "--model", folder, "--ids", self.ids_file("fox-llama"), "-o", self.folder / "run.h5", "--force"]
        self.assertIn(f"[model] {folder}: lm_head.weight is skipped: embeddings are tied", self.lines(*run))
        set_config(folder, tie_word_embeddings=False)
        self.assertFalse([line for line in self.lines(*run) if "lm_head" in line])

    def test_weights_of_two_formats_are_counted_by_format(self):
        folder = self.copy_of("fox-llama")
        set_tensor(folder, "model.norm.weight", lambda tensor: tensor.astype(numpy.float16))
        lines = self.lines("run", "--model", folder, "--ids", self.ids_file("fox-llama"), "-o", self.folder / "run.h5")
        self.assertRegex(self.line(f"[model] {folder}/model.safetensors: ", lines), r": \d+ of F32, 1 of F16$")

    def test_names_in_a_file_cannot_write_to_the_terminal(self):
        folder = self.copy_of("fox-llama")
        evil = "evil\x1b[31m\nfoxscope: [model] forged"
        set_config(folder, **{evil: 1})
        said = self.fails(1, ["config.json", "evil", "a key that Foxscope does not know"], "run", "--model", folder, "--ids",
                          self.ids_file("fox-llama"), "-o", self.folder / "run.h5")
        self.assertNotIn("\x1b", said)
        set_config(folder, **{evil: 0})
        lines = self.lines("run", "--model", folder, "--ids", self.ids_file("fox-llama"), "-o", self.folder / "run.h5")
        self.assertFalse([line for line in lines if line.startswith("[model] forged") or "\x1b" in line])

    def test_a_run_file_tells_what_of_it_is_skipped(self):
        path = self.run_fixture()
        name = "fox-pro"
        self.assertFalse([line for line in self.lines("heads", path) if "skipped" in line])
        with h5py.File(path, "r+") as file:
            file["notes"] = "mine"
            file[f"models/{name}/extra"] = numpy.zeros(3)
            file[f"models/{name}/tokens/part_of_speech"] = numpy.zeros(3)
            file[f"models/{name}/layers/01/rotation"] = numpy.zeros(3)
        lines = self.lines("heads", path)
        self.assertRegex(self.line(f"[file] {path}: /models/{name}: ", [n for n in lines if "skipped" not in n]),
                         r"\d+ tokens, 2 layers, \d+ heads of \d+, float32$")
        for group, dataset in [("/", "notes"), (f"/models/{name}", "extra"), (f"/models/{name}/tokens", "part_of_speech"),
                               (f"/models/{name}/layers/01", "rotation")]:
            self.assertIn(f"[file] {path}: {group}: skipped {dataset}", lines)
        self.assertEqual(len([line for line in lines if "skipped" in line]), 4)

    def test_a_corpus_tells_which_files_and_documents_are_skipped(self):
        corpus = self.folder / "corpus"
        corpus.mkdir()
        (corpus / "long.txt").write_text(TEXT * 20)
        (corpus / "short.txt").write_text("Short.")
        (corpus / "notes.md").write_text(TEXT)
        (corpus / ".hidden.txt").write_text(TEXT)
        lines = self.lines("eval", "loss", "--model", FOX, "--corpus", corpus, "--length", 32, "--windows", 2, "-o",
                           self.folder / "loss.h5")
        self.assertIn(f"[eval] {corpus}: 2 corpus files, skipped 2 that are hidden or of another kind", lines)
        self.assertRegex(self.line(f"[eval] {corpus}: 2 documents of ", lines),
                         r"1 of them shorter than a window or repeated and skipped; 2 windows of 32 drawn from room for \d+$")

    @unittest.skipUnless(DRAWS, "a build without a window")
    def test_the_window_tells_of_jobs_settings_and_sessions(self):
        run = self.run_fixture()
        session = self.write("session.json", '{"foxscope_session": 1, "run_files": ["./run.h5", "./gone.h5"]}')
        picture = self.folder / "window.png"
        lines = self.lines("open", session, "--screenshot", picture, "--size", "1000x700", environment=NO_DISPLAY)
        self.assertTrue(run.exists())
        self.assertTrue(any(re.match(r"\[window\] jobs: job \d+ of foxscope::gui::Document", line) for line in lines))
        self.assertTrue(any(re.match(r"\[window\] jobs: job \d+ is done after", line) for line in lines))
        self.assertTrue(any(re.match(r"\[window\] settings: .*foxscope\.ini", line) for line in lines))
        self.assertTrue(any(line.startswith(f"[window] session: {session} skips the run file") for line in lines), lines)
        self.assertTrue(any(line.startswith(f"[window] session: {session} restores 0 models, 1 files") for line in lines))


if __name__ == "__main__":
    unittest.main()
