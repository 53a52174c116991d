"""One agent for all runs of a machine: started when it is first asked, ended when the last run is closed."""

import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foxscope.connection import PROTOCOL, Answer, Connection, ConnectionEnded, Json
from foxscope.errors import FoxscopeError
from foxscope.program import VERSION, find_program
from foxscope.remote_path import Host, said_there

__all__ = ["Agent", "agent_of"]


class Agent:
    """An agent here, or on another machine. Users of it come and go; it ends with the last one."""

    def __init__(self, host: Host | None) -> None:
        self.host = host
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._users = 0

    def enter(self) -> None:
        """There is one user more."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """There is one user less. A forked process has copies of users, which do not count."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._users -= 1
            connection = self._connection if self._users == 0 else None
            if connection is not None:
                self._connection = None
        if connection is not None:
            connection.close()

    def connection(self) -> Connection:
        """The connection, made anew where it has ended."""
        with self._lock:
            if self._connection is None or self._connection.ended:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                self._connection = self._connect()
            return self._connection

    def _connect(self) -> Connection:
        command = self.host.command() if self.host else [find_program(), "agent"]
        connection = Connection(command, self.host.words() if self.host else "")
        try:
            self._check_version(command[0], connection.hello)
        except FoxscopeError:
            connection.close()
            raise
        return connection

    def _check_version(self, program: str, hello: dict[str, Json]) -> None:
        where = self.host.words() if self.host else program
        version = str(hello.get("version"))
        if hello.get("foxscope_agent") != PROTOCOL:
            raise FoxscopeError(
                f"{where}: the program of version {version} speaks protocol {hello.get('foxscope_agent')}, and this "
                f"package speaks protocol {PROTOCOL}: install the same version of both"
            )
        if self.host is None and version != VERSION:
            raise FoxscopeError(
                f"{where}: the program is of version {version}, and this package of version {VERSION}: install the same "
                "version of both, or name another program in FOXSCOPE_PROGRAM"
            )

    def ask(self, do: str, fields: dict[str, Json], *, into: NDArray[Any] | None = None) -> Answer:
        """Makes a request that changes nothing (docs/agent.md): once more where the connection ended on the way."""
        try:
            return self.connection().ask(do, fields, into=into)
        except ConnectionEnded:
            return self.connection().ask(do, fields, into=into)

    def command(self, arguments: list[str], text: bytes = b"", notes: list[str] | None = None) -> bytes:
        """Runs a command of the program there, with `text` as its standard input.

        Returns its standard output; the lines that it says to people are added to `notes`. Raises FoxscopeError in the
        command's last line where it fails, and for a word that is no string.
        """
        output: list[bytes] = []
        notes = [] if notes is None else notes

        def listen(header: dict[str, Json], parts: list[NDArray[Any]]) -> None:
            if "output" in header:
                output.append(parts[header["output"]["part"]].tobytes())
            elif "note" in header:
                notes.append(str(header["note"]))

        for before, argument in zip(["foxscope", *arguments], arguments):
            if not isinstance(argument, str):
                raise FoxscopeError(f"{before}: expected a string, got {argument!r:.80}")
        words = [argument.encode("utf-8", "surrogateescape") for argument in arguments]
        parts = (
            np.frombuffer(b"".join(words), np.uint8),
            np.array([len(word) for word in words], np.int64),
            np.frombuffer(text, np.uint8),
        )
        fields = {"arguments": {"texts": {"part": 0}, "lengths": {"part": 1}}, "input": {"part": 2}}
        status = self.connection().ask("command", fields, parts=parts, listen=listen).value
        if status != 0:
            line = notes[-1] if notes else f"foxscope {arguments[0]} ended with status {status}"
            raise FoxscopeError(said_there(self.host.words() if self.host else "", line))
        return b"".join(output)


_agents: dict[tuple[int, Host | None], Agent] = {}
_lock = threading.Lock()


def agent_of(host: Host | None) -> Agent:
    """The agent of a machine; None is this one. A forked process has agents of its own."""
    with _lock:
        return _agents.setdefault((os.getpid(), host), Agent(host))
