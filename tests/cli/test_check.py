"""Run files whose arrays contradict one another, `--unchecked`, `foxscope check`, and what other programs may leave out."""

import json
import math
import unittest

import h5py
import numpy
from support import DATA, DRAWS, FOX, NO_DISPLAY, CommandLineTest

# Folders of tests/data that are models; those that linear mixers alone make have no rows that sum to 1.
MODELS = sorted(path.parent.name for path in DATA.glob("*/golden.safetensors") if (path.parent / "config.json").exists())
LINEAR = ["delta-net", "gated-deltanet", "gla", "hgrn2", "mamba", "mamba2"]


def write_run(path, length=60, heads=4, key_heads=2, dim=8, layers=2, attributes=(), arrays=("c", "lse")):
    """A run file as a script of someone else's writes it, in float64 rounded to what files hold."""
    random = numpy.random.default_rng(1)
    with h5py.File(path, "w") as file:
        model = file.create_group("models/mine")
        model.attrs["dtype"] = "float32"
        for name, value in attributes:
            model.attrs[name] = value
        ids = random.integers(0, 99, length).astype(numpy.int32)
        model["tokens/id"] = ids
        model["tokens/input_id"] = numpy.r_[0, ids[:-1]].astype(numpy.int32)
        for layer in range(layers):
            group = model.create_group(f"layers/{layer:02d}")
            query = random.standard_normal((heads, length, dim)).astype(numpy.float32)
            key = random.standard_normal((key_heads, length, dim)).astype(numpy.float32)
            c = -numpy.logaddexp(0, -random.standard_normal((heads, length)) - 3).cumsum(axis=1)
            logits = numpy.einsum("hid,hjd->hij", query.astype(float), key.repeat(heads // key_heads, 0).astype(float))
            logits = logits * dim**-0.5 + c[:, :, None] - c[:, None, :]
            logits[:, *numpy.triu_indices(length, 1)] = -math.inf
            lse = numpy.log(numpy.exp(logits).sum(axis=2))
            group["query"], group["key"] = query, key
            if "c" in arrays:
                group["cumulative_log_gate"] = c
            if "lse" in arrays:
                group["log_normalizer"] = lse.astype(numpy.float32)
    return path


class HandWrittenTest(CommandLineTest):
    """docs/files.md: readers need tokens/id, tokens/input_id, @dtype and the number of heads."""

    def heads(self, path):
        return json.loads(self.done("heads", path, "--json"))["heads"]

    def test_c_that_climbs_in_steps_as_small_as_rounding_is_refused(self):
        path = write_run(self.folder / "climbs.h5", length=300, arrays=("c",))
        with h5py.File(path, "r+") as file:
            c = file["models/mine/layers/01/cumulative_log_gate"]
            c[2] = numpy.r_[-1e4, -1e4 + 0.0094 * numpy.arange(1, 300)]
        for command in [["check", path], ["heads", path]]:
            self.fails(1, ["layers/01/cumulative_log_gate: rises by", "of head 2, so that a gate is above 1", "--unchecked"],
                       *command)
        self.done("heads", path, "--unchecked")

    def test_normalisers_of_no_size_are_refused(self):
        for value in [math.inf, -math.inf, 1e7]:
            path = write_run(self.folder / "sizes.h5")
            with h5py.File(path, "r+") as file:
                file["models/mine/layers/01/log_normalizer"][1] = value
            self.fails(1, ["row 0 of layer 1 head 1 of the attention sums to", "log_normalizer"], "check", path)

    def test_channels_that_climb_are_refused_by_name(self):
        path = self.run_fixture("gla")
        with h5py.File(path, "r+") as file:
            sums = file["models/gla/layers/00/cumulative_log_decay"]
            sums[0, 20, 3] = sums[0, 19, 3] + 0.5
        for command in ["check", "heads"]:
            self.fails(1, ["layers/00/cumulative_log_decay: rises by 0.5", "at position 20 of head 0, channel 3",
                           "--unchecked"], command, path)
        self.done("heads", path, "--unchecked")

    def test_a_file_without_our_attributes_opens(self):
        path = write_run(self.folder / "mine.h5")
        described = json.loads(self.done("info", path, "--json"))["models"][0]
        self.assertEqual([described[name] for name in ["layers", "heads", "key_heads", "head_dim"]], [2, 4, 2, 8])
        self.assertAlmostEqual(described["softmax_scale"], 8**-0.5, places=6)
        for head in self.heads(path):
            self.assertLess(head["attention"]["entropy"], math.log(60))
        full = write_run(self.folder / "full.h5", attributes=[("softmax_scale", 8**-0.5), ("layers", 2), ("heads", 4),
                                                               ("key_heads", 2), ("head_dim", 8), ("gated", 1)])
        self.assertEqual(self.heads(path), self.heads(full))

    def test_losses_alone_open(self):
        path = self.folder / "loss.h5"
        with h5py.File(path, "w") as file:
            model = file.create_group("models/mine")
            model.attrs.update(dtype="float32", heads=4)
            model["tokens/id"] = model["tokens/input_id"] = numpy.arange(20, dtype=numpy.int32)
            model["loss/per_token_loss"] = numpy.ones(20, numpy.float32)
        self.assertEqual(json.loads(self.done("info", path, "--json"))["models"][0]["mean_loss"], 1)

    def test_rows_without_c_are_left_alone_where_there_may_have_been_a_gate(self):
        self.done("info", write_run(self.folder / "no-c.h5", arrays=["lse"]))
        self.fails(1, ["row ", "log_normalizer, softmax_scale, query and key"], "info",
                   write_run(self.folder / "no-gate.h5", arrays=["lse"], attributes=[("gated", 0)]))


class CheckTest(CommandLineTest):
    def odd(self, name, change):
        path = write_run(self.folder / f"{name}.h5")
        with h5py.File(path, "r+") as file:
            change(file["models/mine"])
        return path

    def odd_files(self):
        def rising(model):
            model["layers/01/cumulative_log_gate"][...] *= -1

        def off(model):
            model["layers/01/log_normalizer"][2] += 3

        def scaled(model):
            model.attrs["softmax_scale"] = 1.0

        return [(self.odd("rising", rising), ["layers/01/cumulative_log_gate", "rises", "position 0 of head 0"]),
                (self.odd("off", off), ["row 0 of layer 1 head 2", "sums to 0.049787", "log_normalizer"]),
                (self.odd("scaled", scaled), ["row 0 of layer 0 head 0", "softmax_scale, query and key"])]

    def test_what_contradicts_itself_is_refused_by_every_reader(self):
        for path, words in self.odd_files():
            readers = [["heads", path], ["info", path], ["check", path],
                       ["map", path, "--layer", 0, "--head", 0, "--quantity", "forget", "-o", self.folder / "f.npy"]]
            if DRAWS:
                readers += [["figure", "grid", path, "-o", self.folder / "f.svg"],
                            ["figure", "decay", path, "-o", self.folder / "f.svg"],
                            ["open", path, "--screenshot", self.folder / "f.png"]]
            for reader in readers:
                with self.subTest(f"{path.name} {reader[0]}"):
                    self.fails(1, [str(path), *words, "--unchecked"], *reader, environment=NO_DISPLAY)

    def test_unchecked_opens_it(self):
        for path, _ in self.odd_files():
            with self.subTest(path.name):
                self.done("heads", path, "--unchecked")
                self.done("info", path, "--unchecked")
                self.done("map", path, "--layer", 1, "--head", 0, "--quantity", "forget", "--unchecked", "-o",
                          self.folder / "map.npy", "--force")

    def test_what_is_made_of_it_says_so(self):
        path, _ = self.odd_files()[1]
        maps = self.folder / "maps.h5"
        words = ["--layer", 1, "--head", 0, "--quantity", "forget"]
        for command in [["heads", path], ["heads", path, "--csv"], ["info", path],
                        ["map", path, *words, "-o", self.folder / "map.csv"]]:
            with self.subTest(command):
                said = self.foxscope(*command, "--unchecked").stderr.decode()
                self.assertIn(f"{path}: opened unchecked: its arrays may contradict one another", said)
        self.done("map", path, *words, "--unchecked", "-o", maps)
        with h5py.File(maps) as file:
            self.assertEqual([group.attrs["unchecked"] for group in file["maps"].values()], [1])
        self.done("map", write_run(self.folder / "sound.h5"), *words, "-o", maps, "--force")
        with h5py.File(maps) as file:
            self.assertEqual(["unchecked" in group.attrs for group in file["maps"].values()], [False])
        self.assertTrue(json.loads(self.done("heads", path, "--unchecked", "--json"))["unchecked"])
        self.assertIn("mine (unchecked), 60 tokens", self.done("heads", path, "--unchecked"))
        self.assertTrue(json.loads(self.done("info", path, "--unchecked", "--json"))["models"][0]["unchecked"])
        self.assertRegex(self.done("info", path, "--unchecked"), r"unchecked +its arrays may contradict one another")

    def test_check_says_what_it_saw(self):
        self.assertRegex(self.done("check", write_run(self.folder / "mine.h5")),
                         r"\Amine: 60 tokens, 2 layers: c of 8 heads never rises, 32 rows of the attention sum to 1 "
                         r"within \d\.\de-0[678]\n\Z")
        loss = self.run_fixture(extra=["--keep", "loss"])
        self.assertEqual(self.done("check", loss),
                         "fox-pro: 64 tokens, 2 layers: there are no rows of attention to add up\n")

    def test_rows_that_are_no_numbers_are_told_apart(self):
        def gone(model):
            model["layers/01/log_normalizer"][2] = numpy.nan

        said = self.done("check", self.odd("gone", gone))
        self.assertIn("4 rows of the attention are not a number, ", said)

    @unittest.skipUnless(DRAWS, "a build without Qt")
    def test_every_picture_of_it_is_marked(self):
        path, _ = self.odd_files()[1]
        mark = "unchecked run file: its arrays may contradict one another"
        heads = self.folder / "heads.h5"
        self.done("heads", path, "--unchecked", "-o", heads)
        kinds = {"grid": [path, "--unchecked"], "maps": [path, "--unchecked"], "decay": [heads], "labels": [heads],
                 "distance": [path, "--unchecked"]}
        for kind, words in kinds.items():
            with self.subTest(kind):
                picture = self.folder / f"{kind}.svg"
                self.done("figure", kind, *words, "--svg-text", "-o", picture)
                self.assertIn(mark, picture.read_text())
        picture = self.folder / "map.svg"
        self.done("map", path, "--unchecked", "--layer", 0, "--head", 1, "--quantity", "attention", "-o", picture)
        self.assertIn("unchecked: the arrays of mine were not held against one another", picture.read_text())
        sound = self.folder / "sound.svg"
        self.done("figure", "grid", write_run(self.folder / "sound.h5"), "--svg-text", "-o", sound)
        self.assertNotIn("unchecked", sound.read_text())
        self.done("open", path, "--unchecked", "--screenshot", self.folder / "window.png", environment=NO_DISPLAY)


class SoundTest(CommandLineTest):
    """What Foxscope writes is never refused."""

    def check(self, path, rows):
        text = self.done("check", path)
        self.assertEqual("sum to 1" in text, rows, text)

    def test_every_family(self):
        self.assertGreater(len(MODELS), 20)
        for model in MODELS:
            with self.subTest(model):
                path = self.run_fixture(model, extra=["--keep", "loss,gates,rows,ungated,qk", "--force"])
                self.check(path, model not in LINEAR)

    def test_changed_gates_and_pruning(self):
        text = self.write("text.txt", "The fox ran over the hill, and nobody saw the fox. " * 60)
        for extra in [["--intervene", "*:*:one"], ["--intervene", "0:*:constant=0.5"], ["--intervene", "1:2:zero@100"],
                      ["--intervene", "*:*:scale=3"], ["--intervene", "2:1:mean"], ["--intervene", "3:0:cut"],
                      ["--pruning", "0.05"], ["--pruning", "0"], ["--keep", "gates,rows,qk,saliency,loss"],
                      ["--keep", "qk,rows"], ["--keep", "gates,rows"]]:
            with self.subTest(extra):
                path = self.folder / "run.h5"
                self.done("run", "--model", FOX, "--text", text, "--length", 400, "--force", "-o", path, *extra)
                self.check(path, extra[1] not in ["qk,rows", "gates,rows"])
        for hybrid in ["qwen3_5", "samba"]:
            with self.subTest(hybrid):
                self.check(self.run_fixture(hybrid, extra=["--intervene", "*:*:constant=0.9", "--force"]), True)


if __name__ == "__main__":
    unittest.main()
