"""Figures that the program draws."""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foxscope.atomic_file import AtomicFile
from foxscope.errors import FoxscopeError
from foxscope.paths import as_path

__all__ = ["FORMATS", "Figure", "option_words"]

FORMATS = ("svg", "pdf", "png", "csv")


def _word(value: Any) -> str:
    """A value as a command has it: (3, 0) is 3:0, as heads and ranges are written, also ("fox", 3, 0); slice(1, 5) is 1:5."""
    if isinstance(value, slice):
        return f"{'' if value.start is None else value.start}:{'' if value.stop is None else value.stop}"
    if isinstance(value, tuple):
        return ":".join("" if part is None else str(part) for part in value)
    return str(value)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Options of a command: `font_size=8` is --font-size 8, True an option alone, a list one text with commas, and a
    mapping the option once for each of its items, as in label={"fox": "FoX"}. None and False leave the option out.
    """
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            words += [f"{option}={key}={_word(item)}" for key, item in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, (str, tuple)):
            words.append(f"{option}={','.join(_word(item) for item in value)}")
        else:
            words.append(f"{option}={_word(value)}")
    return words


class Figure:
    """A figure of the program's: the bytes of an SVG, PDF, PNG or CSV file. A notebook shows it with its notes."""

    def __init__(self, data: bytes, format: str, command: str, notes: Sequence[str] = ()) -> None:
        self.data = data
        self.format = format
        self.command = command
        self.notes = list(notes)
        """What the program says of it, a line each: what it chose where nothing was asked for, and what is left out."""

    def save(self, path: str | Path) -> None:
        """Writes the file, and replaces one of that name, as matplotlib's savefig does.

        A file appears, or is replaced, when the new one is whole; a full disk leaves the old one. Raises FoxscopeError for
        a name with the ending of another format, and where the file cannot be written.
        """
        place = Path(as_path(path, "save"))
        if place.suffix != f".{self.format}":
            other = place.suffix[1:]
            remedy = f", or ask for format={other!r}" if other in FORMATS else ""
            raise FoxscopeError(f"{path}: the figure is a .{self.format}: give the file this ending{remedy}")
        file = AtomicFile(place, overwrite=True)
        try:
            file.write(memoryview(self.data))
            file.commit()
        finally:
            file.discard()

    def __repr__(self) -> str:
        figure = f"<figure, {self.format}, {len(self.data)} bytes: {self.command}>"
        return "\n  ".join([figure, *self.notes])

    def _repr_html_(self) -> str | None:
        if not self.notes or self.format not in ("svg", "png"):
            return None
        kind = "svg+xml" if self.format == "svg" else "png"
        # As an image of its own: names within two SVG files on one page would be taken for one another.
        picture = f'<img src="data:image/{kind};base64,{base64.b64encode(self.data).decode()}">'
        return picture + "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)

    def _repr_svg_(self) -> str | None:
        return self.data.decode() if self.format == "svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.data if self.format == "png" else None
