"""`foxscope eval loss`: windows, losses, errors, and what is refused."""

import hashlib
import json
import lzma
import math
import os
import resource
import unittest

import h5py
import numpy
import safetensors.numpy
import tokenizers
from support import DATA, FOX, SOURCE, TRANSFORMER, CommandLineTest, golden

MODEL_FIELDS = ["name", "nats_per_token", "nats_per_token_error", "bits_per_byte", "bits_per_byte_error", "perplexity",
                "perplexity_error", "averaged", "windows", "documents", "effective_documents", "tokens", "dtype",
                "device",
                "pruning_tolerance", "intervention", "weights_sha256", "windows_resumed", "tokens_per_second",
                "seconds", "attention_kernel"]
TEXTS = sorted((SOURCE / "resources" / "texts").glob("*.txt"))


class Mersenne:
    """The 64-bit Mersenne Twister of Matsumoto and Nishimura, which the C++ standard calls mt19937_64."""

    def __init__(self, seed):
        self.mask = (1 << 64) - 1
        self.state = [seed & self.mask]
        for n in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ (last >> 62)) + n) & self.mask)
        self.index = 312

    def __call__(self):
        if self.index == 312:
            state = self.state
            for n in range(312):
                x = (state[n] & ~0x7FFFFFFF & self.mask) | (state[(n + 1) % 312] & 0x7FFFFFFF)
                state[n] = state[(n + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            self.index = 0
        x = self.state[self.index]
        self.index += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)

    def below(self, bound):
        while True:
            draw = self()
            if draw < (1 << 64) - (1 << 64) % bound:
                return draw % bound


def windows_by_the_rule(lengths, length, number, seed):
    """(document, first token) of every window, from the rule in words."""
    random = Mersenne(seed)
    places = [document for document, tokens in enumerate(lengths) for _ in range(tokens // length)]
    taken = set()
    for j in range(len(places) - number, len(places)):
        t = random.below(j + 1)
        taken.add(j if t in taken else t)
    result = []
    for document, tokens in enumerate(lengths):
        count = sum(1 for place in taken if places[place] == document)
        gaps = sorted(random.below(tokens - count * length + 1) for _ in range(count))
        result += [(document, gap + n * length) for n, gap in enumerate(gaps)]
    return result


def clustered_error(values, documents):
    """The error of a mean by leaving out each document in turn, written out."""
    return jackknife(lambda rows: numpy.asarray(values, dtype=float)[rows].mean(axis=0), documents)


def jackknife(estimate, documents):
    """The error of what is estimated from the rows of windows by leaving out each document in turn."""
    names = sorted(set(documents))
    rows = lambda left_out: [n for n, document in enumerate(documents) if document != left_out]
    squares = sum((estimate(rows(name)) - estimate(rows(None))) ** 2 for name in names)
    return numpy.sqrt((len(names) - 1) / len(names) * squares)


class EvalTest(CommandLineTest):
    def corpus(self, name="corpus.jsonl.xz", repeat=1):
        """Some documents of ordinary text."""
        text = "".join(path.read_text() for path in TEXTS)
        cuts = [0, 3000, 9000, 9400, 16000, 17500, 26000]
        documents = [str(copy) * (copy > 0) + text[a % len(text):][:b - a] for copy in range(repeat)
                     for a, b in zip(cuts, cuts[1:])]
        self.documents = documents
        lines = "".join(json.dumps({"id": f"doc-{n}", "text": document}) + "\n" for n, document in enumerate(documents))
        return self.write(name, lzma.compress(lines.encode()) if name.endswith("xz") else lines)

    def evaluate(self, *arguments, name="eval.h5"):
        output = self.folder / name
        return output, json.loads(self.done("eval", "loss", *arguments, "-o", output, "--json"))

    def npy(self, array, name="ids.npy"):
        path = self.folder / name
        numpy.save(path, array)
        return path


class FileTest(EvalTest):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))

    def test_windows_losses_and_errors(self):
        corpus = self.corpus(repeat=2)
        output, summary = self.evaluate("--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--corpus", corpus,
                                        "--length", 96, "--windows", 9, "--seed", 5)
        with h5py.File(output) as file:
            self.check_windows(file)
            losses = {name: file[f"models/{name}/loss/per_token_loss"][()] for name in ["fox", "base"]}
            documents = file["windows/document"][()].tolist()
            for name, model in zip(losses, summary["models"]):
                self.check_model(file[f"models/{name}"], losses[name], documents, model)
            self.check_difference(file["differences/fox_minus_base"], losses["fox"] - losses["base"], documents, summary)
            self.check_plots(file)
            self.check_model_of_run(file)
        self.assertEqual(list(summary), ["output", "source", "length", "models", "differences"])
        self.assertEqual([list(model) for model in summary["models"]], [MODEL_FIELDS] * 2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["corpus.jsonl.xz", "eval.h5", "run.h5",
                                                                                "window.json"])

    def check_windows(self, file):
        ids = [self.tokenizer.encode(document).ids for document in self.documents]
        expected = windows_by_the_rule([len(document) for document in ids], 96, 9, 5)
        names = [name.decode() for name in file["documents/name"]]
        found = [(int(names[document].removeprefix("doc-")), int(start)) for document, start in
                 zip(file["windows/document"], file["windows/token_start"])]
        self.assertEqual(found, expected)
        self.assertGreater(len(set(document for document, _ in found)), 2)
        for n, (document, start) in enumerate(expected):
            self.assertEqual(file["windows/token_id"][n].tolist(), ids[document][start:start + 96])
            text = self.documents[document].encode()[file["windows/byte_start"][n]:file["windows/byte_end"][n]]
            self.assertEqual(text.decode(), self.tokenizer.decode(ids[document][start:start + 96]))
        for name, sha in zip(names, file["documents/sha256"]):
            document = self.documents[int(name.removeprefix("doc-"))]
            self.assertEqual(sha.decode(), hashlib.sha256(document.encode()).hexdigest())
        self.assertEqual(file.attrs["corpus_documents"], len(self.documents))
        self.assertEqual(file.attrs["corpus_tokens"], sum(map(len, ids)))
        self.assertEqual((file.attrs["content"], file.attrs["seed"]), ("eval_loss", 5))
        self.assertEqual(file["models/fox/windows"], file["windows"])
        self.assertEqual(file["models/base/windows"], file["windows"])

    def check_model(self, group, losses, documents, summary):
        self.assertEqual(losses.dtype, numpy.float32)
        self.assertEqual(losses.shape, (9, 96))
        losses = losses.astype(float)
        numpy.testing.assert_allclose(group["loss/loss"], losses.mean(axis=0), rtol=1e-12)
        numpy.testing.assert_allclose(group["loss/loss_errors"], clustered_error(losses, documents), rtol=1e-9)
        running = numpy.cumsum(losses, axis=1) / numpy.arange(1, 97)
        perplexity = numpy.exp(running.mean(axis=0))
        numpy.testing.assert_allclose(group["perplexity/perplexity"], perplexity, rtol=1e-12)
        numpy.testing.assert_allclose(group["perplexity/perplexity_errors"],
                                      perplexity * clustered_error(running, documents), rtol=1e-9)
        means = losses.mean(axis=1)
        self.assertAlmostEqual(summary["nats_per_token"], means.mean(), places=10)
        self.assertAlmostEqual(summary["nats_per_token_error"], clustered_error(means, documents), places=10)
        self.assertAlmostEqual(summary["perplexity"], math.exp(means.mean()), places=8)
        sizes = group["windows/byte_end"][()] - group["windows/byte_start"][()]
        nats = losses.sum(axis=1)
        ratio = nats.sum() / sizes.sum()
        error = jackknife(lambda rows: nats[rows].sum() / sizes[rows].sum(), documents)
        self.assertAlmostEqual(summary["bits_per_byte"], ratio / math.log(2), places=10)
        self.assertAlmostEqual(summary["bits_per_byte_error"], error / math.log(2), places=10)
        for name in ["nats_per_token", "bits_per_byte", "perplexity"]:
            self.assertEqual(group.attrs[name], summary[name])
            self.assertEqual(group.attrs[name + "_error"], summary[name + "_error"])
        self.assertEqual((summary["windows"], summary["documents"], summary["tokens"]),
                         (len(losses), len(set(documents)), len(losses) * 96))
        counts = numpy.unique(documents, return_counts=True)[1]
        self.assertAlmostEqual(summary["effective_documents"], counts.sum()**2 / (counts**2).sum(), places=9)
        self.assertEqual(group.attrs["effective_documents"], summary["effective_documents"])
        self.assertEqual(group.attrs["documents"], summary["documents"])

    def check_difference(self, group, losses, documents, summary):
        losses = losses.astype(float)
        numpy.testing.assert_allclose(group["loss"], losses.mean(axis=0), rtol=1e-4, atol=1e-6)
        numpy.testing.assert_allclose(group["loss_errors"], clustered_error(losses, documents), rtol=1e-4, atol=1e-6)
        (difference,) = summary["differences"]
        self.assertEqual((difference["model"], difference["minus"]), ("fox", "base"))
        means = losses.mean(axis=1)
        self.assertAlmostEqual(difference["nats_per_token"], means.mean(), places=6)
        self.assertAlmostEqual(difference["nats_per_token_error"], clustered_error(means, documents), places=6)
        fox, base = summary["models"]
        self.assertAlmostEqual(difference["bits_per_byte"], fox["bits_per_byte"] - base["bits_per_byte"], places=12)
        self.assertEqual(group.attrs["nats_per_token"], difference["nats_per_token"])

    def check_plots(self, file):
        group = file
        while "default" in group.attrs:
            group = group[group.attrs["default"]]
        self.assertEqual((group.name, group.attrs["NX_class"]), ("/models/fox/loss", "NXdata"))
        for group in [file["models/base/loss"], file["models/base/perplexity"], file["differences/fox_minus_base"]]:
            signal, (axis,) = group.attrs["signal"], group.attrs["axes"]
            self.assertEqual(group[signal].shape, group[axis].shape)
            self.assertIn(signal + "_errors", group)
            self.assertEqual(group[signal].dims[0][0], group[axis])
        table = file["models/fox/loss/per_token_loss"]
        self.assertEqual([table.dims[n][0].name.split("/")[-1] for n in range(2)], ["window", "position"])
        self.assertEqual(file["models/fox/perplexity/context_length"][[0, -1]].tolist(), [1, 96])

    def check_model_of_run(self, file):
        """A window is what `foxscope run` makes of its tokens, and the model is described likewise."""
        ids = self.write("window.json", json.dumps(file["windows/token_id"][0].tolist()))
        run = self.folder / "run.h5"
        self.done("run", "--model", f"fox={FOX}", "--ids", ids, "--keep", "loss", "-o", run)
        with h5py.File(run) as other:
            numpy.testing.assert_array_equal(other["models/fox/loss/per_token_loss"],
                                             file["models/fox/loss/per_token_loss"][0])
            for attribute in ["config", "weights_sha256", "dtype", "device", "softmax_scale", "pruning_tolerance",
                              "layers", "heads", "head_dim", "gated", "intervention", "window_size", "model_type"]:
                self.assertEqual(other["models/fox"].attrs[attribute], file["models/fox"].attrs[attribute], attribute)

    def test_other_tokenizers_get_the_same_text(self):
        other = self.folder / "other"
        other.mkdir()
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        tokenizer.save(str(other / "tokenizer.json"))
        config, weights = self.small_model(len(alphabet))
        (other / "config.json").write_text(json.dumps(config))
        safetensors.numpy.save_file(weights, other / "model.safetensors")
        output, summary = self.evaluate("--model", f"fox={FOX}", "--model", f"small={other}", "--bos", 0, "--corpus",
                                        self.corpus(repeat=2), "--length", 40, "--windows", 5, "--seed", 2)
        with h5py.File(output) as file:
            windows = file["models/small/windows"]
            losses = file["models/small/loss/per_token_loss"][()]
            for n in range(5):
                document = int(file["documents/name"][windows["document"][n]].decode().removeprefix("doc-"))
                text = self.documents[document].encode()[windows["byte_start"][n]:windows["byte_end"][n]].decode()
                ids = tokenizer.encode(text).ids
                self.assertEqual(windows["tokens"][n], len(ids))
                self.assertEqual(windows["token_id"][n].tolist(), ids + [-1] * (losses.shape[1] - len(ids)))
                self.assertTrue(numpy.isfinite(losses[n, :len(ids)]).all())
                self.assertTrue(numpy.isnan(losses[n, len(ids):]).all())
                self.assertEqual(windows["token_start"][n], -1)
                self.assertEqual(windows["byte_start"][n], file["windows/byte_start"][n])
            common = min(windows["tokens"])
            curve = file["models/small/loss/loss"][()]
            numpy.testing.assert_allclose(curve[:common], losses[:, :common].astype(float).mean(axis=0))
            self.assertTrue(numpy.isnan(curve[common:]).all())
            self.assertNotIn("loss", file["differences/fox_minus_small"])
            sizes = windows["byte_end"][()] - windows["byte_start"][()]
            fox = file["models/fox/loss/per_token_loss"][()].astype(float).sum(axis=1)
            small = numpy.nansum(losses.astype(float), axis=1)
            bits = (fox - small).sum() / sizes.sum() / math.log(2)
            documents = windows["document"][()].tolist()
            error = jackknife(lambda rows: (fox - small)[rows].sum() / sizes[rows].sum(), documents) / math.log(2)
        (difference,) = summary["differences"]
        self.assertIsNone(difference["nats_per_token"])
        self.assertAlmostEqual(difference["bits_per_byte"], bits, places=9)
        self.assertAlmostEqual(difference["bits_per_byte_error"], error, places=9)
        self.assertIn("fox minus small", self.done("info", output))

    def small_model(self, vocabulary):
        """A random model with a vocabulary of its own, out of a fixture."""
        config = json.loads((DATA / "fox-llama" / "config.json").read_text())
        weights = safetensors.numpy.load_file(DATA / "fox-llama" / "model.safetensors")
        random = numpy.random.default_rng(3)
        for name in ["model.embeddings.weight", "lm_head.weight"]:
            weights[name] = random.normal(0, 0.3, (vocabulary, weights[name].shape[1])).astype(numpy.float32)
        config["vocab_size"] = vocabulary
        return config, weights


class IdsTest(EvalTest):
    def test_losses_of_the_fixtures(self):
        """Each golden sequence begins with a token of its own, which takes BOS's place."""
        for fixture in ["fox-pro", "transformer-llama", "fla-fox"]:
            values = golden(fixture)
            labels = self.npy(values["labels"])
            for row, first in enumerate(values["input_ids"][:, 0]):
                output, summary = self.evaluate("--model", DATA / fixture, "--ids", labels, "--bos", int(first),
                                                "--pruning", 0, name=f"{fixture}-{row}.h5")
                with h5py.File(output) as file:
                    losses = file[f"models/{fixture}/loss/per_token_loss"][()]
                    numpy.testing.assert_allclose(losses[row], values["per_token_loss"][row], atol=2e-4)
                    self.assertEqual(file["windows/document"][()].tolist(), list(range(len(losses))))
                    self.assertNotIn("byte_start", file["windows"])
                    self.assertNotIn("documents", file)
                self.assertIsNone(summary["models"][0]["bits_per_byte"])
                means = losses.astype(float).mean(axis=1)
                error = summary["models"][0]["nats_per_token_error"]
                if len(means) < 4:
                    self.assertIsNone(error)
                else:
                    self.assertAlmostEqual(error, means.std(ddof=1) / math.sqrt(len(means)), places=9)

    def test_held_out_books(self):
        """Both trained models on the windows whose losses were kept from a plain dense program in float32."""
        reference = safetensors.numpy.load_file(DATA / "heldout" / "reference_float32.safetensors")
        output, _ = self.evaluate("--model", FOX, "--model", TRANSFORMER, "--ids",
                                  DATA / "heldout" / "reference.safetensors", "--tensor", "tokens", "--length", 512)
        with h5py.File(output) as file:
            for name in ["fox-pro", "transformer-pro"]:
                expected = reference[f"{name}.per_token_loss_float32"][:, :512]
                numpy.testing.assert_allclose(file[f"models/{name}-12m/loss/per_token_loss"], expected, atol=1e-3)
                numpy.testing.assert_allclose(file[f"models/{name}-12m/loss/loss"], expected.mean(axis=0), atol=1e-3)

    def test_kinds_of_numbers_and_parts(self):
        ids = numpy.arange(30).reshape(3, 10)
        paths = [self.npy(ids.astype(kind), f"{kind}.npy") for kind in ["<i2", "<i4", "<i8"]]
        for kind in ["int32", "int64"]:
            paths.append(self.folder / f"{kind}.safetensors")
            safetensors.numpy.save_file({"windows": ids.astype(kind)}, paths[-1])
        for path in paths:
            output, summary = self.evaluate("--model", DATA / "fox-pro", "--ids", path, "--length", 4, "--windows", 2,
                                            "--bos", 1, name=path.name + ".h5")
            with h5py.File(output) as file:
                self.assertEqual(file["windows/token_id"][()].tolist(), ids[:2, :4].tolist())

    def test_one_window_has_no_error(self):
        output, summary = self.evaluate("--model", DATA / "fox-pro", "--ids", self.npy(numpy.arange(9)[None]), "--bos",
                                        1)
        self.assertIsNone(summary["models"][0]["nats_per_token_error"])
        self.assertIsNotNone(summary["models"][0]["nats_per_token"])
        with h5py.File(output) as file:
            self.assertTrue(numpy.isnan(file["models/fox-pro/loss/loss_errors"]).all())
        text = self.done("info", output)
        self.assertIn("no errors: all windows lie in one document", text)
        self.assertNotIn("±", text)

    def test_errors_say_what_they_are_over(self):
        model, ids = DATA / "fox-pro", numpy.arange(60).reshape(6, 10)
        output, summary = self.evaluate("--model", model, "--ids", self.npy(ids), "--bos", 1)
        self.assertIsNotNone(summary["models"][0]["nats_per_token_error"])
        self.assertIn("± 1 standard error over 6 documents; a 95 % interval is ± 2.57 errors (Student's t)",
                      self.done("info", output))
        output, summary = self.evaluate("--model", model, "--ids", self.npy(ids[:3]), "--bos", 1, name="few.h5")
        self.assertIsNone(summary["models"][0]["nats_per_token_error"])
        self.assertIn("no errors: the windows lie in 3 documents, and an error takes 4", self.done("info", output))

    def test_errors_are_said_of_each_quantity_where_one_alone_has_them(self):
        # Windows of as many tokens, and of other numbers of bytes.
        texts = ["The fox ran over the hill and slept. ", "z q x j z q x j k v w q z j x ", "1 2 3 4 5 6 7 8 9 ",
                 "x y z x y z q "]
        corpus = self.write("unlike.jsonl", "".join(json.dumps({"text": text * 3}) + "\n" for text in texts))
        output = self.folder / "unlike.h5"
        said = self.done("eval", "loss", "--model", FOX, "--corpus", corpus, "--length", "16", "--windows", "4",
                         "--seed", "1", "-o", output)
        documents = numpy.array(h5py.File(output)["windows/document"])
        self.assertEqual(len(set(documents)), 4)
        row = next(line for line in said.splitlines() if line.startswith("fox-pro-12m"))
        self.assertEqual(row.count("±"), 2, "nats/token and perplexity")
        self.assertRegex(said, r"(?m)^nats/token: ± 1 standard error over 4 documents; ")
        self.assertRegex(said, r"(?m)^bits/byte: no errors: (the windows lie in 4 documents, effectively 3\.\d|a few of the 4 documents)")

    def test_interventions(self):
        ids = self.npy(numpy.arange(40).reshape(2, 20))
        plain, _ = self.evaluate("--model", DATA / "fox-pro", "--ids", ids, "--bos", 1)
        changed, _ = self.evaluate("--model", DATA / "fox-pro", "--ids", ids, "--bos", 1, "--intervene", "*:*:one",
                                   name="one.h5")
        with h5py.File(plain) as a, h5py.File(changed) as b:
            self.assertEqual(json.loads(b["models/fox-pro"].attrs["intervention"]), ["*:*:one"])
            x, y = (file["models/fox-pro/loss/per_token_loss"][()] for file in (a, b))
            self.assertAlmostEqual(x[0, 0], y[0, 0], places=5)
            self.assertGreater(abs(x - y).max(), 1e-4)


class BadInputTest(EvalTest):
    def refused(self, code, words, *arguments):
        output = self.folder / "out.h5"
        self.fails(code, words, "eval", "loss", *arguments, "-o", output, output=output)

    def test_wrong_usage(self):
        model = ["--model", DATA / "fox-pro"]
        ids = self.npy(numpy.arange(12).reshape(2, 6))
        self.refused(2, "either --corpus or --ids", *model)
        self.refused(2, "either --corpus or --ids", *model, "--corpus", "x", "--ids", ids)
        self.refused(2, "--tensor", *model, "--corpus", "x", "--tensor", "t")
        self.refused(2, "--seed", *model, "--ids", ids, "--seed", 1)
        self.refused(2, "--seed -1", *model, "--corpus", "x", "--seed", -1)
        for seed in [2**63, 2**64 - 1, 10**30]:
            self.refused(2, ["--seed", f"{seed} is too large", str(2**63 - 1)], *model, "--corpus", "x", "--seed", seed)
        self.refused(2, "--windows 3", *model, "--ids", ids, "--windows", 3)
        self.refused(2, "--length 7", *model, "--ids", ids, "--length", 7)
        self.refused(2, "--dtype", *model, "--ids", ids, "--dtype", "int8")
        self.refused(2, "--pruning", *model, "--ids", ids, "--pruning", 2)
        self.refused(2, "--bos", *model, "--ids", ids, "--bos", 10**6)
        self.refused(2, "--bos -1", *model, "--ids", ids, "--bos", -1)
        self.refused(2, ["layer", "99"], *model, "--ids", ids, "--bos", 1, "--intervene", "99:0:one")
        self.refused(2, ["zero@6"], *model, "--ids", ids, "--bos", 1, "--intervene", "0:0:zero@6")
        self.fails(2, ["which command", "surprisal"], "eval")
        self.fails(2, "foxscope eval loss --help", "eval", "loss", "--colour")
        self.assertIn("mt19937_64", self.done("eval", "loss", "--help"))

    def test_bad_corpora(self):
        model = ["--model", FOX, "--corpus"]
        self.refused(1, ["none.txt", "no such corpus"], *model, self.folder / "none.txt")
        self.refused(1, ["empty.jsonl", "no documents"], *model, self.write("empty.jsonl", ""))
        cut = lzma.compress(b'{"text": "' + os.urandom(5000).hex().encode() + b'"}\n')[:4000]
        self.refused(1, ["cut.jsonl.xz", "cut short"], *model, self.write("cut.jsonl.xz", cut))
        whole = bytearray(lzma.compress(b'{"text": "' + os.urandom(5000).hex().encode() + b'"}\n'))
        whole[len(whole) // 2] ^= 0x10
        self.refused(1, ["damaged.jsonl.xz", "damaged"], *model, self.write("damaged.jsonl.xz", bytes(whole)))
        self.refused(1, ["bad.jsonl: line 2", "not valid JSON"], *model, self.write("bad.jsonl", '{"text": "a"}\n{'))
        corpus = self.corpus()
        self.refused(1, ["no document is 99999 tokens long", "--length"], *model, corpus, "--length", 99999)
        self.refused(1, ["room for", "not for 500", "--windows"], *model, corpus, "--length", 512, "--windows", 500)
        self.refused(1, ["tokenizer"], "--model", DATA / "fox-pro", "--corpus", corpus)

    def test_a_line_of_3_gigabytes_takes_bounded_memory(self):
        path = self.write("line.jsonl", '{"text": "')
        os.truncate(path, 3 << 30)  # without blocks on the disk
        output = self.folder / "out.h5"
        self.fails(1, ["line.jsonl: line 1 is longer than 256 MiB", "smaller"], "eval", "loss", "--model", FOX, "--corpus",
                   path, "-o", output, output=output)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB, of any child until now
        self.assertLess(most, 2 << 20)

    def test_bad_ids(self):
        model = ["--model", DATA / "fox-pro", "--bos", 1, "--ids"]
        self.refused(2, [".npy or .safetensors"], *model, self.write("ids.json", "[1]"))
        self.refused(1, ["none.npy"], *model, self.folder / "none.npy")
        self.refused(1, ["[6]", "two axes"], *model, self.npy(numpy.arange(6)))
        self.refused(1, ["reals"], *model, self.npy(numpy.ones((2, 2))))
        self.refused(1, ["-5 in row 1 at 0"], *model, self.npy(numpy.array([[1, 2], [-5, 3]])))
        self.refused(1, ["99999", "window 1", "outside the model's vocabulary"], *model, self.npy(numpy.array([[1], [99999]])))
        self.refused(1, ["Fortran"], *model, self.npy(numpy.asfortranarray(numpy.ones((2, 3), dtype=int))))
        whole = self.npy(numpy.arange(6).reshape(2, 3)).read_bytes()
        self.refused(1, ["bytes where its shape asks for"], *model, self.write("cut.npy", whole[:-3]))
        self.refused(1, ["numpy's format"], *model, self.write("no.npy", "hello"))
        several = self.folder / "several.safetensors"
        safetensors.numpy.save_file({"a": numpy.arange(4).reshape(2, 2), "b": numpy.ones((2, 2), dtype=numpy.float32)},
                                    several)
        self.refused(2, ["--tensor", "a, b"], *model, several)
        self.refused(2, ["no such tensor", "a, b"], *model, several, "--tensor", "c")
        self.refused(1, ["F32"], *model, several, "--tensor", "b")

    def test_outputs(self):
        ids = self.npy(numpy.arange(12).reshape(2, 6))
        there = self.write("there.h5", "old")
        arguments = ["eval", "loss", "--model", DATA / "fox-pro", "--bos", 1, "--ids", ids, "-o"]
        self.fails(1, ["there.h5", "--force"], *arguments, there)
        self.assertEqual(there.read_text(), "old")
        self.fails(2, ["being read"], *arguments, ids, "--force")
        self.fails(1, ["nowhere"], *arguments, self.folder / "nowhere" / "x.h5")
        self.done(*arguments, there, "--force")
        self.assertIn("fox-pro", self.done("info", there))
        self.fails(1, ["holds losses of windows (`foxscope eval loss`) and no runs"], "heads", there)

    def test_weights_that_give_no_number(self):
        from support import set_tensor
        folder = self.copy_of("fox-pro")
        set_tensor(folder, "lm_head.weight", lambda tensor: tensor * numpy.float32(3e38))
        ids = self.npy(numpy.arange(12).reshape(2, 6))
        self.refused(1, ["the loss at position", "check the weights"], "--model", folder, "--bos", 1, "--ids", ids)


if __name__ == "__main__":
    unittest.main()
