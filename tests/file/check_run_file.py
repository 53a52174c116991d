"""Reads a run file with h5py and compares it with what the test says it must hold.

usage: check_run_file.py RUN.h5 FOLDER
FOLDER holds expected.json and, for each number array, its raw bytes in a file named like the dataset's path with
dots for slashes.
"""

import json
import pathlib
import sys

import h5py
import numpy as np

problems = []


def expect(condition, what):
    if not condition:
        problems.append(what)


def follow_default(file):
    """The dataset that a NeXus viewer plots when it opens the file."""
    group = file
    while "default" in group.attrs:
        group = group[group.attrs["default"]]
    expect(group.attrs.get("NX_class") == "NXdata", f"{group.name}: the default is no NXdata")
    signal = group[group.attrs["signal"]]
    axes = list(group.attrs["axes"])
    expect(len(axes) == signal.ndim, f"{group.name}: axes {axes} for {signal.shape}")
    for axis, extent in zip(axes, signal.shape):
        expect(group[axis].shape == (extent,), f"{group.name}: axis {axis}")
    expect("interpretation" in signal.attrs, f"{signal.name}: no interpretation")
    return signal


def bfloat16_bits(dataset):
    """h5py reads the 2-byte floating-point type as float32, exactly."""
    return (dataset[...].astype("<f4").view("<u4") >> 16).astype("<u2")


def check_array(file, path, folder, dtype):
    dataset = file[path]
    raw = np.fromfile(folder / path.strip("/").replace("/", "."), dtype="<u2" if dtype == "bfloat16" else dtype)
    if dtype == "bfloat16":
        expect(dataset.id.get_type().get_size() == 2, f"{path}: not 2 bytes")
        expect(dataset.id.get_type().get_fields() == (15, 7, 8, 0, 7), f"{path}: not bfloat16")
        expect(dataset.id.get_type().get_ebias() == 127, f"{path}: not bfloat16")
        found = bfloat16_bits(dataset)
    else:
        expect(dataset.dtype == np.dtype(dtype), f"{path}: {dataset.dtype}, not {dtype}")
        found = dataset[...]
    expect(found.size == raw.size and found.tobytes() == raw.tobytes(), f"{path}: other numbers")


def check_storage(path, dataset):
    last = path.split("/")[-1]
    if last in ("query", "key", "value"):
        expect(dataset.chunks is None and dataset.compression is None, f"{path}: not contiguous")
        expect(dataset.id.get_offset() is not None, f"{path}: no place of its own")
    elif dataset.chunks is not None:
        expect(dataset.compression == "gzip" and dataset.shuffle, f"{path}: filters")
        size = np.prod(dataset.chunks) * dataset.dtype.itemsize
        expect(size <= 128 * 1024, f"{path}: chunks of {size} bytes")
        expect(size > 64 * 1024 or size == dataset.nbytes, f"{path}: chunks of {size} bytes")
    expect(h5py.h5g.get_objinfo(dataset.id).mtime == 0, f"{path}: has a time")


def check_scales(path, dataset):
    names = {
        "id": ["position"], "input_id": ["position"], "byte_start": ["position"], "byte_end": ["position"],
        "string": ["position"], "per_token_loss": ["position"], "cumulative_log_gate": ["head", "position"],
        "log_normalizer": ["head", "position"], "log_normalizer_without_gate": ["head", "position"],
        "query": ["head", "position", "channel"], "key": ["key_head", "position", "channel"],
        "value": ["key_head", "position", "channel"], "log_forget": ["layer", "head", "position"],
        "logits": ["position", "vocabulary"], "cumulative_log_decay": ["key_head", "position", "channel"],
        "beta": ["head", "position"], "sink_logit": ["head"], "expert": ["layer", "position", "choice"],
        "weight": ["layer", "position", "choice"],
    }
    if dataset.parent.attrs.get("mixer", "attention") != "attention":
        names["query"] = ["query_head", "position", "channel"]
        names["value"] = ["value_head", "position", "value_channel"]
    last = path.split("/")[-1]
    expected = ["position", "hidden"] if "/hidden_states/" in path else names.get(last)
    if expected is None:
        return
    for dimension, name in zip(dataset.dims, expected):
        expect(list(dimension.keys()) == [name], f"{path}: scales {list(dimension.keys())}, not {name}")
        if name in dimension.keys():
            scale = dimension[name]
            extent = dataset.shape[expected.index(name)]
            expect(scale[...].tolist() == list(range(extent)), f"{path}: scale {name}")


def check_attributes(target, path, attributes):
    for name, value in attributes.items():
        found = target.attrs.get(name)
        expect(found is not None, f"{path}@{name}: missing")
        expect(type(value) is not str or type(found) is str, f"{path}@{name}: not text")
        if type(value) is list:
            found = list(found)
        expect(found == value, f"{path}@{name}: {found!r}, not {value!r}")


def main():
    folder = pathlib.Path(sys.argv[2])
    expected = json.loads((folder / "expected.json").read_text())
    with h5py.File(sys.argv[1], "r") as file:
        for path, attributes in expected["attributes"].items():
            check_attributes(file[path], path, attributes)
        for path, dtype in expected["arrays"].items():
            check_array(file, path, folder, dtype)
        for path, shape in expected.get("shapes", {}).items():
            expect(file[path].shape == tuple(shape), f"{path}: {file[path].shape}, not {shape}")
        for path, strings in expected["strings"].items():
            dataset = file[path]
            text = h5py.check_string_dtype(dataset.dtype)
            expect(text is not None and text.encoding == "utf-8" and text.length is None, f"{path}: not UTF-8")
            found = dataset.asstr()[()] if dataset.shape == () else dataset.asstr()[...].tolist()
            expect(found == strings, f"{path}: other strings")
        for path in expected["absent"]:
            expect(path not in file, f"{path}: should not be there")
        for left, right in expected["same_object"]:
            expect(file[left] == file[right], f"{left} and {right}: two objects")

        def visit(path, target):
            if isinstance(target, h5py.Dataset):
                if "/axes/" not in path and "/tokens/" not in path and path.startswith("models/"):
                    expect(type(target.attrs.get("long_name")) is str, f"{path}: no long_name")
                check_storage(path, target)
                check_scales(path, target)

        file.visititems(visit)
        if expected["signal"] is not None:
            signal = follow_default(file)
            expect(signal.name == expected["signal"], f"the default is {signal.name}")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
