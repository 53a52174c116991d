"""Where the program foxscope is, which computes every number of this package."""

import os
import shutil
from pathlib import Path

from foxscope.errors import FoxscopeError

__all__ = ["VERSION", "demo", "find_program"]

VERSION = "0.1.0"
"""Of this package, and of the program that it works with."""

_PACKAGE = Path(__file__).resolve().parent


def _checkout() -> Path | None:
    """The checkout that this package was installed from: it lies there (pip install -e), or setup.py noted it."""
    note = _PACKAGE / "_checkout.txt"
    folder = Path(note.read_text(encoding="utf-8")) if note.exists() else _PACKAGE.parents[1]
    return folder if (folder / "CMakeLists.txt").exists() and (folder / "backend").is_dir() else None


def _is_command_of_python(path: str) -> bool:
    """Whether a file is the command that pip makes of this package, which starts the program that is looked for."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


def _on_path() -> str | None:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("foxscope", path=folder) if folder else None
        if found and not _is_command_of_python(found):
            return found
    return None


def find_program() -> str:
    """The program's path: FOXSCOPE_PROGRAM, the wheel's own, build/foxscope of the checkout that this package was
    installed from, or the first foxscope of PATH, in this order.

    Raises FoxscopeError where there is none.
    """
    if named := os.environ.get("FOXSCOPE_PROGRAM"):
        found = shutil.which(named)
        if found is None:
            raise FoxscopeError(f"FOXSCOPE_PROGRAM={named}: there is no such program")
        return found
    candidates = [_PACKAGE / "_program" / "bin" / "foxscope"]
    checkout = _checkout()
    if checkout is not None:
        candidates.append(checkout / "build" / "foxscope")
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = _on_path()
    if found is None:
        built = f"build it with ./dev build in {checkout}" if checkout else "install a wheel that holds it"
        raise FoxscopeError(f"the program foxscope is not found: {built}, or name it in FOXSCOPE_PROGRAM")
    return found


def demo(name: str) -> str:
    """The path of a demo model or a sample text that came with the program: "fox-pro-12m", "black-beauty-1-3.txt".

    Raises FoxscopeError, naming those that there are.
    """
    program = Path(find_program()).resolve()
    known: dict[str, Path] = {}
    for place in ("share/foxscope", "resources"):
        for folder in ("models", "texts"):
            known |= {path.name: path for path in (program.parents[1] / place / folder).glob("*") if path.suffix != ".md"}
    if name not in known:
        there = ", ".join(sorted(known)) or f"none beside {program}"
        raise FoxscopeError(f"demo {name!r}: there is no such model or text: there are {there}")
    return str(known[name])
