"""Paths on other machines, ssh://[USER@]HOST[:PORT]/PATH, read as the program reads them (docs/agent.md)."""

import os
import re
import shlex
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from foxscope.errors import FoxscopeError

__all__ = ["Host", "is_remote", "parse_remote_path", "said_there"]

_SCHEME = "ssh://"
_LARGEST_PORT = 65535


@dataclass(frozen=True)
class Host:
    """A machine that ssh reaches. An empty user and port 0 are left to ssh's own configuration."""

    user: str
    host: str
    port: int

    def words(self) -> str:
        """USER@HOST:PORT, as an URL has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")

    def command(self) -> list[str]:
        """The command that starts an agent there:
        $FOXSCOPE_SSH [-p PORT] [USER@]HOST $FOXSCOPE_REMOTE_PROGRAM agent.
        """
        ssh = os.environ.get("FOXSCOPE_SSH") or "ssh"
        try:
            words = shlex.split(ssh)
        except ValueError:
            raise FoxscopeError(f"FOXSCOPE_SSH: a quote is not closed: {ssh}") from None
        port = ["-p", str(self.port)] if self.port else []
        place = f"{self.user}@{self.host}" if self.user else self.host
        return [*words, *port, place, os.environ.get("FOXSCOPE_REMOTE_PROGRAM") or "foxscope", "agent"]


def is_remote(path: str) -> bool:
    """Whether a path is meant to be on another machine."""
    return path.startswith(_SCHEME)


def said_there(machine: str, sentence: str) -> str:
    """A sentence from another machine, by its words in an URL, as the program says it: "ssh://box/run.h5: is damaged" where it
    begins with a path, and else "box: out of memory". `machine` is empty for this one.
    """
    if not machine:
        return sentence
    if not sentence.startswith("/"):
        return f"{machine}: {sentence}"
    path, colon, rest = sentence.partition(": ")
    return f"{_SCHEME}{machine}{path.replace('%', '%25')}{colon}{rest}"


def parse_remote_path(url: str) -> tuple[Host, str]:
    """The machine of an URL, and the path there: absolute, or ~/... in the home folder.

    Raises FoxscopeError for an URL without a host or a path, and for words that ssh would take for its options.
    """

    def refuse(problem: str) -> FoxscopeError:
        return FoxscopeError(f"{url}: {problem}: write ssh://[USER@]HOST[:PORT]/PATH, /~/ for the home folder")

    def unescaped(part: str) -> str:
        if re.search("%(?![0-9A-Fa-f]{2})", part):
            raise refuse("a % needs two hexadecimal digits behind it, and one of a name is written %25")
        text = os.fsdecode(unquote_to_bytes(os.fsencode(part)))
        if "\0" in text:
            raise refuse("no path has a byte of 0")
        return text

    place, slash, path = url.removeprefix(_SCHEME).partition("/")
    if not slash:
        raise refuse("it names no path")
    user, _, address = place.rpartition("@")
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        if port and not port.startswith(":"):
            raise refuse("behind a ] comes : and a port, or the path")
        port = port.removeprefix(":")
    else:
        host, _, port = address.partition(":")
    user, host = unescaped(user), unescaped(host)
    if not host:
        raise refuse("it names no host")
    for what, word in (("user", user), ("host", host)):
        if word.startswith("-"):
            raise refuse(f"a {what} does not begin with a dash")
        if any(letter <= " " or letter == "\x7f" for letter in word):
            raise refuse(f"a {what} has no blanks")
    if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= _LARGEST_PORT):
        raise refuse(f"a port is a number from 1 to {_LARGEST_PORT}")
    there = "/" + unescaped(path)
    if there == "/~" or there.startswith("/~/"):
        there = there[1:]
    return Host(user, host, int(port or 0)), there
