"""Arrays and attributes of a run file (docs/files.md), written as they come."""

from __future__ import annotations

import datetime
import functools
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import h5py
import numpy as np
import numpy.typing as npt

from ..atomic_file import AtomicFile

#: Of every array: its format in the file ("run" is that of queries and keys), its unit, and a description.
ARRAYS: Mapping[str, tuple[str, str, str]] = {
    "query": ("run", "", "queries as they enter the mixer"),
    "key": ("run", "", "keys as they enter the mixer"),
    "value": ("run", "", "values as they enter the mixer"),
    "cumulative_log_gate": ("float64", "nats", "c, the sum of log forget gates up to and including a position"),
    "cumulative_log_decay": (
        "float64",
        "nats",
        "the sum of log decays of a channel up to and including a position",
    ),
    "decay_rate": (
        "float64",
        "",
        "log decay of a channel in parts of the mean over its head's channels, which c sums up",
    ),
    "beta": ("float32", "", "how much of a position is written: the delta rule's beta, the step of Mamba and Mamba-2"),
    "erase_read": (
        "float32",
        "",
        "e, what a position reads of the state before it, to be taken away along b",
    ),
    "erase_write": ("float32", "", "b, the direction along which what e read is added to the state"),
    "sink_logit": ("float32", "", "logit of a head's sink, which every row's sum holds beside those of keys"),
}

_NUMPY: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "bfloat16": np.dtype("<u2"),
}


def _bfloat16() -> Any:
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_precision(16)
    kind.set_offset(0)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def _hdf5_type(dtype: str) -> Any:
    return {"float32": h5py.h5t.IEEE_F32LE, "float64": h5py.h5t.IEEE_F64LE, "bfloat16": _bfloat16()}[dtype]


#: Words for what makes a run file smaller.
_SMALLER = "keep less (keep=, layers=, heads=)"

#: Bytes of zeros in a chunk.
_MOST_ZEROS = 1 << 20

#: An array [H, n, ...], or its heads.
Heads = npt.NDArray[Any] | Iterable[npt.NDArray[Any]]


def _set_attribute(of: Any, name: str, value: Any) -> None:
    """Makes an attribute of a group or an array: whole numbers are int64, words UTF-8. (`attrs` makes and renames two.)"""
    words = isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], str))
    numbers = np.array(value, dtype=h5py.string_dtype() if words else np.int64 if isinstance(value, (bool, int)) else None)
    space = h5py.h5s.create_simple(numbers.shape) if numbers.ndim else h5py.h5s.create(h5py.h5s.SCALAR)
    h5py.h5a.create(of.id, name.encode(), h5py.h5t.py_create(numbers.dtype, logical=True), space).write(numbers)


@dataclass
class _Piece:
    """Rows [begin, begin + count) of an array in the spool."""

    offset: int
    count: int


@dataclass
class _Array:
    path: str
    dtype: str
    heads: int
    row: tuple[int, ...]  # extents behind the position
    rows: int = 0
    later: list[_Piece] = field(default_factory=list)


@functools.lru_cache(maxsize=4)
def _packed_zeros(size: int) -> bytes:
    return zlib.compress(bytes(size), 1)


class RunWriter:
    """A run file of one model, in the making.

    The first rows of an array lie in the file as soon as they come. Rows of a continuation with a cache go to a temporary
    file beside it; `finish` puts both together, a head at a time.
    """

    def __init__(self, path: str | os.PathLike[str], model: str, overwrite: bool) -> None:
        self._file = AtomicFile(path, overwrite, _SMALLER)
        self._model = model
        self._overwrite = overwrite
        self._arrays: dict[str, _Array] = {}
        self._spool: BinaryIO | None = None
        self._hdf5 = h5py.File(self._file, "w", track_order=False)

    @property
    def root(self) -> str:
        """The group of the model."""
        return f"models/{self._model}"

    def append(self, path: str, dtype: str, shape: tuple[int, ...], heads: Heads) -> None:
        """Adds rows of an array [H, n, ...], given whole or head by head; one that has no rows yet begins with them."""
        array = self._arrays.get(path)
        if array is None:
            array = _Array(path, dtype, shape[0], shape[2:], shape[1])
            self._write_whole(self._hdf5, array, heads)
            self._arrays[path] = array
            self._file.begin_flush()
            return
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(dir=self._file.target.absolute().parent)  # noqa: SIM115
        offset = self._spool.seek(0, os.SEEK_END)
        for head in heads:
            try:
                self._spool.write(np.ascontiguousarray(head).tobytes())
                self._spool.flush()  # a forked process would write its copy of what waits here
            except OSError as error:
                self._file.error = error
                self._file.check()
        array.later.append(_Piece(offset, shape[1]))
        array.rows += shape[1]

    def write(self, path: str, dtype: str, numbers: npt.NDArray[Any]) -> None:
        """Writes a whole array whose first axis need not be heads."""
        self._create(self._hdf5, f"{self.root}/{path}", dtype, numbers.shape)
        self._hdf5[f"{self.root}/{path}"][...] = numbers
        self._file.check()

    def rows(self, path: str) -> int:
        """Positions that an array has."""
        return self._arrays[path].rows

    def _create(
        self, file: h5py.File, path: str, dtype: str, shape: tuple[int, ...], chunk: tuple[int, ...] | None = None
    ) -> Any:
        kind = h5py.h5t.STD_I32LE if dtype == "int32" else h5py.h5t.STD_I64LE if dtype == "int64" else _hdf5_type(dtype)
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_obj_track_times(False)
        if chunk is not None:
            creation.set_chunk(chunk)
            creation.set_deflate(1)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        space = h5py.h5s.create_simple(shape)
        return h5py.h5d.create(file.id, path.encode(), kind, space, dcpl=creation, lcpl=links)

    def _write_whole(self, file: h5py.File, array: _Array, heads: Heads) -> None:
        shape = (array.heads, array.rows, *array.row)
        path = f"{self.root}/{array.path}"
        kind = _hdf5_type(array.dtype)
        if isinstance(heads, np.ndarray) and not heads.any():
            self._write_zeros(file, path, array.dtype, shape)
            return
        dataset = self._create(file, path, array.dtype, shape)
        self._describe(file, path)
        if isinstance(heads, np.ndarray):
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(heads), mtype=kind)
            self._file.check()
            return
        memory = h5py.h5s.create_simple((1, *shape[1:]))
        space = dataset.get_space()
        for index, head in enumerate(heads):
            space.select_hyperslab((index,) + (0,) * (len(shape) - 1), (1, *shape[1:]))
            dataset.write(memory, space, np.ascontiguousarray(head), mtype=kind)
            self._file.check()

    def _write_zeros(self, file: h5py.File, path: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Writes an array of zeros, as c of a layer without gates is, packed."""
        row = int(np.prod(shape[1:])) * _NUMPY[dtype].itemsize
        heads = max(1, min(shape[0], _MOST_ZEROS // row))
        dataset = self._create(file, path, dtype, shape, (heads, *shape[1:]))
        self._describe(file, path)
        packed = _packed_zeros(heads * row)
        for begin in range(0, shape[0], heads):
            dataset.write_direct_chunk((begin,) + (0,) * (len(shape) - 1), packed)
        self._file.check()

    @staticmethod
    def _describe(file: h5py.File, path: str) -> None:
        _, units, long_name = ARRAYS[path.rsplit("/", 1)[1]]
        array = file[path]
        if units:
            _set_attribute(array, "units", units)
        _set_attribute(array, "long_name", long_name)

    def _read_heads(self, array: _Array) -> Iterable[npt.NDArray[Any]]:
        """The heads of an array with the rows that came later."""
        dataset = h5py.h5d.open(self._hdf5.id, f"{self.root}/{array.path}".encode())
        first = dataset.shape[1]
        kind, numpy_type = _hdf5_type(array.dtype), _NUMPY[array.dtype]
        row_bytes = int(np.prod(array.row, dtype=np.int64)) * numpy_type.itemsize
        for index in range(array.heads):
            head = np.empty((array.rows, *array.row), numpy_type)
            space = dataset.get_space()
            space.select_hyperslab((index,) + (0,) * (len(dataset.shape) - 1), (1, *dataset.shape[1:]))
            dataset.read(h5py.h5s.create_simple((1, *dataset.shape[1:])), space, head[:first], mtype=kind)
            at = first
            for piece in array.later:
                assert self._spool is not None
                self._spool.seek(piece.offset + index * piece.count * row_bytes)
                head[at : at + piece.count] = np.frombuffer(self._spool.read(piece.count * row_bytes), numpy_type).reshape(
                    piece.count, *array.row
                )
                at += piece.count
            yield head

    def join_pieces(self) -> None:
        """Puts rows that came later behind the first ones, in a file of its own."""
        if not any(array.later for array in self._arrays.values()):
            return
        joined = AtomicFile(self._file.target, self._overwrite, _SMALLER)
        before, self._file = self._file, joined
        hdf5 = h5py.File(joined, "w", track_order=False)
        try:
            for array in self._arrays.values():
                self._write_whole(hdf5, array, self._read_heads(array))
            self._copy_others(hdf5)
        except BaseException:
            hdf5.close()
            before, self._file = joined, before
            raise
        else:
            self._hdf5.close()
            self._hdf5 = hdf5
        finally:
            before.discard()
        for array in self._arrays.values():
            array.later.clear()

    def _copy_others(self, to: h5py.File) -> None:
        """Copies attributes of groups, and what is no array with positions, to another file."""

        def copy(path: str, item: Any) -> None:
            if isinstance(item, h5py.Group):
                group = to.require_group(path)
                for name, value in item.attrs.items():
                    _set_attribute(group, name, value)
            elif path not in to:
                to.copy(item, path)

        self._hdf5.visititems(copy)

    def write_text(self, content: str, attributes: Mapping[str, Any]) -> None:
        """/text/content with its attributes."""
        dataset = self._hdf5.create_dataset("text/content", data=content, dtype=h5py.string_dtype())
        for name, value in attributes.items():
            dataset.attrs[name] = value

    def write_strings(self, path: str, strings: list[str]) -> None:
        """A column of strings."""
        values = [string.replace("\0", "\\0") for string in strings]
        self._hdf5.create_dataset(f"{self.root}/{path}", data=values, dtype=h5py.string_dtype())

    def attributes(self, group: str, values: Mapping[str, Any]) -> None:
        """Attributes of a group below the model's ("" is the model's own); groups are made where they are missing."""
        of = self._hdf5.require_group(f"{self.root}/{group}" if group else self.root)
        for name, value in values.items():
            _set_attribute(of, name, value)

    def finish(self, schema: int, version: str, command_line: str) -> None:
        """Writes the root's attributes and puts the file in place."""
        attributes = {
            "foxscope_schema": schema,
            "program": "foxscope",
            "program_version": version,
            "command_line": command_line,
            "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "NX_class": "NXroot",
            "default": self.root,
        }
        for name, value in attributes.items():
            _set_attribute(self._hdf5, name, value)
        self._hdf5.close()
        self._close_spool()
        try:
            self._file.commit()
        finally:
            self._file.discard()

    def discard(self) -> None:
        """Throws the unfinished file away."""
        try:
            self._hdf5.close()
        finally:
            self._close_spool()
            self._file.discard()

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None
