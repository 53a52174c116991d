"""`foxscope map` and `heads` on runs of linear mixers: numbers against what the mixers' authors compute."""

import json
import unittest

import h5py
import numpy
import safetensors.numpy
from support import DATA, CommandLineTest

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
            self.assertAlmostEqual(head["rate_decay_time"], -1 / decay[1].astype("<f8").mean(), 3)
            if decay.ndim == 3:
                times = -1 / decay[1].astype("<f8").mean(axis=0)
                self.assertAlmostEqual(head["channel_decay_time"]["median"], numpy.median(times), 3)

    def test_heads_match_across_kinds(self):
        done = self.foxscope("heads", self.file, "--model", "mamba2", "--match", "gated-deltanet", "--json")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        nearest = json.loads(done.stdout)["heads"][0]["nearest"]
        self.assertEqual(nearest[0]["model"], "gated-deltanet")
        self.assertLessEqual(nearest[0]["octaves"], nearest[-1]["octaves"])
        table = self.foxscope("heads", self.file, "--model", "mamba2").stdout.decode()
        self.assertIn("mamba2", table.splitlines()[3])

    def test_differences_of_kinds_are_entry_by_entry(self):
        ours = self.map("mamba2", "attention", "--minus", "delta-net:0:1")
        difference = self.map("mamba2", "attention") - self.map("delta-net", "attention")
        numpy.testing.assert_allclose(ours, difference, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
