"""Makes small files out of a good run file that would take all memory or hours, if what they say were believed.

usage: make_hostile_files.py GOOD.h5 FOLDER
GOOD.h5 holds one model `fox` in the older form of HDF5. Writes FOLDER/cases.json: a list of {"file", "parts"}; parts
are what the error must say.
"""

import functools
import json
import pathlib
import shutil
import struct
import sys
import zlib

import h5py
import numpy as np

good, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(exist_ok=True)
fox = "models/fox"
most = 65535
cases = []


def case(name, change, *parts):
    path = folder / f"{name}.h5"
    shutil.copy(good, path)
    change(path)
    cases.append({"file": str(path), "parts": list(parts)})


def with_h5py(change):
    def change_path(path):
        with h5py.File(path, "r+") as file:
            change(file)

    return change_path


def append(content, block):
    """Adds a block at a file's end and its length to the superblock. @returns its address"""
    address = len(content)
    content += block
    content[40:48] = struct.pack("<Q", len(content))
    return address


def tree(kind, level, entries, keys_last=b""):
    return b"TREE" + struct.pack("<BBHqq", kind, level, len(entries), -1, -1) + b"".join(entries) + keys_last


def chunks_at_one_leaf(path):
    """65,535 times a leaf that lists 65,535 chunks."""
    with h5py.File(path, "r+") as file:
        del file[f"{fox}/tokens/id"]
        ids = file.create_dataset(f"{fox}/tokens/id", (most * most,), "<i4", chunks=(1,))
        ids[0] = 1
    content = bytearray(path.read_bytes())
    # Layout: version 3, chunks, 2 axes, address, 1 number in a chunk, 4 bytes in a number.
    at = next(n for n in range(len(content) - 19)
              if content[n:n + 3] == b"\x03\x02\x02" and content[n + 11:n + 19] == struct.pack("<II", 1, 4))
    leaf = append(content, tree(1, 0, [struct.pack("<IIQQQ", 4, 0, n, 0, 96) for n in range(most)], bytes(24)))
    root = append(content, tree(1, 1, [struct.pack("<IIQQQ", 4, 0, n, 0, leaf) for n in range(most)], bytes(24)))
    content[at + 3:at + 11] = struct.pack("<Q", root)
    path.write_bytes(content)


def links_at_one_leaf(path):
    """65,535 times a table of 65,535 links."""
    with h5py.File(path, "r") as file:
        header = h5py.h5o.get_info(file["models"].id).addr
    content = bytearray(path.read_bytes())
    at = content.index(struct.pack("<HH", 0x11, 16), header) + 8  # message of a symbol table
    symbol = struct.pack("<QQIIQQ", 0, 96, 0, 0, 0, 0)
    leaf = append(content, b"SNOD" + struct.pack("<BBH", 1, 0, most) + symbol * most)
    root = append(content, tree(0, 0, [struct.pack("<QQ", 0, leaf)] * most, bytes(8)))
    content[at:at + 8] = struct.pack("<Q", root)
    path.write_bytes(content)


def header_at_itself(path):
    """A header whose last message continues with the header again."""
    with h5py.File(path, "r") as file:
        header = h5py.h5o.get_info(file["models"].id).addr
    content = bytearray(path.read_bytes())
    size = struct.unpack("<I", content[header + 8:header + 12])[0]
    message = struct.pack("<HHI", 0x10, 16, 0) + struct.pack("<QQ", header + 16, size)
    content[header + 16:header + 16 + len(message)] = message
    path.write_bytes(content)


def heads_without_data(file):
    del file[f"{fox}/layers"]
    file[fox].attrs["layers"], file[fox].attrs["heads"] = 10_000, 65_536
    file[fox].attrs["key_heads"] = 1


@functools.cache
def stream_of(chunk, kind, value):
    return zlib.compress(np.full(chunk, value, kind).tobytes(), 9)


def packed(file, name, shape, chunk, kind, value):
    """An array of one value whose chunks are all the same few bytes."""
    if name in file:
        del file[name]
    data = file.create_dataset(name, shape, kind, chunks=chunk, compression="gzip", shuffle=False)
    stream = stream_of(chunk, kind, value)
    for index in np.ndindex(*[-(-n // m) for n, m in zip(shape, chunk)]):
        data.id.write_direct_chunk([i * m for i, m in zip(index, chunk)], stream)


def inflated_ids(file):
    packed(file, f"{fox}/tokens/id", (1 << 31,), (1 << 24,), "<i4", 7)


def inflated_rows(value):
    def change(file):
        length, heads = 1 << 17, 1024
        del file[f"{fox}/layers"], file[f"{fox}/tokens/string"], file[f"{fox}/loss"]
        for name in ("byte_start", "byte_end"):
            del file[f"{fox}/tokens/{name}"]
        for name in ("id", "input_id"):
            packed(file, f"{fox}/tokens/{name}", (length,), (length,), "<i4", 7)
        packed(file, f"{fox}/layers/00/cumulative_log_gate", (heads, length), (16, length), "<f8", value)
        file[fox].attrs["layers"], file[fox].attrs["heads"], file[fox].attrs["key_heads"] = 1, heads, 1

    return change


def repeated_rows(file):
    """Small enough to be read once; as no gates are, and in 16 layers."""
    length = 1 << 17
    inflated_rows(0)(file)
    del file[f"{fox}/layers"]
    for layer in range(16):
        packed(file, f"{fox}/layers/{layer:02}/cumulative_log_gate", (64, length), (16, length), "<f8", -1)
    file[fox].attrs["layers"], file[fox].attrs["heads"], file[fox].attrs["key_heads"] = 16, 64, 1


def repeated_normalizers(file):
    inflated_rows(0)(file)
    del file[f"{fox}/layers"]
    for layer in range(16):
        packed(file, f"{fox}/layers/{layer:02}/log_normalizer", (64, 1 << 17), (16, 1 << 17), "<f4", 1)
    file[fox].attrs["layers"], file[fox].attrs["heads"], file[fox].attrs["key_heads"] = 16, 64, 1


def long_chunk(file):
    """Some numbers in a chunk of 512 MB."""
    del file[f"{fox}/loss/per_token_loss"]
    length = len(file[f"{fox}/tokens/id"])
    data = file.create_dataset(f"{fox}/loss/per_token_loss", (length,), "<f4", chunks=(1 << 27,), maxshape=(None,),
                               compression="gzip")
    packer = zlib.compressobj(9)
    piece = bytes(1 << 24)
    data.id.write_direct_chunk([0], b"".join(packer.compress(piece) for _ in range(32)) + packer.flush())


def overlapping_tokens(file):
    size = len(file["text/content"].asstr()[()].encode())
    length = len(file[f"{fox}/tokens/id"])
    file[f"{fox}/tokens/byte_start"][:] = np.zeros(length, "<i8")
    file[f"{fox}/tokens/byte_end"][:] = np.full(length, size, "<i8")


def turned_tokens(file):
    for name in ("byte_start", "byte_end"):
        file[f"{fox}/tokens/{name}"][:] = file[f"{fox}/tokens/{name}"][()][::-1]


def many_names(file):
    for n in range(2000):
        file[f"models/again{n}"] = file[fox]


def one_layer(file):
    for n in range(2, 1000):
        file[f"{fox}/layers/{n:02}"] = file[f"{fox}/layers/00"]
    file[fox].attrs["layers"] = 1000


def one_array(file):
    for n in range(2, 1000):
        for name in ("cumulative_log_gate", "log_normalizer", "query", "key"):
            file[f"{fox}/layers/{n:02}/{name}"] = file[f"{fox}/layers/00/{name}"]
    file[fox].attrs["layers"] = 1000


case("chunks-at-one-leaf", chunks_at_one_leaf, "/models/fox/tokens/id", "points twice to the bytes at")
case("links-at-one-leaf", links_at_one_leaf, "/models", "points twice to the bytes at")
case("header-at-itself", header_at_itself, "/models", "points twice to the bytes at")
case("heads-without-data", with_h5py(heads_without_data), "/models/fox",
     "10000 layers of 65536 heads are too much for a file of")
case("inflated-ids", with_h5py(inflated_ids), "tokens/id", "has 2147483648 entries in a file of")
case("inflated-zeros", with_h5py(inflated_rows(0)), "cumulative_log_gate",
     "[1024, 131072] of float64 are too much for a file of")
case("repeated-rows", with_h5py(repeated_rows), "layers/00/cumulative_log_gate", "repeats itself more than gates can")
case("repeated-normalizers", with_h5py(repeated_normalizers), "/log_normalizer",
     "its arrays together are too much for a file of")
case("long-chunk", with_h5py(long_chunk), "per_token_loss", "its chunks of 536870912 bytes are longer than all of it")
case("overlapping-tokens", with_h5py(overlapping_tokens), "tokens/byte_start",
     "names bytes that too many tokens have named before")
case("turned-tokens", with_h5py(turned_tokens), "tokens/byte_start", "token 1 comes before the token that it follows")
case("many-names", with_h5py(many_names), "/models/again1", "is another's group under a second name")
case("one-layer", with_h5py(one_layer), "/models/fox/layers/02", "is another's group under a second name")
case("one-array", with_h5py(one_array), "/models/fox/layers/", "shares its bytes with other arrays")

(folder / "cases.json").write_text(json.dumps(cases))
