"""What programs for NeXus files draw when they open ours: silx, and nexusformat, which NeXpy reads with."""

import sys
import types
import unittest

import h5py
import numpy
from support import DATA, FOX, TRANSFORMER, CommandLineTest, golden

# nexusformat imports it for compression filters that our files do not use; it takes 190 MB.
sys.modules["hdf5plugin"] = types.ModuleType("hdf5plugin")
import nexusformat.nexus
import silx.io.nxdata

TEXT = "The fox ran over the hill. The hill was green, and the fox was quick; nobody saw the fox.\n" * 12


class ViewersTest(CommandLineTest):
    def draws(self, path, group, signal, axes, values, interpretation, title=""):
        """Both find this signal by this way from the root, its axes, and the numbers that are in them."""
        with h5py.File(path) as file:
            plot = silx.io.nxdata.get_default(file)
            self.assertIsNotNone(plot, "silx finds nothing to draw")
            self.assertTrue(plot.is_valid, plot.issues)
            self.assertEqual(plot.group.name, group)
            self.assertEqual(plot.signal_dataset_name, signal)
            self.assertEqual(plot.axes_dataset_names, list(axes))
            self.assertEqual(plot.interpretation, interpretation)
            self.assertEqual(plot.title, title)
            numpy.testing.assert_array_equal(plot.signal[()], values)
            for axis, expected in zip(plot.axes, axes.values()):
                numpy.testing.assert_array_equal(axis[()], expected)
        plot = nexusformat.nexus.nxload(path).plottable_data
        self.assertIsNotNone(plot, "nexusformat finds nothing to draw")
        self.assertEqual((plot.nxpath, plot.nxsignal.nxname), (group, signal))
        self.assertEqual([axis.nxname for axis in plot.nxaxes], list(axes))
        numpy.testing.assert_array_equal(plot.nxsignal.nxvalue, values)
        for axis, expected in zip(plot.nxaxes, axes.values()):
            numpy.testing.assert_array_equal(axis.nxvalue, expected)

    def values(self, path, dataset):
        with h5py.File(path) as file:
            return file[dataset][()]

    def test_a_run_draws_its_losses(self):
        run = self.run_fixture()
        loss = self.values(run, "models/fox-pro/loss/per_token_loss")
        numpy.testing.assert_allclose(loss, golden("fox-pro")["per_token_loss"][0], atol=1e-4)
        self.draws(run, "/models/fox-pro/loss", "per_token_loss", {"position": range(64)}, loss, "spectrum")

    def test_a_run_without_losses_draws_its_gates(self):
        run = self.run_fixture(extra=["--keep", "gates"])
        gates = self.values(run, "models/fox-pro/layers/00/cumulative_log_gate")
        self.draws(run, "/models/fox-pro/layers/00", "cumulative_log_gate", {"head": range(2), "position": range(64)}, gates,
                   "spectrum")

    def test_maps(self):
        run, out = self.run_fixture(), self.folder / "map.h5"
        chosen = ("map", run, "--layer", 1, "--head", 0, "--quantity", "attention,forget", "-o", out, "--force")
        group = "/maps/fox-pro_L01_H00_attention"
        self.done(*chosen)
        values = self.values(out, group + "/value")
        numpy.testing.assert_allclose(numpy.nan_to_num(values), golden("fox-pro")["layers.1.attention"][0, 0], atol=1e-4)
        self.draws(out, group, "value", {"query": range(64), "key": range(64)}, values, "image")
        self.done(*chosen, "--rows", "10:30", "--cols", "0:12")
        values = self.values(out, group + "/value")
        self.draws(out, group, "value", {"query": range(10, 30), "key": range(12)}, values, "image")
        self.done(*chosen, "--size", "8x16")
        values = self.values(out, group + "/value")
        # The middle of what a pixel stands for.
        self.draws(out, group, "value", {"query": self.values(out, group + "/query"), "key": self.values(out, group + "/key")},
                   values, "image")

    def test_losses_of_windows(self):
        corpus, out = self.write("corpus.txt", TEXT), self.folder / "loss.h5"
        self.done("eval", "loss", "--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--corpus", corpus,
                  "--length", 32, "--windows", 3, "-o", out)
        losses = self.values(out, "models/fox/loss/per_token_loss")
        self.draws(out, "/models/fox/loss", "loss", {"position": range(32)}, losses.astype(float).mean(axis=0), "spectrum")

    def test_imported_losses(self):
        losses = numpy.random.default_rng(0).normal(3, 0.5, 200).astype(numpy.float32)
        numpy.savez(self.folder / "losses.npz", **{"val/loss_per_token": losses})
        out = self.folder / "loss.h5"
        self.done("eval", "import", self.folder / "losses.npz", "-o", out)
        self.draws(out, "/models/losses/loss", "loss", {"position": range(200)}, losses, "spectrum")

    def test_heads(self):
        run, out = self.run_fixture(), self.folder / "heads.h5"
        self.done("heads", run, "-o", out)
        windows = self.folder / "windows.npy"
        numpy.save(windows, numpy.arange(96).reshape(2, 48))
        evaluated = self.folder / "evaluated.h5"
        self.done("eval", "heads", "--model", DATA / "fox-pro", "--ids", windows, "-o", evaluated)
        for path in [out, evaluated]:
            times = self.values(path, "models/fox-pro/numbers/rate_decay_time")
            self.draws(path, "/models/fox-pro/numbers", "rate_decay_time", {"layer": range(2), "head": range(2)}, times,
                       "image")

    def test_a_needle_test(self):
        haystack, out = self.write("haystack.txt", TEXT * 3), self.folder / "needle.h5"
        self.done("eval", "needle", "--model", f"fox={FOX}", "--haystack", haystack, "--lengths", "300,400", "--depths",
                  "0,50,100", "-o", out)
        self.draws(out, "/models/fox", "gain", {"length": [300, 400], "depth": [0, 0.5, 1]},
                   self.values(out, "models/fox/gain"), "image",
                   title="gain of the answer's mean log-probability, fox")


if __name__ == "__main__":
    unittest.main()
