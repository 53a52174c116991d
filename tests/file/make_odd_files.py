"""Makes run files that are not as they should be out of a good one, with h5py.

usage: make_odd_files.py GOOD.h5 FOLDER
Writes FOLDER/cases.json: a list of {"file", "parts"}; parts are what the error must say, or null where the file must
open all the same. GOOD.h5 holds the models `fox` (2 layers, 4 heads, 2 key heads of 8, float32) and `other`.
"""

import json
import pathlib
import shutil
import sys

import h5py
import numpy as np

good, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(exist_ok=True)
cases = []


def case(name, change, *parts):
    path = folder / f"{name}.h5"
    shutil.copy(good, path)
    with h5py.File(path, "r+") as file:
        change(file)
    cases.append({"file": str(path), "parts": list(parts) or None})


def replace(path, **options):
    """Changes a dataset: other data, or another way of storing the same."""

    def change(file):
        old = file[path]
        options.setdefault("data", old[...] if "shape" not in options else None)
        del file[path]
        file.create_dataset(path, **options)

    return change


def attribute(path, name, value):
    return lambda file: file[path].attrs.__setitem__(name, value)


def without_attributes(path, *names):
    def change(file):
        for name in names:
            del file[path].attrs[name]

    return change


def remove(*paths):
    def change(file):
        for path in paths:
            del file[path]

    return change


def link(path, target):
    def change(file):
        if path in file:
            del file[path]
        file[path] = target(file) if callable(target) else target

    return change


def write(path, data, names):
    """Adds a dataset for each name, in the place of {} in the path."""

    def change(file):
        for name in names:
            file.create_dataset(path.format(name), data=data)

    return change


fox = "models/fox"
length, window = 37, "window_size"
c = f"{fox}/layers/00/cumulative_log_gate"
q = f"{fox}/layers/01/query"

case("schema-newer", attribute("/", "foxscope_schema", 4), "newer Foxscope", "schema 4", "update Foxscope")
case("cap-negative", attribute(fox, "logit_cap", -1.0), "models/fox@logit_cap", "is -1, not 0 or above")
case("cap-infinite", attribute(fox, "logit_cap", float("inf")), "models/fox@logit_cap", "is inf")
case("window-of-a-layer", attribute(f"{fox}/layers/01", "window_size", -1), "layers/01@window_size", "is -1, not from 0 to")
case("schema-missing", without_attributes("/", "foxscope_schema"))
case("nothing-known", lambda file: (without_attributes("/", "foxscope_schema")(file), remove("models")(file)),
     "is not a run file")
case("schema-text", attribute("/", "foxscope_schema", "one"), "/@foxscope_schema", "not a whole number")
case("schema-zero", attribute("/", "foxscope_schema", 0), "/@foxscope_schema", "is 0")
case("schema-list", attribute("/", "foxscope_schema", [1, 1]), "/@foxscope_schema", "not a whole number")
case("no-models", remove("models"), "nothing but no runs")
case("only-maps", lambda file: (remove("models")(file), file.create_group("maps")), "holds maps but no runs")
case("empty-models", remove(fox, "models/other"), "/models", "is empty")
case("model-name", lambda file: file.move(fox, "models/a b"), "/models/a b", "not a name")
case("model-no-tokens", remove(f"{fox}/tokens"), "/models/fox/tokens", "is missing")
case("model-is-root", link("models/loop", lambda file: file["/"]), "/models/loop/tokens", "is missing")
case("model-is-dataset", link("models/loop", lambda file: file[c]), "/models/loop/tokens", "is missing")

ids = f"{fox}/tokens/id"
case("id-missing", remove(ids), "/models/fox/tokens/id", "is missing")
case("id-long", replace(ids, dtype="<i8"), "tokens/id", "expected int32 [37], found int64 [37]")
case("id-unsigned", replace(ids, dtype="<u4"), "tokens/id", "found uint32")
case("id-float", replace(ids, dtype="<f4"), "tokens/id", "found float32")
case("id-big-endian", replace(ids, dtype=">i4"), "tokens/id", "big-endian", "newbyteorder")
case("id-empty", replace(ids, data=np.zeros(0, "<i4")), "tokens/id", "holds no tokens")
case("id-scalar", replace(ids, data=np.int32(1)), "tokens/id", "holds no tokens")
case("id-table", replace(ids, data=np.zeros((37, 1), "<i4")), "tokens/id", "holds no tokens")
case("id-null", replace(ids, data=h5py.Empty("<i4")), "tokens/id", "holds no values")
case("id-huge", replace(ids, shape=(2**60,), dtype="<i4", chunks=(1024,)), "tokens/id", "entries in a file of")
case("id-huge-contiguous", replace(ids, shape=(2**60,), dtype="<i4"), "tokens/id", "entries in a file of")
case("id-huge-chunk", replace(ids, shape=(2**40,), dtype="<i4", chunks=(2**29,)), "tokens/id", "entries in a file of")
case("id-group", lambda file: (remove(ids)(file), file.create_group(ids)), "tokens/id", "is not a dataset")
case("input-id-short", replace(f"{fox}/tokens/input_id", data=np.zeros(36, "<i4")), "expected int32 [37], found int32 [36]")
case("byte-end-missing", remove(f"{fox}/tokens/byte_end"), "tokens/byte_end", "is missing")
case("byte-outside", replace(f"{fox}/tokens/byte_end", data=np.full(length, 10**6, "<i8")), "token 0 lies outside")
case("byte-negative", replace(f"{fox}/tokens/byte_start", data=np.full(length, -1, "<i8")), "token 0 lies outside")
case("bytes-without-text", remove("text"), "byte_start", "without a text")
case("strings-few", replace(f"{fox}/tokens/string", data=["a"] * 5, dtype=h5py.string_dtype()), "one string for each")
case("strings-fixed", replace(f"{fox}/tokens/string", data=np.array([b"a"] * length)), "tokens/string", "variable length")
case("strings-numbers", replace(f"{fox}/tokens/string", data=np.zeros(length)), "tokens/string", "variable length")
case("strings-not-utf8", replace(f"{fox}/tokens/string", data=[b"\xff"] * length, dtype=h5py.string_dtype()),
     "tokens/string", "not UTF-8")
case("text-list", replace("text/content", data=["a", "b"], dtype=h5py.string_dtype()), "/text/content", "not one string")


def change_text(file):
    file["text/content"][()] = file["text/content"].asstr()[()] + "."


case("text-sha", change_text, "/text/content", "SHA-256")

case("loss-short", replace(f"{fox}/loss/per_token_loss", data=np.zeros(3, "<f4")), "per_token_loss", "found float32 [3]")
case("loss-missing", remove(f"{fox}/loss/per_token_loss"), "per_token_loss", "is missing")
case("c-float32", replace(c, dtype="<f4"), "cumulative_log_gate", "expected float64 [4, 37], found float32 [4, 37]")
case("c-shape", replace(c, data=np.zeros((37, 4))), "expected float64 [4, 37], found float64 [37, 4]")
case("c-nan", replace(c, data=np.full((4, length), np.nan)), "cumulative_log_gate", "not finite")
case("c-half-written", replace(c, shape=(4, length), dtype="<f8", chunks=(1, 5)), "of the attention sums to", "--unchecked")
case("c-lzf", replace(c, compression="lzf"), "cumulative_log_gate", "filter number 32000", "newbyteorder")
case("c-fletcher", replace(c, chunks=(4, 37), fletcher32=True), "cumulative_log_gate", "filter number 3", "h5repack -f NONE IN OUT")
mean = "00/cumulative_log_gate@mean_log_gate"
case("mean-absent", without_attributes(c, "mean_log_gate"))
case("mean-other", attribute(c, "mean_log_gate", np.zeros(4)), mean, "is 0 of head 0", "its gates come to -", "--unchecked")
case("mean-nan", attribute(c, "mean_log_gate", np.full(4, np.nan)), mean, "is nan of head 0")
case("mean-few", attribute(c, "mean_log_gate", np.zeros(3)), mean, "has not one number for each head")
case("mean-text", attribute(c, "mean_log_gate", "small"), mean, "is not a list of float64 numbers")
case("q-missing", remove(q), "/models/fox/layers/01", "lacks some of its queries and keys")
case("qk-missing-once", remove(q, f"{fox}/layers/01/key"), "/models/fox/layers/01", "lacks some of its queries and keys")
case("q-double", replace(q, dtype="<f8"), "expected float32 [4, 37, 8], found float64 [4, 37, 8]")
case("q-half", replace(q, dtype="<f2"), "expected float32 [4, 37, 8], found float16")
case("q-shape", replace(q, data=np.zeros((4, 37, 9), "<f4")), "expected float32 [4, 37, 8]")
case("q-chunked", replace(q, chunks=(1, 37, 8)), "01/query", "in chunks", "h5repack -f NONE -l CONTI")
case("value", write(f"{fox}/layers/{{}}/value", np.zeros((2, 37, 8), "<f4"), ["00", "01"]))
case("value-missing-once", write(f"{fox}/layers/{{}}/value", np.zeros((2, 37, 8), "<f4"), ["00"]),
     "/models/fox/layers/01", "lacks some of its values")
case("value-shape", write(f"{fox}/layers/{{}}/value", np.zeros((4, 37, 8), "<f4"), ["00", "01"]),
     "00/value", "expected float32 [2, 37, 8], found float32 [4, 37, 8]")
case("gradient", write(f"{fox}/gradients/{{}}", np.zeros((2, 4, 37), "<f4"), ["log_forget"]))
case("gradient-shape", write(f"{fox}/gradients/{{}}", np.zeros((4, 2, 37), "<f4"), ["log_forget"]),
     "gradients/log_forget", "expected float32 [2, 4, 37], found float32 [4, 2, 37]")
case("gradient-double", write(f"{fox}/gradients/{{}}", np.zeros((2, 4, 37)), ["log_forget"]),
     "expected float32 [2, 4, 37], found float64 [2, 4, 37]")
case("gradient-missing", write(f"{fox}/gradients/{{}}", np.zeros((2, 4, 37), "<f4"), ["other"]),
     "gradients/log_forget", "is missing")
case("q-external", replace(q, shape=(4, length, 8), dtype="<f4", external=[(str(good), 0, 4 * length * 8 * 4)]),
     "01/query", "data in other files")


def virtual(file):
    layout = h5py.VirtualLayout(shape=(4, length, 8), dtype="<f4")
    layout[...] = h5py.VirtualSource(str(good), q, shape=(4, length, 8))
    del file[q]
    file.create_virtual_dataset(q, layout)


case("q-virtual", virtual, "01/query", "data put together from other datasets")
case("layer-missing", remove(f"{fox}/layers/01"), "/models/fox/layers/01", "is missing")
case("soft-link", link(f"{fox}/tokens", h5py.SoftLink("/models/other/tokens")), "/models/fox/tokens", "a link by name")
case("external-link", link(f"{fox}/layers", h5py.ExternalLink(str(good), f"/{fox}/layers")), "fox/layers",
     "a link by name, perhaps into another file, which is not followed", "f.copy(x, name)")
case("named-type", lambda file: (file.__setitem__("type", np.dtype("<i4")), replace(ids, dtype=file["type"])(file)),
     "tokens/id", "shared between objects", "newbyteorder")

case("dtype-other", attribute(fox, "dtype", "float16"), "/models/fox@dtype", "neither float32 nor bfloat16")
case("dtype-missing", without_attributes(fox, "dtype"), "/models/fox@dtype", "neither")
case("dtype-number", attribute(fox, "dtype", 4), "/models/fox@dtype", "not a string")
case("dtype-mismatch", attribute(fox, "dtype", "bfloat16"), "expected bfloat16 [4, 37, 8], found float32 [4, 37, 8]")
case("window-negative", attribute(fox, window, -1), "/models/fox@window_size", "is -1")
case("order-negative", attribute(fox, "order", -1), "/models/fox@order", "is -1")
case("window-unsigned", attribute(fox, window, np.uint64(2**64 - 1)), "/models/fox@window_size", "too large")
case("scale-nan", attribute(fox, "softmax_scale", float("nan")), "softmax_scale", "no such number")
case("scale-text", attribute(fox, "softmax_scale", "x"), "softmax_scale", "not a number")
case("scale-negative", attribute(fox, "softmax_scale", -1.0), "softmax_scale", "no such number")
case("scale-missing", without_attributes(fox, "softmax_scale"))
case("layers-many", attribute(fox, "layers", 10**9), "/models/fox@layers", "is 1000000000")
case("layers-more", attribute(fox, "layers", 3), "/models/fox/layers/02", "is missing")
case("heads-many", attribute(fox, "heads", 2**40), "/models/fox@heads")
case("heads-more", attribute(fox, "heads", 8), "expected float64 [8, 37], found float64 [4, 37]")
case("heads-uneven", attribute(fox, "key_heads", 3), "4 heads cannot share 3 key heads")
case("head-dim-zero", attribute(fox, "head_dim", 0), "expected float32 [4, 37, 0]")
case("config-broken", attribute(fox, "config", "{"), "/models/fox@config", "not JSON")
case("device-not-utf8", attribute(fox, "device", np.bytes_(b"\xff\xfe")), "/models/fox@device", "not UTF-8")
case("config-list", attribute(fox, "config", ["a", "b"]), "/models/fox@config", "not a string")

# What must open all the same.
sizes = ("layers", "heads", "key_heads", "head_dim", "gated", "attention_kernel")
case("as-the-interface-says", without_attributes(fox, *sizes))
case("fixed-strings", attribute(fox, "device", np.bytes_(b"cuda:0")))
case("short-integers", attribute(fox, window, np.int16(37)))
case("float32-attribute", attribute(fox, "softmax_scale", np.float32(8**-0.5)))
case("unfiltered", replace(c, chunks=(3, 7)))
case("only-gzip", replace(c, chunks=(3, 7), compression=9))
case("contiguous", replace(c))
case("more-attributes", lambda file: [attribute(fox, f"note{n}", n)(file) for n in range(40)])
case("more-groups", lambda file: [file.create_group(f"notes/{n}") for n in range(100)])


def only_losses(file):
    remove(f"{fox}/layers")(file)
    without_attributes(fox, "layers")(file)


case("no-layers", only_losses)
case("no-layers-gradient", lambda file: (only_losses(file), without_attributes(fox, "heads")(file),
                                         write(f"{fox}/gradients/{{}}", np.zeros((3, 6, 37), "<f4"), ["log_forget"])(file)))
case("no-layers-states", lambda file: (only_losses(file),
                                       write(f"{fox}/hidden_states/{{}}", np.zeros((37, 6), "<f4"), ["00", "01"])(file)))

# What contradicts itself, and what only looks like it.
lse = f"{fox}/layers/01/log_normalizer"
rows = "of layer 1 head 0 of the attention sums to"


def number(path, function):
    def change(file):
        values = file[path][...]
        function(values)
        file[path][...] = values

    return change


def wrong_sign(c):
    c *= -1


def rise(c):
    c[2, 20:] += 5


def rounding(c):
    c[2, 20] = c[2, 19] * (1 - 4 * 2**-52)
    c[2, 21:] = np.minimum(c[2, 21:], c[2, 20])


def float32_blocks(c):
    """c as a kernel sums it in float32: within blocks of 8, and the blocks' sums, whose terms it adds in another order."""
    log_f = -np.random.default_rng(5).uniform(0, 1, c.shape).astype(np.float32)
    log_f[:, ::8] = -1e-9
    total = np.zeros((len(c), 1), np.float32)
    for begin in range(0, c.shape[1], 8):
        block = log_f[:, begin:begin + 8]
        c[:, begin:begin + 8] = total + np.cumsum(block, axis=1)
        total = total + np.cumsum(block[:, ::-1], axis=1)[:, -1:]
    assert np.any(np.diff(c) >= 2**-24 * np.abs(c[:, 1:])), "no sum rises by a unit in float32's last place"


case("c-wrong-sign", number(c, wrong_sign), "00/cumulative_log_gate", "rises", "at position 0 of head 0", "and none is",
     "--unchecked")
case("c-rises", number(c, rise), "00/cumulative_log_gate", "at position 20 of head 2", "a gate is above 1")
case("c-other", number(f"{fox}/layers/01/cumulative_log_gate", lambda c: c.__imul__(2)), "row 12", rows,
     "log_normalizer, softmax_scale, query and key, cumulative_log_gate do not belong together", "--unchecked")
case("c-rounding", lambda file: (number(c, rounding)(file), remove(q.replace("01", "00"), f"{fox}/layers/00/key", q,
                                                                   f"{fox}/layers/01/key")(file)))
case("c-float32-blocks", lambda file: (number(c, float32_blocks)(file), without_attributes(c, "mean_log_gate")(file), remove(
    q.replace("01", "00"), f"{fox}/layers/00/key", q, f"{fox}/layers/01/key")(file)))
case("lse-off", number(lse, lambda lse: lse.__iadd__(3)), "/models/fox: row 0", rows, "0.0497", "not to 1",
     "log_normalizer, softmax_scale, query and key do not belong together")
case("lse-one-head", number(lse, lambda lse: lse[3].__isub__(0.01)), "row 0 of layer 1 head 3", "1.01005")
case("scale-one", attribute(fox, "softmax_scale", 1.0), "row 0 of layer 0 head 0", "softmax_scale")
case("window-other", attribute(fox, window, 7), "row 12 of layer 0 head 0")
case("key-other", number(f"{fox}/layers/01/key", lambda key: key[1].__imul__(1.01)), "layer 1 head 2", "query and key")
case("lse-nan", number(lse, lambda lse: lse.fill(np.nan)), "row 0 of layer 1 head 0", "no number for a normaliser in log_normalizer",
     "delete log_normalizer", "--unchecked")
case("lse-nan-of-a-query", lambda file: (number(lse, lambda lse: lse[2].__setitem__(9, np.nan))(file),
                                         number(q, lambda q: q[2, 9].__setitem__(3, np.nan))(file)))


def compact(file):
    data = file[ids][...]
    del file[ids]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(data.shape)
    dataset = h5py.h5d.create(file[f"{fox}/tokens"].id, b"id", h5py.h5t.STD_I32LE, space, plist)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


case("compact", compact)


def copied(name, **options):
    path = folder / f"{name}.h5"
    with h5py.File(good) as source, h5py.File(path, "w", **options) as target:
        for key, value in source.attrs.items():
            target.attrs[key] = value
        for key in source:
            source.copy(key, target)
    cases.append({"file": str(path), "parts": None, "same": True})


def remade(name, notes, **options):
    """The same again, object by object, as a script of someone else's would write it."""
    path = folder / f"{name}.h5"
    with h5py.File(good) as source, h5py.File(path, "w", **options) as target:

        def remake(old, new):
            for key, value in old.attrs.items():
                if key not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"):
                    new.attrs[key] = value
            if old.name == f"/{fox}":
                for note in range(notes):
                    new.attrs[f"note{note}"] = note
                    new.create_group(f"note{note}")
            if isinstance(old, h5py.Dataset):
                return
            for key, child in old.items():
                if isinstance(child, h5py.Group):
                    remake(child, new.create_group(key))
                elif child.id.get_type().get_size() == 2:  # bfloat16, which h5py would make float32
                    source.copy(child, new, key)
                else:
                    compression = None if child.chunks is None else "gzip"
                    remake(child, new.create_dataset(key, data=child[()], dtype=child.dtype, compression=compression))

        remake(source, target)
    cases.append({"file": str(path), "parts": None, "same": True})


remade("remade-earliest", 0, libver=("earliest", "v110"))
for number in (0, 12, 60, 700):
    remade(f"remade-v108-{number}", number, libver=("v108", "v110"))
copied("copied-earliest", libver=("earliest", "v108"))
copied("copied-v108", libver=("v108", "v108"))
copied("copied-latest", libver="latest")

(folder / "cases.json").write_text(json.dumps(cases))
