"""Maps of a head as arrays: exact entries by index, pooled to pixels, or along a line."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from foxscope.connection import Answer
from foxscope.errors import FoxscopeError
from foxscope.integers import as_integer
from foxscope.maps import Map, bin_edges

if TYPE_CHECKING:
    from foxscope.runs import Head, Model

__all__ = ["Entries", "QUANTITIES"]

QUANTITIES = ("forget", "log_forget", "logits", "attention", "attention_without_gate", "gate_effect", "mixing")
"""Quantities of maps (docs/maps.md)."""

_MOST_ENTRIES = (64 << 20) // 4
"""Of one answer, which has at most 64 MiB."""
_REQUEST = 4096
"""Entries that are computed in about the time that a request takes by itself."""
_MOST_WHOLE = 4096
"""Positions of a text whose map becomes one array without being asked for by slices."""

Index: TypeAlias = SupportsIndex | slice
Range: TypeAlias = tuple[SupportsIndex, SupportsIndex] | slice | None
"""Positions from the first up to, not including, the second; None: all."""


def _position(index: SupportsIndex, length: int, axis: str, wanted: str = "a position") -> int:
    position = as_integer(index, axis, wanted)
    if not -length <= position < length:
        raise IndexError(f"{axis} {position} is not one of {length} positions")
    return position % length


def _positions(index: Index, length: int, axis: str) -> range:
    if not isinstance(index, slice):
        position = _position(index, length, axis, "a position or a slice")
        return range(position, position + 1)
    try:
        return range(length)[index]
    except (TypeError, ValueError) as error:
        raise FoxscopeError(f"{axis}: {error}") from None


def _bounds(positions: range) -> tuple[int, int]:
    """The half-open range that positions, of which there are some, lie in."""
    first, last = sorted((positions[0], positions[-1]))
    return first, last + 1


def _memory(rows: int, columns: int) -> NDArray[np.float32]:
    try:
        return np.empty((rows, columns), np.float32)
    except MemoryError:
        raise FoxscopeError(
            f"{rows} x {columns} entries take {rows * columns * 4 / 1e9:.1f} GB, for which there is no memory: take a smaller "
            "slice, or .pooled(1024)"
        ) from None


def _range(positions: Range, end: int, what: str) -> tuple[int, int]:
    if positions is None:
        return 0, end
    if isinstance(positions, slice):
        first, last, step = positions.indices(end)
        if step != 1:
            raise FoxscopeError(f"{what}: a map takes positions one by one: leave out the step {step}")
        return first, last
    return as_integer(positions[0], what), as_integer(positions[1], what)


def _begins_one_earlier(read: NDArray[np.int32], other: NDArray[np.int32]) -> bool:
    """Whether ids are, behind the first of them, those of another run from its first one on."""
    common = min(len(read) - 1, len(other))
    return common > 0 and np.array_equal(read[1 : 1 + common], other[:common])


def _check_tokens(first: "Model", second: "Model") -> None:
    """Raises FoxscopeError unless both models read the same token at every position; warns where only the first differs."""
    read, other = first.tokens.input_ids, second.tokens.input_ids
    names = f"'{first.name}' of {first.run.path} and '{second.name}' of {second.run.path}"
    if len(read) != len(other) or not np.array_equal(read[1:], other[1:]):
        where = f"{len(read)} and {len(other)} positions"
        remedy = "run both on one text with one tokenizer"
        if first.recorded or second.recorded:
            remedy = "record on the tokens that the other read (docs/python-recording.md, Beside a model that the program runs)"
        if _begins_one_earlier(read, other) != _begins_one_earlier(other, read):
            longer = first if _begins_one_earlier(read, other) else second
            where = f"'{longer.name}' begins with token {longer.tokens.input_ids[0]}, as BOS, and the other one behind it"
        elif len(read) == len(other):
            where = f"the first that differs is at position {1 + int(np.argmin(read[1:] == other[1:]))}"
        raise FoxscopeError(f"{names} read different tokens ({where}), and maps are subtracted position by position: {remedy}")
    if read[0] != other[0]:
        warnings.warn(f"{names} read the same but for position 0, which is {read[0]} and {other[0]}", stacklevel=3)


class Entries:
    """A quantity of a head for every query i and key j, [L, L] float32: forget gates F, attention A and so on.

    Nothing is computed until entries are asked for; the program computes them. An entry that does not exist, above the
    diagonal or outside the window, is NaN. `a - b` is the difference of two heads that read the same tokens, entry by
    entry, before anything is pooled.
    """

    def __init__(
        self,
        head: "Head",
        quantity: str,
        *,
        minus: "Head | None" = None,
        without_first: bool = False,
        channel: SupportsIndex | None = None,
    ) -> None:
        if quantity not in QUANTITIES:
            raise FoxscopeError(f"quantity {quantity}: use one of {', '.join(QUANTITIES)}")
        self.head = head
        self.quantity = quantity
        self.minus = minus
        self.without_first = without_first
        self.channel = None if channel is None else as_integer(channel, "channel")

    @property
    def shape(self) -> tuple[int, int]:
        """(L, L): queries and keys."""
        return self.head.model.length, self.head.model.length

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32."""
        return np.dtype(np.float32)

    ndim = 2

    @property
    def signed(self) -> bool:
        """Whether entries have signs: a difference, logits, gate_effect and mixing."""
        return self.minus is not None or self.quantity in ("logits", "gate_effect", "mixing")

    @property
    def title(self) -> str:
        """The head, or both of a difference."""
        return self.head.title + (f" \N{MINUS SIGN} {self.minus.title}" if self.minus is not None else "")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.quantity} of {self.title}, {self.shape[0]} x {self.shape[1]}>"

    def __sub__(self, other: object) -> "Entries":
        if not isinstance(other, Entries):
            return NotImplemented
        first, second = self.head.model.run, other.head.model.run
        if self.minus is not None or other.minus is not None:
            raise FoxscopeError("a difference of differences is not computed: subtract two maps")
        same = (self.quantity, self.without_first, self.channel) == (other.quantity, other.without_first, other.channel)
        if not same:
            raise FoxscopeError(f"{self.quantity} minus {other.quantity}: subtract maps of one quantity, made alike")
        if first.host != second.host:
            raise FoxscopeError(f"{first.path} and {second.path} lie on two machines: copy one of them")
        _check_tokens(self.head.model, other.head.model)
        return Entries(self.head, self.quantity, minus=other.head, without_first=self.without_first, channel=self.channel)

    def _ask(self, do: str, fields: dict[str, Any], into: NDArray[np.float32]) -> Answer:
        attends = self.quantity not in ("forget", "log_forget", "logits")
        request: dict[str, Any] = {"head": self.head.reference(attends=attends), **fields}
        if self.minus is not None:
            request["minus"] = self.minus.reference(attends=attends)
        return self.head.model.run.ask(do, request, into=into)

    def _request(self) -> dict[str, Any]:
        request: dict[str, Any] = {"quantity": self.quantity}
        if self.without_first:
            request["first_key"] = "left_out"
        if self.channel is not None:
            request["channel"] = self.channel
        return request

    def _pixels(
        self, rows: tuple[int, int], columns: tuple[int, int], size: tuple[int, int], out: NDArray[np.float32], **more: Any
    ) -> None:
        """Receives a map of `size` pixels into `out`."""
        request = {
            **self._request(),
            "rows": {"begin": rows[0], "end": rows[1]},
            "columns": {"begin": columns[0], "end": columns[1]},
            "pixel_rows": size[0],
            "pixel_columns": size[1],
            **more,
        }
        answer = self._ask("map", {"map": request}, out)
        answer.fill(answer.value["value"], out)

    def _box(self, rows: range, columns: range, out: NDArray[np.float32]) -> None:
        """Receives all entries between the outermost positions, in bands of queries, and keeps those that are wanted."""
        first, last = _bounds(columns)
        band = max(1, _MOST_ENTRIES // ((last - first) * abs(rows.step)))
        for begin in range(0, len(rows), band):
            part = rows[begin : begin + band]
            top, end = _bounds(part)
            wanted = out[begin : begin + len(part)]
            if wanted.shape == (end - top, last - first) and part.step == columns.step == 1:
                self._pixels((top, end), (first, last), wanted.shape, wanted)
            else:
                box = _memory(end - top, last - first)
                self._pixels((top, end), (first, last), box.shape, box)
                wanted[...] = box[part[0] - top :: part.step, columns[0] - first :: columns.step]

    def _exact(self, rows: range, columns: range) -> NDArray[np.float32]:
        """Entries of every query with every key. What lies between far positions is not asked for."""
        entries = _memory(len(rows), len(columns))
        if not entries.size:
            return entries
        height, width = (end - first for first, end in map(_bounds, (rows, columns)))
        by_rows, by_columns = len(rows) * (width + _REQUEST), len(columns) * (height + _REQUEST)
        if height * width <= min(by_rows, by_columns):
            self._box(rows, columns, entries)
        elif by_rows <= by_columns:
            for place in range(len(rows)):
                self._box(rows[place : place + 1], columns, entries[place : place + 1])
        else:
            for place in range(len(columns)):
                self._box(rows, columns[place : place + 1], entries[:, place : place + 1])
        return entries

    def __getitem__(self, index: "Index | tuple[Index, Index]") -> Any:
        """Exact entries, as of a numpy array [L, L]: `[i, j]`, `[a:b, c:d]`, `[i]`; positions and slices."""
        both = index if isinstance(index, tuple) else (index, slice(None))
        if len(both) != 2:
            raise IndexError(f"a map has two axes, queries and keys, not {len(both)}")
        rows = _positions(both[0], self.shape[0], "query")
        columns = _positions(both[1], self.shape[1], "key")
        entries = self._exact(rows, columns)
        return entries[tuple(slice(None) if isinstance(one, slice) else 0 for one in both)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        length = self.shape[0]
        if length > _MOST_WHOLE:
            raise FoxscopeError(
                f"{self.quantity} of {length} tokens has {length * length * 4 / 1e9:.1f} GB of entries: take a slice, or "
                ".pooled(1024)"
            )
        if copy is False:
            raise ValueError("entries are computed when they are asked for: they cannot be had without a copy")
        whole: NDArray[np.float32] = self[:, :]
        return whole if dtype is None else whole.astype(dtype)

    def pooled(
        self,
        size: SupportsIndex | tuple[SupportsIndex, SupportsIndex] = 1024,
        reduce: str | None = None,
        *,
        rows: Range = None,
        columns: Range = None,
    ) -> Map:
        """The map on `size` x `size` (or rows x columns) pixels, each of which reduces the entries of its bin.

        reduce: "max", "mean", "min" or "absmax", the entry of largest size with its sign. The default is max, and absmax
        where entries have signs. rows, columns: queries and keys, (first, end) or a slice. A side that has fewer
        positions than pixels has a pixel for each.
        """
        queries = _range(rows, self.shape[0], "rows")
        keys = _range(columns, self.shape[1], "columns")
        wanted = [as_integer(side, "size") for side in (size if isinstance(size, Sequence) else (size, size))]
        pixels = min(wanted[0], queries[1] - queries[0]), min(wanted[1], keys[1] - keys[0])
        if reduce is None:
            reduce = "absmax" if self.signed else "max"
        values = _memory(max(0, pixels[0]), max(0, pixels[1]))
        self._pixels(queries, keys, pixels, values, reduction=reduce)
        return Map(values, bin_edges(*queries, pixels[0]), bin_edges(*keys, pixels[1]), self, reduce)

    def _line(self, along: str, at: int, begin: int, end: int) -> NDArray[np.float32]:
        whole = np.full(self.shape[0], np.nan, np.float32)
        into = whole[begin:end]
        line = {**self._request(), "line": {"along": along, "at": at}, "positions": {"begin": begin, "end": end}}
        answer = self._ask("line", {"line": line}, into)
        answer.fill(answer.value, into)
        return whole

    def row(self, query: SupportsIndex) -> NDArray[np.float32]:
        """What a query makes of every key, [L]; NaN behind the query."""
        at = _position(query, len(self), "query")
        if self.channel is not None:  # no request for a line has one
            line: NDArray[np.float32] = self[at]
            return line
        return self._line("row", at, 0, at + 1)

    def column(self, key: SupportsIndex) -> NDArray[np.float32]:
        """What every query makes of a key, [L]; NaN before the key."""
        at = _position(key, len(self), "key")
        if self.channel is not None:
            line: NDArray[np.float32] = self[:, at]
            return line
        return self._line("column", at, at, self.shape[0])

    def diagonal(self, distance: SupportsIndex = 0) -> NDArray[np.float32]:
        """What every query makes of the key that is so many positions before it, [L]; NaN where there is none."""
        at = _position(distance, len(self), "distance")
        if self.channel is not None:
            raise FoxscopeError("a diagonal is of the mean over channels: take rows or a slice of one channel")
        return self._line("diagonal", at, at, self.shape[0])
