"""Makes run files whose mixers are not as they should be out of a good one, with h5py.

usage: make_odd_mixers.py GOOD.h5 FOLDER
Writes FOLDER/cases.json: a list of {"file", "parts"}; parts are what the error must say. GOOD.h5 holds the model
`hybrid`, with a layer of Mamba-2, softmax attention, gated linear attention, twice the delta rule, Mamba, and the
delta rule with a decay by channel.
"""

import json
import pathlib
import shutil
import sys

import h5py
import numpy as np

good, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(exist_ok=True)
layers = "models/hybrid/layers"
cases = []


def case(name, change, *parts):
    path = folder / f"{name}.h5"
    shutil.copy(good, path)
    with h5py.File(path, "r+") as file:
        change(file)
    cases.append({"file": str(path), "parts": list(parts)})


def attribute(layer, name, value):
    return lambda file: file[f"{layers}/{layer}"].attrs.__setitem__(name, value)


def number(path, index, value):
    def change(file):
        file[f"{layers}/{path}"][index] = value

    return change


def shape(path, *extents):
    def change(file):
        kind = file[f"{layers}/{path}"].dtype
        del file[f"{layers}/{path}"]
        file[f"{layers}/{path}"] = np.zeros(extents, kind)

    return change


def without(path):
    def change(file):
        del file[f"{layers}/{path}"]

    return change


case("mixer", attribute("00", "mixer", "rwkv"), "/models/hybrid/layers/00@mixer", "'rwkv'", "not known")
case("no-mixer", lambda file: file[f"{layers}/03"].attrs.__delitem__("mixer"), "layers/03@mixer", "''")
case("decay", attribute("02", "decay", "pixel"), "layers/02@decay", "'pixel'", "not known")
case("decay-of-mixer", attribute("00", "decay", "channel"), "layers/00", "mamba2 cannot have a decay by channel")
case("decay-of-gla", attribute("02", "decay", "rates"), "layers/02", "gated_linear_attention cannot have a decay by rates")
case("heads", attribute("00", "heads", 5), "layers/00", "5 heads cannot share 4 value heads")
case("no-heads", attribute("01", "heads", 0), "layers/01@heads", "is 0")
case("many-heads", attribute("01", "heads", 1 << 20), "layers/01@heads", "is 1048576")
case("key-heads", attribute("03", "key_heads", 3), "layers/03", "4 heads cannot share 3 key heads")
case("channels", attribute("00", "head_dim", 9), "layers/00/query")
case("value-channels", attribute("00", "value_dim", 7), "layers/00/value")
case("no-value-dim", lambda file: file[f"{layers}/00"].attrs.__delitem__("value_dim"), "layers/00@value_dim", "is 0")
case("layer", lambda file: file.__delitem__(f"{layers}/02"), "layers/02", "is missing")
case("decay-shape", shape("02/cumulative_log_decay", 2, 37, 4), "layers/02/cumulative_log_decay")
case("decay-rises", number("02/cumulative_log_decay", (1, 20, 3), 0.0), "layers/02/cumulative_log_decay", "rises")
case("decay-positive", number("02/cumulative_log_decay", (0, 0, 0), 0.5), "layers/02/cumulative_log_decay", "rises")
case("decay-nan", number("02/cumulative_log_decay", (0, 9, 0), np.nan), "layers/02/cumulative_log_decay", "not finite")
case("beta-shape", shape("03/beta", 2, 37), "layers/03/beta")
case("beta-nan", number("03/beta", (2, 9), np.nan), "layers/03/beta", "not finite")
case("rates-shape", shape("05/decay_rate", 10, 2), "layers/05/decay_rate")
case("rates-nan", number("05/decay_rate", (3, 1), np.nan), "layers/05/decay_rate", "negative or not finite")
case("rates-negative", number("05/decay_rate", (9, 2), -0.5), "layers/05/decay_rate", "negative or not finite")
case("decay-of-mamba", attribute("05", "decay", "channel"), "layers/05", "mamba cannot have a decay by channel")
case("rates-of-mamba2", attribute("00", "decay", "rates"), "layers/00", "mamba2 cannot have a decay by rates")
case("rates-of-delta", attribute("03", "decay", "rates"), "layers/03", "delta_rule cannot have a decay by rates")
case("delta-decay-rises", number("06/cumulative_log_decay", (1, 20, 5), 0.0), "layers/06/cumulative_log_decay", "rises")
case("erase-shape", shape("07/erase_read", 2, 37, 5), "layers/07/erase_read")
case("erase-nan", number("07/erase_write", (1, 9, 2), np.nan), "layers/07/erase_write", "not finite")
case("decay-of-low-rank", attribute("07", "decay", "rates"), "layers/07", "diagonal_plus_low_rank cannot have a decay by rates")
for part in ("query", "key"):
    for layer in ("03", "07"):
        case(f"{part}-{layer}-nan", number(f"{layer}/{part}", (1, 9, 0), np.nan), f"layers/{layer}/{part}", "not finite")
case("key-infinite", number("02/key", (0, 36, 4), -np.inf), "layers/02/key", "not finite")
case("schema", lambda file: file.attrs.__setitem__("foxscope_schema", 1), "layers/00@mixer", "is mamba2, which files of "
     "schema 2 have, and @foxscope_schema is 1")
case("no-schema", lambda file: file.attrs.__delitem__("foxscope_schema"), "@mixer", "@foxscope_schema is 1")
case("no-key", without("04/key"), "layers/04", "lacks some of its queries and keys")
# These open, and what is made of the missing array says so.
for layer, array in (("03", "beta"), ("07", "erase_read"), ("07", "erase_write"), ("05", "decay_rate")):
    case(f"no-{array}", without(f"{layer}/{array}"))
(folder / "cases.json").write_text(json.dumps(cases))
