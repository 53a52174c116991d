"""Token arrays by other people's writers: `arrays_peer.py FOLDER`.

Writes .npy files by numpy, .safetensors files by safetensors, zarr arrays of format 2 by zarr and numcodecs, and
cases.json, a list of {path, length, rows, columns}; beside each PATH its rows in PATH.rows, [N, L] int32. Exit status 77:
a package is missing.
"""
import json
import pathlib
import sys

try:
    import numcodecs
    import numpy
    import safetensors.numpy
    import zarr
except ImportError:
    sys.exit(77)

FOLDER = pathlib.Path(sys.argv[1])
VOCABULARY = 30_000
random = numpy.random.default_rng(5)
cases = []


def add(name, array, lengths):
    for length in lengths:
        if array.ndim == 1:
            rows = array[:len(array) // length * length].reshape(-1, length)
            columns = 1
        else:
            columns = array.shape[1] // length
            # Row d K + k is column k of document d.
            rows = numpy.stack([array[d, k * length:(k + 1) * length]
                                for d in range(array.shape[0]) for k in range(columns)])
        cases.append({"path": name, "length": length, "rows": len(rows), "columns": columns})
        rows.astype("<i4").tofile(FOLDER / f"{name}.{length}.rows")


def tokens(shape, dtype):
    return random.integers(0, VOCABULARY, shape).astype(dtype)


for dtype in ["<i2", "<u2", "<i4", "<i8"]:
    stream, documents = tokens(1003, dtype), tokens((9, 60), dtype)
    numpy.save(FOLDER / f"stream{dtype[1:]}.npy", stream)
    add(f"stream{dtype[1:]}.npy", stream, [1, 10, 1003])
    numpy.save(FOLDER / f"documents{dtype[1:]}.npy", documents)
    add(f"documents{dtype[1:]}.npy", documents, [60, 30, 12])

for dtype in ["<i4", "<i8"]:
    documents = tokens((9, 60), dtype)
    name = f"documents{dtype[1:]}.safetensors"
    # A tensor of odd size that comes before makes the ids begin at an odd byte.
    safetensors.numpy.save_file({"a": numpy.zeros(3, "u1"), "ids": documents, "x": tokens(7, "<f4")}, FOLDER / name)
    add(name, documents, [60, 20])

compressors = {"none": None, "zstd": numcodecs.Zstd(level=3), "zstd-sum": numcodecs.Zstd(level=1, checksum=True)}
for codec in ["lz4", "lz4hc", "zstd", "zlib", "blosclz"]:
    for shuffle in [numcodecs.Blosc.NOSHUFFLE, numcodecs.Blosc.SHUFFLE, numcodecs.Blosc.BITSHUFFLE]:
        compressors[f"{codec}{shuffle}"] = numcodecs.Blosc(codec, clevel=5, shuffle=shuffle)
for name, compressor in compressors.items():
    for dtype in ["<i2", "<u2", "<i4", "<i8"]:
        # Chunks that fit neither the documents nor the rows; every token is like the one before, so that they compress.
        documents = (tokens((11, 60), dtype) // 1000 + numpy.arange(60, dtype=dtype)).astype(dtype)
        store = f"{name}-{dtype[1:]}.zarr"
        zarr.array(documents, store=zarr.DirectoryStore(str(FOLDER / store)), chunks=(4, 17), compressor=compressor)
        add(store, documents, [60, 20, 1] if dtype == "<u2" else [30])

# One axis, nested keys, chunks as large as the array and larger, and chunks that were never written.
stream = tokens(1003, "<u2")
zarr.array(stream, store=zarr.DirectoryStore(str(FOLDER / "stream.zarr")), chunks=100)
add("stream.zarr", stream, [1, 64, 1003])
documents = tokens((5, 12), "<i4")
zarr.array(documents, store=zarr.DirectoryStore(str(FOLDER / "nested.zarr"), dimension_separator="/"), chunks=(2, 5))
assert (FOLDER / "nested.zarr" / "1" / "2").exists()
add("nested.zarr", documents, [6])
zarr.array(documents, store=zarr.DirectoryStore(str(FOLDER / "whole.zarr")), chunks=(5, 12))
add("whole.zarr", documents, [4])
zarr.array(documents, store=zarr.DirectoryStore(str(FOLDER / "larger.zarr")), chunks=(64, 64))
add("larger.zarr", documents, [4])
holes = zarr.open_array(zarr.DirectoryStore(str(FOLDER / "holes.zarr")), mode="w", shape=(6, 12), chunks=(2, 4),
                        dtype="<u2", fill_value=7)
holes[2:4, :] = tokens((2, 12), "<u2")
holes[5, 11] = 9
assert not (FOLDER / "holes.zarr" / "0.0").exists()
add("holes.zarr", holes[:], [4, 3])

(FOLDER / "cases.json").write_text(json.dumps(cases))
