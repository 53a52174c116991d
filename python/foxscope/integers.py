"""Whole numbers that people give: Python's own, and those of numpy."""

import operator
from typing import Any

from foxscope.errors import FoxscopeError

__all__ = ["as_integer"]


def as_integer(value: Any, what: str, wanted: str = "a whole number") -> int:
    """A whole number as Python's own, which requests need. Raises FoxscopeError for 1.0 and "1"."""
    try:
        return operator.index(value)
    except TypeError:
        raise FoxscopeError(f"{what}: take {wanted}, not {type(value).__name__}") from None
