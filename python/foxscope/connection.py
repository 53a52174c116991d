"""The protocol of `foxscope agent` (docs/agent.md): a child process that answers requests over its pipes."""

import contextlib
import json
import os
import queue
import signal
import struct
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foxscope.errors import FoxscopeError
from foxscope.remote_path import said_there

__all__ = ["Answer", "Connection", "ConnectionEnded", "number"]

PROTOCOL = 4
_MOST_HEADER = 1 << 20
_MOST_PARTS = 64 << 20
_MOST_BANNER = 64 << 10
_FIRST_WORDS = b'{"foxscope_agent"'
_PATIENCE_SECONDS = 3.0
_READER_SECONDS = 0.5
_GREETING_SECONDS = 120.0  # a program on a slow disk may take a while to start
_NO_PROGRAM = 127

Json: TypeAlias = Any
"""What json.loads returns."""


class ConnectionEnded(FoxscopeError):
    """The agent has ended, or the way to it."""


class Answer:
    """The answer to a request: JSON, and the arrays that it names by their place."""

    def __init__(self, value: Json, parts: list[NDArray[Any]]) -> None:
        self.value = value
        self._parts = parts

    def array(self, value: Json) -> NDArray[Any]:
        """The array of {"part": N}."""
        part: int = value["part"]
        return self._parts[part]

    def unpacked(self, value: Json) -> Any:
        """A value of JSON; the array where it is {"part": N}."""
        return self.array(value) if isinstance(value, dict) and value.keys() == {"part"} else value

    def fill(self, value: Json, out: NDArray[Any]) -> None:
        """Puts the array of {"part": N} into `out`, where it lies already if it was received there."""
        array = self.array(value)
        if not np.shares_memory(array, out):
            out[...] = array.reshape(out.shape)

    def text(self, value: Json) -> str:
        """A text, which is an array of its bytes where it is long."""
        return value if isinstance(value, str) else self.array(value).tobytes().decode("utf-8", "replace")

    def texts(self, value: Json) -> list[str]:
        """A list of texts: all of them joined, and the bytes of each."""
        joined = value["texts"]
        every = joined.encode() if isinstance(joined, str) else self.array(joined).tobytes()
        ends = np.cumsum(self.array(value["lengths"])).tolist()
        return [every[begin:end].decode("utf-8", "replace") for begin, end in zip([0, *ends], ends)]


def number(value: Json) -> float:
    """A number, which is a word where it is not finite."""
    return float(value)  # "NaN", "Infinity" and "-Infinity" too


class _Message:
    def __init__(self, header: dict[str, Json], parts: list[NDArray[Any]]) -> None:
        self.header = header
        self.parts = parts


class _Requests:
    """Requests that wait for messages; what the reading thread shares with those who ask."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[int, tuple[queue.SimpleQueue[_Message | None], NDArray[Any] | None]] = {}
        self.ended = False

    def end(self) -> None:
        with self.lock:
            self.ended = True
            for messages, _ in self.waiting.values():
                messages.put(None)


def _read(stream: IO[bytes], size: int) -> bytes:
    got = stream.read(size)
    if len(got) != size:
        raise EOFError
    return got


def _read_header(stream: IO[bytes]) -> dict[str, Json]:
    (length,) = struct.unpack("<I", _read(stream, 4))
    if length > _MOST_HEADER:
        raise ValueError("a header is too long")
    header = json.loads(_read(stream, length))
    if not isinstance(header, dict):
        raise ValueError("a header is no JSON object")
    return header


def _empty_array(part: dict[str, Json]) -> NDArray[Any]:
    """Memory for a part of a message. numpy has no bfloat16, whose bits it holds as uint16."""
    dtype = np.dtype("uint16" if part["dtype"] == "bfloat16" else part["dtype"])
    array: NDArray[Any] = np.empty(part["shape"], dtype)
    if "codec" in part or array.nbytes != part["stored"] or array.nbytes > _MOST_PARTS:
        raise ValueError("a part has another size than it was said to have")
    return array


def _receive(stream: IO[bytes], requests: _Requests) -> _Message:
    """The next message. Its first array is read into the memory that whoever asked has for it, if it fits."""
    header = _read_header(stream)
    parts: list[NDArray[Any]] = []
    for part in header.pop("parts", []):
        array = _empty_array(part)
        if not parts and "answer" in header:
            _, into = requests.waiting.get(header["id"], (None, None))
            if into is not None and into.dtype == array.dtype and into.size == array.size and into.flags.c_contiguous:
                array = into
        if array.size and stream.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
            raise EOFError
        parts.append(array)
    return _Message(header, parts)


def _read_answers(stream: IO[bytes], requests: _Requests) -> None:
    try:
        while True:
            message = _receive(stream, requests)
            with requests.lock:
                messages, _ = requests.waiting.get(message.header["id"], (None, None))
            if messages is not None:
                messages.put(message)
    except (EOFError, OSError, ValueError, KeyError, TypeError, MemoryError):
        pass  # it has ended, or speaks something else, or says more than there is memory for
    requests.end()


def _skip_banner(stream: IO[bytes]) -> dict[str, Json]:
    """The first message, behind what a login shell may have printed. Raises EOFError with what came instead."""
    came = b""
    while (begin := came.find(_FIRST_WORDS, 4)) < 0:
        if len(came) > _MOST_BANNER:
            raise ValueError(came)
        piece = stream.read1(4096)  # type: ignore[attr-defined]
        if not piece:
            raise EOFError(came)
        came += piece
    (length,) = struct.unpack("<I", came[begin - 4 : begin])
    if length > _MOST_HEADER:
        raise ValueError(came)
    while len(came) < begin + length:
        came += _read(stream, begin + length - len(came))
    header = json.loads(came[begin : begin + length])
    if len(came) != begin + length or not isinstance(header, dict):
        raise ValueError(came)  # nobody has asked for more
    return header


def _close(process: subprocess.Popen[bytes], *readers: threading.Thread) -> None:
    """Ends an agent: it does so itself when its input ends. `readers` read its output and what it says beside."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # A connection that ssh keeps for later holds its end of a pipe: then its reader waits on, and its stream stays.
    for reader in readers:
        if reader is not threading.current_thread():
            reader.join(_READER_SECONDS)
    if not any(reader.is_alive() for reader in readers):
        process.stdout.close()
        process.stderr.close()


def _close_own(owner: int, process: subprocess.Popen[bytes], *readers: threading.Thread) -> None:
    """Ends an agent that this process started; a forked one leaves its parent's alone."""
    if owner == os.getpid():
        _close(process, *readers)


@contextlib.contextmanager
def _patience(process: subprocess.Popen[bytes], silent: threading.Event) -> Iterator[None]:
    """Ends a process of a session of its own, and what it started, if the block takes too long; `silent` tells it then."""

    def end() -> None:
        silent.set()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(_GREETING_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _drain(stream: IO[bytes], lines: list[bytes]) -> None:
    """Reads what a program says beside its answers, so that it need not wait; the last line may be an error."""
    try:
        for line in stream:
            if line.strip():
                lines[:] = [line.strip()]
    except (OSError, ValueError):
        pass


class Connection:
    """An agent, and what is asked of it. Any thread may ask."""

    def __init__(self, command: list[str], name: str) -> None:
        """Starts an agent by a command. `name` is the machine's, for errors; empty: this one.

        Raises FoxscopeError where it is none. One of this machine has a time to say that it is; ssh may ask for a passphrase.
        """
        self.name = name
        self._requests = _Requests()
        self._last_id = 0
        self._sending = threading.Lock()
        try:
            # A session of its own: Ctrl+C stops a request, and not the agent.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=not name,
            )
        except OSError as error:
            raise FoxscopeError(f"{command[0]}: cannot be started ({error.strerror})") from None
        assert self._process.stdin and self._process.stdout and self._process.stderr
        lines: list[bytes] = []
        errors = threading.Thread(target=_drain, args=(self._process.stderr, lines), daemon=True)
        errors.start()
        silent = threading.Event()
        try:
            with contextlib.nullcontext() if name else _patience(self._process, silent):
                self._send({"foxscope_agent": PROTOCOL, "program": "foxscope.py", "version": ""})
                self.hello = _skip_banner(self._process.stdout)
        except (ConnectionEnded, EOFError) as error:
            _close(self._process, errors)
            came = error.args[0] if isinstance(error, EOFError) and error.args else b""
            said = (came.strip().split(b"\n")[-1] or b"".join(lines)).decode("utf-8", "replace")
            if silent.is_set():
                said = f"it did not answer for {_GREETING_SECONDS:g} seconds"
            raise self._unreachable(command, self._process.returncode, said) from None
        except ValueError as error:
            _close(self._process, errors)
            said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
            raise FoxscopeError(f"{name or command[0]}: is no foxscope agent: {said[:400].strip()!r}") from None
        except BaseException:  # Ctrl+C, while a passphrase is asked for
            _close(self._process, errors)
            raise
        reader = threading.Thread(target=_read_answers, args=(self._process.stdout, self._requests), daemon=True)
        reader.start()
        self.close: Callable[[], object] = weakref.finalize(self, _close_own, os.getpid(), self._process, reader, errors)

    def _unreachable(self, command: list[str], status: int, said: str) -> FoxscopeError:
        program = command[-2]
        if not self.name:
            return FoxscopeError(f"{program}: is no program foxscope that has an agent: {said or f'it ended with {status}'}")
        if status == _NO_PROGRAM:
            return FoxscopeError(
                f"{self.name}: there is no program {program} there ({said}): install foxscope there, or say where it is "
                "in FOXSCOPE_REMOTE_PROGRAM"
            )
        return FoxscopeError(
            f"{self.name}: cannot be reached: {said or f'{command[0]} ended with status {status}'}: look whether "
            f"`{' '.join(command[:-2])}` works"
        )

    @property
    def pid(self) -> int:
        """The agent's process, or that of ssh."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it can be asked no more."""
        return self._requests.ended

    def _send(self, header: dict[str, Json], parts: tuple[NDArray[Any], ...] = ()) -> None:
        if sum(part.nbytes for part in parts) > _MOST_PARTS:
            raise FoxscopeError(f"a request holds at most {_MOST_PARTS} bytes of text and numbers")
        if parts:
            described = [{"dtype": str(part.dtype), "shape": part.shape, "stored": part.nbytes} for part in parts]
            header = {**header, "parts": described}
        text = json.dumps(header).encode()
        assert self._process.stdin is not None
        try:
            with self._sending:
                self._process.stdin.write(struct.pack("<I", len(text)) + text)
                for part in parts:
                    self._process.stdin.write(np.ascontiguousarray(part).tobytes())
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._requests.end()
            raise ConnectionEnded(said_there(self.name, "the connection has ended")) from None

    def ask(
        self,
        do: str,
        fields: dict[str, Json],
        *,
        parts: tuple[NDArray[Any], ...] = (),
        into: NDArray[Any] | None = None,
        listen: Callable[[dict[str, Json], list[NDArray[Any]]], None] | None = None,
    ) -> Answer:
        """Makes a request and waits for its answer.

        The answer's first array is received into the memory of `into` where it fits. `listen` gets notes and output on
        the way. If this thread is interrupted (KeyboardInterrupt), the request is stopped there.

        Raises FoxscopeError in the agent's words, and ConnectionEnded.
        """
        messages: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        with self._requests.lock:
            if self._requests.ended:
                raise ConnectionEnded(said_there(self.name, "the connection has ended"))
            self._last_id += 1
            own = self._last_id
            self._requests.waiting[own] = (messages, into)
        try:
            self._send({**fields, "id": own, "do": do}, parts)
            while True:
                message = messages.get()
                if message is None:
                    raise ConnectionEnded(said_there(self.name, "the connection has ended"))
                header = message.header
                if "answer" in header:
                    return Answer(header["answer"], message.parts)
                if "error" in header:
                    raise FoxscopeError(said_there(self.name, str(header["error"])))
                if "stopped" in header:
                    raise FoxscopeError(said_there(self.name, "the request was stopped"))
                if listen is not None:
                    listen(header, message.parts)
        except KeyboardInterrupt:
            with self._requests.lock:
                self._requests.waiting[own] = (messages, None)  # what still comes is not for its memory
            self._send({"id": own, "do": "cancel"})
            raise
        finally:
            with self._requests.lock:
                del self._requests.waiting[own]

    def __repr__(self) -> str:
        return f"<agent {self.name or os.uname().nodename}, process {self.pid}>"
