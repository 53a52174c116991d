"""Models that are run from here."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from foxscope.agents import Agent, agent_of
from foxscope.errors import FoxscopeError
from foxscope.figures import option_words
from foxscope.paths import as_path, check_utf8
from foxscope.remote_path import is_remote, parse_remote_path
from foxscope.runs import Run

__all__ = ["compare", "run"]

Checkpoint: TypeAlias = str | os.PathLike[str]
Checkpoints: TypeAlias = Checkpoint | Sequence[Checkpoint] | Mapping[str, Checkpoint]


def _named(checkpoints: Checkpoints) -> list[tuple[str, str]]:
    """Name, which may be empty, and path of each."""
    if isinstance(checkpoints, Mapping):
        return [(str(name), as_path(path, "run")) for name, path in checkpoints.items()]
    if isinstance(checkpoints, Sequence) and not isinstance(checkpoints, (str, bytes)):
        return [("", as_path(path, "run")) for path in checkpoints]
    return [("", as_path(checkpoints, "run"))]


def _content(text: "str | os.PathLike[str]") -> bytes:
    if isinstance(text, str):
        if os.path.isfile(text):
            warnings.warn(
                f"text: {text!r:.80} is read as the text itself; to read the file of that name, give it as a pathlib.Path",
                stacklevel=3,
            )
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise FoxscopeError("text: holds half a character (a surrogate), which is no UTF-8: remove it") from None
    if not isinstance(text, os.PathLike):
        raise FoxscopeError(f"text: expected a string, or a file as a pathlib.Path, got {text!r:.80}")
    path = as_path(text, "text")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FoxscopeError(f"{path}: cannot be read ({error.strerror})") from None


def _from_root(agent: Agent, path: str) -> str:
    """A path on an agent's machine for the words of a command, which know no "~"."""
    if path == "~" or path.startswith("~/"):
        return str(agent.ask("stat", {"path": "~"}).value["resolved"]) + path[1:]
    return path


def run(
    checkpoints: Checkpoints,
    text: "str | os.PathLike[str]",
    output: Checkpoint | None = None,
    *,
    device: str = "auto",
    **options: Any,
) -> Run:
    """Runs models on a text, as `foxscope run` does (docs/commands.md), and opens the run.

    checkpoints: a folder or an id of the hub's cache, several, or a mapping of names to them; or folders of one other
    machine, ssh://HOST/PATH, where they are then run. text: the text itself, or the path of a file as a pathlib.Path.
    output: the run file to write, on the machine where models run; None: one that goes away with the run. options are the
    command's: length=4096, dtype="bfloat16",
    keep="loss,gates,rows,qk", intervene=["*:*:one"], force=True.

    Raises FoxscopeError in the program's words.
    """
    named = _named(checkpoints)
    places = [parse_remote_path(path) if is_remote(path) else (None, path) for _, path in named]
    hosts = {host for host, _ in places}
    if len(hosts) != 1:
        raise FoxscopeError("run: give models of one machine" if hosts else "run: give at least one model")
    host = hosts.pop()
    # A folder of an agent is there until it ends: a run that has no other place has an agent of its own.
    agent = Agent(host) if output is None else agent_of(host)
    agent.enter()
    try:
        if output is None:
            url = there = agent.ask("folder", {}).value + "/run.h5"
            if host is not None:
                url = f"ssh://{host.words()}{there}"
        else:
            url = as_path(output, "output")
            output_host, there = parse_remote_path(url) if is_remote(url) else (None, os.path.abspath(url))
            check_utf8(there)
            if output_host != host:
                raise FoxscopeError(f"{url}: the run is written where the models run: name a file of that machine")
            if host is not None:
                there = _from_root(agent, there)
        words = ["run", "--text", "-", "-o", there, "--device", device]
        for (name, _), (_, path) in zip(named, places):
            # The agent's own folder is another one; an id of the hub's cache is no folder.
            folder = os.path.abspath(path) if host is None and os.path.isdir(path) else path
            if host is not None:
                folder = _from_root(agent, folder)
            words += ["--model", f"{name}={folder}" if name else folder]
        intervene = options.pop("intervene", [])
        for change in [intervene] if isinstance(intervene, str) else intervene:
            words += ["--intervene", change]
        agent.command([*words, *option_words(options)], _content(text))
        return Run(agent, url, there, "whole", device)
    finally:
        agent.leave()


def compare(
    models: Checkpoints | Run,
    text: "str | os.PathLike[str] | None" = None,
    **options: Any,
) -> Any:
    """Compares the losses of two models on one text.

    compare(run) is of the two models of a run; compare([first, second], text) runs two checkpoints, with the options of
    `run`.
    """
    if isinstance(models, Run):
        return models.compare(**options)
    files = [path for _, path in _named(models) if path.endswith(".h5") or os.path.isfile(path)]
    if files:
        raise FoxscopeError(
            f"compare: {files[0]} is a file, and checkpoints are folders: foxscope.open({files[0]!r}).compare() is of the "
            "two models of a run file, and the command `foxscope compare A.h5 B.h5` is of two files"
        )
    if text is None:
        raise FoxscopeError("compare: give a run, or two checkpoints and a text")
    with run(models, text, **options) as made:
        return made.compare()
