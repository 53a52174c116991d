"""`foxscope map` and `heads` on runs of linear mixers: numbers against what the mixers' authors compute."""

import csv
import io
import json
import subprocess
import unittest

import h5py
import numpy
import safetensors.numpy
from support import DATA, DRAWS, TEXT, CommandLineTest, golden

MIXERS = {"mamba2": "mamba2", "hgrn2": "gated_linear_attention", "delta-net": "delta_rule", "gla": "gated_linear_attention",
          "gated-deltanet": "delta_rule", "qwen3_5": "delta_rule"}


def golden_maps(fixture):
    return safetensors.numpy.load_file(DATA / fixture / "golden_maps.safetensors")


def write_run(path, fixtures):
    """A run file of schema 2 with a model for each fixture, from the queries, keys, decays and beta of the goldens."""
    with h5py.File(path, "w") as file:
        file.attrs["foxscope_schema"] = 2
        for fixture in fixtures:
            maps = golden_maps(fixture)
            layers = len({name.split(".")[1] for name in maps})
            heads, length, dim = maps["layers.0.q"].shape
            model = file.create_group(f"models/{fixture}")
            model["tokens/id"] = numpy.arange(1, length + 1, dtype="<i4")
            model["tokens/input_id"] = numpy.arange(length, dtype="<i4")
            model.attrs.update({"dtype": "float32", "layers": layers, "heads": heads, "gated": 1,
                                "softmax_scale": 1.0})
            model.attrs["mixers"] = [MIXERS[fixture]] * layers
            for layer in range(layers):
                group = model.create_group(f"layers/{layer:02}")
                decay = maps.get(f"layers.{layer}.log_decay")
                group.attrs["mixer"] = MIXERS[fixture]
                group.attrs["decay"] = "none" if decay is None else "head" if decay.ndim == 2 else "channel"
                for name in ("heads", "query_heads", "key_heads", "value_heads"):
                    group.attrs[name] = heads
                group.attrs["head_dim"], group.attrs["value_dim"] = dim, maps[f"layers.{layer}.v"].shape[2]
                group["query"], group["key"] = maps[f"layers.{layer}.q"], maps[f"layers.{layer}.k"]
                if decay is not None:
                    name = "cumulative_log_gate" if decay.ndim == 2 else "cumulative_log_decay"
                    group[name] = numpy.cumsum(decay.astype("<f8"), axis=1)
                if f"layers.{layer}.beta" in maps:
                    group["beta"] = maps[f"layers.{layer}.beta"]


class Mixers(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "run.h5"
        write_run(self.file, MIXERS)

    def map(self, model, quantity, *options):
        output = self.folder / "map.npy"
        done = self.foxscope("map", self.file, "--model", model, "--layer", 0, "--head", 1, "--quantity", quantity, *options,
                             "-o", output, "--force")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return numpy.load(output)

    def refused(self, *arguments):
        done = self.foxscope(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr.decode())
        self.assertEqual(done.stderr.decode().count("\n"), 1)
        return done.stderr.decode()

    def test_mixing_is_that_of_the_authors(self):
        for fixture in MIXERS:
            golden = golden_maps(fixture)["layers.0.mixing"][1]
            found = self.map(fixture, "mixing", "--rows", f"{golden.shape[1] - len(golden)}:")
            present = ~numpy.isnan(found)
            self.assertEqual(present.sum(), sum(golden.shape[1] - n for n in range(len(golden))), fixture)
            self.assertLess(numpy.abs(found - golden)[present].max(), 1e-5 * numpy.abs(golden).max(), fixture)

    def test_attention_is_the_share_of_a_row(self):
        for fixture in MIXERS:
            mixing = numpy.abs(self.map(fixture, "mixing"))
            shares = mixing / numpy.nansum(mixing, axis=1, keepdims=True)
            numpy.testing.assert_allclose(self.map(fixture, "attention"), shares, atol=1e-6)

    def test_forget_is_the_mean_over_channels_or_one_of_them(self):
        sums = numpy.cumsum(golden_maps("gla")["layers.0.log_decay"][1].astype("<f8"), axis=0)
        present = numpy.tril(numpy.ones((len(sums), len(sums)), bool))
        each = numpy.exp(numpy.where(present[..., None], sums[:, None] - sums[None], 0))
        numpy.testing.assert_allclose(self.map("gla", "forget")[present], each.mean(axis=2)[present], atol=1e-6)
        numpy.testing.assert_allclose(self.map("gla", "forget", "--channel", 3)[present], each[..., 3][present], atol=1e-6)

    @unittest.skipUnless(DRAWS, "built without Qt")
    def test_a_picture_of_f_says_which_channels_it_is_over(self):
        def said(*options):
            figure = self.folder / "f.pdf"
            self.done("map", self.file, "--model", "gla", "--head", "0:1", *options, "-o", figure, "--force")
            return subprocess.run(["pdftotext", "-layout", figure, "-"], capture_output=True, text=True, check=True).stdout

        self.assertRegex(said("--quantity", "forget"), r"forget, mean over 16 channels: a pixel is")
        for quantity in ["forget", "log_forget"]:
            one = said("--quantity", quantity, "--channel", 3)
            self.assertIn("gla, layer 0, head 1, channel 3 of 16", one)
            self.assertIn(f"{quantity}, channel 3 of 16: a pixel is", one)
        self.assertNotIn("channel", said("--quantity", "mixing"))

    def test_says_what_a_mixer_does_not_have(self):
        ask = ["map", self.file, "--layer", 0, "--head", 0, "-o", self.folder / "no.npy"]
        self.assertIn("has no softmax", self.refused(*ask, "--model", "mamba2", "--quantity", "gate_effect"))
        self.assertIn("forgets only what it overwrites",
                      self.refused(*ask, "--model", "delta-net", "--quantity", "forget"))
        self.assertIn("channels are 0 to 15", self.refused(*ask, "--model", "gla", "--quantity", "forget", "--channel", 16))
        self.assertIn("each channel decays", self.refused(*ask, "--model", "gla", "--quantity", "mixing", "--channel", 1))
        self.assertIn("--split is of softmax attention", self.refused("heads", self.file, "--model", "gla", "--split"))

    def test_heads_prints_decays_and_memory(self):
        for fixture, mixer in MIXERS.items():
            done = self.foxscope("heads", self.file, "--model", fixture, "--json")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            head = json.loads(done.stdout)["heads"][1]
            self.assertEqual(head["mixer"], mixer)
            mixing = numpy.abs(self.map(fixture, "mixing"))
            shares = mixing / numpy.nansum(mixing, axis=1, keepdims=True)
            distance = numpy.subtract.outer(numpy.arange(len(shares)), numpy.arange(len(shares)))
            for within in head["mass_within"]:
                mass = numpy.nansum(shares[(distance >= 0) & (distance < within["tokens"])]) / len(shares)
                self.assertAlmostEqual(within["mass"], mass, 5)
            decay = golden_maps(fixture).get("layers.0.log_decay")
            if decay is None:
                self.assertIsNone(head["rate_decay_time"])
                continue
            own = decay[1][1:].astype("<f8")  # f_0 is in no F
            self.assertAlmostEqual(head["rate_decay_time"], -1 / own.mean(), 3)
            if decay.ndim == 3:
                times = -1 / own.mean(axis=0)
                self.assertAlmostEqual(head["channel_decay_time"]["median"], numpy.median(times), 3)

    def test_tables_speak_the_readers_words(self):
        for fixture, words in {"mamba2": "Mamba-2", "delta-net": "delta rule", "gated-deltanet": "gated delta rule",
                               "gla": "gated linear attention"}.items():
            table = self.done("heads", self.file, "--model", fixture)
            self.assertIn(words, table.splitlines()[3])
            self.assertNotIn("_", table)
        gla = json.loads(self.done("heads", self.file, "--model", "gla", "--json"))["heads"][0]["channel_decay_time"]
        decay = golden_maps("gla")["layers.0.log_decay"][0][1:].astype("<f8").mean(axis=0)
        numpy.testing.assert_allclose(gla["channels"], -1 / decay, rtol=1e-6)
        self.assertIn(f"{gla['min']:.1f} to ", self.done("heads", self.file, "--model", "gla").splitlines()[3])

    def test_spectra_are_in_files_and_drawn(self):
        output = self.folder / "heads.h5"
        self.done("heads", self.file, "--model", "gla", "-o", output)
        with h5py.File(output) as file:
            found = file["models/gla/by_channel/mean_log_decay"]
            self.assertEqual(found.attrs["units"], "nats")
            for layer in range(len(found)):
                decay = golden_maps("gla")[f"layers.{layer}.log_decay"][:, 1:].astype("<f8").mean(axis=1)
                numpy.testing.assert_allclose(found[layer], decay, rtol=1e-6)
        self.done("heads", self.file, "--model", "mamba2", "-o", self.folder / "scalar.h5")
        with h5py.File(self.folder / "scalar.h5") as file:
            self.assertNotIn("by_channel", file["models/mamba2"])
        if not DRAWS:
            return
        texts = []
        for heads in [output, self.folder / "scalar.h5"]:
            figure = self.folder / "decay.svg"
            self.done("figure", "decay", heads, "--svg-text", "--force", "-o", figure)
            texts.append(figure.read_text())
        self.assertIn("Cumulative share of channels", texts[0])
        self.assertNotIn("Cumulative share of channels", texts[1])

    def test_heads_match_across_kinds(self):
        done = self.foxscope("heads", self.file, "--model", "mamba2", "--match", "gated-deltanet", "--json")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        nearest = json.loads(done.stdout)["heads"][0]["nearest"]
        self.assertEqual(nearest[0]["model"], "gated-deltanet")
        self.assertLessEqual(nearest[0]["octaves"], nearest[-1]["octaves"])

    def test_differences_of_kinds_are_entry_by_entry(self):
        ours = self.map("mamba2", "attention", "--minus", "delta-net:0:1")
        difference = self.map("mamba2", "attention") - self.map("delta-net", "attention")
        numpy.testing.assert_allclose(ours, difference, atol=1e-6)


class Hybrids(CommandLineTest):
    """Qwen 3.5: layer 0 is a gated delta rule, layer 1 softmax attention."""

    def setUp(self):
        super().setUp()
        self.run_file = self.folder / "hybrid.h5"
        self.ids = self.folder / "ids.json"
        self.ids.write_text(json.dumps(golden("qwen3_5")["labels"].reshape(-1).tolist()))

    def run_hybrid(self, keep):
        self.done("run", "--model", DATA / "qwen3_5", "--ids", self.ids, "--keep", keep, "-o", self.run_file, "--force")

    def test_arrays_hold_what_each_kind_has(self):
        self.run_hybrid("loss,gates,rows,qk")
        output = self.folder / "heads.h5"
        self.done("heads", self.run_file, "--split", "-o", output)
        told = json.loads(self.done("heads", self.run_file, "--split", "--json"))["heads"]
        with h5py.File(output) as file:
            numbers = file["models/qwen3_5/numbers"]
            self.assertEqual(numbers["entropy"].shape, (2, 4))
            for head in told:
                place = head["layer"], head["head"]
                self.assertAlmostEqual(numbers["entropy"][place], head["attention"]["entropy"], 9)
                divergence = numbers["divergence"][place]
                if head["layer"] == 0:
                    self.assertTrue(numpy.isnan(divergence))
                else:
                    self.assertAlmostEqual(divergence, head["split"]["divergence"], 9)
                    self.check_logits(head)

    def check_logits(self, told):
        """Of the layer's own key heads and channels, which are others than the linear layer's."""
        output = self.folder / "logits.npy"
        self.done("map", self.run_file, "--layer", told["layer"], "--head", told["head"], "--quantity", "logits", "-o",
                  output, "--force")
        logits = numpy.load(output)
        distance = numpy.subtract.outer(numpy.arange(len(logits)), numpy.arange(len(logits)))
        for one in told["split"]["logits"]:
            pairs = (distance >= one["from"]) & (distance <= one["to"])
            pairs[:, 0] = False  # key 0 is left out
            if pairs.any():
                self.assertAlmostEqual(one["content"], logits[pairs].mean(), 5)

    def test_says_what_is_missing_of_its_attention(self):
        self.run_hybrid("loss,gates,qk")
        done = self.foxscope("heads", self.run_file)
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing to say of softmax attention: run again with --keep gates,rows,qk", done.stderr.decode())
        for option in [["--split"], ["--match", "qwen3_5"]]:
            self.fails(1, ["row normalisers were not kept", option[0]], "heads", self.run_file, *option)

    def test_names_the_array_of_a_mixer_that_is_missing(self):
        self.run_hybrid("loss,gates,rows,qk")
        with h5py.File(self.run_file, "r+") as file:
            name = next(iter(file["models"]))
            del file[f"models/{name}/layers/00/beta"]
        done = self.foxscope("heads", self.run_file)
        self.assertEqual(done.returncode, 0)
        self.assertIn("beta of layer 0 was not kept, so there is nothing to say of that layer", done.stderr.decode())
        self.fails(1, [f"model '{name}': layer 0 has queries and keys but no beta: run again with 'qk' in --keep"], "map",
                   self.run_file, "--layer", 0, "--head", 0, "--quantity", "mixing", "-o", self.folder / "map.npy")

    def test_heads_over_windows(self):
        windows = self.folder / "windows.npy"
        numpy.save(windows, golden("qwen3_5")["labels"].reshape(-1).reshape(3, 32))
        output = self.folder / "heads.json"
        self.done("eval", "heads", "--model", DATA / "qwen3_5", "--model", DATA / "gla", "--ids", windows, "-o", output)
        hybrid, gla = json.loads(output.read_text())["models"]
        table = self.done("eval", "heads", "--model", DATA / "qwen3_5", "--ids", windows, "-o", self.folder / "t.h5")
        self.assertIn("gated delta rule", table)
        self.assertIn("softmax attention", table)
        self.assertEqual(len(hybrid["heads"]), 8)
        self.assertIsNone(hybrid["heads"][0]["numbers"]["divergence"]["value"])
        self.assertIsNotNone(hybrid["heads"][7]["numbers"]["divergence"]["value"])
        self.assertIsNone(hybrid["heads"][7]["numbers"]["rate_decay_time"]["value"])
        self.assertGreater(gla["heads"][0]["numbers"]["channel_decay_time_max"]["value"],
                           gla["heads"][0]["numbers"]["channel_decay_time_min"]["value"])

    def test_attention_without_gates_is_not_counted_in_a_sweep(self):
        ids = self.write("ids.json", json.dumps(numpy.tile(golden("qwen3_5")["labels"].reshape(-1), 4).tolist()))
        command = ["eval", "sweep", "--model", DATA / "qwen3_5", "--ids", ids, "-o", self.folder / "sweep.h5"]
        heads = json.loads(self.done(*command, "--json"))["heads"]
        nothing = [head for head in heads if head["change"] == 0 and head["change_error"] == 0]
        self.assertTrue(nothing)
        self.assertLess(len(nothing), len(heads))
        said = self.done("info", self.folder / "sweep.h5")
        self.assertIn(f" of {len(heads) - len(nothing)} heads ", said)
        self.assertRegex(said, rf"; not counted: {len(nothing)} heads? in which the change alters nothing\n")

    def test_layers_are_told_apart_in_the_grid(self):
        if not DRAWS:
            return
        self.run_hybrid("loss,gates,rows,qk")
        figure = self.folder / "grid.svg"
        self.done("figure", "grid", self.run_file, "--svg-text", "-o", figure)
        text = figure.read_text()
        self.assertIn("gated delta rule", text)
        self.assertIn("softmax attention", text)

    def test_info_speaks_of_what_there_is(self):
        hybrid = self.done("info", DATA / "qwen3_5")
        self.assertIn("1 gated delta rule, 1 attention", hybrid)
        self.assertIn("RoPE", hybrid)
        mamba = self.done("info", DATA / "mamba2")
        self.assertIn("2 Mamba-2", mamba)
        for word in ["RoPE", "window", "QK-norm", "MLP", "intermediate"]:
            self.assertNotIn(word, mamba)


class Channels(CommandLineTest):
    """Samba: layers 0 and 2 are Mamba, whose 64 channels are heads, 1 and 3 attention of 4 heads in a window of 20."""

    def setUp(self):
        super().setUp()
        self.ids = self.folder / "ids.json"
        self.ids.write_text(json.dumps({name: golden("samba")[name].reshape(-1).tolist() for name in ["input_ids", "labels"]}))
        self.run_file = self.folder / "samba.h5"
        self.done("run", "--model", DATA / "samba", "--ids", self.ids, "--keep", "loss,gates,rows,qk", "-o", self.run_file)
        self.maps = golden_maps("samba")

    def map(self, head, quantity, *options):
        output = self.folder / "map.npy"
        self.done("map", self.run_file, "--layer", 2, "--head", head, "--quantity", quantity, *options, "-o", output, "--force")
        return numpy.load(output)

    def test_maps_of_a_channel_are_those_of_a_dense_program(self):
        for place, head in enumerate(self.maps["layers.2.mixing_heads"]):
            for quantity in ["mixing", "forget"]:
                golden_rows = self.maps[f"layers.2.{quantity}"][place]
                found = self.map(head, quantity, "--rows", f"{golden_rows.shape[1] - len(golden_rows)}:")
                present = ~numpy.isnan(found)
                self.assertEqual(present.sum(), sum(golden_rows.shape[1] - n for n in range(len(golden_rows))))
                error = numpy.abs(found - golden_rows)[present].max()
                self.assertLess(error, 1e-4 * numpy.abs(golden_rows).max(), quantity)
            mixing = numpy.abs(self.map(head, "mixing"))
            shares = mixing / numpy.nansum(mixing, axis=1, keepdims=True)
            numpy.testing.assert_allclose(self.map(head, "attention"), shares, atol=1e-6)

    def test_one_number_of_the_state_is_chosen_by_channel(self):
        steps, rates = self.maps["layers.2.beta"].astype("<f8"), self.maps["layers.2.rate"].astype("<f8")
        for channel in [0, 4]:
            sums = -numpy.cumsum(steps[31]) * rates[31, channel]
            present = numpy.tril(numpy.ones((len(sums), len(sums)), bool))
            between = numpy.where(present, sums[:, None] - sums[None], 0)
            found = self.map(31, "forget", "--channel", channel)
            numpy.testing.assert_allclose(found[present], numpy.exp(between)[present], atol=1e-4)
        ask = ["map", self.run_file, "--layer", 2, "--head", 31, "-o", self.folder / "no.npy"]
        self.fails(2, ["channels are 0 to 4"], *ask, "--quantity", "forget", "--channel", 5)
        self.fails(2, ["gate_effect needs softmax attention", "Mamba has no softmax"], *ask, "--quantity", "gate_effect")
        self.fails(2, ["layer 1", "each channel decays"], "map", self.run_file, "--layer", 1, "--head", 0, "--quantity",
                   "forget", "--channel", 0, "-o", self.folder / "no.npy")

    def test_run_files_hold_sums_and_rates_alone(self):
        with h5py.File(self.run_file) as file:
            layer = file["models/samba/layers/02"]
            self.assertEqual((layer.attrs["mixer"], layer.attrs["decay"], layer.attrs["heads"]), ("mamba", "rates", 64))
            self.assertNotIn("cumulative_log_decay", layer)
            self.assertEqual(layer["decay_rate"].shape, (64, 5))
            numpy.testing.assert_allclose(layer["decay_rate"][:].mean(axis=1), 1, atol=1e-12)
            sums = layer["cumulative_log_gate"][:][:, :, None] * layer["decay_rate"][:][:, None]
            steps, rates = self.maps["layers.2.beta"].astype("<f8"), self.maps["layers.2.rate"].astype("<f8")
            wanted = -numpy.cumsum(steps, axis=1)[:, :, None] * rates[:, None]
            numpy.testing.assert_allclose(sums, wanted, rtol=1e-4, atol=1e-4)

    def test_heads_over_windows_are_those_that_a_layer_has(self):
        windows = self.folder / "windows.npy"
        numpy.save(windows, golden("samba")["labels"].reshape(-1)[:32].reshape(2, 16))
        command = ["eval", "heads", "--model", DATA / "samba", "--ids", windows, "-o"]
        self.done(*command, self.folder / "heads.json")
        self.done(*command, self.folder / "heads.csv")
        told = json.loads((self.folder / "heads.json").read_text())["models"][0]["heads"]
        rows = (self.folder / "heads.csv").read_text().splitlines()[1:]
        there = [(layer, head) for layer, heads in enumerate([64, 4, 64, 4]) for head in range(heads)]
        self.assertEqual([(head["layer"], head["head"]) for head in told], there)
        self.assertEqual([tuple(map(int, row.split(",")[1:3])) for row in rows], there)

    def test_heads_tell_of_every_channel(self):
        heads = json.loads(self.done("heads", self.run_file, "--json"))["heads"]
        self.assertEqual([len([head for head in heads if head["layer"] == layer]) for layer in range(4)], [64, 4, 64, 4])
        head = heads[64 + 4 + 31]
        self.assertEqual((head["layer"], head["head"], head["mixer"]), (2, 31, "mamba"))
        # The first step is in no F.
        steps, rates = self.maps["layers.2.beta"][31][1:].astype("<f8"), self.maps["layers.2.rate"][31].astype("<f8")
        numpy.testing.assert_allclose(head["channel_decay_time"]["channels"], 1 / (steps.mean() * rates), rtol=1e-4)
        self.assertAlmostEqual(head["rate_decay_time"], 1 / (steps.mean() * rates.mean()), 3)
        self.assertIn("Mamba", self.done("heads", self.run_file))
        sorted_by = self.done("heads", self.run_file, "--sort", "rate_decay_time", "--reverse", "--top", "3")
        self.assertIn("Mamba", sorted_by)

    def test_losses_texts_and_facts(self):
        table = self.done("info", DATA / "samba")
        self.assertIn("2 Mamba, 2 attention", table)
        self.assertIn("5 x 1", table)
        windows = self.folder / "windows.npy"
        numpy.save(windows, golden("samba")["labels"].reshape(-1).reshape(2, 48))
        output = self.folder / "loss.h5"
        self.done("eval", "loss", "--model", DATA / "samba", "--ids", windows, "-o", output)
        with h5py.File(output) as file:
            found = file["models/samba/loss/per_token_loss"][0]
        numpy.testing.assert_allclose(found, golden("samba")["per_token_loss"][0, :48], atol=2e-3)
        heads = self.folder / "heads.json"
        self.done("eval", "heads", "--model", DATA / "samba", "--ids", windows, "-o", heads)
        told = json.loads(heads.read_text())["models"][0]["heads"]
        known = [head for head in told if head["numbers"]["entropy"]["value"] is not None]
        self.assertEqual(len(known), 2 * 64 + 2 * 4)

    def test_interventions_change_what_a_channel_forgets(self):
        changed = self.folder / "changed.h5"
        self.done("run", "--model", DATA / "samba", "--ids", self.ids, "--intervene", "2:31:zero@50", "--keep",
                  "loss,gates,qk", "-o", changed)
        output = self.folder / "map.npy"
        self.done("map", changed, "--layer", 2, "--head", 31, "--quantity", "mixing", "-o", output, "--force")
        mixing = numpy.load(output)
        self.assertEqual(numpy.abs(mixing[50:, :50]).max(), 0)
        self.assertGreater(numpy.abs(mixing[50:, 50:][~numpy.isnan(mixing[50:, 50:])]).max(), 0.01)
        self.assertGreater(numpy.abs(self.map(31, "mixing")[50:, :50]).max(), 0.01)

    def test_it_is_trained_as_other_hybrids_are_not(self):
        tokens = self.folder / "tokens.npy"
        numpy.save(tokens, numpy.tile(golden("samba")["labels"].reshape(1, -1).astype("<i4"), (4, 1)))
        output = self.folder / "out"
        arguments = ["--data", tokens, "--length", 96, "--batch-tokens", 192, "--max-tokens", 2304, "--lr", 0.003, "--seed", 1,
                     "--device", "cpu", "-o", output]
        self.done("train", "--init", DATA / "samba", *arguments)
        losses = [json.loads(line)["loss"] for line in (output / "log.jsonl").read_text().splitlines()]
        self.assertEqual(len(losses), 12)
        self.assertAlmostEqual(losses[0], golden("samba")["per_token_loss"].mean(), 2)
        self.assertLess(losses[-1], losses[0] - 0.5)
        trained = sorted((output / "checkpoints").iterdir())[-1]
        self.assertIn("2 Mamba, 2 attention", self.done("info", trained))
        self.done("run", "--model", trained, "--ids", self.ids, "--keep", "loss", "-o", self.folder / "trained.h5")
        with h5py.File(self.folder / "trained.h5") as file:
            loss = next(iter(file["models"].values()))["loss/per_token_loss"][:].mean()
        self.assertLess(loss, losses[-1])
        self.fails(1, ["qwen3_5_text", "only Samba can be trained"], "train", "--init", DATA / "qwen3_5", *arguments[:-1],
                   self.folder / "no")

    def test_a_grid_shows_both_kinds(self):
        if not DRAWS:
            return
        figure = self.folder / "grid.svg"
        self.done("figure", "grid", self.run_file, "--svg-text", "-o", figure)
        self.assertIn("Mamba", figure.read_text())
        self.assertIn("attention, window of 20", figure.read_text())


def softmax_rows(logits, present):
    shifted = numpy.where(present, logits, -numpy.inf)
    shares = numpy.exp(shifted - shifted.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


class DenseHead:
    """What a head of softmax attention does, in float64 from the queries, keys and c of a run file."""

    def __init__(self, model, layer, head):
        group = model[f"layers/{layer:02}"]
        key, query = group["key"][:].astype("<f8"), group["query"][head].astype("<f8")
        self.c = group["cumulative_log_gate"][head]
        key = key[head * len(key) // len(group["query"])]
        rows, columns = numpy.indices((len(query), len(query)))
        self.distance, window = rows - columns, model.attrs["window_size"]
        self.present = (self.distance >= 0) & ((self.distance < window) if window else True)
        self.logits = query @ key.T * model.attrs["softmax_scale"]
        self.decay = self.c[:, None] - self.c
        self.attention = softmax_rows(self.logits + self.decay, self.present)
        self.without_gate = softmax_rows(self.logits, self.present)
        self.without_content = softmax_rows(self.decay, self.present)
        self.uniform = softmax_rows(numpy.zeros_like(self.decay), self.present)

    def octaves(self, shares):
        return (shares * numpy.log2(1 + numpy.abs(self.distance))).sum(axis=1).mean()

    def numbers(self):
        """By the names of columns of `heads --split --csv`."""
        def entropy(shares):
            return -(shares * numpy.log(numpy.where(shares > 0, shares, 1))).sum(axis=1).mean()

        def first(shares):
            return shares[:, 0].mean()

        octaves = {name: self.octaves(getattr(self, name))
                   for name in ("attention", "without_gate", "without_content", "uniform")}
        kept = self.attention[1:, 1:] / self.attention[1:, 1:].sum(axis=1, keepdims=True)
        explained = sum(len(diagonal) * diagonal.mean() ** 2
                        for diagonal in (numpy.diagonal(kept, -n) for n in range(len(kept))))
        some = self.attention > 0
        ratio = numpy.where(some, self.attention, 1) / numpy.where(some, self.without_gate, 1)
        f = numpy.exp(numpy.diff(self.c))
        result = {"entropy": entropy(self.attention), "entropy_without_gate": entropy(self.without_gate),
                  "entropy_without_content": entropy(self.without_content), "mass_on_first": first(self.attention),
                  "mass_on_first_without_content": first(self.without_content),
                  "log_distance": octaves["attention"], "log_distance_decay_only": octaves["without_content"],
                  "log_distance_content_only": octaves["without_gate"], "log_distance_uniform": octaves["uniform"],
                  "locality_by_decay": (octaves["uniform"] - octaves["without_content"] + octaves["without_gate"]
                                        - octaves["attention"]) / 2,
                  "locality_by_content": (octaves["uniform"] - octaves["without_gate"] + octaves["without_content"]
                                          - octaves["attention"]) / 2,
                  "divergence": (self.attention * numpy.log(ratio)).sum(axis=1).mean(),
                  "mean_log_gate": numpy.log(f).mean(), "gate_min": f.min(), "gate_median": numpy.median(f),
                  "gate_max": f.max(), "label_positional": explained / (kept ** 2).sum()}
        near = self.present & (self.distance == 1) & (numpy.arange(len(f) + 1) > 0)
        result["logit_decay_1_1"] = self.decay[near].mean()
        return result


class Hybrids(CommandLineTest):
    """Runs of models with layers of attention and of linear mixers. Layers 1, and 3 of Samba, are attention."""

    TOKENS = {"qwen3_5": 320, "samba": 131}

    def run_of(self, fixture, *options, length=100):
        ids = self.write("ids.json", json.dumps(
            numpy.random.default_rng(3).integers(3, self.TOKENS[fixture], length).tolist()))
        path = self.folder / f"{fixture}.h5"
        self.done("run", "--model", f"m={DATA / fixture}", "--ids", ids, "--keep", "loss,gates,rows,qk", "-o", path,
                  "--force", "-q", *options)
        return path

    def map(self, path, quantity, layer=1, head=0):
        output = self.folder / "map.npy"
        self.done("map", path, "--layer", layer, "--head", head, "--quantity", quantity, "-o", output, "--force")
        return numpy.load(output).astype("<f8")

    def heads(self, path, layer):
        rows = csv.DictReader(io.StringIO(self.done("heads", path, "--split", "--csv")))
        return [row for row in rows if int(row["layer"]) == layer]

    def check_layer(self, path, layer=1):
        """Maps and statistics of a layer of attention against float64."""
        with h5py.File(path) as file:
            model = file["models/m"]
            for row in self.heads(path, layer):
                dense = DenseHead(model, layer, int(row["head"]))
                for name, value in dense.numbers().items():
                    self.assertAlmostEqual(float(row[name]), value, delta=2e-5 * max(1, abs(value)), msg=name)
            dense = DenseHead(model, layer, 0)
        attention = self.map(path, "attention", layer)
        numpy.testing.assert_allclose(numpy.nansum(attention, axis=1), 1, atol=1e-5)
        numpy.testing.assert_allclose(attention[dense.present], dense.attention[dense.present], atol=1e-5)
        forget = self.map(path, "forget", layer)
        numpy.testing.assert_allclose(forget[dense.present], numpy.exp(dense.decay[dense.present]), rtol=1e-5)

    def test_attention_without_gates_has_no_decay_of_its_own(self):
        for fixture in self.TOKENS:
            path = self.run_of(fixture)
            self.check_layer(path)
            row = self.heads(path, 1)[0]
            self.assertEqual(float(row["log_distance_decay_only"]), float(row["log_distance_uniform"]))
            self.assertEqual(float(row["locality_by_decay"]), 0)
            self.assertEqual(row["rate_decay_time"], "inf")

    def test_changed_gates_of_attention_are_what_its_numbers_are_made_of(self):
        for fixture, change in [("qwen3_5", "1:*:constant=0.9"), ("samba", "1:*:constant=0.9"), ("qwen3_5", "1:2:zero@40"),
                                ("samba", "3:1:constant=0.5")]:
            path = self.run_of(fixture, "--intervene", change)
            self.check_layer(path, int(change[0]))
            if change.endswith("0.9"):
                self.assertAlmostEqual(self.map(path, "forget")[10, 0], 0.9 ** 10, places=6)
                self.assertAlmostEqual(float(self.heads(path, 1)[0]["rate_decay_time"]), -1 / numpy.log(0.9), places=6)

    def test_c_decides_whatever_else_a_file_says(self):
        """Files of before that call the attention of a hybrid undecayed, and those whose @gated is wrong."""
        expected = self.map(self.run_of("qwen3_5", "--intervene", "1:*:constant=0.9"), "attention")
        for gated in (0, 1):
            path = self.run_of("qwen3_5", "--intervene", "1:*:constant=0.9")
            with h5py.File(path, "r+") as file:
                file["models/m"].attrs["gated"] = gated
                file["models/m/layers/01"].attrs["decay"] = "none"
            self.check_layer(path)
            numpy.testing.assert_array_equal(self.map(path, "attention"), expected)
        fox = self.run_fixture("fox-pro")
        forget = self.map(fox, "forget", 0)
        with h5py.File(fox, "r+") as file:
            model = next(iter(file["models"].values()))
            model.attrs["gated"] = 0
        numpy.testing.assert_array_equal(self.map(fox, "forget", 0), forget)
        self.assertTrue(json.loads(self.done("info", fox, "--json"))["models"][0]["gated"])
        # Gates that are 1 throughout are none.
        open_gates = self.run_fixture("fox-pro", extra=["--intervene", "*:*:one", "--force"])
        self.assertFalse(json.loads(self.done("info", open_gates, "--json"))["models"][0]["gated"])

    def test_labels_of_mamba_know_no_window(self):
        path = self.run_of("samba")
        rows = self.heads(path, 0)
        for row in rows[:3]:
            attention = numpy.nan_to_num(self.map(path, "attention", 0, int(row["head"])))
            kept = attention[1:, 1:] / attention[1:, 1:].sum(axis=1, keepdims=True)
            explained = sum(len(diagonal) * diagonal.mean() ** 2
                            for diagonal in (numpy.diagonal(kept, -n) for n in range(len(kept))))
            self.assertAlmostEqual(float(row["label_positional"]), explained / (kept ** 2).sum(), places=4)

    def test_a_file_names_the_key_heads_that_a_layer_has(self):
        for fixture in self.TOKENS:
            with h5py.File(self.run_of(fixture)) as file:
                model = file["models/m"]
                layers = [int(layer.attrs["key_heads"]) for layer in model["layers"].values()]
                self.assertEqual(int(model.attrs["key_heads"]), max(layers))

    def test_keys_that_are_held_are_cut_by_the_heads_of_each_layer(self):
        ids = self.write("ids.json", json.dumps(list(range(3, 103))))
        summary = json.loads(self.done("generate", "--model", DATA / "samba", "--ids", ids, "--max-tokens", 3, "--json"))
        self.assertEqual([len(layer) for layer in summary["held_keys"]], [64, 4, 64, 4])
        for layer, held in enumerate(summary["held_keys"]):
            # Mamba has no keys to hold, and attention those that the next position sees in its window of 20.
            self.assertEqual(set(held), {19} if layer % 2 else {0})

    def test_a_sweep_takes_the_heads_of_each_layer(self):
        folder = self.samba_with_a_tokenizer()
        text = self.write("text.txt", TEXT * 3)
        output = self.folder / "sweep.h5"
        summary = json.loads(self.done("eval", "sweep", "--model", f"m={folder}", "--text", text, "--length", 40, "--change",
                                       "cut", "-o", output, "--json"))
        self.assertEqual([(head["layer"], head["head"]) for head in summary["heads"]],
                         [(layer, head) for layer in range(4) for head in range(4 if layer % 2 else 64)])
        run = self.folder / "run.h5"
        with h5py.File(output) as file:
            model = file["models/m"]
            self.assertEqual(model["changed_loss"].shape, (4, 64, 40))
            self.assertTrue(numpy.isnan(model["changed_loss"][1, 4:]).all())
            self.assertTrue(numpy.isnan(model["change"][3, 4:]).all())
            for layer, head in [(0, 63), (1, 3), (3, 0)]:
                self.done("run", "--model", f"m={folder}", "--text", text, "--length", 40, "--intervene",
                          f"{layer}:{head}:cut", "--keep", "loss", "-o", run, "--force")
                with h5py.File(run) as single:
                    numpy.testing.assert_array_equal(model["changed_loss"][layer, head],
                                                     single["models/m/loss/per_token_loss"])
        if DRAWS:
            self.done("figure", "sweep", output, "-o", self.folder / "sweep.pdf")

    def test_heads_over_windows_see_changed_gates(self):
        ids = self.folder / "ids.npy"
        numpy.save(ids, numpy.random.default_rng(3).integers(3, 320, (1, 100)).astype("<i4"))
        output = self.folder / "heads.h5"
        self.done("eval", "heads", "--model", f"m={DATA / 'qwen3_5'}", "--ids", ids, "--intervene", "1:*:constant=0.9", "-o",
                  output)
        with h5py.File(self.run_of("qwen3_5", "--intervene", "1:*:constant=0.9")) as run, h5py.File(output) as file:
            numbers = file["models/m/numbers"]
            for head in range(4):
                expected = DenseHead(run["models/m"], 1, head).numbers()
                for name in ("entropy", "entropy_without_content", "divergence", "mean_log_gate", "locality_by_decay"):
                    self.assertAlmostEqual(float(numbers[name][1, head]), expected[name], places=4, msg=name)


if __name__ == "__main__":
    unittest.main()
