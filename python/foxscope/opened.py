"""Files that are open: where they lie, and how the program is asked about them."""

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, SupportsIndex, TypeVar

from numpy.typing import NDArray

from foxscope.agents import Agent
from foxscope.connection import Answer, Json
from foxscope.errors import FoxscopeError
from foxscope.figures import FORMATS, Figure
from foxscope.integers import as_integer
from foxscope.remote_path import Host

__all__ = ["OpenedFile", "OpenedModels"]


class OpenedFile:
    """A file here or on another machine, which an agent of that machine answers for."""

    def __init__(self, agent: Agent, path: str, there: str) -> None:
        self._agent = agent
        self.path = path
        """As it was opened."""
        self.host: Host | None = agent.host
        """The machine where it lies; None: this one."""
        self._there = there
        self.closed = False
        self._process = os.getpid()
        agent.enter()
        self._leave: Callable[[], object] = weakref.finalize(self, agent.leave)
        self._stat = self._look()

    def _look(self) -> tuple[int, int, int] | None:
        """What tells whether a file here is still the same one."""
        if self.host is not None:
            return None
        try:
            found = os.stat(self._there)
        except OSError:
            return None  # whoever opens it says why
        return found.st_ino, found.st_size, found.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raises FoxscopeError where a file here has changed since it was opened, or is gone."""
        found = self._look()
        if found is None and self._stat is not None:
            raise FoxscopeError(f"{self.path}: is not there any more: it was moved or deleted since it was opened")
        if found != self._stat:
            raise FoxscopeError(f"{self.path}: has changed since it was opened: open it again")

    def _check_open(self) -> None:
        if self.closed:
            raise FoxscopeError(f"{self.path}: is closed: open it again")
        if self._process != os.getpid():  # a forked process has none of the threads that read answers
            raise FoxscopeError(f"{self.path}: was opened by another process: open it again in this one")

    def ask(self, do: str, fields: dict[str, Json], *, into: NDArray[Any] | None = None) -> Answer:
        """Makes a request of the agent (docs/agent.md)."""
        self._check_open()
        return self._agent.ask(do, fields, into=into)

    def command(self, *arguments: str, notes: list[str] | None = None) -> bytes:
        """Runs a command of the program where the file lies, and returns what it prints. `notes` takes what it says beside."""
        self._check_open()
        return self._agent.command(list(arguments), notes=notes)

    @property
    def path_there(self) -> str:
        """The path on the machine where it lies."""
        return self._there

    def _draw(self, kind: str, format: str, more: Sequence[str]) -> Figure:
        """A figure of this file: what `foxscope figure KIND PATH ...` draws."""
        if format not in FORMATS:
            raise FoxscopeError(f"format {format!r}: use {', '.join(FORMATS)}")
        words = ["figure", kind, self._there, *more]
        notes: list[str] = []
        data = self.command(*words, "--format", format, "-o", "-", notes=notes)
        return Figure(data, format, " ".join(["foxscope", *words]), notes)

    def close(self) -> None:
        """Closes it. The agent ends with the last file of its machine."""
        self.closed = True
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Model = TypeVar("_Model", bound=_Named)


class OpenedModels(OpenedFile, Generic[_Model]):
    """A file of models, by their names or their places."""

    models: tuple[_Model, ...]
    """In the order in which they were run."""

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [model.name for model in self.models]

    def __getitem__(self, name: str | SupportsIndex) -> _Model:
        if isinstance(name, str):
            for model in self.models:
                if model.name == name:
                    return model
            raise FoxscopeError(f"{self.path}: has no model {name!r}: it has {', '.join(self.names)}")
        place, count = as_integer(name, "model"), len(self.models)
        if not -count <= place < count:
            raise FoxscopeError(f"{self.path}: has no model {place}: it has models 0 to {count - 1}")
        return self.models[place]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[_Model]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)
