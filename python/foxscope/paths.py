"""Paths that users give."""

import os
from typing import Any

from foxscope.errors import FoxscopeError

__all__ = ["as_path", "check_utf8"]


def as_path(value: Any, what: str) -> str:
    """A path as a string. `what` names it in errors.

    Raises FoxscopeError for what is no string and no pathlib.Path, for an empty path, and for one with a byte of 0 or with half
    a character.
    """
    path = value
    if not isinstance(value, (str, bytes)):
        try:
            path = os.fspath(value)
        except TypeError:
            path = None
    if not isinstance(path, str):
        raise FoxscopeError(f"{what}: expected a path, as a string or a pathlib.Path, got {value!r:.80}")
    if not path:
        raise FoxscopeError(f"{what}: expected a path, got an empty string")
    if "\0" in path:
        raise FoxscopeError(f"{what}: no path has a byte of 0, and {path!r:.80} has one")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FoxscopeError(f"{what}: no path has half a character (a surrogate), and {path!r:.80} has one") from None
    return path


def check_utf8(path: str) -> None:
    """Raises FoxscopeError for the path of a file to open that is not UTF-8, which no request can hold (docs/agent.md)."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise FoxscopeError(
            f"{path!r}: the name is not UTF-8, and the program is asked in UTF-8: give the file another"
        ) from None
