"""Reads the arguments of recordings, with an error that names each that is wrong."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ..errors import FoxscopeError

#: Layers that a recording may have: the file names their mixers in one attribute, of which HDF5 holds less than 4,096.
MOST_LAYERS = 4_000

#: Heads that heads= may name, for the same reason.
MOST_HEADS = 8_000

_Numeric = TypeVar("_Numeric", int, float)

KEEP_WORDS = ("loss", "gates", "qk", "values", "logits")


def words_of(value: str | Sequence[str]) -> list[str]:
    """Words of keep=, given one by one or as a string with commas; raises FoxscopeError for what is no string."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    words = list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(word, str) for word in words):
        raise FoxscopeError(f"keep: expected words of {', '.join(KEEP_WORDS)}, got {value!r}")
    return words


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def whole(value: Any, what: str) -> int:
    """A whole number, of Python, numpy or torch; raises FoxscopeError for any other, and for a truth value."""
    try:
        if _is_truth(value):
            raise TypeError
        return operator.index(value)
    except TypeError as error:
        raise FoxscopeError(f"{what}: expected a whole number, got {value!r}") from error


def whole_numbers(values: Any, what: str) -> list[int]:
    """Whole numbers, as a list; raises FoxscopeError for anything else."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise FoxscopeError(f"{what}: expected a list of numbers, as [0, 3], got {values!r}")
    return [whole(value, what) for value in values]


def check_layer(layer: int, where: str = "") -> None:
    """Raises FoxscopeError for a number that no layer of a recording has."""
    if not 0 <= layer < MOST_LAYERS:
        raise FoxscopeError(f"{where}layer {layer}: expected a number from 0 to {MOST_LAYERS - 1}")


def number_of(value: Any, what: str) -> float:
    """A number, of Python, numpy or torch; raises FoxscopeError for anything else, and for a truth value."""
    try:
        if _is_truth(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise FoxscopeError(f"{what}: expected a number, got {value!r:.80}") from error


def above_0(value: _Numeric, what: str) -> _Numeric:
    """The number; raises FoxscopeError for one that is not above 0."""
    if value > 0:
        return value
    raise FoxscopeError(f"{what}: expected a number above 0, or None for none, got {value}")
