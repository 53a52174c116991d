"""`foxscope eval import`: the per-token losses of the Forgetting Transformer's own evaluation."""

import json
import math
import unittest
import zipfile

import h5py
import numpy
from support import CommandLineTest


class ImportTest(CommandLineTest):
    def npz(self, name="results.npz", **arrays):
        path = self.folder / name
        numpy.savez(path, **{"eval_len": 65536, "val/loss_avg_len_512": 2.5, **arrays})
        return path

    def take_in(self, path, *extra):
        output = self.folder / "imported.h5"
        return output, json.loads(self.done("eval", "import", path, "-o", output, "--json", "--force", *extra))

    def test_a_mean_over_windows(self):
        losses = numpy.random.default_rng(1).normal(3, 0.1, 700)
        output, summary = self.take_in(self.npz(**{"val/loss_per_token": losses}), "--name", "fox-760m")
        (model,) = summary["models"]
        self.assertEqual((model["name"], model["averaged"], model["tokens"]), ("fox-760m", True, 700))
        self.assertAlmostEqual(model["nats_per_token"], losses.mean(), places=6)
        self.assertIsNone(model["nats_per_token_error"])
        with h5py.File(output) as file:
            group = file["models/fox-760m"]
            numpy.testing.assert_allclose(group["loss/loss"], losses, rtol=1e-6)
            numpy.testing.assert_allclose(group["perplexity/perplexity"],
                                          numpy.exp(numpy.cumsum(losses) / numpy.arange(1, 701)), rtol=1e-6)
            self.assertTrue(numpy.isnan(group["loss/loss_errors"]).all())
        text = self.done("info", output)
        self.assertIn("averaged", text)
        self.assertIn("no errors: the losses are means over windows that are not known", text)

    def test_windows(self):
        losses = numpy.random.default_rng(2).normal(3, 0.1, (5, 60)).astype(numpy.float32)
        for save in [numpy.savez, numpy.savez_compressed]:
            path = self.folder / "w.npz"
            save(path, **{"val/loss_per_token": losses})
            output, summary = self.take_in(path)
            (model,) = summary["models"]
            self.assertEqual((model["name"], model["windows"], model["averaged"]), ("w", 5, False))
            means = losses.astype(float).mean(axis=1)
            self.assertAlmostEqual(model["nats_per_token_error"], means.std(ddof=1) / math.sqrt(5), places=9)
            with h5py.File(output) as file:
                numpy.testing.assert_array_equal(file["models/w/loss/per_token_loss"], losses)

    def test_named_after_the_folder(self):
        (self.folder / "fox-pro-760m").mkdir()
        path = self.npz("fox-pro-760m/results.npz", **{"val/loss_per_token": numpy.ones(3)})
        self.assertEqual(self.take_in(path)[1]["models"][0]["name"], "fox-pro-760m")

    def test_bad_archives(self):
        output = self.folder / "out.h5"

        def refused(words, path, *extra, code=1):
            self.fails(code, [words], "eval", "import", path, "-o", output, *extra, output=output)

        good = self.npz("good.npz", **{"val/loss_per_token": numpy.random.default_rng(1).normal(3, 1, 5000)})
        content = bytearray(good.read_bytes())
        refused("no such file", self.folder / "none.npz")
        refused("not a sound .npz archive", self.write("text.npz", "no archive"))
        refused("not a sound .npz archive", self.write("cut.npz", bytes(content[:len(content) // 2])))
        content[20000] ^= 1
        refused("damaged", self.write("flipped.npz", bytes(content)))
        refused("holds no array val/loss_per_token", self.npz("other.npz"))
        refused("[L] or [M, L]", self.npz("three.npz", **{"val/loss_per_token": numpy.ones((2, 2, 2))}))
        refused("[L] or [M, L]", self.npz("empty.npz", **{"val/loss_per_token": numpy.ones(0)}))
        refused("whole numbers", self.npz("int.npz", **{"val/loss_per_token": numpy.ones(4, dtype=int)}))
        refused("nan at 1", self.npz("nan.npz", **{"val/loss_per_token": numpy.array([1, numpy.nan])}))
        refused("'<f2'", self.npz("half.npz", **{"val/loss_per_token": numpy.ones(4, dtype="<f2")}))
        refused("'>f8'", self.npz("big.npz", **{"val/loss_per_token": numpy.ones(4, dtype=">f8")}))
        refused("Fortran order", self.npz("f.npz", **{"val/loss_per_token": numpy.asfortranarray(numpy.ones((2, 3)))}))
        with zipfile.ZipFile(self.folder / "garbage.npz", "w") as archive:
            archive.writestr("val/loss_per_token.npy", b"\x93NUMPY\x01\x00\xff\xff{}")
        refused("cut short", self.folder / "garbage.npz")
        refused("not a name", good, "--name", "a b", code=2)


if __name__ == "__main__":
    unittest.main()
