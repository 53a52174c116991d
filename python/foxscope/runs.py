"""Run files: models, heads, tokens, losses."""

import csv
import html
import io
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from foxscope.agents import Agent, agent_of
from foxscope.arrays import Mixer, read_array, read_row
from foxscope.atlases import Atlas
from foxscope.comparison import Comparison
from foxscope.connection import Answer, Json, number
from foxscope.entries import Entries
from foxscope.errors import FoxscopeError
from foxscope.figures import Figure, option_words
from foxscope.integers import as_integer
from foxscope.opened import OpenedModels
from foxscope.paths import as_path, check_utf8
from foxscope.program import find_program
from foxscope.remote_path import is_remote, parse_remote_path
from foxscope.tables import import_pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Head", "Model", "Run", "open"]

_TEXT_PIECE = 16 << 20
"""Bytes of a long text in one answer."""
_TOKEN_PIECE = 1 << 19
"""Tokens of a long text in one answer."""
_WINDOW_SECONDS = 0.5
"""A window that cannot open says so within this time."""


class _Tokens:
    """Tokens of a run, which models with equal ones share (docs/agent.md)."""

    def __init__(self, answer: Answer, packed: Json, text: bytes) -> None:
        sizes = answer.array(packed["byte_size"]).astype(np.int64)
        if packed.get("byte_start") is not None:
            self.byte_start: NDArray[np.int64] = answer.array(packed["byte_start"])
        else:
            self.byte_start = packed["first_byte"] + np.cumsum(sizes) - sizes
        self.byte_end: NDArray[np.int64] = self.byte_start + sizes
        pieces = [text[begin:end] for begin, end in zip(self.byte_start.tolist(), self.byte_end.tolist())]
        if packed.get("id") is not None:
            self.ids: NDArray[np.int32] = answer.array(packed["id"])
        else:
            fresh = answer.array(packed["id_of_bytes"]).tolist()
            place = {piece: n for n, piece in enumerate(dict.fromkeys(pieces))}
            self.ids = np.array([fresh[place[piece]] for piece in pieces], np.int32)
        if packed.get("input_id") is not None:
            self.input_ids: NDArray[np.int32] = answer.array(packed["input_id"])
        else:
            self.input_ids = np.concatenate([np.array([packed["first_input_id"]], np.int32), self.ids[:-1]])
        self.first_string: str | None = answer.text(packed["first_string"]) if packed.get("first_string") else None
        if packed.get("string") is not None:
            self.strings = answer.texts(packed["string"])
        else:
            self.strings = [piece.decode("utf-8", "replace") for piece in pieces]

    @property
    def read_strings(self) -> list[str]:
        """The token that each position reads, [L]. Position 0 of most runs reads BOS, which is no token of the text."""
        first = self.first_string or "⟨BOS⟩"
        before = zip(self.input_ids[1:].tolist(), self.ids.tolist(), self.strings or [""] * len(self.ids))
        return [first, *(word if read == of_text and word else f"⟨{read}⟩" for read, of_text, word in before)]

    def __repr__(self) -> str:
        first = ", ".join(repr(token) for token in (self.strings or self.ids.tolist())[:4])
        return f"<{len(self.ids)} tokens: {first}{', ...' if len(self.ids) > 4 else ''}>"

    def extend(self, more: "_Tokens") -> None:
        """Adds the tokens that follow."""
        for name in ("ids", "input_ids", "byte_start", "byte_end"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))
        self.strings += more.strings


class Run(OpenedModels["Model"]):
    """A run file: models that read one text. Its arrays stay in the file; the program computes what is asked for.

    `run["fox"]` is a model of it, and so is `run[0]`. A run is closed by `close()` or at the end of a `with` block.
    """

    def __init__(self, agent: Agent, path: str, there: str, check: str, device: str) -> None:
        super().__init__(agent, path, there)
        self.device = device
        try:
            answer = self.ask("open", {"path": there, "check": check, "losses": True})
        except BaseException:
            self.close()
            raise
        opened = answer.value
        self.reference: Json = opened["run"]
        """How requests name it."""
        self.command_line: str = opened["command_line"]
        """The command that made it."""
        self.created: str = opened["created"]
        """When it was made, UTC."""
        self.bytes: int = opened["bytes"]
        """Size of the file."""
        # Bytes of a text that is too long for the answer. None: the answer holds the text and the tokens.
        long = opened.get("text_bytes")
        if long is not None:
            encoded = self._ask_for_text(long)
            tokens = [self._ask_for_tokens(opened["traces"], n, encoded) for n in range(len(opened["tokens"]))]
        else:
            encoded = answer.text(opened["texts"][0]["content"]).encode() if opened["texts"] else b""
            tokens = [_Tokens(answer, packed, encoded) for packed in opened["tokens"]]
        self.text: str | None = encoded.decode("utf-8", "replace") if opened["texts"] else None
        """What the models read; None where the run is of token ids alone."""
        self.models = tuple(Model(self, answer, trace, tokens[trace["tokens"]]) for trace in opened["traces"])

    def _ask_for_text(self, size: int) -> bytes:
        pieces = []
        for begin in range(0, size, _TEXT_PIECE):
            places = {"begin": begin, "end": min(size, begin + _TEXT_PIECE)}
            answer = self.ask("text", {"run": self.reference, "bytes": places})
            pieces.append(answer.array(answer.value).tobytes())
        return b"".join(pieces)

    def _ask_for_tokens(self, traces: Json, number: int, text: bytes) -> _Tokens:
        info = next(trace["info"] for trace in traces if trace["tokens"] == number)
        of = {"run": self.reference, "model": info["name"], "device": self.device, "layer": 0, "head": 0}
        whole: _Tokens | None = None
        for begin in range(0, info["length"], _TOKEN_PIECE):
            places = {"begin": begin, "end": min(info["length"], begin + _TOKEN_PIECE)}
            answer = self.ask("tokens", {"of": of, "positions": places})
            part = _Tokens(answer, answer.value, text)
            if whole is None:
                whole = part
            else:
                whole.extend(part)
        assert whole is not None
        return whole

    @property
    def unchecked(self) -> bool:
        """Whether it was opened although its arrays may contradict one another."""
        return bool(self.reference["unchecked"])

    def _checked_words(self) -> list[str]:
        return ["--unchecked"] if self.unchecked else []

    @property
    def losses(self) -> "pd.DataFrame":
        """Loss of each model at each position, nats: a column `token`, the text that a position predicts, and one for each
        model. The index is the position.

        Raises FoxscopeError where models read different tokens: `run[name].losses` is of one.
        """
        kept = [model for model in self.models if model.loss is not None]
        if not kept:
            raise FoxscopeError(f"{self.path}: losses were not kept: {self.models[0].keep_remedy('loss')}")
        for model in kept[1:]:
            if model.tokens is not kept[0].tokens:
                raise FoxscopeError(
                    f"{self.path}: '{kept[0].name}' and '{model.name}' read different tokens: take run[{model.name!r}].losses"
                )
        table = kept[0].losses.rename(columns={"loss": kept[0].name})
        for model in kept[1:]:
            table[model.name] = model.loss
        return table

    def figure(
        self,
        kind: str,
        *,
        format: str = "svg",
        others: "Run | str | os.PathLike[str] | Sequence[Run | str | os.PathLike[str]]" = (),
        **options: Any,
    ) -> Figure:
        """A figure of this run that the program draws, as `foxscope figure KIND` does (docs/commands.md).

        format: svg, pdf, png or csv. others: run files or evaluations beside this one, on the same machine. options are
        the command's: heads=[(3, 0)], quantity=["attention"], rows=(0, 512), width="icml", label={"fox": "FoX"}.
        """
        others = others if isinstance(others, Sequence) and not isinstance(others, (str, bytes)) else [others]
        paths = [other.path_there if isinstance(other, Run) else as_path(other, "figure") for other in others]
        return self._draw(kind, format, [*paths, *option_words(options), *self._checked_words()])

    def compare(
        self,
        model: "Model | str | None" = None,
        minus: "Model | str | None" = None,
        *,
        rows: tuple[int, int] | None = None,
    ) -> Comparison:
        """The losses of two models on this text, the second taken from the first, as `foxscope compare` has them.

        rows: positions that count, (first, end). With two models both names may be left out.
        """
        names = {"model": getattr(model, "name", model), "minus": getattr(minus, "name", minus), "rows": rows}
        output = self.command("compare", self._there, "--json", *option_words(names), *self._checked_words())
        return Comparison(output)

    def view(self) -> None:
        """Opens the window on this run. It goes on after this process.

        Raises FoxscopeError in the window's words where it cannot open, for want of a display for instance.
        """
        words = [find_program(), "open", self.path, *self._checked_words()]
        with tempfile.TemporaryFile() as said:
            window = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
            try:
                status = window.wait(_WINDOW_SECONDS)
            except subprocess.TimeoutExpired:
                threading.Thread(target=window.wait, daemon=True).start()  # so that its end is noticed
                return
            said.seek(0)
            line = said.read().decode("utf-8", "replace").strip().split("\n")[-1].removeprefix("foxscope: ")
        if status != 0:
            raise FoxscopeError(line or f"the window ended with status {status}")

    def __repr__(self) -> str:
        return f"<run {self.path}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(model.name)}</td><td>{html.escape(model.model_type)}</td><td>{model.layers}</td>"
            f"<td>{model.heads_per_layer}</td><td>{model.length:,}</td><td>{model.dtype}</td>"
            f"<td>{'' if model.loss is None else f'{float(np.mean(model.loss, dtype=np.float64)):.4f}'}</td></tr>"
            for model in self.models
        )
        heading = "".join(f"<th>{word}</th>" for word in ("model", "type", "layers", "heads", "tokens", "dtype", "loss (nats)"))
        return f"<p>{html.escape(self.path)}</p><table><tr>{heading}</tr>{rows}</table>"


class Model:
    """A model of a run file, with what the run kept of it."""

    def __init__(self, run: Run, answer: Answer, trace: Json, tokens: _Tokens) -> None:
        config = answer.text(trace["info"]["config"])
        info = {name: answer.unpacked(value) for name, value in trace["info"].items() if name != "config"}
        self.run = run
        self.info: dict[str, Json] = info
        """Facts, by the names that requests have for them. `config` is beside."""
        self.name: str = info["name"]
        self.model_type: str = info["model_type"]
        self.config: dict[str, Json] = json.loads(config or "{}")
        """config.json; empty where the run has none."""
        self.dtype: str = info["dtype"]
        """Of queries and keys: float32 or bfloat16."""
        self.length: int = info["length"]
        """L, positions."""
        self.layers: int = info["layers"]
        self.heads_per_layer: int = info["heads"]
        """H; the most of any layer."""
        self.tokens = tokens
        """`ids` and `strings`, what each position predicts, `input_ids` and `read_strings`, what it reads; [L] each."""
        self._kept = {(kept["array"], kept["index"]) for kept in trace["kept"]}
        self._stored = set(trace["stored"])
        self._tables: dict[tuple[str, ...], pd.DataFrame] = {}
        loss = answer.array(trace["loss"]) if trace.get("loss") is not None else read_array(self, "loss/per_token_loss")
        self.loss: NDArray[np.float32] | None = loss if loss.size else None
        """[L] nats, of the token that a position predicts; None where it was not kept."""

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of arrays that no layer has for itself."""
        names = ("layers", "heads", "length", "vocabulary_size", "hidden_size", "chosen_experts")
        return {name: self.info[name] for name in names}

    def _checked_layer(self, layer: SupportsIndex) -> int:
        place = as_integer(layer, "layer")
        if not 0 <= place < self.layers:
            raise FoxscopeError(f"layer {place}: model '{self.name}' has layers 0 to {self.layers - 1}")
        return place

    def mixer(self, layer: SupportsIndex) -> Mixer:
        """What a layer is, counted from 0. Softmax attention that does not forget has the decay "none"."""
        layer = self._checked_layer(layer)
        decay = "head" if self.info["forgetting"][layer] else "none"
        if self.info["mixers"]:
            mixer = {name: self.info["mixers"][layer][name] for name in Mixer.__dataclass_fields__}
            return Mixer(**mixer if mixer["mixer"] != "attention" else {**mixer, "decay": decay})
        heads, keys, channels = self.info["heads"], self.info["key_heads"], self.info["head_dim"]
        return Mixer("attention", decay, heads, heads, keys, keys, channels, channels)

    def has(self, name: str, index: int = 0) -> bool:
        """Whether the run kept an array; NN stands for the layer, and `index` is it."""
        if name in self._stored:
            return 0 <= index < self.layers and self.mixer(index).heads > 0
        return (name, index) in self._kept

    @property
    def arrays(self) -> list[str]:
        """Names of all arrays that the run kept, as `array` takes them."""
        stored = ((name, layer) for name in self._stored for layer in range(self.layers) if self.has(name, layer))
        return sorted(name.replace("NN", f"{index:02}") for name, index in {*self._kept, *stored})

    def array(self, name: str) -> NDArray[Any]:
        """An array of the run file by its name below the model's group (docs/files.md): "layers/03/query" [H, L, d].

        Where the file lies here and has it in one piece it is mapped into memory, read-only. bfloat16 becomes float32.
        """
        return read_array(self, name)

    def reference(self, *, attends: bool = False) -> Json:
        """How requests name it. `attends`: row normalisers that the run did not keep are to be computed, once."""
        rows = attends and any(
            self.mixer(layer).mixer == "attention"
            and self.has("layers/NN/query", layer)
            and not self.has("layers/NN/log_normalizer", layer)
            for layer in range(self.layers)
        )
        run = {**self.run.reference, "rows": True} if rows else self.run.reference
        return {"run": run, "model": self.name, "device": self.run.device, "layer": 0, "head": 0}

    def head(self, layer: SupportsIndex, head: SupportsIndex) -> "Head":
        """A head, both counted from 0. Whole numbers of numpy will do, as those of the index of `heads()`."""
        layer, head = self._checked_layer(layer), as_integer(head, "head")
        heads = self.mixer(layer).heads
        if not 0 <= head < heads:
            raise FoxscopeError(f"head {head}: layer {layer} of model '{self.name}' has heads 0 to {heads - 1}")
        return Head(self, layer, head)

    def __iter__(self) -> Iterator["Head"]:
        """All heads, by layer, then head."""
        for layer in range(self.layers):
            for head in range(self.mixer(layer).heads):
                yield Head(self, layer, head)

    @property
    def recorded(self) -> bool:
        """Whether foxscope.record made it, so that the program knows no model of it."""
        return str(self.info["attention_kernel"]).startswith("recorded")

    def keep_remedy(self, word: str) -> str:
        """Says how a run keeps its loss or gates, as the program does: a recorded one has its model in Python."""
        if not self.recorded:
            return f"run again with --keep {word}"
        if word == "loss":
            return "record it again, and call rec.logits(...) in the block"
        return f"record it again with '{word}' in keep="

    @property
    def losses(self) -> "pd.DataFrame":
        """The loss at each position, nats, beside `token`, the text that it predicts. The index is the position."""
        if self.loss is None:
            raise FoxscopeError(f"{self.run.path}: model '{self.name}': losses were not kept: {self.keep_remedy('loss')}")
        pandas = import_pandas()
        tokens = self.tokens.strings or self.tokens.ids
        index = pandas.RangeIndex(self.length, name="position")
        table: pd.DataFrame = pandas.DataFrame({"token": tokens, "loss": self.loss}, index)
        return table

    def heads(
        self, *, split: bool = False, by_class: bool = False, saliency: bool = False, match: str | None = None
    ) -> "pd.DataFrame":
        """All statistics of every head (docs/maps.md), a row each; the index is layer and head, `labels` are words with ;
        between them. Columns are those of `foxscope heads --csv`, to the last bit.

        split: how much of a head's locality comes from its gate. by_class: gates by class of the token that is read.
        match: heads of this model of the run that have the nearest distance profiles.
        """
        options = option_words({"split": split, "by_class": by_class, "saliency": saliency, "match": match})
        known = self._tables.get(tuple(options))
        if known is None:
            pandas = import_pandas()
            words = [
                "heads",
                self.run.path_there,
                "--model",
                self.name,
                "--csv",
                "--quiet",
                "--device",
                self.run.device,
            ]
            output = self.run.command(*words, *options, *self.run._checked_words())
            rows = list(csv.reader(io.StringIO(output.decode())))
            columns: dict[str, list[Any]] = {}
            for name, *values in zip(*rows):
                columns[name] = values if name == "labels" else [float(value or "nan") for value in values]
            places = zip(map(int, columns.pop("layer")), map(int, columns.pop("head")))
            index = pandas.MultiIndex.from_tuples(list(places), names=["layer", "head"])
            known = pandas.DataFrame(columns, index)
            self._tables[tuple(options)] = known
        return known.copy()

    def __repr__(self) -> str:
        sizes = f"{self.layers} layers of {self.heads_per_layer} heads, {self.length} tokens"
        return f"<model {self.name}: {self.model_type}, {sizes}>"


class Head:
    """A head of a model. Its maps are `forget`, `attention` and so on; none is computed before entries are asked for."""

    def __init__(self, model: Model, layer: int, head: int) -> None:
        self.model = model
        self.layer = layer
        self.head = head

    @property
    def title(self) -> str:
        """The head in words."""
        return f"{self.model.name}, layer {self.layer}, head {self.head}"

    def reference(self, *, attends: bool = False) -> Json:
        """How requests name it."""
        return {**self.model.reference(attends=attends), "layer": self.layer, "head": self.head}

    def map(self, quantity: str, *, without_first: bool = False, channel: SupportsIndex | None = None) -> Entries:
        """A map by its name: forget, log_forget, logits, attention, attention_without_gate, gate_effect or mixing.

        without_first: key 0 is left out, and rows of attention are divided by the rest of their sum. channel: of forget
        and log_forget where channels decay each; the default is the mean over channels.
        """
        return Entries(self, quantity, without_first=without_first, channel=channel)

    @property
    def forget(self) -> Entries:
        """F[i, j] = exp(c[i] - c[j]), the share of key j that is left at query i."""
        return self.map("forget")

    @property
    def attention(self) -> Entries:
        """A[i, j] = exp(S[i, j] + c[i] - c[j] - lse[i]); of a linear mixer the shares |M[i, j]| of a row."""
        return self.map("attention")

    @property
    def logits(self) -> Entries:
        """S[i, j] = q[i].k[j] times the scale, nats, without the gate."""
        return self.map("logits")

    @property
    def attention_without_gate(self) -> Entries:
        """Softmax of S alone."""
        return self.map("attention_without_gate")

    @property
    def gate_effect(self) -> Entries:
        """Attention minus attention_without_gate."""
        return self.map("gate_effect")

    @property
    def mixing(self) -> Entries:
        """M[i, j], with signs: the head's output is y[i] = sum of M[i, j] v[j]."""
        return self.map("mixing")

    @property
    def cumulative_log_gate(self) -> NDArray[np.float64]:
        """c, the sum of log forget gates up to and including each position, [L] nats; where channels decay each, of the
        mean over channels.
        """
        model = self.model
        if model.has("layers/NN/cumulative_log_gate", self.layer):
            return read_row(model, "cumulative_log_gate", self.layer, self.head)
        if model.has("layers/NN/cumulative_log_decay", self.layer):
            sums: NDArray[np.float64] = self.cumulative_log_decay
            # Channel by channel, as the program sums them.
            mean: NDArray[np.float64] = np.cumsum(sums, axis=1)[:, -1] / sums.shape[1]
            return mean
        raise FoxscopeError(
            f"{model.run.path}: model '{model.name}': gates of layer {self.layer} were not kept: {model.keep_remedy('gates')}"
        )

    @property
    def cumulative_log_decay(self) -> NDArray[np.float64]:
        """P, the sum of log decays of each channel up to and including each position, [L, d] nats."""
        return read_row(self.model, "cumulative_log_decay", self.layer, self.head)

    @property
    def log_forget(self) -> NDArray[np.float64]:
        """Log of the forget gate of each position, [L] nats, at most 0: the differences of cumulative_log_gate."""
        return np.diff(self.cumulative_log_gate, prepend=0.0)

    @property
    def decay_time(self) -> float:
        """T = -1 / mean log f over positions 1 to L - 1, tokens; positions that cut everything off are left out."""
        fields = {"head": self.reference(), "options": {"with_attention": False}}
        return number(self.model.run.ask("statistics", fields).value["rate_decay_time"])

    @property
    def query(self) -> NDArray[np.float32]:
        """Queries as they enter the mixer, [L, d]; of softmax attention padded with zeros where values are wider."""
        return read_row(self.model, "query", self.layer, self.head)

    @property
    def key(self) -> NDArray[np.float32]:
        """Keys that the head reads, [L, d], padded as queries are."""
        return read_row(self.model, "key", self.layer, self.head)

    @property
    def value(self) -> NDArray[np.float32]:
        """Values that the head reads, [L, d_v]; of softmax attention padded with zeros where queries are wider."""
        return read_row(self.model, "value", self.layer, self.head)

    def __repr__(self) -> str:
        return f"<head {self.layer}:{self.head} of {self.model.name}>"


@overload
def open(
    path: "str | os.PathLike[str]", *, check: bool = True, device: str = "auto", kind: Literal["run"] | None = None
) -> Run: ...


@overload
def open(path: "str | os.PathLike[str]", *, check: bool = True, device: str = "auto", kind: Literal["atlas"]) -> Atlas: ...


def open(path: "str | os.PathLike[str]", *, check: bool = True, device: str = "auto", kind: str | None = None) -> Run | Atlas:
    """Opens a run file or an atlas of heads, here or at ssh://[USER@]HOST[:PORT]/PATH (docs/agent.md).

    check: arrays that contradict one another are an error; False opens such a file too, and what is drawn is marked.
    device: computes maps and statistics where the file lies: auto, cpu, cuda or cuda:N. kind: "run" or "atlas", which the
    file then has to be; a checker of types takes what is opened without it for a run.

    Raises FoxscopeError in the program's words: a file that is missing, is still being written, is of a newer schema.
    """
    if kind not in (None, "run", "atlas"):
        raise FoxscopeError(f"kind {kind!r}: use 'run' or 'atlas'")
    name = as_path(path, "open")
    host, there = parse_remote_path(name) if is_remote(name) else (None, os.path.abspath(name))
    check_utf8(there)
    agent = agent_of(host)
    agent.enter()  # one agent says what the file is, and reads it
    try:
        if kind != "run" and _holds_atlas(agent, there, kind == "atlas"):
            return Atlas(agent, name, there)
        if kind == "atlas":
            raise FoxscopeError(f"{name}: holds no atlas of heads: name a file that `foxscope eval atlas` wrote")
        return Run(agent, name, there, "whole" if check else "none", device)
    finally:
        agent.leave()


def _holds_atlas(agent: Agent, there: str, must: bool) -> bool:
    """Whether a file is an atlas of heads. Where it need not be one, whoever opens it as another says what is wrong with it."""
    try:
        return bool(agent.ask("stat", {"path": there}).value.get("holds") == "eval_atlas")
    except FoxscopeError:
        if must:
            raise
        return False
