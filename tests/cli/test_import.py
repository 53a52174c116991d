"""`foxscope import`: a run file of the queries, keys and gates that another program computed, and what it refuses."""

import json
import math
import os
import resource
import signal
import subprocess
import unittest

import h5py
import numpy
from support import DATA, FOX, PROGRAM, CommandLineTest, golden, write_safetensors

LAYER = ["q", "k", "v", "log_f", "log_decay", "beta"]


def bfloat16_bits(values):
    """The nearest bfloat16, ties to even, as numbers of 16 bits."""
    bits = numpy.asarray(values, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def from_bits(bits):
    return (numpy.asarray(bits).astype(numpy.uint32) << 16).view(numpy.float32)


def write_tensors(path, tensors, dtypes=(), metadata=None):
    """Safetensors of numpy arrays; dtypes names those that become BF16."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8"}
    for name, array in tensors.items():
        bf16 = name in dtypes
        packed = numpy.ascontiguousarray(bfloat16_bits(array) if bf16 else array).tobytes()
        header[name] = {"dtype": "BF16" if bf16 else names[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    write_safetensors(path, header, data)
    return path


def random_run(length=40, heads=4, key_heads=2, dim=8, layers=2, seed=1):
    random = numpy.random.default_rng(seed)
    tensors = {"ids": random.integers(0, 99, length)}
    for layer in range(layers):
        tensors[f"layers.{layer}.q"] = random.standard_normal((heads, length, dim)).astype(numpy.float32)
        tensors[f"layers.{layer}.k"] = random.standard_normal((key_heads, length, dim)).astype(numpy.float32)
        tensors[f"layers.{layer}.log_f"] = -numpy.logaddexp(0, -3 - random.standard_normal((heads, length)))
    return tensors


def published(fixture):
    """The tensors of an import from what the implementation of a paper's authors, or FLA's layer, gave."""
    values = golden(fixture)
    tensors = {"ids": values["input_ids"][0], "labels": values["labels"][0], "loss": values["per_token_loss"][0]}
    for name, array in values.items():
        if name.startswith("layers.") and name.rsplit(".", 1)[1] in ("q", "k", "v"):
            tensors[name] = array[0]
        elif name.endswith(".log_fgate"):
            tensors[name.replace("log_fgate", "log_f")] = array[0]
    return {name: numpy.ascontiguousarray(array) for name, array in tensors.items()}


class ImportTest(CommandLineTest):
    def imported(self, tensors, *options, name="import.h5", **how):
        """The path of the run file of tensors."""
        path = write_tensors(self.folder / "tensors.safetensors", tensors, **how)
        output = self.folder / name
        self.done("import", path, "--name", "mine", "-o", output, "--force", *options)
        return output

    def refuses(self, words, tensors, *options, code=1, **how):
        path = write_tensors(self.folder / "bad.safetensors", tensors, **how)
        self.fails(code, words, "import", path, "-o", self.folder / "bad.h5", *options, output=self.folder / "bad.h5")

    def maps(self, path, quantities, layer, head):
        output = self.folder / "maps.h5"
        self.done("map", path, "--layer", layer, "--head", head, "--quantity", quantities, "-o", output, "--force")
        with h5py.File(output) as file:
            return {name.rsplit("H", 1)[1].split("_", 1)[1]: group["value"][...] for name, group in file["maps"].items()}

    def assert_same_maps(self, mine, run, quantities, layer, heads, tolerance=1e-5):
        for head in range(heads):
            left, right = self.maps(mine, quantities, layer, head), self.maps(run, quantities, layer, head)
            self.assertEqual(set(left), set(quantities.split(",")))
            for quantity in left:
                numpy.testing.assert_allclose(left[quantity], right[quantity], rtol=0, atol=tolerance,
                                              err_msg=f"{quantity} of layer {layer} head {head}")


class PublishedTest(ImportTest):
    """Imported q, k and log f of the papers' authors and of FLA give the maps of `foxscope run` of the same weights."""

    def test_forgetting_attention(self):
        for fixture in ["fox-llama", "fox-pro", "fla-fox", "fla-fox-gated-qknorm", "transformer-pro"]:
            with self.subTest(fixture):
                tensors = published(fixture)
                mine = self.imported(tensors)
                run = self.run_fixture(fixture, extra=["--force"])
                layers = sum(name.endswith(".q") for name in tensors)
                self.assertGreater(layers, 1)
                for layer in range(layers):
                    self.assert_same_maps(mine, run, "forget,attention", layer, tensors["layers.0.q"].shape[0])
                with h5py.File(mine) as file, h5py.File(run) as own:
                    [ours] = own["models"].values()
                    for name in ["loss/per_token_loss", "tokens/id", "tokens/input_id"]:
                        numpy.testing.assert_allclose(file[f"models/mine/{name}"], ours[name], atol=2e-4)
                    for layer in range(layers):
                        rows = f"layers/{layer:02}/log_normalizer"
                        numpy.testing.assert_allclose(file[f"models/mine/{rows}"], ours[rows], atol=1e-4)
                attention = golden(fixture)["layers.1.attention"][0, 1]
                lower = numpy.tril_indices(len(attention))
                numpy.testing.assert_allclose(self.maps(mine, "attention", 1, 1)["attention"][lower], attention[lower],
                                              atol=1e-5)

    def test_linear_mixers(self):
        for fixture, options in [("gla", []), ("hgrn2", []), ("delta-net", []), ("gated-deltanet", []),
                                 ("mamba2", ["--mixer", "mamba2"])]:
            with self.subTest(fixture):
                given = golden(fixture, "golden_maps")
                tensors = {name: numpy.ascontiguousarray(array) for name, array in given.items()
                           if name.rsplit(".", 1)[1] in LAYER}
                tensors["ids"] = golden(fixture)["input_ids"][0]
                mine = self.imported(tensors, *options)
                run = self.run_fixture(fixture, extra=["--force"])
                for layer in range(sum(name.endswith(".q") for name in tensors)):
                    mixing = given[f"layers.{layer}.mixing"]
                    size = float(numpy.abs(mixing).max())
                    heads = len(mixing)
                    self.assert_same_maps(mine, run, "forget" if fixture != "delta-net" else "mixing", layer, heads,
                                          max(1, size) * 1e-5)
                    self.assert_same_maps(mine, run, "mixing", layer, heads, max(1, size) * 1e-5)
                    for head in range(heads):
                        rows = self.maps(mine, "mixing", layer, head)["mixing"][-mixing.shape[1]:]
                        there = ~numpy.isnan(rows)
                        numpy.testing.assert_allclose(rows[there], mixing[head][there], atol=max(1, size) * 1e-5)


class OwnRunTest(ImportTest):
    """Tensors that a run of ours holds make its maps again, of each kind of layer that tensors can describe."""

    def tensors_of(self, run):
        with h5py.File(run) as file:
            [model] = file["models"].values()
            tensors = {"ids": model["tokens/input_id"][...].astype(numpy.int64),
                       "scale": numpy.array(model.attrs["softmax_scale"]),
                       "logit_cap": numpy.array(float(model.attrs.get("logit_cap", 0)))}
            for name, layer in model["layers"].items():
                of = {"q": "query", "k": "key", "v": "value", "beta": "beta", "decay_rate": "decay_rate",
                      "erase_read": "erase_read", "erase_write": "erase_write", "sink": "sink_logit"}
                found = {theirs: layer[ours][...] for theirs, ours in of.items() if ours in layer}
                for sums in ("cumulative_log_gate", "cumulative_log_decay"):
                    if sums not in layer or not layer[sums][...].any():
                        continue
                    softmax = layer.attrs.get("mixer", "attention") == "attention"
                    decays = numpy.minimum(numpy.diff(layer[sums][...], axis=1, prepend=0), 0)
                    steps = len(decays) // len(found["q"]) if layer.attrs.get("mixer") == "delta_product" else 1
                    found["log_f" if softmax else "log_decay"] = decays[::steps]
                window = layer.attrs.get("window_size", model.attrs["window_size"])
                if layer.attrs.get("mixer", "attention") == "attention":
                    found["window"] = numpy.array(window, numpy.int64)
                tensors |= {f"layers.{int(name)}.{theirs}": array for theirs, array in found.items()}
        return tensors

    def test_every_kind_of_layer(self):
        for fixture, options, quantities in [
                ("gpt_oss", [], ["attention"]), ("gemma2", [], ["attention", "logits"]),
                ("fla-rwkv7", [], ["mixing", "forget"]), ("fla-comba", [], ["mixing", "forget"]),
                ("falcon_mamba", [], ["mixing", "forget"]),
                ("fla-gated_deltaproduct", ["--mixer", "delta_product"], ["mixing", "forget"])]:
            with self.subTest(fixture):
                run = self.run_fixture(f"published/{fixture}", extra=["--force", "--keep", "gates,rows,qk,values"])
                mine = self.imported(self.tensors_of(run), *options)
                with h5py.File(mine) as file, h5py.File(run) as own:
                    [ours] = own["models"].values()
                    for name, layer in ours["layers"].items():
                        again = file[f"models/mine/layers/{name}"]
                        self.assertEqual(set(layer) - {"log_normalizer_without_gate"}, set(again), name)
                        for attribute in ("mixer", "decay", "heads", "sinks", "window_size"):
                            self.assertEqual(layer.attrs.get(attribute), again.attrs.get(attribute), attribute)
                    layers = len(ours["layers"])
                for layer in range(min(layers, 2)):
                    for quantity in quantities:
                        size = max(1, float(numpy.nanmax(numpy.abs(self.maps(run, quantity, layer, 1)[quantity]))))
                        self.assert_same_maps(mine, run, quantity, layer, 2, 1e-5 * size)
                self.assertEqual(json.loads(self.done("check", mine, "--json"))["broken"], 0)


class FormTest(ImportTest):
    """Every form of the tensors."""

    def test_the_file_keeps_the_schema_and_holds_what_was_given(self):
        tensors = random_run()
        path = self.imported(tensors)
        checked = json.loads(self.done("check", path, "--json"))
        self.assertEqual((checked["broken"], checked["notes"]), (0, 0))
        self.assertEqual(checked["models"][0]["rows_that_sum_to_1"], 2 * 4 * 4)
        with h5py.File(path) as file:
            self.assertEqual(file.attrs["foxscope_schema"], 1)
            model = file["models/mine"]
            self.assertAlmostEqual(model.attrs["softmax_scale"], 8**-0.5, places=7)
            numpy.testing.assert_array_equal(model["tokens/input_id"], tensors["ids"])
            numpy.testing.assert_array_equal(model["tokens/id"], [*tensors["ids"][1:], -1])
            for layer in range(2):
                group = model[f"layers/{layer:02}"]
                numpy.testing.assert_array_equal(group["query"], tensors[f"layers.{layer}.q"])
                numpy.testing.assert_array_equal(group["key"], tensors[f"layers.{layer}.k"])
                numpy.testing.assert_allclose(group["cumulative_log_gate"],
                                              tensors[f"layers.{layer}.log_f"].cumsum(axis=1), rtol=1e-13)

    def test_any_float(self):
        for kind in ["float64", "float16", "bfloat16"]:
            with self.subTest(kind):
                tensors = random_run()
                names = [name for name in tensors if name != "ids"]
                bf16 = names if kind == "bfloat16" else []
                for name in names:
                    tensors[name] = tensors[name].astype(numpy.float32 if bf16 else kind)
                path = self.imported(tensors, dtypes=bf16)
                with h5py.File(path) as file:
                    group = file["models/mine/layers/01"]
                    self.assertEqual(file["models/mine"].attrs["dtype"], "bfloat16" if bf16 else "float32")
                    gates = tensors["layers.1.log_f"]
                    query = tensors["layers.1.q"]
                    if bf16:
                        raw = self.raw_of(path, group["query"])
                        numpy.testing.assert_array_equal(raw, bfloat16_bits(query).ravel())
                        gates = from_bits(bfloat16_bits(gates))
                    else:
                        numpy.testing.assert_array_equal(group["query"], query.astype(numpy.float32))
                    numpy.testing.assert_allclose(group["cumulative_log_gate"],
                                                  gates.astype(float).cumsum(axis=1), rtol=1e-13)

    def raw_of(self, path, dataset):
        """The 16 bits of each number, which lie in one piece."""
        with open(path, "rb") as file:
            file.seek(dataset.id.get_offset())
            return numpy.frombuffer(file.read(2 * dataset.size), numpy.uint16)

    def test_positions_first_and_a_batch_of_one(self):
        tensors = random_run()
        expected = self.imported(tensors, name="expected.h5")
        turned = {name: numpy.ascontiguousarray(array.swapaxes(0, 1)) if name.startswith("layers") else array
                  for name, array in tensors.items()}
        batch = {name: array[None] for name, array in tensors.items()}
        for given, options in [(turned, ["--length-first"]), (batch, []),
                               ({name: array[None] for name, array in turned.items()}, ["--length-first"])]:
            with h5py.File(self.imported(given, *options)) as left, h5py.File(expected) as right:
                for layer in ["00", "01"]:
                    for name in ["query", "key", "cumulative_log_gate", "log_normalizer"]:
                        numpy.testing.assert_array_equal(left[f"models/mine/layers/{layer}/{name}"],
                                                         right[f"models/mine/layers/{layer}/{name}"], err_msg=name)
        self.refuses(["layers.0.k: expected [H, 40, d]", "found [40, 2, 8]", "--length-first"], turned)
        self.refuses(["layers.0.k: expected [40, H, d]", "found [2, 40, 8]"], tensors, "--length-first")

    def test_layers_without_a_mixer(self):
        tensors = {name.replace("layers.1.", "layers.3."): array for name, array in random_run().items()}
        path = self.imported(tensors)
        with h5py.File(path) as file:
            self.assertEqual(list(file["models/mine"].attrs["mixers"]), ["attention", "none", "none", "attention"])
        self.assertEqual(json.loads(self.done("check", path, "--json"))["broken"], 0)
        self.maps(path, "attention", 3, 1)
        self.fails(2, "no heads in layer 1", "map", path, "--layer", 1, "--head", 0, "--quantity", "forget", "-o",
                   self.folder / "map.npy")

    def test_a_hybrid(self):
        tensors = random_run()
        random = numpy.random.default_rng(2)
        del tensors["layers.1.log_f"]
        tensors["layers.1.log_decay"] = -random.random((2, 40, 8))
        tensors["layers.1.beta"] = random.random((4, 40))
        path = self.imported(tensors)
        with h5py.File(path) as file:
            layer = file["models/mine/layers/01"]
            self.assertEqual((layer.attrs["mixer"], layer.attrs["decay"]), ("delta_rule", "channel"))
            numpy.testing.assert_allclose(layer["cumulative_log_decay"], tensors["layers.1.log_decay"].cumsum(axis=1))
            self.assertNotIn("log_normalizer", layer)
        self.assertEqual(json.loads(self.done("check", path, "--json"))["broken"], 0)
        del tensors["layers.1.beta"], tensors["layers.1.log_decay"]
        with h5py.File(self.imported(tensors, "--mixer", "gated_linear_attention")) as file:
            layer = file["models/mine/layers/01"]
            self.assertEqual((layer.attrs["mixer"], layer.attrs["decay"]), ("gated_linear_attention", "none"))

    def test_scale_window_and_closed_gates(self):
        tensors = random_run()
        tensors["layers.0.log_f"][2, 17] = -math.inf
        self.assertEqual(self.scale_of(self.imported({**tensors, "scale": numpy.array(0.5)})), 0.5)
        path = self.imported(tensors, "--window", 9, metadata={"scale": "0.25", "format": "pt"})
        self.assertEqual(self.scale_of(path), 0.25)
        with h5py.File(path) as file:
            self.assertEqual(file["models/mine"].attrs["window_size"], 9)
            c = file["models/mine/layers/00/cumulative_log_gate"][2]
            self.assertAlmostEqual(c[17] - c[16], -1000)
        attention = self.maps(path, "attention", 0, 2)["attention"]
        q, k, log_f = (tensors[f"layers.0.{name}"].astype(float) for name in ["q", "k", "log_f"])
        c = numpy.maximum(log_f[2], -1000).cumsum()
        logits = 0.25 * q[2] @ k[1].T + c[:, None] - c[None]
        distance = numpy.subtract.outer(numpy.arange(40), numpy.arange(40))
        logits[(distance < 0) | (distance >= 9)] = -math.inf
        weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        there = ~numpy.isnan(attention)
        numpy.testing.assert_array_equal(there, (distance >= 0) & (distance < 9))
        numpy.testing.assert_allclose(attention[there], weights[there], atol=1e-6)

    def scale_of(self, path):
        with h5py.File(path) as file:
            return file["models/mine"].attrs["softmax_scale"]

    def test_words(self):
        text = "The fox ran over the hill. The hill was green, and the fox was quick.\n"
        run = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--text", self.write("text.txt", text), "-o", run)
        with h5py.File(run) as file:
            [model] = file["models"].values()
            reads, predicts = model["tokens/input_id"][...].astype(numpy.int64), model["tokens/id"][...].astype(numpy.int64)
            expected = {name: model[f"tokens/{name}"][...] for name in ["id", "byte_start", "byte_end", "string"]}
        length = len(reads)
        behind_bos = {**random_run(length=length), "ids": reads}
        for given, metadata in [({"text": numpy.frombuffer(text.encode(), numpy.uint8)}, None), ({}, {"text": text})]:
            with h5py.File(self.imported({**behind_bos, **given}, "--tokenizer", FOX, metadata=metadata)) as file:
                self.assertEqual(file["text/content"][()].decode(), text)
                self.assertEqual(file["models/mine/tokens"].attrs["first_string"], "<|endoftext|>")
                for name, values in expected.items():
                    numpy.testing.assert_array_equal(file[f"models/mine/tokens/{name}"], values, err_msg=name)
        without_bos = {**random_run(length=length), "ids": predicts}
        with h5py.File(self.imported(without_bos, "--tokenizer", FOX, metadata={"text": text})) as file:
            first = expected["byte_end"][0]
            self.assertEqual(file["text/content"][()].decode(), text[first:])
            tokens = file["models/mine/tokens"]
            self.assertEqual(tokens.attrs["first_string"], text[:first])
            numpy.testing.assert_array_equal(tokens["id"], [*predicts[1:], -1])
            numpy.testing.assert_array_equal(tokens["byte_start"][:-1], expected["byte_start"][1:] - first)
        part = {**random_run(length=5), "ids": reads[:5]}
        with h5py.File(self.imported(part, "--tokenizer", FOX, metadata={"text": text})) as file:
            self.assertEqual(file["text/content"].attrs["unread_bytes"], len(text) - expected["byte_end"][4])
        with h5py.File(self.imported({**behind_bos, "labels": predicts}, "--tokenizer", FOX)) as file:
            self.assertNotIn("text", file)
            self.assertEqual(file["models/mine/tokens/string"][0].decode(), "The")
        self.refuses(["text: needs the tokenizer that made ids", "--tokenizer"], behind_bos, metadata={"text": text})
        other = {**behind_bos, "ids": reads.copy()}
        other["ids"][7] += 1
        self.refuses([f"text: the tokenizer cuts it into other tokens: ids have {reads[7] + 1} at position 7"], other,
                     "--tokenizer", FOX, metadata={"text": text})
        wrong = predicts.copy()
        wrong[3] += 1
        self.refuses([f"labels: is {wrong[3]} at position 3, and the text goes on with {predicts[3]}"],
                     {**behind_bos, "labels": wrong}, "--tokenizer", FOX, metadata={"text": text})

    def test_summary(self):
        path = write_tensors(self.folder / "their run.safetensors", {**random_run(), "loss": numpy.full(40, 2.0)})
        output = self.folder / "run.h5"
        self.fails(2, ["model name 'their run'", "--name NAME"], "import", path, "-o", output, output=output)
        self.assertEqual(self.done("import", path, "--name", "fox", "-o", output),
                         f"fox: 40 tokens, 2 layers, 8 heads, row normalisers of 8 computed\nwritten to {output}\n")
        summary = json.loads(self.done("import", path, "--name", "fox", "-o", output, "--force", "--json"))
        self.assertEqual(summary, {"output": str(output), "models": [
            {"name": "fox", "tokens": 40, "layers": 2, "heads": 8, "dtype": "float32", "mean_loss": 2.0,
             "heads_with_computed_rows": 8}]})
        described = self.done("info", output)
        self.assertRegex(described, r"computed +float32, pruning tolerance 0\n")
        for line in described.splitlines():
            self.assertNotRegex(line, r"^ +(type|weights|computed)\b *\Z|SHA-256 *\Z")
        said = self.foxscope("import", path, "--name", "fox", "-o", output, "--force", "-v").stderr.decode()
        for stage in ["reading tensors", "computing row normalisers", "writing"]:
            self.assertIn(stage, said)


class RefusalTest(ImportTest):
    def changed(self, **changes):
        """A run with other tensors; None takes one away. Two underscores stand for a dot."""
        tensors = random_run()
        for name, array in changes.items():
            name = name.replace("__", ".").replace("L", "layers")
            if array is None:
                del tensors[name]
            else:
                tensors[name] = array
        return tensors

    def test_missing_and_unknown(self):
        zeros = numpy.zeros((4, 40))
        for changes, words in [
                ({"ids": None}, ["ids: is missing", "[L] I64"]),
                ({"ids": numpy.zeros(0, numpy.int64)}, ["ids: is empty"]),
                ({"L__1__k": None}, ["layers.1.k: is missing, and there is layers.1.log_f"]),
                ({"L__1__q": None, "L__1__k": None}, ["layers.1.q: is missing"]),
                ({"L__1__logf": zeros}, ["layers.1.logf", "is not a tensor of a layer", "did you mean log_f?"]),
                ({"input_ids": zeros}, ["input_ids", "is not a tensor of a run", "ids, labels, loss, scale, logit_cap, text"]),
                ({"L__0__beta": zeros}, ["layers.0.beta: stands beside layers.0.log_f"]),
                ({"L__0__v": numpy.zeros((2, 40, 8))}, ["layers.1.v: is missing, unlike in the layers before"]),
                ({"L__99999__q": zeros}, ["layers.99999.q: a run has 10000 layers at most"])]:
            with self.subTest(words[0]):
                self.refuses(words, self.changed(**changes))
        self.refuses(["layers.0.beta: is missing, and the layer is delta_rule"],
                     self.changed(L__0__log_f=None, L__0__log_decay=zeros), "--mixer", "delta_rule")
        self.refuses(["holds no layers"], {"ids": numpy.arange(4)})
        self.refuses(["--mixer mamba3: ", "mamba2"], random_run(), "--mixer", "mamba3", code=2)

    def test_shapes_lengths_and_types(self):
        for changes, words in [
                ({"L__0__q": numpy.zeros((40, 8))}, ["layers.0.q: expected [H, 40, d]", "found [40, 8]"]),
                ({"L__0__k": numpy.zeros((2, 39, 8))},
                 ["layers.0.k: expected [H, 40, d], as ids have 40 positions, found [2, 39, 8]"]),
                ({"L__0__log_f": numpy.zeros((4, 41))}, ["layers.0.log_f: expected [H, 40]", "found [4, 41]"]),
                ({"L__0__log_f": numpy.zeros((2, 40))}, ["layers.0.log_f: expected 4 heads, as queries have, found 2"]),
                ({"L__0__k": numpy.zeros((3, 40, 8))}, ["layers.0: 4 heads cannot share 3 key heads"]),
                ({"L__0__k": numpy.zeros((2, 40, 7))}, ["layers.0.k: expected 8 channels, as queries have, found 7"]),
                ({"L__0__q": numpy.zeros((2, 4, 40, 8))}, ["layers.0.q: is a batch of 2, [2, 4, 40, 8]", "one of its sequences"]),
                ({"L__0__q": numpy.zeros((4, 40, 8), numpy.int64)}, ["layers.0.q: expected F64, F32, F16 or BF16, found I64"]),
                ({"ids": numpy.zeros(40)}, ["ids: expected I64 or I32, found F64"]),
                ({"ids": numpy.zeros((2, 40), numpy.int64)}, ["ids: expected [L], found [2, 40]"]),
                ({"ids": numpy.full(40, -1)}, ["ids: is -1 at position 0, which is no token"]),
                ({"ids": numpy.full(40, 2**31)}, ["ids: is 2147483648 at position 0"]),
                ({"labels": numpy.arange(39)}, ["labels: expected [40], as many as ids, found [39]"]),
                ({"loss": numpy.zeros(39)}, ["loss: expected [40]", "leave the last position out"]),
                ({"loss": numpy.full(40, math.nan)}, ["loss: is not finite at position 0"]),
                ({"scale": numpy.zeros(2)}, ["scale: expected one number", "F64 [2]"]),
                ({"scale": numpy.array(-1.0)}, ["scale: is -1, not 0 or above"]),
                ({"logit_cap": numpy.array(-1.0)}, ["logit_cap: is -1, not 0 or above"]),
                ({"L__0__sink": numpy.zeros((4, 40))}, ["layers.0.sink: expected floats, [H], found F64 [4, 40]"]),
                ({"L__0__sink": numpy.zeros(3)}, ["layers.0.sink: expected 4 heads, as queries have, found 3"]),
                ({"L__0__window": numpy.zeros(1)}, ["layers.0.window: expected one number, I64 or I32, found F64 [1]"]),
                ({"L__0__window": numpy.array(-3)}, ["layers.0.window: is -3, not 0 (all keys) or above"]),
                ({"L__0__decay_rate": numpy.zeros((4, 8))},
                 ["layers.0.decay_rate: stands beside layers.0.log_f, which is of softmax attention"]),
                ({"L__0__log_f": None, "L__0__erase_read": numpy.zeros((2, 40, 8))},
                 ["layers.0.erase_write: is missing, and the layer is diagonal_plus_low_rank"]),
                ({"L__0__log_f": None, "L__0__log_decay": numpy.zeros((4, 40)), "L__0__beta": numpy.zeros((4, 40)),
                  "L__0__decay_rate": numpy.full((4, 8), -1.0)}, ["layers.0.decay_rate: is -1 at head 0, channel 0"]),
                ({"text": numpy.zeros(2)}, ["text: expected U8 [bytes], found F64 [2]"])]:
            with self.subTest(words[0]):
                self.refuses(words, self.changed(**changes))
        self.refuses(["__metadata__: scale: ", "is no number"], random_run(), metadata={"scale": "half"})
        self.refuses(["scale: is a tensor and metadata too"], self.changed(scale=numpy.array(1.0)), metadata={"scale": "1"})
        wide = self.changed(L__1__q=numpy.zeros((4, 40, 16)), L__1__k=numpy.zeros((2, 40, 16)))
        self.refuses(["scale: is missing, and heads of attention have 8 and 16 channels"], wide)

    def test_numbers(self):
        tensors = random_run()
        tensors["layers.1.log_f"][3, 17] = 0.25
        self.refuses(["layers.1.log_f: is 0.25 at head 3, position 17", "no logarithm of a gate is above 0"], tensors)
        for name, value in [("q", math.nan), ("k", math.inf), ("log_f", math.nan)]:
            tensors = random_run()
            tensors[f"layers.1.{name}"][1, 5] = value
            self.refuses([f"layers.1.{name}: is not finite at head 1, position 5"], tensors)
        tensors = random_run()
        tensors["layers.0.q"] = tensors["layers.0.q"].astype(float)
        tensors["layers.0.q"][2, 3, 4] = 1e300
        self.refuses(["layers.0.q: is not finite at head 2, position 3, channel 4"], tensors)

    def test_files(self):
        path = write_tensors(self.folder / "run.safetensors", random_run())
        output = self.write("old.h5", "old")
        self.fails(1, ["old.h5", "--force"], "import", path, "-o", output)
        self.assertEqual(output.read_text(), "old")
        self.fails(2, "being read", "import", path, "-o", path, "--force")
        self.fails(2, ".safetensors", "import", path, "-o", self.folder / "other.safetensors")
        self.fails(1, "nothing.safetensors", "import", self.folder / "nothing.safetensors", "-o", self.folder / "n.h5")
        self.fails(1, "text.safetensors", "import", self.write("text.safetensors", "hello"), "-o", self.folder / "n.h5")
        content = path.read_bytes()
        for size in [4, 100, len(content) // 2, len(content) - 1]:
            cut = self.write("cut.safetensors", content[:size])
            self.fails(1, "cut.safetensors", "import", cut, "-o", self.folder / "n.h5", output=self.folder / "n.h5")

    def test_a_full_disk_leaves_the_old_file(self):
        path = write_tensors(self.folder / "run.safetensors", random_run())
        output = self.write("old.h5", "old")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        result = subprocess.run([PROGRAM, "import", path, "-o", output, "--force"], capture_output=True, timeout=60,
                                preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr.decode(), r"\Afoxscope: [^\n]*old\.h5[^\n]+\n\Z")
        self.assertEqual(output.read_text(), "old")

    def test_stopped_or_killed_it_leaves_nothing(self):
        path = write_tensors(self.folder / "long.safetensors", random_run(length=20_000, dim=64, layers=3))
        for number, status in [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]:
            process = subprocess.Popen([PROGRAM, "import", path, "-v", "-o", self.folder / "run.h5"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            said = b""
            while b"computing row normalisers" not in said:
                piece = os.read(process.stderr.fileno(), 4096)
                self.assertTrue(piece, said)
                said += piece
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, status)
            self.assertEqual([entry.name for entry in self.folder.iterdir()], ["long.safetensors"])

    def test_a_wrong_array_of_a_run_file_is_sent_to_the_check(self):
        run = self.run_fixture()
        with h5py.File(run, "r+") as file:
            layer = file["models/fox-pro/layers/00"]
            query = layer["query"][:].astype("float16")
            del layer["query"]
            layer["query"] = query
        said = "of a run file that another program wrote `foxscope check FILE` says what is wrong"
        output = self.folder / "x.h5"
        self.fails(1, ["layers/00/query: expected float32", said], "import", run, "-o", output, output=output)


if __name__ == "__main__":
    unittest.main()
