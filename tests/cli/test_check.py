"""Run files whose arrays contradict one another, `--unchecked`, `foxscope check`, and what other programs may leave out."""

import json
import math
import os
import shutil
import signal
import subprocess
import unittest

import h5py
import numpy
from support import DATA, DRAWS, FOX, NO_DISPLAY, PROGRAM, CommandLineTest

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


def odd_run(test, name, change):
    path = write_run(test.folder / f"{name}.h5")
    with h5py.File(path, "r+") as file:
        change(file["models/mine"])
    return path


def found(test, path, kind="broken"):
    """Findings of `foxscope check` of a kind, (path, expected, found); its exit status is that of the findings."""
    result = test.foxscope("check", path, "--json")
    report = json.loads(result.stdout)
    test.assertEqual(report["keeps_schema"], report["broken"] == 0)
    test.assertEqual(result.returncode, 0 if report["keeps_schema"] else 1, result.stderr.decode())
    test.assertEqual(len(report["findings"]), min(1000, report["broken"]) + min(1000, report["notes"]))
    return [(finding["path"], finding["expected"], finding["found"]) for finding in report["findings"]
            if finding["kind"] == kind]


class HandWrittenTest(CommandLineTest):
    """docs/files.md: readers need tokens/id, tokens/input_id, @dtype and the number of heads."""

    def heads(self, path):
        return json.loads(self.done("heads", path, "--json"))["heads"]

    def test_c_that_climbs_in_steps_as_small_as_rounding_is_refused(self):
        path = write_run(self.folder / "climbs.h5", length=300, arrays=("c",))
        with h5py.File(path, "r+") as file:
            c = file["models/mine/layers/01/cumulative_log_gate"]
            c[2] = numpy.r_[-1e4, -1e4 + 0.0094 * numpy.arange(1, 300)]
        self.fails(1, ["layers/01/cumulative_log_gate: rises by", "of head 2, so that a gate is above 1", "--unchecked"],
                   "heads", path)
        self.assertEqual(found(self, path), [("/models/mine/layers/01/cumulative_log_gate",
                                              "sums of log f up to and including a position, which never rise",
                                              "one that rises by 0.0188 at [2, 2], in 1 of 4 heads")])
        self.done("heads", path, "--unchecked")

    def test_normalisers_of_no_size_are_refused(self):
        for value in [math.inf, -math.inf, 1e7]:
            path = write_run(self.folder / "sizes.h5")
            with h5py.File(path, "r+") as file:
                file["models/mine/layers/01/log_normalizer"][1] = value
            self.fails(1, ["row 0 of layer 1 head 1 of the attention sums to", "log_normalizer"], "heads", path)
            [(place, _, found_there)] = found(self, path)
            self.assertEqual(place, "/models/mine/layers/01/log_normalizer")
            self.assertIn("in row 0 of head 1; rows of 1 of 4 heads do not sum to 1", found_there)

    def test_channels_that_climb_are_refused_by_name(self):
        path = self.run_fixture("gla")
        with h5py.File(path, "r+") as file:
            sums = file["models/gla/layers/00/cumulative_log_decay"]
            sums[0, 20, 3] = sums[0, 19, 3] + 0.5
        self.fails(1, ["layers/00/cumulative_log_decay: rises by 0.5", "at position 20 of head 0, channel 3",
                       "--unchecked"], "heads", path)
        [(place, _, there)] = found(self, path)
        self.assertEqual(place, "/models/gla/layers/00/cumulative_log_decay")
        self.assertEqual(there, "one that rises by 0.5 at [0, 20, 3], in 1 of 32 channels")
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
    def odd_files(self):
        def rising(model):
            model["layers/01/cumulative_log_gate"][...] *= -1

        def off(model):
            model["layers/01/log_normalizer"][2] += 3

        def scaled(model):
            model.attrs["softmax_scale"] = 1.0

        return [(odd_run(self, "rising", rising), ["layers/01/cumulative_log_gate", "rises", "position 0 of head 0"]),
                (odd_run(self, "off", off), ["row 0 of layer 1 head 2", "sums to 0.049787", "log_normalizer"]),
                (odd_run(self, "scaled", scaled), ["row 0 of layer 0 head 0", "softmax_scale, query and key"])]

    def test_what_contradicts_itself_is_refused_by_every_reader(self):
        for path, words in self.odd_files():
            readers = [["heads", path], ["info", path],
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
                         r"\Anote: /models/mine@softmax_scale: expected what q.k is multiplied by, found nothing: 1/sqrt\(d\) "
                         r"= 0.353553 is taken\n"
                         r"mine: 60 tokens, 2 layers: c of 8 heads never rises, 32 rows of the attention sum to 1 "
                         r"within \d\.\de-0[678]\n  without curves of losses")
        loss = self.run_fixture(extra=["--keep", "loss"])
        self.assertEqual(self.done("check", loss),
                         "fox-pro: 64 tokens, 2 layers: there are no rows of attention to add up\n"
                         "  without maps of F, gates, decay times: there are no sound layers/NN/cumulative_log_gate (all layers)\n"
                         "  without maps of A, M and logits, statistics of heads: there are no sound "
                         "layers/NN/cumulative_log_gate (all layers), layers/NN/query (all layers), layers/NN/key (all "
                         "layers)\n"
                         "  without words: there are no sound tokens/string, or /text/content with tokens/byte_start and "
                         "byte_end\n"
                         "  without saliency: there are no sound gradients/log_forget\n"
                         "  without predictions: there are no sound predictions/hidden_state or hidden_states/NN or logits\n")

    def test_rows_that_are_no_numbers_are_told_apart(self):
        def gone(model):
            model["layers/01/query"][2] = numpy.nan
            model["layers/01/log_normalizer"][2] = numpy.nan

        said = self.done("check", odd_run(self, "gone", gone))
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


class SchemaTest(CommandLineTest):
    """docs/files.md: everything that a file of another program has otherwise, at once."""

    def test_all_findings_at_once(self):
        path = write_run(self.folder / "theirs.h5", attributes=[("softmax_scale", 8**-0.5), ("layers", 3)])
        with h5py.File(path, "r+") as file:
            model = file["models/mine"]
            model.attrs["config"] = "{not json"
            model.attrs["window_size"] = -1
            ids = model["tokens/id"][...]
            del model["tokens/input_id"]
            model["tokens/input_id"] = ids[:-1].astype(numpy.int64)
            model["loss/per_token_loss"] = numpy.ones(59, numpy.float32)
            first, second = model["layers/00"], model["layers/01"]
            c = first["cumulative_log_gate"][...]
            first["cumulative_log_gate"][...] = numpy.diff(c, prepend=0)
            first["cumulative_log_gate"].attrs["units"] = "bits"
            first["attention"] = numpy.zeros((4, 60, 60), numpy.float32)
            key = second["key"][...]
            del second["key"], second["log_normalizer"]
            second["cumulative_log_gate"][1, 7] = numpy.nan
            second["log_normalizer"] = numpy.zeros((4, 60))
            model["extra"] = key
            file["notes"] = "of somebody"
        broken = dict((place.removeprefix("/models/mine"), (expected, there)) for place, expected, there in found(self, path))
        sums = "sums of log f up to and including a position, which never rise"
        self.assertEqual(broken.pop("/layers/00/cumulative_log_gate")[0], sums)
        self.assertEqual(broken, {
            "@config": ("JSON", "other text"),
            "@window_size": ("a whole number from 0 to 1099511627776", "-1"),
            "/tokens/input_id": ("int32 [60], one for each of tokens/id", "int64 [59]"),
            "/loss/per_token_loss": ("float32 [60] (position)", "float32 [59]"),
            "/layers/00/cumulative_log_gate@units": ("nats", "bits"),
            "/layers/01/cumulative_log_gate": ("finite numbers", "one that is not finite at [1, 7]"),
            "/layers/01/log_normalizer": ("float32 [4, 60] (head, position)", "float64 [4, 60]"),
            "/layers/01/key": ("float32 [2, 60, 8], as other layers or parts have queries and keys", "nothing"),
            "/layers/02": ("a group, as there are 3 layers", "nothing"),
            "/layers/02/query": ("float32 [4, 60, 8], as other layers or parts have queries and keys", "nothing"),
            "/layers/02/key": ("float32 [2, 60, 8], as other layers or parts have queries and keys", "nothing")})
        self.assertEqual(found(self, path, "note"),
                         [("/notes", "nothing", "an object that nothing reads"),
                          ("/models/mine/extra", "nothing", "an object that nothing reads"),
                          ("/models/mine/layers/00/attention", "nothing", "an object that nothing reads")])
        result = self.foxscope("check", path)
        self.assertEqual(result.stderr.decode(),
                         f"foxscope: {path}: 12 findings break the schema of run files (docs/files.md): correct what wrote the "
                         "file\n")
        lines = result.stdout.decode().splitlines()
        self.assertIn("/models/mine/layers/01/log_normalizer: expected float32 [4, 60] (head, position), found float64 "
                      "[4, 60]", lines)
        self.assertIn("  without maps of F, gates, decay times: there are no sound layers/NN/cumulative_log_gate (layer 2)", lines)

    def test_log_f_in_the_place_of_its_sums_is_told_apart(self):
        path = write_run(self.folder / "terms.h5", arrays=["c"])
        with h5py.File(path, "r+") as file:
            for layer in file["models/mine/layers"].values():
                layer["cumulative_log_gate"][...] = numpy.diff(layer["cumulative_log_gate"][...], prepend=0)
        for _, _, there in found(self, path):
            self.assertRegex(there, r"in 4 of 4 heads: are these log f, not their sums\?\Z")
        with h5py.File(path, "r+") as file:
            for layer in file["models/mine/layers"].values():
                c = layer["cumulative_log_gate"][...].cumsum(axis=1)
                layer["cumulative_log_gate"][...] = numpy.pad(c, ((0, 0), (1, 0)))[:, :-1]
        self.assertEqual(found(self, path), [])
        self.assertIn("0 at position 0 of all heads: are these sums up to, not including, a position?",
                      [there for _, _, there in found(self, path, "note")])

    def test_what_is_missing_at_the_top(self):
        def made(change):
            path = write_run(self.folder / "run.h5")
            with h5py.File(path, "r+") as file:
                change(file)
            return [(place, there) for place, _, there in found(self, path)]

        def delete(name):
            return lambda file: file.__delitem__(name)

        def set_attribute(name, value):
            return lambda file: file["models/mine"].attrs.__setitem__(name, value)

        self.assertEqual(made(delete("models")), [("/models", "nothing")])
        self.assertEqual(made(delete("models/mine/tokens")), [("/models/mine/tokens", "nothing")])
        self.assertEqual(made(delete("models/mine/tokens/id")), [("/models/mine/tokens/id", "nothing")])
        self.assertEqual(made(lambda file: file["models/mine"].attrs.__delitem__("dtype")),
                         [("/models/mine@dtype", "nothing")])
        self.assertEqual(made(set_attribute("dtype", "float64")), [("/models/mine@dtype", "float64")])
        self.assertEqual(made(set_attribute("key_heads", 3))[0], ("/models/mine@key_heads", "3"))
        self.assertEqual(made(set_attribute("pruning_tolerance", 2.0)), [("/models/mine@pruning_tolerance", "2")])
        self.assertEqual(made(lambda file: file.attrs.__setitem__("foxscope_schema", 9)), [("/@foxscope_schema", "9")])
        self.assertEqual(made(lambda file: file.attrs.__setitem__("content", "eval_loss")),
                         [("/@content", "losses of windows (`foxscope eval loss`)")])
        self.assertEqual(made(lambda file: file.move("models/mine", "models/a b")), [("/models/a b", "another")])

    def test_one_wrong_thing_hides_no_other(self):
        def spoil(model):
            loss = model.require_group("loss")
            loss["per_token_loss"] = numpy.zeros(57, numpy.float32)
            del model["layers/01/key"]

        others = [("/loss/per_token_loss", "float32 [57]"), ("/layers/01/key", "nothing")]

        def put(path, dtype):
            def change(model):
                ids = model[path][...]
                del model[path]
                model[path] = ids.astype(dtype)

            return change

        def filtered(model):
            c = model["layers/00/cumulative_log_gate"][...]
            del model["layers/00/cumulative_log_gate"]
            model.create_dataset("layers/00/cumulative_log_gate", data=c, compression="lzf")

        def mixers(model):
            model.attrs["mixers"] = ["attention", "attention"]

        def attribute(name, value):
            return lambda model: model.attrs.__setitem__(name, value)

        for change, place, there in [
                (put("tokens/id", "<i8"), "/tokens/id", "int64 [60]"),
                (put("tokens/id", ">i4"), "/tokens/id", "big-endian"),
                (lambda model: model.__delitem__("tokens/id"), "/tokens/id", "nothing"),
                (put("tokens/input_id", "<i8"), "/tokens/input_id", "int64 [60]"),
                (attribute("heads", 5), "@heads", "5"), (attribute("heads", "four"), "@heads", "not a whole number"),
                (attribute("key_heads", 3), "@key_heads", "3"), (attribute("head_dim", 9), "@head_dim", "9"),
                (mixers, "@mixers", "layers/00@mixer"), (filtered, "/layers/00/cumulative_log_gate", "filter number 32000")]:
            with self.subTest(place=place, there=there):
                path = odd_run(self, "several", lambda model, change=change: [spoil(model), change(model)])
                findings = [(name.removeprefix("/models/mine"), what) for name, _, what in found(self, path)]
                [first] = [finding for finding in findings if finding not in others]
                self.assertEqual(first[0], place)
                self.assertIn(there, first[1])
                self.assertEqual(sorted(findings), sorted([first, *others]))
                text = self.foxscope("check", path).stdout.decode()
                self.assertIn("mine: 60 tokens, 2 layers\n", text)
                self.assertNotIn("everything", text)

    def test_what_could_not_be_looked_at_is_called_so(self):
        path = odd_run(self, "tokens", lambda model: model.__delitem__("tokens"))
        self.assertEqual(len(found(self, path)), 1)
        text = self.foxscope("check", path).stdout.decode()
        self.assertIn("mine: not looked at, as its sizes are not known\n", text)
        self.assertNotIn("there are no", text)
        hybrid = self.run_fixture("samba", name="hybrid.h5")
        with h5py.File(hybrid, "r+") as file:
            [model] = file["models"].values()
            model["layers/01"].attrs["mixer"] = "unheard-of"
        self.assertEqual(len(found(self, hybrid)), 1)
        self.assertIn("  not looked at, as the mixer is not known: layer 1\n",
                      self.foxscope("check", hybrid).stdout.decode())

    def test_advice_about_parts_of_hdf5_that_are_not_read_helps(self):
        def lay(name, **options):
            def change(file):
                data = file[name][...] if name in file else None
                del file[name]
                file.create_dataset(name, data=data.astype(options.pop("dtype", data.dtype)), **options)

            return change

        def link(file):
            file.move("models/mine/tokens", "elsewhere")
            file["models/mine/tokens"] = h5py.SoftLink("/elsewhere")

        def named(file):
            data = file[c][...]
            file["type"] = data.dtype
            del file[c]
            file.create_dataset(c, data=data, dtype=file["type"])

        def outside(file):
            data = file[c][...]
            data.tofile(self.folder / "c.bin")
            del file[c]
            file.create_dataset(c, data.shape, data.dtype, external=[(str(self.folder / "c.bin"), 0, data.nbytes)])

        c, query = "models/mine/layers/00/cumulative_log_gate", "models/mine/layers/00/query"
        helped = 0
        for name, change in [(c, lay(c, chunks=(4, 60), fletcher32=True)), (c, lay(c, compression="lzf")),
                             (c, lay(c, dtype=">f8")), ("models/mine/tokens/id", lay("models/mine/tokens/id", dtype=">i4")),
                             (query, lay(query, chunks=(1, 60, 8))), ("models/mine/tokens", link), (c, named), (c, outside)]:
            path, whole = write_run(self.folder / "odd.h5"), self.folder / "whole.h5"
            with h5py.File(path, "r+") as file:
                change(file)
            [(place, there)] = [(place, there) for place, _, there in found(self, path) if "`" in there]
            with self.subTest(there):
                self.assertEqual(place, f"/{name}")
                advice = there.split("`")[1]
                if advice.startswith("h5repack"):
                    tool = shutil.which("h5repack")
                    if tool is None:
                        continue
                    words = [{"h5repack": tool, "IN": path, "OUT": whole}.get(word, word) for word in advice.split()]
                    subprocess.run(words, check=True)
                else:
                    shutil.copy(path, whole)
                    with h5py.File(whole, "r+") as file:
                        exec(advice, {"f": file, "name": name})
                self.assertEqual(found(self, whole), [])
                helped += 1
        self.assertGreaterEqual(helped, 5)

    def test_ids_that_no_vocabulary_has_are_notes(self):
        path = write_run(self.folder / "ids.h5", attributes=[("softmax_scale", 8**-0.5), ("config", '{"vocab_size": 99}')])
        self.assertEqual(found(self, path, "note"), [])
        with h5py.File(path, "r+") as file:
            file["models/mine/tokens/id"][20:22] = 99, 2**31 - 1
        self.assertEqual(found(self, path), [])
        expected = "ids of tokens, from 0 to 98"
        self.assertEqual(found(self, path, "note"), [("/models/mine/tokens/id", expected, "99 at [20]")])
        self.done("info", path)

    def test_negative_ids_are_refused_by_all_readers(self):
        path = write_run(self.folder / "ids.h5", attributes=[("softmax_scale", 8**-0.5), ("config", '{"vocab_size": 99}')])
        for name, number in [("input_id", -1), ("id", -5)]:
            with h5py.File(path, "r+") as file:
                file["models/mine/tokens"][name][17] = number
            self.assertEqual(found(self, path), [(f"/models/mine/tokens/{name}", "ids of tokens, from 0 to 98",
                                                  f"{number} at [17]")])
            self.fails(1, ["ids.h5", f"/models/mine/tokens/{name}", f"names token {number} at 17"], "info", path)
            with h5py.File(path, "r+") as file:
                file["models/mine/tokens"][name][17] = 3

    def test_saliency_that_is_no_number_is_a_note(self):
        path = write_run(self.folder / "saliency.h5", attributes=[("softmax_scale", 8**-0.5)])
        with h5py.File(path, "r+") as file:
            gradients = numpy.zeros((2, 4, 60), numpy.float32)
            gradients[1, 2, 33] = numpy.inf
            file["models/mine/gradients/log_forget"] = gradients
        self.assertEqual(found(self, path), [])
        self.assertEqual(found(self, path, "note"), [("/models/mine/gradients/log_forget", "finite numbers",
                                                      "one that is not finite at [1, 2, 33]")])

    def test_links_in_circles_and_elsewhere(self):
        path = write_run(self.folder / "links.h5", layers=3)
        with h5py.File(path, "r+") as file:
            file["models/again"] = file["models/mine"]
            file["models/mine/layers/01/models"] = file["models"]
            del file["models/mine/layers/02"]
            file["models/mine/layers/02"] = file["models/mine/layers/00"]
            file["models/mine/loss"] = h5py.SoftLink("/models/mine/layers/00")
            del file["models/mine/layers/01/query"]
            file["models/mine/layers/01/query"] = h5py.ExternalLink("other.h5", "/query")
        places = [place for place, _, _ in found(self, path)]
        self.assertIn("/models/mine", places)  # the second name of the first
        self.assertIn("/models/again/layers/02", places)
        self.assertIn("/models/again/layers/01/query", places)
        self.assertIn("/models/again/loss", places)

    def test_a_thousand_findings_are_listed_and_the_others_counted(self):
        path = write_run(self.folder / "many.h5")
        with h5py.File(path, "r+") as file:
            for n in range(30):
                file[f"models/mine/other-{n:02}"] = n
            file["models/mine"].attrs["layers"] = 5000
        report = json.loads(self.foxscope("check", path, "--json").stdout)
        self.assertEqual(report["broken"], 3 * 4998)
        self.assertEqual(report["notes"], 20 + 1 + 1)
        self.assertIn("and 13994 more\n", self.foxscope("check", path).stdout.decode())

    def test_numbers_that_are_none_are_notes_where_rows_alone_suffer(self):
        path = write_run(self.folder / "none.h5", attributes=[("softmax_scale", 8**-0.5)])
        with h5py.File(path, "r+") as file:
            file["models/mine/layers/00/query"][3, 30, 7] = numpy.inf
            file["models/mine/layers/01/query"][2, 5, 0] = numpy.nan
            file["models/mine/layers/01/log_normalizer"][2, 5] = numpy.nan
        self.assertEqual(found(self, path), [])
        self.assertCountEqual([(place, there) for place, _, there in found(self, path, "note")],
                         [("/models/mine/layers/00/query", "one that is not finite at [3, 30, 7]"),
                          ("/models/mine/layers/01/query", "one that is not finite at [2, 5, 0]"),
                          ("/models/mine/layers/01/log_normalizer", "one that is not finite at [2, 5]")])

    def test_normalisers_that_are_none_of_rows_that_are_break_the_file(self):
        for rows in [5, slice(None)]:
            path = write_run(self.folder / "row.h5")
            with h5py.File(path, "r+") as file:
                file["models/mine/layers/01/log_normalizer"][2, rows] = numpy.nan
            row = 5 if rows == 5 else 0
            [(place, _, there)] = found(self, path)
            self.assertEqual(place, "/models/mine/layers/01/log_normalizer")
            self.assertEqual(there, f"a sum of nan in row {row} of head 2; rows of 1 of 4 heads do not sum to 1")
            self.fails(1, [f"row {row} of layer 1 head 2", "delete log_normalizer", "--unchecked"], "heads", path)
            with h5py.File(path, "r+") as file:
                for layer in file["models/mine/layers"].values():
                    del layer["log_normalizer"]
            self.assertEqual(found(self, path), [])
            self.done("heads", path)

    def test_each_broken_array_of_rows_is_one_finding(self):
        path = write_run(self.folder / "off.h5", attributes=[("softmax_scale", 8**-0.5)])
        with h5py.File(path, "r+") as file:
            for layer in file["models/mine/layers"].values():
                layer["log_normalizer"][1:] += 3
        self.assertEqual([place for place, _, _ in found(self, path)],
                         [f"/models/mine/layers/0{layer}/log_normalizer" for layer in range(2)])
        for _, _, there in found(self, path):
            self.assertRegex(there, r"a sum of 0\.049787\d* in row 0 of head 1; rows of 3 of 4 heads do not sum to 1")


class RowlessTest(CommandLineTest):
    """A file without row normalisers is completed when it is opened for attention, and on disk by import alone."""

    def setUp(self):
        super().setUp()
        self.whole = self.run_fixture(name="whole.h5")
        self.path = self.run_fixture(name="run.h5", extra=["--keep", "loss,gates,qk"])

    def map_of(self, path, quantity="attention"):
        output = self.folder / "map.npy"
        self.done("map", path, "--layer", 1, "--head", 1, "--quantity", quantity, "-o", output, "--force")
        return numpy.load(output)

    def test_maps_statistics_and_pages_are_those_of_the_whole_run(self):
        numpy.testing.assert_allclose(self.map_of(self.path), self.map_of(self.whole), atol=1e-6)
        left, right = (json.loads(self.done("heads", path, "--json"))["heads"] for path in (self.path, self.whole))
        for a, b in zip(left, right, strict=True):
            self.assertAlmostEqual(a["attention"]["entropy"], b["attention"]["entropy"], places=5)
        self.done("page", self.path, "-o", self.folder / "page.html")
        if DRAWS:
            self.done("figure", "grid", self.path, "-o", self.folder / "grid.svg")
            self.done("open", self.path, "--screenshot", self.folder / "window.png", environment=NO_DISPLAY)

    def test_check_says_that_they_are_computed(self):
        self.assertIn("  row normalisers are computed when it is opened: there are no layers/NN/log_normalizer (all layers)\n",
                      self.done("check", self.path))
        self.assertNotIn("row normalisers", self.done("check", self.whole))

    def test_maps_of_the_gate_alone_do_not_wait_for_them(self):
        said = self.foxscope("map", self.path, "--layer", 1, "--head", 1, "--quantity", "forget", "-v", "-o",
                             self.folder / "forget.npy").stderr.decode()
        self.assertNotIn("row normalisers", said)
        said = self.foxscope("map", self.path, "--layer", 1, "--head", 1, "--quantity", "attention", "-v", "-o",
                             self.folder / "attention.npy").stderr.decode()
        self.assertIn("computing row normalisers", said)

    def test_computing_them_is_interrupted(self):
        path, length = self.folder / "long.h5", 20_000
        random = numpy.random.default_rng(1)
        with h5py.File(path, "w") as file:
            model = file.create_group("models/mine")
            model.attrs["dtype"] = "float32"
            model["tokens/id"] = model["tokens/input_id"] = numpy.zeros(length, numpy.int32)
            for layer in range(3):
                for name in ["query", "key"]:
                    model[f"layers/{layer:02}/{name}"] = random.standard_normal((4, length, 64)).astype(numpy.float32)
                model[f"layers/{layer:02}/cumulative_log_gate"] = numpy.tile(-0.01 * numpy.arange(length), (4, 1))
        commands = [["heads", path], ["page", path, "-o", self.folder / "page.html"],
                    ["map", path, "--head", "0:0", "--quantity", "attention", "-o", self.folder / "map.npy"]]
        if DRAWS:
            commands += [["figure", "grid", path, "-o", self.folder / "grid.svg"],
                         ["figure", "distance", path, "-o", self.folder / "distance.svg"]]
        for command in commands:
            with self.subTest(command[0]):
                process = subprocess.Popen([PROGRAM, *map(str, command), "-v"], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, env={**os.environ, **NO_DISPLAY})
                said = b""
                while b"computing row normalisers" not in said:
                    piece = os.read(process.stderr.fileno(), 4096)
                    self.assertTrue(piece, said)
                    said += piece
                process.send_signal(signal.SIGINT)
                output, _ = process.communicate(timeout=60)
                self.assertEqual((process.returncode, output), (130, b""))
                self.assertEqual([entry.name for entry in self.folder.iterdir() if "long" not in entry.name
                                  and entry not in (self.path, self.whole) and entry.suffix != ".json"], [])

    def test_import_writes_them(self):
        before = self.path.read_bytes()
        output = self.folder / "complete.h5"
        self.assertEqual(self.done("import", self.path, "-o", output),
                         "fox-pro: 64 tokens, 2 layers, 4 heads, row normalisers of 4 computed\n"
                         f"written to {output}\n")
        self.assertEqual(self.path.read_bytes(), before)
        with h5py.File(output) as complete, h5py.File(self.whole) as whole:
            for layer in ["00", "01"]:
                name = f"models/fox-pro/layers/{layer}/log_normalizer"
                numpy.testing.assert_allclose(complete[name], whole[name], atol=1e-5)
        self.fails(2, ["--name", "is a run file"], "import", self.path, "--name", "fox", "-o", self.folder / "n.h5")


class SoundTest(CommandLineTest):
    """What Foxscope writes is never refused."""

    def check(self, path, rows):
        text = self.done("check", path)
        self.assertEqual("sum to 1" in text, rows, text)
        self.assertNotIn("note: ", text)

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
