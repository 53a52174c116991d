"""Families of models as they are published: what `foxscope info` says of them, and runs whose layers differ in their windows, or
whose logits are capped."""

import csv
import json
import unittest

import h5py
import numpy
from support import DATA, DRAWS, SOURCE, CommandLineTest, golden

PUBLISHED = DATA / "published"


class SupportedTest(CommandLineTest):
    def test_a_table_of_what_is_read(self):
        table = self.done("info", "--supported")
        self.assertRegex(table, r"gemma3_text +Gemma 3 +all")
        self.assertRegex(table, r"qwen3_5 +Qwen 3.5 +its language model, qwen3_5_text")
        models = {model["model_type"]: model for model in json.loads(self.done("info", "--supported", "--json"))}
        self.assertEqual(models["mistral3"], {"model_type": "mistral3", "model": "Mistral", "text_config": "mistral"})
        self.assertIsNone(models["llama"]["text_config"])
        self.fails(2, "info: name a checkpoint folder or a file, or give --supported", "info")

    def test_the_page_of_models_begins_with_all_of_them(self):
        page = (SOURCE / "docs" / "models.md").read_text()
        table = page[:page.index("\n## ")]
        for model in json.loads(self.done("info", "--supported", "--json")):
            self.assertIn(f"`{model['model_type']}`", table)

    def test_every_fixture_is_in_it(self):
        models = {model["model_type"] for model in json.loads(self.done("info", "--supported", "--json"))}
        for folder in PUBLISHED.iterdir():
            self.assertIn(json.loads((folder / "config.json").read_text())["model_type"], models)


class PublishedTest(CommandLineTest):
    def run_of(self, name, keep="loss,rows,qk,logits"):
        values = golden(f"published/{name}")
        ids = self.folder / f"{name}.json"
        ids.write_text(json.dumps({key: values[key].reshape(-1).tolist() for key in ["input_ids", "labels"]}))
        output = self.folder / f"{name}.h5"
        self.done("run", "--model", PUBLISHED / name, "--ids", ids, "--keep", keep, "-o", output)
        return output, values

    def attention_of(self, path, layer, head):
        output = self.folder / f"{layer}-{head}.npy"
        self.done("map", path, "--layer", layer, "--head", head, "--quantity", "attention", "-o", output, "--force")
        return numpy.nan_to_num(numpy.load(output))

    def check_maps(self, name):
        path, golden = self.run_of(name)
        for key in [key for key in golden if key.endswith(".attention")]:
            wanted = golden[key][0]
            for head in range(wanted.shape[0]):
                found = self.attention_of(path, key.split(".")[1], head)[-wanted.shape[1]:]
                numpy.testing.assert_allclose(found, wanted[head], atol=1e-4)
        self.done("check", path)
        self.done("heads", path)
        return path, golden

    def test_what_is_not_run_is_named(self):
        told = self.done("info", PUBLISHED / "qwen3_5-published")
        self.assertRegex(told, r"not run +vision tower, 33 tensors under model\.visual\.")
        self.assertRegex(told, r"not run +multi-token prediction, 15 tensors under mtp\.")
        parts = json.loads(self.done("info", PUBLISHED / "ministral3-published", "--json"))["not_run"]
        self.assertIn({"part": "vision tower", "prefix": "vision_tower.", "tensors": 11}, parts)
        self.assertNotIn("not run", self.done("info", PUBLISHED / "olmo2"))

    def test_windows_by_layer(self):
        path, golden = self.check_maps("qwen3-window")
        with h5py.File(path) as file:
            self.assertEqual(file.attrs["foxscope_schema"], 3)
            layers = file["models/qwen3-window/layers"]
            self.assertEqual([layers[layer].attrs["window_size"] for layer in ["00", "01"]], [0, 24])
        model = json.loads(self.done("info", path, "--json"))["models"][0]
        self.assertEqual((model["window_size"], model["window_sizes"]), (0, [0, 24]))
        self.assertIn("layers 0 softmax attention, 1 attention, window of 24", self.done("info", path))
        self.assertRegex(self.done("heads", path), r"\n +1 +0 +attention, window of 24 +inf")
        self.assertRegex(self.done("info", PUBLISHED / "qwen3-window"), r"window +24 tokens in layer 1\n")

    def test_a_window_of_all_layers_is_told_beside_horizons(self):
        table = self.done("heads", self.run_of("phi3")[0])
        self.assertIn("attention, window of 20", table)
        self.assertIn("window: no query sees further back, whatever its gate", table)
        self.assertNotIn("window:", self.done("heads", self.run_of("olmo2")[0]))

    def test_a_narrow_window_is_drawn_by_distance(self):
        path, figure = self.folder / "long.h5", self.folder / "maps.svg"
        self.done("run", "--model", PUBLISHED / "gpt_oss", "--bos", "1", "--ids",
                  self.write("ids.json", json.dumps([3 + n % 57 for n in range(1100)])), "-o", path)
        for heads, axis in [("0:0", "distances 1:1101"), ("1:0", "keys 0:1100")]:
            self.done("figure", "maps", path, "--heads", heads, "--axes", "auto", "--quantity", "attention", "-o", figure,
                      "--force")
            self.assertIn(axis, figure.read_text())

    def test_f_of_a_window_is_drawn_where_it_is_asked_for(self):
        path, figure = self.run_of("gpt_oss")[0], self.folder / "maps.svg"

        def draw(*extra):
            result = self.foxscope("figure", "maps", path, "--heads", "0:0", "-o", figure, "--force", *extra)
            self.assertEqual(result.returncode, 0, result.stderr.decode())
            return result.stderr.decode()

        left_out = "without a gate F is 1 everywhere inside the windows, so it is left out: --quantity forget,attention"
        self.assertIn(left_out, draw())
        self.assertNotIn("forget, queries", figure.read_text())
        self.assertNotIn("left out", draw("--quantity", "forget,attention"))
        self.assertIn("forget, queries", figure.read_text())

    def test_capped_logits(self):
        path, golden = self.check_maps("gemma2")
        model = json.loads(self.done("info", path, "--json"))["models"][0]
        self.assertEqual(model["logit_cap"], 4)
        with h5py.File(path) as file:
            self.assertEqual(file["models/gemma2"].attrs["logit_cap"], 4)
            found = file["models/gemma2/logits"][()]
        numpy.testing.assert_allclose(found, golden["logits"][0], atol=2e-4 * abs(golden["logits"]).max())
        self.done("figure", "distance", path, "--heads", "0:0,1:0", "-o", self.folder / "distance.pdf")

    def test_sinks_have_a_share_of_their_own(self):
        path, golden = self.check_maps("gpt_oss")
        heads = json.loads(self.done("heads", path, "--json"))["heads"]
        for head in heads:
            attention = self.attention_of(path, head["layer"], head["head"])
            on_sink = head["attention"]["mass_on_sink"]
            self.assertGreater(on_sink, 0.001)
            self.assertAlmostEqual(on_sink, 1 - attention.sum(axis=1).mean(), delta=1e-5)
        table = self.done("heads", path)
        self.assertIn("on sink", table)
        self.assertIn(f"{100 * heads[0]['attention']['mass_on_sink']:.1f}", table)
        self.assertNotIn("on sink", self.done("heads", self.run_of("olmo2")[0]))
        self.assertIn("mass_on_sink", self.done("heads", path, "--csv").splitlines()[0].split(","))
        sorted_table = self.done("heads", path, "--sort", "mass_on_sink")
        self.assertEqual(sorted_table.splitlines()[1], table.splitlines()[1])
        self.assertNotEqual(sorted_table, table)
        for title in ["on_sink", "on sink"]:
            self.assertEqual(self.done("heads", path, "--sort", title), sorted_table)
        self.assertEqual(self.done("heads", path, "--sort", "on_key_0"), self.done("heads", path, "--sort", "mass_on_first"))
        with h5py.File(path) as file:
            layer = file["models/gpt_oss/layers/00"]
            self.assertEqual((file.attrs["foxscope_schema"], layer.attrs["sinks"]), (3, 1))
            self.assertEqual(layer["sink_logit"].shape, (4,))

    def test_a_folder_without_a_tokenizer_runs_ids(self):
        self.fails(1, ["olmoe: holds no tokenizer", "or run token ids instead of a text: foxscope run --ids FILE"], "run",
                   "--model", PUBLISHED / "olmoe", "--bos", "1", "--text", self.write("text.txt", "a fox"), "-o",
                   self.folder / "no.h5")

    def test_info_says_what_a_model_has(self):
        told = self.done("info", PUBLISHED / "gpt_oss")
        self.assertRegex(told, r"window +20 tokens in layer 0\n")
        self.assertRegex(told, r"bias of experts +yes\n")
        self.assertRegex(told, r"BOS token +none: --bos gives one\n")
        self.assertRegex(told, r"RoPE base +150000\n")
        for row in ["MLP bias", "shared expert", "learned positions", "cap of"]:
            self.assertNotIn(row, told)
        self.assertNotRegex(told, r" -\n")
        # A script finds each option all the same.
        options = json.loads(self.done("info", PUBLISHED / "gpt_oss", "--json"))["options"]
        self.assertEqual((options["window_size"], options["shared_expert_size"], options["logit_cap"]), ([20, 0], 0, None))

    def test_chosen_experts_are_kept(self):
        path, golden = self.run_of("qwen3_moe", keep="loss,experts")
        with h5py.File(path) as file:
            experts, weights = file["models/qwen3_moe/experts/expert"][()], file["models/qwen3_moe/experts/weight"][()]
        self.assertEqual(experts.shape, (2, golden["input_ids"].size, 2))
        self.assertTrue(((experts >= 0) & (experts < 6)).all())
        numpy.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-6)
        self.assertIn("experts", json.loads(self.done("info", path, "--json"))["models"][0]["kept"])
        self.assertIn(f"2 a token in 2 of 2 layers, {len(set(experts.ravel()))} of a layer's in use", self.done("info", path))
        told = self.done("info", PUBLISHED / "qwen3_5_moe-published")
        self.assertRegex(told, r"experts of a token +2")
        self.assertRegex(told, r"not run +multi-token prediction")
        self.fails(2, "llama is no mixture of experts: leave experts out of --keep", "run", "--model", DATA / "llama", "--ids",
                   self.folder / "qwen3_moe.json", "--keep", "experts", "-o", self.folder / "no.h5")

    def test_experts_are_kept_of_the_models_that_have_some(self):
        path = self.folder / "both.h5"
        result = self.foxscope("run", "--model", DATA / "llama", "--model", PUBLISHED / "mixtral", "--bos", "1", "--ids",
                               self.write("ids.json", json.dumps(list(range(3, 40)))), "--keep", "loss,experts", "-o", path)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertEqual(result.stderr.decode().count("llama: is no mixture of experts: its run keeps the rest of --keep"), 1)
        self.assertNotIn("mixtral: is no", result.stderr.decode())
        with h5py.File(path) as file:
            self.assertEqual([("experts" in file[f"models/{name}"], "loss" in file[f"models/{name}"])
                              for name in ["llama", "mixtral"]], [(False, True), (True, True)])

    def test_experts_are_a_table(self):
        path, golden = self.run_of("qwen3_moe", keep="loss,experts")
        ids = golden["input_ids"].reshape(-1)
        with h5py.File(path) as file:
            experts, weights = file["models/qwen3_moe/experts/expert"][()], file["models/qwen3_moe/experts/weight"][()]
        layers = json.loads(self.done("info", path, "--experts", "--json"))["layers"]
        self.assertEqual([(layer["layer"], layer["positions"], layer["experts_per_token"]) for layer in layers],
                         [(0, ids.size, 2), (1, ids.size, 2)])
        for layer in layers:
            chosen, weight = experts[layer["layer"]], weights[layer["layer"]].astype(float)
            first = chosen[numpy.arange(ids.size), weight.argmax(axis=1)]
            self.assertEqual([use["expert"] for use in layer["experts"]], list(range(6)))
            for use in layer["experts"]:
                reads = (chosen == use["expert"]).any(axis=1)
                self.assertEqual(use["positions"], reads.sum())
                self.assertAlmostEqual(use["share"], reads.mean(), delta=1e-12)
                self.assertEqual(use["heaviest"], (first == use["expert"]).sum())
                self.assertAlmostEqual(use["heaviest_share"], (first == use["expert"]).mean(), delta=1e-12)
                if not reads.any():
                    self.assertIsNone(use["mean_weight"])
                    self.assertEqual(use["tokens"], [])
                    continue
                self.assertAlmostEqual(use["mean_weight"], weight[chosen == use["expert"]].mean(), delta=1e-9)
                numbers, counts = numpy.unique(ids[reads], return_counts=True)
                self.assertEqual([token["count"] for token in use["tokens"]], sorted(counts.tolist(), reverse=True)[:5])
                for token in use["tokens"]:
                    self.assertEqual(token["count"], counts[numbers == token["id"]][0])
        one = json.loads(self.done("info", path, "--experts", "--layer", 1, "--json"))["layers"]
        self.assertEqual(one, layers[1:])
        rows = list(csv.DictReader(self.done("info", path, "--experts", "--csv").splitlines()))
        self.assertEqual([(row["model"], row["layer"], row["expert"]) for row in rows],
                         [("qwen3_moe", str(layer), str(expert)) for layer in range(2) for expert in range(6)])
        for row, use in zip(rows, layers[0]["experts"] + layers[1]["experts"], strict=True):
            self.assertEqual(row["positions"], str(use["positions"]))
            self.assertEqual([row[f"count_{n}"] for n in range(1, len(use["tokens"]) + 1)],
                             [str(token["count"]) for token in use["tokens"]])
            self.assertAlmostEqual(float(row["share"]), use["share"], delta=1e-12)
        told = self.done("info", path, "--experts")
        self.assertIn(f"2 of 6 a token, {ids.size} tokens", told)
        self.assertRegex(told, r"expert +read by +heaviest +mean weight +tokens that read it most")

    def test_without_experts_there_is_no_table(self):
        path, _ = self.run_of("qwen3_moe", keep="loss")
        self.fails(1, "qwen3_moe.h5: no model of it kept its chosen experts: run it again with --keep experts", "info", path,
                   "--experts")
        self.assertRegex(self.done("info", path), r"experts +not kept: run it again with --keep experts\n")
        other, _ = self.run_of("olmo2", keep="loss")
        self.fails(1, "olmo2.h5: no model of it is a mixture of experts", "info", other, "--experts")
        self.assertNotIn("experts", self.done("info", other))
        path, _ = self.run_of("nemotron_h-moe", keep="loss,experts")
        layers = [layer["layer"] for layer in json.loads(self.done("info", path, "--experts", "--json"))["layers"]]
        self.assertTrue(layers)
        without = next(layer for layer in range(max(layers) + 1) if layer not in layers)
        self.fails(1, f"model 'nemotron_h-moe': layer {without} has no experts: layers with experts are "
                      + ", ".join(map(str, layers)), "info", path, "--experts", "--layer", without)
        self.fails(2, "model 'nemotron_h-moe' has no layer 99", "info", path, "--experts", "--layer", 99)
        self.fails(2, "--layer is for --experts: give that too", "info", path, "--layer", 0)
        self.fails(2, "--csv is for --experts and --table: give that too", "info", path, "--csv")
        self.fails(2, "info: --json and --csv exclude each other: choose one", "info", path, "--experts", "--csv", "--json")
        self.fails(2, "info: --experts and --predictions exclude each other: choose one", "info", path, "--experts",
                   "--predictions", 3)

    def test_two_bases_and_norms_behind(self):
        for name in ["gemma3-published", "olmo3", "ministral3-published", "smollm3", "phi3"]:
            self.check_maps(name)


class HybridTest(CommandLineTest):
    """Softmax and linear heads of one run, side by side."""

    def run_of(self, name):
        values = golden(f"published/{name}")
        ids = self.folder / f"{name}.json"
        ids.write_text(json.dumps({key: values[key].reshape(-1).tolist() for key in ["input_ids", "labels"]}))
        output = self.folder / f"{name}.h5"
        self.done("run", "--model", PUBLISHED / name, "--ids", ids, "--keep", "loss,gates,rows,qk", "-o", output)
        self.done("check", output)
        return output, values

    def map_of(self, path, layer, head, quantity):
        output = self.folder / f"{layer}-{head}-{quantity}.npy"
        self.done("map", path, "--layer", layer, "--head", head, "--quantity", quantity, "-o", output, "--force")
        return numpy.nan_to_num(numpy.load(output))

    def check_maps(self, name, file_layer=int):
        path, values = self.run_of(name)
        values = values | golden(f"published/{name}", "golden_maps")
        mixers = json.loads(self.done("info", path, "--json"))["models"][0]["mixers"]
        for layer, mixer in enumerate(mixers):
            if mixer == "none":
                continue
            quantity = "attention" if mixer == "attention" else "mixing"
            wanted = values[f"layers.{file_layer(layer)}.{quantity}"]
            wanted = wanted.reshape(-1, *wanted.shape[-2:])
            for head in range(0, wanted.shape[0], max(1, wanted.shape[0] // 4)):
                found = self.map_of(path, layer, head, quantity)[-wanted.shape[1]:]
                bound = 1e-4 * max(1e-3, abs(wanted[head]).max())
                numpy.testing.assert_allclose(found, wanted[head], atol=bound, err_msg=f"{name} {layer} {head}")
        heads = json.loads(self.done("heads", path, "--json"))
        self.assertTrue(heads)
        return path, mixers

    def test_layers_of_several_mixers(self):
        for name in ["fla-gla-hybrid", "olmo_hybrid", "recurrent_gemma"]:
            _, mixers = self.check_maps(name)
            self.assertIn("attention", mixers)
            self.assertGreater(len(set(mixers)), 1)

    def test_a_recurrence_with_free_erasing(self):
        for name in ["fla-rwkv7", "fla-comba", "fla-kda"]:
            self.check_maps(name)

    def test_keys_that_are_passed_on(self):
        for name, words in [("fla-path_attn", "PaTH attention"), ("fla-path_attn-fox", "with a forget gate")]:
            path, values = self.run_of(name)
            self.assertIn(words, self.done("info", path))
            for layer, head in [(0, 1), (1, 3)]:
                wanted = values[f"layers.{layer}.attention"][0, head]
                found = self.map_of(path, layer, head, "attention")[-wanted.shape[0]:]
                numpy.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=f"{name} {layer} {head}")
            self.assertTrue(json.loads(self.done("heads", path, "--json")))
            with h5py.File(path) as file:
                layer = next(iter(file["models"].values()))["layers/01"]
                self.assertEqual(layer.attrs["path"], 1)
                self.assertEqual(layer["erase_read"].shape, layer["key"].shape)

    def test_steps_of_a_position_are_heads(self):
        path, _ = self.run_of("fla-gated_deltaproduct")
        values = golden("published/fla-gated_deltaproduct", "golden_maps")
        for layer, head in [(0, 0), (0, 5), (1, 7)]:
            wanted = values[f"layers.{layer}.mixing"][head // 2, :, head % 2::2]
            found = self.map_of(path, layer, head, "mixing")[-wanted.shape[0]:]
            numpy.testing.assert_allclose(found, wanted, atol=1e-4 * abs(wanted).max(), err_msg=f"{layer} {head}")
        self.fails(2, "8 heads that share the decays of 4", "run", "--model", PUBLISHED / "fla-gated_deltaproduct", "--ids",
                   self.folder / "fla-gated_deltaproduct.json", "--intervene", "1:2:one", "-o", self.folder / "no.h5")

    def test_a_layer_that_is_an_mlp_alone_has_no_heads(self):
        path, mixers = self.check_maps("nemotron_h")
        self.assertEqual(mixers, ["mamba2", "none", "attention", "none"])
        heads = json.loads(self.done("heads", path, "--json"))["heads"]
        self.assertEqual([head["layer"] for head in heads], [0] * 4 + [2] * 4)
        self.assertRegex(self.done("heads", path), r"0 +0 +Mamba-2 [^\n]+\n")
        self.fails(2, "no heads", "map", path, "--head", "1:0", "--quantity", "mixing", "-o", self.folder / "no.npy")
        self.fails(2, "layer 1 has no heads, only an MLP", "run", "--model", PUBLISHED / "nemotron_h", "--ids",
                   self.folder / "nemotron_h.json", "--intervene", "1:*:cut", "-o", self.folder / "no.h5")
        self.fails(2, "model 'nemotron_h' has no head 1:0: layer 1 has no heads, only an MLP", "page", path, "--heads", "1:0",
                   "-o", self.folder / "no.html")
        self.assertIn("layers 0 Mamba-2, 1 MLP, 2 softmax attention, 3 MLP", self.done("info", path))
        if DRAWS:
            self.fails(2, "layer 1 has no heads, only an MLP", "figure", "distance", path, "--heads", "1:0", "-o",
                       self.folder / "no.pdf")
        with h5py.File(path) as file:
            layer = next(iter(file["models"].values()))["layers/01"]
            self.assertEqual(layer.attrs["mixer"], "none")
            self.assertEqual(layer.attrs["heads"], 0)
            self.assertEqual(len(layer), 0)

    def test_a_layer_that_is_experts_alone_is_called_so(self):
        path, _ = self.run_of("nemotron_h-moe")
        self.assertIn("layers 0 Mamba-2, 1 experts, 2 softmax attention, 3 experts", self.done("info", path))
        self.assertRegex(self.done("info", PUBLISHED / "nemotron_h-moe"), r"1 Mamba-2, 1 attention, 2 experts")
        self.fails(2, "layer 1 has no heads, only experts", "page", path, "--heads", "1:0", "-o", self.folder / "no.html")
        self.fails(2, "layer 3 has no heads, only experts", "run", "--model", PUBLISHED / "nemotron_h-moe", "--ids",
                   self.folder / "nemotron_h-moe.json", "--intervene", "3:0:cut", "-o", self.folder / "no.h5")

    def test_changes_of_gates_that_are_not_there(self):
        self.run_of("olmo_hybrid")
        self.fails(2, ["layer 1 of olmo_hybrid has no gates, f is 1 there", "layers with gates are 0; use cut"], "run", "--model",
                   PUBLISHED / "olmo_hybrid", "--ids", self.folder / "olmo_hybrid.json", "--intervene", "1:*:one", "-o",
                   self.folder / "no.h5")

    def test_two_mixers_of_one_layer_are_two_layers(self):
        _, mixers = self.check_maps("falcon_h1", file_layer=lambda layer: layer // 2)
        self.assertEqual(mixers, ["attention", "mamba2"] * 2)

    def test_attention_beside_the_stream_is_a_layer(self):
        _, mixers = self.check_maps("zamba2", file_layer=lambda layer: min(layer, 1))
        self.assertEqual(mixers, ["mamba2", "attention", "mamba2"])


if __name__ == "__main__":
    unittest.main()
