"""Reads maps with h5py and numpy and compares them with what the test says they must hold.

usage: check_map_file.py h5|npy|csv FILE EXPECTED.json
EXPECTED.json: a list of maps {name, raw (file of float32), rows, cols, query, key, query_names,
key_names, attributes}.
"""

import csv
import json
import sys

import h5py
import numpy as np

problems = []


def expect(condition, what):
    if not condition:
        problems.append(what)


def same(found, raw):
    """Equal bits, where any NaN is as good as another."""
    return found.dtype == np.float32 and found.shape == raw.shape and np.array_equal(found, raw, equal_nan=True)


def expected_image(entry):
    return np.fromfile(entry["raw"], "<f4").reshape(entry["rows"], entry["cols"])


def check_group(group, entry):
    value = group["value"]
    expect(same(value[...], expected_image(entry)), f"{value.name}: other pixels")
    expect(group.attrs["NX_class"] == "NXdata", f"{group.name}: no NXdata")
    expect(group.attrs["signal"] == "value", f"{group.name}: signal")
    expect(list(group.attrs["axes"]) == ["query", "key"], f"{group.name}: axes")
    expect(value.attrs["interpretation"] == "image", f"{value.name}: interpretation")
    for dimension, axis in enumerate(("query", "key")):
        expect(group[axis][...].tolist() == entry[axis], f"{group[axis].name}: other positions")
        expect(list(value.dims[dimension].keys()) == [axis], f"{value.name}: scale of axis {dimension}")
    expect(value.compression == "gzip" and value.shuffle, f"{value.name}: filters")
    expect(np.prod(value.chunks) * 4 <= 128 * 1024, f"{value.name}: chunks {value.chunks}")
    for name, wanted in entry["attributes"].items():
        found = group.attrs.get(name)
        found = found.tolist() if isinstance(found, (np.ndarray, np.generic)) else found
        expect(found == wanted, f"{group.name}@{name}: {found!r}, not {wanted!r}")
    expect(("minus" in group.attrs) == ("minus" in entry["attributes"]), f"{group.name}@minus")


def check_h5(path, entries):
    with h5py.File(path) as file:
        expect(file.attrs["foxscope_schema"] == 1 and file.attrs["NX_class"] == "NXroot", "root attributes")
        expect(set(file["maps"]) == {entry["name"] for entry in entries}, f"maps {list(file['maps'])}")
        for entry in entries:
            check_group(file["maps"][entry["name"]], entry)
        group = file
        while "default" in group.attrs:
            group = group[group.attrs["default"]]
        expect(group.name == "/maps/" + entries[0]["name"], f"the default is {group.name}")


def check_npy(path, entries):
    expect(same(np.load(path), expected_image(entries[0])), "other pixels")


def check_csv(path, entries):
    with open(path, newline="", encoding="utf-8") as stream:
        table = list(csv.reader(stream, strict=True))
    expect(table[0] == ["query", *entries[0]["key_names"]], "other keys")
    expect([row[0] for row in table[1:]] == entries[0]["query_names"], "other queries")
    for names in (table[0], [row[0] for row in table]):
        expect(len(set(names)) == len(names), "a name is there twice")
    value = np.array([[float(cell) for cell in row[1:]] for row in table[1:]]).astype(np.float32)
    expect(same(value, expected_image(entries[0])), "other pixels")


with open(sys.argv[3], encoding="utf-8") as stream:
    expected = json.load(stream)
{"h5": check_h5, "npy": check_npy, "csv": check_csv}[sys.argv[1]](sys.argv[2], expected)
for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
