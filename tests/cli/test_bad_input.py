"""Bad input, end to end: one line that names the file and the remedy, the right exit code, and no output left."""

import json
import os
import pathlib
import resource
import shutil
import stat
import struct
import subprocess
import unittest

import h5py
import numpy
from support import (DATA, FOX, PROGRAM, TEXT, CommandLineTest, limited_memory, read_safetensors, set_config, set_tensor,
                     write_safetensors)


class BadInputTest(CommandLineTest):
    def refuses(self, model, words, code=1, ids=None, extra=(), **options):
        output = self.folder / "out.h5"
        return self.fails(code, words, "run", "--model", model, "--ids", ids or self.ids_file(), "-o", output, *extra,
                          output=output, **options)


class StreamsTest(BadInputTest):
    """Pipes and devices where files belong are refused, not waited for; where a stream makes sense it is read."""

    def folder_with_pipe(self, name):
        folder = self.folder / f"with-{name}"
        folder.mkdir()
        for path in FOX.iterdir():
            if path.name != name:
                (folder / path.name).symlink_to(path)
        os.mkfifo(folder / name)
        return folder

    def test_files_of_a_checkpoint(self):
        text = self.write("text.txt", TEXT)
        output = self.folder / "out.h5"
        names = ["config.json", "tokenizer.json", "model.safetensors.index.json"]
        for name in names + [path.name for path in FOX.glob("*.safetensors")]:
            with self.subTest(name):
                folder = self.folder_with_pipe(name)
                self.fails(1, [f"{name}: is a pipe (FIFO), not a regular file"], "run", "--model", folder, "--text", text,
                           "-o", output, output=output)
        folder = self.copy_of("fox-pro")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to("/dev/zero")
        self.refuses(folder, "model.safetensors: is a device, not a regular file")

    def test_run_files_and_corpora(self):
        pipe = self.folder / "pipe.h5"
        os.mkfifo(pipe)
        self.fails(1, "pipe.h5", "map", pipe, "--layer", 0, "--head", 0, "--quantity", "attention", "-o",
                   self.folder / "map.npy")
        self.fails(1, "pipe.h5", "heads", pipe)
        corpus = self.folder / "corpus.jsonl"
        os.mkfifo(corpus)
        self.fails(1, "corpus.jsonl: is not a corpus", "eval", "loss", "--model", FOX, "--corpus", corpus, "-o",
                   self.folder / "eval.h5")

    def through_pipe(self, content, *arguments):
        """Runs with the content in a pipe, named as a shell's <(...) is."""
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        words = [f"/dev/fd/{reading}" if word == "PIPE" else word for word in arguments]
        try:
            return self.done(*words, pass_fds=[reading])
        finally:
            os.close(reading)

    def test_text_and_ids_may_be_streams(self):
        for source, content in [("--text", TEXT.encode()), ("--ids", b"[1, 2, 3, 4]")]:
            for command, rest in [("run", ["-o", self.folder / f"out{source}.h5"]), ("generate", ["--max-tokens", 1])]:
                with self.subTest(f"{command} {source}"):
                    self.through_pipe(content, command, "--model", FOX, source, "PIPE", *rest)


class NestedJsonTest(BadInputTest):
    """Gigabytes of memory for a file of megabytes, otherwise."""

    deep = b"[" * 2_000_000

    def says_deep(self, name, *arguments):
        self.fails(1, [name, "deeper than 256 levels"], *arguments)

    def test_configuration_and_header(self):
        folder = self.copy_of("fox-pro")
        header = b'{"a":' + self.deep
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        self.refuses(folder, ["model.safetensors: the header", "deeper than 256 levels"])
        (folder / "config.json").write_bytes(b'{"model_type": ' + self.deep)
        self.refuses(folder, ["config.json", "deeper than 256 levels"])

    def test_shards_and_tokenizer(self):
        text = self.write("text.txt", TEXT)
        for name in ["tokenizer.json", "model.safetensors.index.json"]:
            folder = self.folder / f"deep-{name}"
            folder.mkdir()
            for path in FOX.iterdir():
                if path.name != name:
                    (folder / path.name).symlink_to(path)
            (folder / name).write_bytes(b'{"a": ' + self.deep)
            self.says_deep(name, "run", "--model", folder, "--text", text, "-o", self.folder / "out.h5")

    def test_what_a_user_writes(self):
        deep = self.write("deep.jsonl", b'{"text": "fox"}\n{"text": ' + self.deep)
        self.says_deep("deep.jsonl: line 2", "eval", "loss", "--model", FOX, "--corpus", deep, "-o", self.folder / "eval.h5")
        run = self.run_fixture()
        spec = self.write("spec.json", b'{"foxscope_figure": ' + b"[" * 900_000)
        self.says_deep("spec.json", "figure", "spec", spec, run, "-o", self.folder / "figure.pdf")
        words = self.write("words.json", b'{"needle": ' + self.deep)
        self.says_deep("words.json", "eval", "needle", "--model", FOX, "--haystack", self.write("hay.txt", TEXT * 50),
                       "--template", words, "-o", self.folder / "needle.h5")


class CheckpointTest(BadInputTest):
    def test_folders(self):
        self.refuses(self.folder / "missing", "missing")
        empty = self.folder / "empty"
        empty.mkdir()
        self.refuses(empty, ["empty", "config.json"])
        folder = self.copy_of("fox-pro")
        (folder / "model.safetensors").unlink()
        self.refuses(folder, "model.safetensors")
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x02")
        self.refuses(folder, ["pytorch_model.bin", "safetensors"])
        self.fails(1, "model.safetensors", "info", folder)

    def test_a_folder_that_may_not_be_entered(self):
        folder = self.copy_of("fox-pro")
        self.folder.chmod(0o755)
        folder.chmod(0)
        self.addCleanup(folder.chmod, 0o755)
        root = os.geteuid() == 0
        if root and not all(path.stat().st_mode & stat.S_IXOTH for path in pathlib.Path(PROGRAM).resolve().parents):
            self.skipTest("other users cannot enter the folders of the program")
        user = {"user": 65534, "group": 65534, "extra_groups": []} if root else {}  # root may enter all folders
        self.fails(1, [str(folder), "config.json: cannot be opened (Permission denied): check"], "info", folder, **user)

    def test_configurations(self):
        for values, words in [({"model_type": "bert"}, ["model_type", "keys are those of forgetting_transformer-project_fox", "info --supported"]),
                              ({"num_heads": 7}, "num_heads"),
                              ({"num_heads": 0}, "num_heads"),
                              ({"num_heads": -3}, "num_heads"),
                              ({"hidden_size": 10**15}, "hidden_size"),
                              ({"num_hidden_layers": 2**40}, "num_hidden_layers"),
                              ({"hidden_size": "large"}, "hidden_size"),
                              ({"norm_eps": -1}, "norm_eps"),
                              ({"vocab_size": 0}, "vocab_size"),
                              ({"vocab_size": 2**63}, "vocab_size"),
                              ({"fgate_type": "leaky"}, ["fgate_type", "leaky"]),
                              ({"use_k_shift": "yes"}, "use_k_shift")]:
            with self.subTest(values):
                folder = self.copy_of("fox-pro")
                set_config(folder, **values)
                self.refuses(folder, words)
                subprocess.run(["rm", "-r", folder], check=True)

    def test_a_configuration_that_is_no_json(self):
        folder = self.copy_of("fox-pro")
        for content in [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000]:
            (folder / "config.json").write_bytes(content)
            self.refuses(folder, "config.json")

    def test_wrong_shapes_and_names_of_tensors(self):
        folder = self.copy_of("fox-pro")
        set_tensor(folder, "lm_head.weight", lambda tensor: tensor[:-1])
        self.refuses(folder, ["lm_head.weight", "319"])
        folder = self.copy_of("fox-llama")
        header, data = read_safetensors(folder / "model.safetensors")
        header["surplus.weight"] = header.pop("lm_head.weight")
        write_safetensors(folder / "model.safetensors", header, data)
        self.refuses(folder, "lm_head.weight")

    def test_weights_that_are_not_numbers(self):
        folder = self.copy_of("fox-pro")

        def spoil(tensor):
            tensor = tensor.copy()
            tensor[0, 0] = numpy.nan
            return tensor

        set_tensor(folder, "model.layers.0.mlp.down_proj.weight", spoil)
        self.refuses(folder, "NaN")


class SafetensorsTest(BadInputTest):
    def setUp(self):
        super().setUp()
        self.model = self.copy_of("fox-pro")
        self.weights = self.model / "model.safetensors"

    def test_damaged_headers(self):
        content = self.weights.read_bytes()
        for name, damaged in [("empty", b""), ("seven bytes", content[:7]), ("no header", content[:8]),
                              ("half a header", content[:300]), ("truncated data", content[:-100]),
                              ("longer than the file", struct.pack("<Q", len(content)) + content[8:]),
                              ("of 10 GB", struct.pack("<Q", 10 << 30) + content[8:]),
                              ("of 2^64 - 1", b"\xff" * 8 + content[8:]),
                              ("no JSON", content[:8] + b"#" * 40 + content[48:])]:
            with self.subTest(name):
                self.weights.write_bytes(damaged)
                self.refuses(self.model, "model.safetensors")

    def test_flipped_bits_end_in_an_error_or_a_valid_reading(self):
        content = bytearray(self.weights.read_bytes())
        ids = self.ids_file(length=4)
        output = self.folder / "out.h5"
        generator = numpy.random.default_rng(1)
        (length,) = struct.unpack("<Q", content[:8])
        for bit in generator.integers(0, 8 * (8 + length), 24):
            damaged = content.copy()
            damaged[bit // 8] ^= 1 << (bit % 8)
            self.weights.write_bytes(damaged)
            result = self.foxscope("run", "--model", self.model, "--ids", ids, "-o", output, "--force")
            self.assertIn(result.returncode, (0, 1), f"bit {bit}: {result.stderr}")
            if result.returncode == 1:
                self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]+\n\Z", f"bit {bit}")

    def test_offsets_and_shapes(self):
        header, data = read_safetensors(self.weights)
        first = next(name for name in header if name != "__metadata__")
        write_safetensors(self.weights, {**header, "overlapping": header[first]}, data)
        self.refuses(self.model, ["model.safetensors", "overlap"])
        for name, change in [("reversed", {"data_offsets": header[first]["data_offsets"][::-1]}),
                             ("beyond the end", {"data_offsets": [len(data), 2 * len(data)]}),
                             ("negative", {"data_offsets": [-4, 0]}),
                             ("overflowing product", {"shape": [2**32, 2**32]}),
                             ("negative shape", {"shape": [-1, -4]}),
                             ("unknown dtype", {"dtype": "F4"}),
                             ("no shape", {"shape": None})]:
            with self.subTest(name):
                write_safetensors(self.weights, {**header, first: {**header[first], **change}}, data)
                self.refuses(self.model, ["model.safetensors", first])


class TextTest(BadInputTest):
    def text(self, content, words, code=1, extra=()):
        path = self.write("text.txt", content)
        output = self.folder / "out.h5"
        self.fails(code, words, "run", "--model", FOX, "--text", path, "-o", output, *extra, output=output)

    def test_texts(self):
        self.text(b"", "text.txt")
        self.text(b"one\0two", ["text.txt", "NUL", "3"])
        self.text(b"abc\xffdef", ["text.txt", "UTF-8", "3", "--invalid-utf8 replace"])
        self.text(os.urandom(4096).replace(b"\0", b"\xfe"), "text.txt")
        self.text(b"fine", "--invalid-utf8 maybe", code=2, extra=["--invalid-utf8", "maybe"])

    def test_a_text_of_100_megabytes_is_refused_or_cut(self):
        path = self.folder / "long.txt"
        path.write_bytes(b"All work and no play makes Jack a dull boy.\n" * (100_000_000 // 44))
        output = self.folder / "out.h5"
        # A machine with room for the run needs a limit, which counts too.
        limit = 16 << 30
        roomy = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 4 * limit
        options = limited_memory(limit) if roomy else {}
        self.fails(1, ["GB", "--length"], "run", "-q", "--model", FOX, "--text", path, "-o", output, output=output,
                   **options)
        self.done("run", "-q", "--model", FOX, "--text", path, "--length", 32, "-o", output)

    def test_files(self):
        output = self.folder / "out.h5"
        self.fails(1, "missing.txt", "run", "--model", FOX, "--text", self.folder / "missing.txt", "-o", output, output=output)
        self.fails(1, str(self.folder), "run", "--model", FOX, "--text", self.folder, "-o", output, output=output)

    def test_one_input(self):
        self.fails(2, ["--text", "--ids"], "run", "--model", FOX, "-o", self.folder / "o.h5")
        self.fails(2, ["--text", "--ids"], "run", "--model", FOX, "--text", "a", "--ids", "b", "-o", self.folder / "o.h5")

    def test_a_checkpoint_without_a_tokenizer_runs_ids_only(self):
        output = self.folder / "out.h5"
        self.fails(1, "tokenizer.json", "run", "--model", DATA / "fox-pro", "--text", self.write("t.txt", "a"), "-o", output,
                   output=output)


class IdsTest(BadInputTest):
    def test_ids(self):
        for content, words in [("[1, 2, 320]", ["ids.json", "320"]), ("[1, -1]", "-1"), ("[]", "ids.json"), ("[1.5]", "ids.json"),
                               ('["a"]', "ids.json"), ("{}", "input_ids"), ("[1", "ids.json"), ("", "ids.json"),
                               ("[4294967297]", "4294967297"), ("[" * 50_000, "ids.json"), ("\xff", "ids.json"),
                               ('{"input_ids": [1, 2], "labels": [1]}', "labels"),
                               ('{"input_ids": [1, 2], "labels": [1, 999]}', "999")]:
            with self.subTest(content[:40]):
                self.refuses(DATA / "fox-pro", words, ids=self.write("ids.json", content.encode("latin-1")))

    def test_files(self):
        self.refuses(DATA / "fox-pro", "missing.json", ids=self.folder / "missing.json")
        self.refuses(DATA / "fox-pro", "folder", ids=self.folder)


class OptionTest(BadInputTest):
    def test_values(self):
        for extra, words in [(["--length", "0"], "--length"), (["--length", "-5"], "--length"), (["--bos", "-1"], "--bos"),
                             (["--pruning", "1"], "--pruning"), (["--pruning", "nan"], "--pruning"),
                             (["--pruning", "-0.1"], "--pruning"), (["--dtype", "float8"], "--dtype"),
                             (["--device", "tpu"], "tpu"), (["--keep", "loss,everything"], "everything"),
                             (["--intervene", "0:0:explode"], "explode"), (["--intervene", "0:one"], "0:one"),
                             (["--intervene", "9:0:one"], "9"), (["--intervene", "0:5:one"], "5"),
                             (["--intervene", "0:0:zero@64"], "64"), (["--intervene", "0:0:constant=2"], "constant")]:
            with self.subTest(extra):
                self.refuses(DATA / "fox-pro", words, code=2, extra=extra)

    def test_bos_outside_the_vocabulary(self):
        for bos in (320, -1, 2**40):
            message = self.foxscope("run", "--model", DATA / "fox-pro", "--ids", self.write("ids.json", "[1]"), "--bos", bos,
                                    "-o", self.folder / "o.h5")
            self.assertEqual(message.returncode, 2)
            self.assertEqual(message.stderr.decode(), f"foxscope: --bos {bos}: the model's vocabulary has ids 0 to 319\n")


def byte_tokenizer():
    """A tokenizer.json of <s> and the 256 bytes, as GPT-2 writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in plain}
    names.update({byte: chr(256 + n) for n, byte in enumerate(sorted(set(range(256)) - set(plain)))})
    vocabulary = {"<s>": 0, **{names[byte]: byte + 1 for byte in range(256)}}
    return json.dumps({"added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                       "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})


class MistakeTest(BadInputTest):
    """A mistake has the same words, whichever command meets it, and nothing is written."""

    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", TEXT * 40)
        self.empty = self.write("empty.txt", "")
        self.windows(numpy.arange(1, 61).reshape(2, 30))
        self.output = self.folder / "out.h5"

    def windows(self, ids):
        self.ids = self.folder / "ids.npy"
        numpy.save(self.ids, ids.astype(numpy.int32))

    def command(self, name, model, text=None):
        text = text or self.text
        return {"run": ["run", "--model", model, "--text", text, "-o", self.output],
                "generate": ["generate", "--model", model, "--text", text],
                "loss": ["eval", "loss", "--model", model, "--ids", self.ids, "-o", self.output],
                "heads": ["eval", "heads", "--model", model, "--ids", self.ids, "-o", self.output],
                "needle": ["eval", "needle", "--model", model, "--haystack", text, "--lengths", 600, "--depths", 0,
                           "-o", self.output],
                "surprisal": ["eval", "surprisal", "--model", model, "--text", text, "-o", self.output],
                "sweep": ["eval", "sweep", "--model", model, "--text", text, "-o", self.output],
                "serve": ["serve", "--model", model, "--port", 0]}[name]

    def all_say(self, code, message, names, extra=(), model=FOX, text=None):
        for name in names.split():
            with self.subTest(f"{name} {extra}"):
                said = self.fails(code, message, *self.command(name, model, text), *extra, output=self.output)
                self.assertEqual(said.removeprefix("foxscope: "), message + "\n")

    def test_of_the_model(self):
        everywhere = "run generate loss heads needle surprisal sweep serve"
        for option, value, message in [
                ("--pruning", "1.5", "use a share from 0 (nothing is skipped) to below 1"),
                ("--pruning", "-0.25", "use a share from 0 (nothing is skipped) to below 1"),
                ("--bos", "8192", "the model's vocabulary has ids 0 to 8191"),
                ("--bos", "-1", "the model's vocabulary has ids 0 to 8191")]:
            self.all_say(2, f"{option} {value}: {message}", everywhere, [option, value])
        self.all_say(2, "--dtype bfloat16 needs --device cuda: on a CPU models run in float32", everywhere,
                     ["--dtype", "bfloat16", "--device", "cpu"])
        self.all_say(2, "--dtype float8: did you mean float32? else choose auto, float32 or bfloat16", everywhere,
                     ["--dtype", "float8"])

    def test_of_interventions(self):
        everywhere = "run generate loss heads needle surprisal sweep"
        there_is = "there is no {}: the model and text have 0 to {}"
        self.all_say(2, f"--intervene '8:0:one': {there_is.format('layer 8', 7)}", everywhere, ["--intervene", "8:0:one"])
        self.all_say(2, f"--intervene '0:4:cut': {there_is.format('head 4', 3)}", everywhere, ["--intervene", "0:4:cut"])
        self.all_say(2, "--intervene '0:0:mean': a text that is being continued has no mean gate yet: use constant=f",
                     "generate needle", ["--intervene", "0:0:mean"])
        self.all_say(2, f"--intervene '0:0:zero@30': {there_is.format('position 30', 29)}", "loss heads",
                     ["--intervene", "0:0:zero@30"])
        self.all_say(2, f"--intervene '0:0:zero@40': {there_is.format('position 40', 39)}", "run surprisal sweep",
                     ["--intervene", "0:0:zero@40", "--length", 40])

    def test_of_the_text(self):
        for limit in ["0", "-3"]:
            self.all_say(2, f"--length {limit}: use a number of tokens from 1", "run surprisal sweep", ["--length", limit])
        self.all_say(1, f"{self.empty}: holds no tokens: there must be at least one", "run surprisal sweep",
                     text=self.empty)
        pairs = self.write("pairs.jsonl", '{"sentence_good": "a", "sentence_bad": ""}\n')
        self.fails(1, "pair 0, a sentence: holds no tokens: there must be at least one", "eval", "surprisal", "--model",
                   FOX, "--pairs", pairs, "-o", self.folder / "out.csv")

    def test_ids_outside_the_vocabulary(self):
        self.windows(numpy.array([[1, 2, 3], [4, 8192, 5]]))
        words = "the id 8192 at position 1 is outside the model's vocabulary (0 to 8191); use the ids of this model's tokenizer"
        self.all_say(1, f"{self.ids}, window 1: {words}", "loss heads")
        ids = self.write("ids.json", "[7, 8192]")
        for command in [["run", "-o", self.output], ["generate"]]:
            self.fails(1, f"{ids}: {words}", *command, "--model", FOX, "--ids", ids, output=self.output)
        # A tokenizer that makes ids which the model does not have.
        model = self.copy_of("fox-pro")
        shutil.copy(FOX / "tokenizer.json", model)
        for name in "run generate surprisal sweep needle".split():
            self.fails(1, ["is outside the model's vocabulary (0 to 319); use the ids of this model's tokenizer"],
                       *self.command(name, model), output=self.output)

    def test_more_tokens_than_positions(self):
        model = self.copy_of("gpt2")
        (model / "tokenizer.json").write_text(byte_tokenizer())
        self.windows(numpy.array([[1] * 130, [2] * 130]))
        long = "{} tokens are more than the model has positions for, which is 128: take fewer tokens, or a shorter text"
        self.all_say(2, long.format(130), "loss heads", model=model)
        self.all_say(2, long.format(130), "run surprisal", ["--length", 130], model=model)
        self.all_say(2, long.format(130), "sweep", ["--length", 130, "--change", "cut"], model=model)
        self.all_say(2, long.format(129), "generate", ["--max-tokens", 2], model=model, text=self.write("a.txt", "a" * 127))
        needle = self.foxscope(*self.command("needle", model))
        self.assertEqual(needle.returncode, 2)
        self.assertRegex(needle.stderr.decode(), "foxscope: [0-9]+" + long.format("")[:40])

    def test_a_message_of_each_is_told_by_the_first_that_fails(self):
        """Before weights are read, corpora counted, ports opened."""
        weights = self.copy_of("fox-pro")
        set_tensor(weights, "model.layers.0.mlp.down_proj.weight", lambda tensor: tensor * numpy.float32("nan"))
        for name in "run generate loss heads serve".split():
            self.fails(2, "--bos 320", *self.command(name, weights), "--bos", 320)


class OutputTest(BadInputTest):
    def arguments(self, output):
        return ["run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "-o", output]

    def test_an_output_that_exists_stays_without_force(self):
        output = self.write("old.h5", "old")
        self.fails(1, ["old.h5", "--force"], *self.arguments(output))
        self.assertEqual(output.read_text(), "old")
        self.done(*self.arguments(output), "--force")
        self.assertTrue(h5py.is_hdf5(output))

    def test_folders_that_cannot_be_written(self):
        output = self.folder / "missing" / "run.h5"
        self.fails(1, "missing", *self.arguments(output), output=output)
        self.fails(1, str(self.folder), *self.arguments(self.folder), "--force")
        # Not even root can write there.
        self.fails(1, "/proc/run.h5", *self.arguments("/proc/run.h5"))

    def test_the_output_is_checked_before_the_work(self):
        output = self.folder / "missing" / "run.h5"
        self.fails(1, str(output), "run", "--model", "nowhere", "--ids", "nothing", "-o", output)

    def test_an_input_is_never_the_output(self):
        ids = self.ids_file()
        content = ids.read_bytes()
        self.fails(2, "being read", "run", "--model", DATA / "fox-pro", "--ids", ids, "-o", ids, "--force")
        self.assertEqual(ids.read_bytes(), content)

    def test_a_full_disk_leaves_the_old_file(self):
        output = self.write("old.h5", "old")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        result = subprocess.run([PROGRAM, *map(str, self.arguments(output)), "--force"], capture_output=True, timeout=60,
                                preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]*old\.h5[^\n]+\n\Z")
        self.assertEqual(output.read_text(), "old")
        self.assertEqual([path.name for path in self.folder.glob("*old*")], ["old.h5"])


class RunFileTest(BadInputTest):
    def refuses_file(self, path, words):
        for command in [["heads", path], ["info", path],
                        ["map", path, "--layer", 0, "--head", 0, "--quantity", "forget", "-o", self.folder / "o.npy"]]:
            self.fails(1, words, *command)

    def test_files(self):
        self.fails(1, "missing.h5", "heads", self.folder / "missing.h5")
        self.refuses_file(self.write("text.h5", "no HDF5"), "text.h5")
        self.refuses_file(self.write("empty.h5", ""), "empty.h5")
        with h5py.File(self.folder / "other.h5", "w") as file:
            file["something"] = 1
        self.refuses_file(self.folder / "other.h5", "other.h5")

    def test_a_newer_schema(self):
        path = self.run_fixture()
        with h5py.File(path, "r+") as file:
            file.attrs["foxscope_schema"] = 4
        self.refuses_file(path, ["run.h5", "schema"])

    def test_truncated(self):
        path = self.run_fixture()
        content = path.read_bytes()
        for length in [len(content) - 1, len(content) // 2, 2048, 100]:
            path.write_bytes(content[:length])
            self.refuses_file(path, "run.h5")

    def test_missing_and_misshapen_parts(self):
        path = self.run_fixture()
        with h5py.File(path, "r+") as file:
            del file["models/fox-pro/tokens/id"]
        self.refuses_file(path, ["run.h5", "tokens/id"])
        path = self.run_fixture(name="shape.h5")
        with h5py.File(path, "r+") as file:
            layer = file["models/fox-pro/layers/00"]
            del layer["cumulative_log_gate"]
            layer["cumulative_log_gate"] = numpy.zeros((2, 63))
        self.fails(1, ["shape.h5", "cumulative_log_gate"], "heads", path)


if __name__ == "__main__":
    unittest.main()
