"""Records the attention of any PyTorch model into a run file."""

from __future__ import annotations

import os
import re
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import FoxscopeError
from ..paths import as_path
from ..program import VERSION
from ..remote_path import is_remote
from .arguments import KEEP_WORDS, MOST_HEADS, above_0, check_layer, number_of, whole, whole_numbers, words_of
from .arrays import (
    Tensor,
    as_tensor,
    device_of,
    dtype_of,
    pieces,
    shape_of,
    to_float64,
)
from .beside import Beside
from .call import Call, checked, one_sequence
from .capture import Capture
from .layers import Layer, Numbers, select_heads, without_numbers, write_layer
from .losses import finite_losses, read_losses
from .masks import NotRecordable
from .model_attributes import write_model
from .readings import Readings
from .run_writer import RunWriter
from .taken import Taken, take
from .tokens import TokenTable, make_tokens, read_ids
from .unrecorded import Unrecorded, unrecorded


@dataclass
class _Skipped:
    source: str
    module: str
    reason: str
    count: int = 1


def _abandon(writer: RunWriter, capture: Capture | None, beside: Beside, path: str, process: int, file: str, line: int) -> None:
    """Ends a recording that nobody closed, throws away what it wrote, and says so, with the line that opened it."""
    if capture is not None:
        capture.stop()
    if process == os.getpid():
        beside.end()
    writer.discard()
    if process == os.getpid():
        message = (
            f"{path}: the recording was never closed, and nothing is written: use it as `with foxscope.record(...) as rec:`"
        )
        warnings.warn_explicit(message, UserWarning, file, line)


def _widths(layer: Layer) -> str:
    """Words for values of another width than queries, and for the width that a file of softmax attention has of both."""
    queries, values, both = layer.given["head_dim"], layer.given["value_dim"], layer.sizes["head_dim"]
    if queries == values:
        return ""
    padded = f", {'queries and keys' if both > queries else 'values'} padded to {both}" if layer.softmax else ""
    return f" with values of {values}{padded}"


def _is_writer() -> bool:
    """Whether this process writes: under torch.distributed rank 0 alone."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return True
    return int(distributed.get_rank()) == 0


class Recording:
    """A run file in the making; `record` makes one. Use it as a context: the file appears when the block ends well."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str,
        input_ids: Any,
        text: str | None,
        tokenizer: Any,
        offsets: Any,
        keep: str | Sequence[str],
        layers: Sequence[int] | None,
        heads: Sequence[int] | None,
        sequence: int,
        check: bool,
        automatic: bool,
        dtype: str | None,
        overwrite: bool,
    ) -> None:
        self._path = as_path(path, "record")
        if is_remote(self._path):
            raise FoxscopeError(f"{self._path}: a recording is written on this machine: name a file here, and copy it later")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", ".."):
            raise FoxscopeError(f"name {name!r}: use letters, digits, '.', '_' and '-'")
        self._name = name
        words = frozenset(words_of(keep))
        unknown = words - set(KEEP_WORDS)
        if unknown:
            raise FoxscopeError(f"keep: '{sorted(unknown)[0]}' is not known: use {', '.join(KEEP_WORDS)}")
        if dtype not in (None, "float32", "bfloat16"):
            raise FoxscopeError(f"dtype: expected 'float32' or 'bfloat16', got {dtype!r}")
        self._layers_wanted = None if layers is None else set(whole_numbers(layers, "layers"))
        for layer in self._layers_wanted or ():
            check_layer(layer, "layers: ")
        self._heads_wanted = None if heads is None else whole_numbers(heads, "heads")
        if self._heads_wanted is not None and (not self._heads_wanted or min(self._heads_wanted) < 0):
            raise FoxscopeError(f"heads: expected numbers of heads from 0 on, got {self._heads_wanted}")
        if self._heads_wanted is not None and len(self._heads_wanted) > MOST_HEADS:
            raise FoxscopeError(f"heads: expected at most {MOST_HEADS} numbers, got {len(self._heads_wanted)}")
        sequence = whole(sequence, "sequence")
        if sequence < 0:
            raise FoxscopeError(f"sequence: expected a number from 0 on, got {sequence}")
        self._sequence, self._check, self._automatic = sequence, check, automatic
        self._numbers = Numbers(words, dtype)
        self._layers: dict[int, Layer] = {}
        self._taken: deque[Taken] = deque()
        self._not_wanted: set[int] = set()
        self._of_model: int | None = None
        self._skipped: list[_Skipped] = []
        self._loss: list[tuple[int, Readings]] = []
        self._logits_rows = 0
        self._ids = None if input_ids is None else read_ids(input_ids, sequence)
        self._prompt = 0 if self._ids is None else len(self._ids)
        self._text, self._tokenizer, self._offsets = text, tokenizer, offsets
        self._tokens: TokenTable | None = None
        if self._ids is not None and text is not None:
            self._tokens = make_tokens(self._ids, None, text, tokenizer, offsets)
        self._overwrite = overwrite
        self._writer: RunWriter | None = None
        self._capture: Capture | None = None
        self._closed = False
        self._is_writer = _is_writer()
        self._process = os.getpid()
        self._left_open: weakref.finalize[Any, Recording] | None = None
        self._beside = Beside()

    # ---- the block

    def __enter__(self) -> Recording:
        if self._writer is not None or self._closed:
            raise FoxscopeError(f"{self._path}: a recording is used once: call foxscope.record again")
        self._process = os.getpid()
        if not self._writes:
            return self
        self._writer = RunWriter(self._path, self._name, self._overwrite)
        opener = sys._getframe(1)
        self._capture = Capture(self._seen) if self._automatic else None
        self._left_open = weakref.finalize(
            self,
            _abandon,
            self._writer,
            self._capture,
            self._beside,
            self._path,
            self._process,
            opener.f_code.co_filename,
            opener.f_lineno,
        )
        if self._capture is not None:
            try:
                self._capture.start()
            except BaseException:
                self._left_open.detach()
                self._writer.discard()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._capture is not None:
            self._capture.stop()
        if self._writer is None or not self._writes:
            return
        assert self._left_open is not None
        self._left_open.detach()
        try:
            if kind is None:
                self._join()
                self._finish(self._writer)
        finally:
            self._taken.clear()
            self._beside.end()
            self._closed = True
            self._writer.discard()
            self._writer = None

    @property
    def _writes(self) -> bool:
        """Whether this process writes. One that was forked within the block does not: the file is its parent's."""
        return self._is_writer and self._process == os.getpid()

    # ---- what a user calls

    def attention(
        self,
        layer: int,
        q: Tensor,
        k: Tensor,
        v: Tensor | None = None,
        log_forget: Tensor | None = None,
        scale: float | None = None,
        window: int | None = None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
        output: Tensor | None = None,
    ) -> None:
        """Records softmax attention of a layer, torch or numpy, any dtype and device, with or without a batch axis.

        q           [H, L, d] as it enters attention: behind norms, shifts and rotary embedding
        k, v        [H_kv, L, d], [H_kv, L, d_v]; query head h reads key head h // (H / H_kv)
        log_forget  [H, L] log f, nats, at most 0; None: no gate. Below -1000, and -inf, a gate is closed: the file has -1000
        scale       what q.k is multiplied by; None: 1/sqrt(d)
        window      w of 1 or above: query i sees the keys i - w < j <= i; None: all before it
        softcap     logits are softcap tanh(s / softcap), above 0; None: they are s
        sinks       [H] logits that every row's softmax has beside those of keys
        output      [H, L, d_v] that the model's own attention gave, to check against
        Raises FoxscopeError for what does not fit together, and where the output is another.
        """
        where, take = f"layer {layer}", self._take(f"layer {layer}")
        q = take(q, 3, "q")
        self._record(
            layer,
            Call(
                "attention",
                q,
                take(k, 3, "k"),
                take(v, 3, "v"),
                log_decay=take(log_forget, 2, "log_forget"),
                scale=number_of(max(1, shape_of(q)[-1]) ** -0.5 if scale is None else scale, f"{where}: scale"),
                window=0 if window is None else above_0(whole(window, f"{where}: window"), f"{where}: window"),
                softcap=0.0 if softcap is None else above_0(number_of(softcap, f"{where}: softcap"), f"{where}: softcap"),
                sinks=None if sinks is None else one_sequence(sinks, 1, 0, where, "sinks"),
                output=take(output, 3, "output"),
                source="rec.attention",
            ),
            "",
        )

    def mixer(
        self,
        layer: int,
        mixer: str,
        q: Tensor,
        k: Tensor,
        v: Tensor | None = None,
        log_decay: Tensor | None = None,
        beta: Tensor | None = None,
        *,
        scale: float = 1.0,
        decay_rate: Tensor | None = None,
        erase_read: Tensor | None = None,
        erase_write: Tensor | None = None,
        output: Tensor | None = None,
    ) -> None:
        """Records a linear mixer of a layer: "gated_linear_attention", "delta_rule", "mamba2", "mamba",
        "diagonal_plus_low_rank" or "delta_product" (docs/maps.md has the equation of each).

        q, k, v     [H_q, L, d], [H_k, L, d], [H_v, L, d_v]; what the kernel normalises is normalised here
        log_decay   [H, L] of heads, or [H_k, L, d] of channels, nats, at most 0; None: nothing decays
        beta        [H, L] of the delta rule; dt of Mamba and Mamba-2
        scale       what queries are multiplied by, as 1/sqrt(d)
        decay_rate  [H, d] of Mamba; erase_read, erase_write [H_k, L, d] of diagonal plus low rank
        output      [H, L, d_v] that the model's own mixer gave, to check against
        """
        if mixer == "attention":
            raise FoxscopeError(f"layer {layer}: use rec.attention for softmax attention")
        take = self._take(f"layer {layer}")
        batch = as_tensor(q, f"layer {layer}: q").ndim - 3
        channels = log_decay is not None and as_tensor(log_decay, f"layer {layer}: log_decay").ndim - batch == 3
        self._record(
            layer,
            Call(
                mixer,
                take(q, 3, "q"),
                take(k, 3, "k"),
                take(v, 3, "v"),
                log_decay=take(log_decay, 3 if channels else 2, "log_decay"),
                beta=take(beta, 2, "beta"),
                scale=number_of(scale, f"layer {layer}: scale"),
                decay_rate=decay_rate,
                erase_read=take(erase_read, 3, "erase_read"),
                erase_write=take(erase_write, 3, "erase_write"),
                output=take(output, 3, "output"),
                source="rec.mixer",
            ),
            "",
        )

    def _take(self, where: str) -> Any:
        def take(value: Tensor | None, axes: int, name: str) -> Tensor | None:
            if value is None and name in ("q", "k"):
                raise FoxscopeError(f"{where}: {name}: expected a tensor [heads, positions, channels], got None")
            one = one_sequence(value, axes, self._sequence, where, name)
            if one is not None and name in ("q", "k", "v", "output"):
                self._check_sequence(value, axes, f"{where}: {name}")
            return one

        return take

    def _check_sequence(self, value: Tensor, axes: int, what: str) -> None:
        """Raises FoxscopeError where a tensor of the whole text has no sequence of the recording's number."""
        shape = shape_of(as_tensor(value, what))
        if self._sequence >= (shape[0] if len(shape) > axes else 1):
            raise FoxscopeError(
                f"{what}: has one sequence, and sequence={self._sequence} was asked for: leave sequence= out, or pass the batch"
            )

    def tokens(self, input_ids: Any, text: str | None = None, offsets: Any = None) -> None:
        """Names what was read where it was not known before: prompt and answer of a generation, [L] or [B, L].

        The last token of an answer is read by no position. It is what the last one predicted, and may be given too.
        """
        self._ids = read_ids(input_ids, self._sequence)
        self._text = self._text if text is None else text
        self._offsets = self._offsets if offsets is None else offsets
        self._tokens = None

    def logits(self, logits: Tensor) -> None:
        """Takes the model's logits, [L, V] or [B, L, V]: the loss of each token, nats, and with keep="logits" themselves.

        Where the token behind the last position is not known, the position has the entropy of its prediction as loss.
        """
        if not self._writes:
            return
        writer = self._open_writer()
        if self._ids is None:
            raise FoxscopeError("rec.logits: call rec.tokens(input_ids) before, or pass input_ids= to foxscope.record")
        one: Tensor = one_sequence(logits, 2, self._sequence, "rec.logits", "logits")
        self._check_sequence(logits, 2, "rec.logits: logits")
        begin, count = self._logits_rows, int(one.shape[0])
        if begin + count > len(self._ids):
            raise FoxscopeError(
                f"rec.logits: expected [{len(self._ids) - begin}, V], a row for each of input_ids, got {shape_of(one)}"
            )
        targets = self._targets()[begin : begin + count]
        if int(targets.max()) >= int(one.shape[1]):
            raise FoxscopeError(
                f"rec.logits: input_ids have token {int(targets.max())}, and logits are of {int(one.shape[1])} tokens"
            )
        if "loss" in self._numbers.keep:
            self._loss.append((begin, read_losses(one, targets)))
            if not device_of(one).startswith("cuda"):
                finite_losses(*self._loss[-1])
        if "logits" in self._numbers.keep:
            self._join()
            if begin > 0:
                raise FoxscopeError("rec.logits: keep='logits' takes the logits of the whole text in one call")
            dataset = np.concatenate([piece[None] for piece in pieces(one[None], "float32", "logits")])
            writer.write("logits", "float32", dataset[0])
        self._logits_rows += count

    def summary(self) -> str:
        """What was seen, a line a layer, and what was left out with the reason."""
        if self._writes:
            self._join()
        lines = []
        for layer, seen in sorted(self._layers.items()):
            call, sizes = seen.call, seen.sizes
            words = [f"layer {layer}: {call.mixer.replace('_', ' ')}"]
            if seen.decay != "none":
                words.append({"head": "a gate a head", "channel": "a gate a channel", "rates": "rates"}[seen.decay])
            shared = "" if sizes["key_heads"] == sizes["heads"] else f" ({sizes['key_heads']} key heads)"
            words.append(f"{sizes['heads']} heads{shared} of {seen.given['head_dim']}{_widths(seen)}")
            words.append(f"{seen.positions} positions")
            words.append(f"scale {call.scale:.6g}")
            words += [f"window {call.window}"] if call.window else []
            words += [f"softcap {call.softcap:g}"] if call.softcap else []
            words += ["sinks"] if call.sinks is not None else []
            words.append(seen.origin)
            if seen.comparison is not None:
                words.append(f"{seen.comparison.rows} rows checked, error {seen.comparison.error:.1e}")
                words += ["which c in float32 explains"] if seen.comparison.of_sums else []
                words += ["which 16 bits inside the mixer may explain"] if seen.comparison.coarse else []
            else:
                words.append(f"not checked, as {self._unchecked(call)}")
            lines.append(", ".join(words))
        lines += self._missing().lines() if self._layers else []
        for left in self._skipped:
            times = f" ({left.count} times)" if left.count > 1 else ""
            lines.append(f"left out: {left.source}{f' in {left.module}' if left.module else ''}{times}: {left.reason}")
        return "\n".join(lines) if lines else "nothing was seen"

    def _unchecked(self, call: Call) -> str:
        """Words for why a layer was not compared with what its own mixer returned."""
        if not self._check:
            return "check=False says"
        return "its output was not given" if call.output is None else "its values were not given"

    # ---- what capture calls

    def _seen(self, key: object, wanted: int | None, module: str, of_model: int | None, read: Any) -> None:
        """Takes a call of a module that was seen; `wanted` is the number that the module gives its layer, and `of_model` the
        number of layers that its model says it has.

        An error names the file: a call is seen by all recordings that are open, one that was forgotten included.
        """
        if not self._writes:
            return
        try:
            self._take_call(key, wanted, module, of_model, read)
        except FoxscopeError as error:
            raise FoxscopeError(f"{self._path}, which is being recorded: {error}") from error

    def _take_call(self, key: object, wanted: int | None, module: str, of_model: int | None, read: Any) -> None:
        assert self._capture is not None
        try:
            call: Call = read(self._sequence)
        except NotRecordable as reason:
            self._leave_out(read.source, module, str(reason))
            return
        layer = self._capture.layer_of(key, wanted)
        known = self._layer_so_far(layer)
        before = 0 if known is None else known.positions
        if before == 0 and call.goes_on:
            self._leave_out(call.source, module, "it begins with a state from before the recording")
            return
        if before == 0 and int(call.k.shape[1]) != call.rows:
            self._leave_out(call.source, module, f"{call.k.shape[1]} keys for {call.rows} queries, from before the recording")
            return
        self._record(layer, call, module)
        self._of_model = of_model if self._of_model is None else max(self._of_model, of_model or 0)

    def _leave_out(self, source: str, module: str, reason: str) -> None:
        for left in self._skipped:
            if (left.source, left.module, left.reason) == (source, module, reason):
                left.count += 1
                return
        self._skipped.append(_Skipped(source, module, reason))

    # ---- recording a layer

    def _open_writer(self) -> RunWriter:
        if self._writer is None:
            state = "is closed" if self._closed else "is not open: use it as `with foxscope.record(...) as rec:`"
            raise FoxscopeError(f"{self._path}: the recording {state}")
        return self._writer

    def _layer_so_far(self, layer: int) -> Layer | None:
        """What is known of a layer, of which no call waits any more."""
        if layer in self._layers or any(taken.layer == layer for taken in self._taken):
            self._join()
        return self._layers.get(layer)

    def _join(self) -> None:
        """Waits until all calls are in the file. Raises the first error that one of them has."""
        while self._taken:
            self._write(self._taken.popleft(), beside=True)
        self._beside.join()

    def _record(self, layer: int, call: Call, module: str) -> None:
        if not self._writes:
            return
        self._open_writer()
        layer = whole(layer, "layer")
        check_layer(layer)
        if self._layers_wanted is not None and layer not in self._layers_wanted:
            self._not_wanted.add(layer)
            return
        where = f"layer {layer}"
        call = checked(call, where)
        known = self._layer_so_far(layer)
        beside = known is None and _runs_beside(call)
        if not beside:
            self._join()
        call = self._new_rows(where, call, known)
        self._taken.append(take(layer, module, call, self._numbers, self._check, beside))
        while self._taken and (not beside or len(self._taken) > _MOST_TAKEN or self._taken[0].readings.have_come()):
            self._write(self._taken.popleft(), beside)

    def _new_rows(self, where: str, call: Call, known: Layer | None) -> Call:
        """The rows of a call that are new, without the keys and values of a cache before them."""
        before = 0 if known is None else known.positions
        if known is not None and known.call.source != call.source and "rec." in known.call.source + call.source:
            raise FoxscopeError(
                f"{where}: was seen already ({known.origin}) and comes by {call.source} too: pass automatic=False, and "
                f"all layers come by hand"
            )
        self._check_positions(where, call, before)
        new = slice(int(call.k.shape[1]) - call.rows, None)
        if self._check and known is not None and new.start > 0:
            _check_cache(where, known, call.k[:, new.start - 1])
        call = replace(call, k=call.k[:, new], v=None if call.v is None else call.v[:, new])
        return call if before == 0 else replace(call, output=None)  # only the first rows are compared

    def _write(self, taken: Taken, beside: bool) -> None:
        """Checks a call and writes its rows, or lets them be written."""
        writer, layer, where = self._open_writer(), taken.layer, taken.where
        comparison = taken.examine()
        kept = select_heads(taken.kept, self._heads_wanted, where)
        known = self._layers.get(layer)
        if known is None:
            device = device_of(taken.call.q)
            known = Layer(without_numbers(kept), kept.sizes(), kept.sizes(), taken.module, device, comparison)
            self._layers[layer] = known
            self._choose_numbers(where, kept)
        elif known.given != kept.sizes() or known.decay != kept.decay:
            raise FoxscopeError(f"{where}: {kept.sizes()} of positions from {known.positions} on, and {known.given} before")
        known.last_key = taken.last_key
        numbers, of_layer = self._numbers, known
        if beside:
            self._beside.submit(lambda: write_layer(writer, layer, of_layer, kept, numbers), taken.call.q.device)
        else:
            write_layer(writer, layer, of_layer, kept, numbers)

    def _check_positions(self, where: str, call: Call, before: int) -> None:
        keys, rows = int(call.k.shape[1]), call.rows
        if before > 0 and keys == rows and call.mixer == "attention" and call.window != 1:
            raise FoxscopeError(
                f"{where}: was recorded already, {before} positions, and is called again without the keys of these: one "
                f"forward pass, with a cache if it goes on, makes a file (modules that a pass calls twice: rec.attention)"
            )
        if before > 0 and call.mixer != "attention" and not call.goes_on and call.source != "rec.mixer":
            raise FoxscopeError(
                f"{where}: was recorded already, {before} positions, and is called again without a state: one forward "
                f"pass, with a cache if it goes on, makes a file"
            )
        if before == 0 and keys != rows:
            raise FoxscopeError(f"{where}: k: expected [heads, {rows}, {call.d}] as q has, got {shape_of(call.k)}")
        if before == 0 and self._prompt and rows > self._prompt:
            raise FoxscopeError(f"{where}: q has {rows} positions, and input_ids {self._prompt}: pass the ids of all positions")

    def _choose_numbers(self, where: str, call: Call) -> None:
        """One dtype, one scale and one cap hold for all layers of a run file."""
        numbers = self._numbers
        if numbers.dtype is None:
            plain = call.mixer == "attention" and dtype_of(call.q) == "bfloat16" == dtype_of(call.k)
            numbers.dtype = "bfloat16" if plain else "float32"
        if call.mixer != "attention":
            return
        if numbers.scale is None:
            numbers.scale, numbers.cap = call.scale, call.softcap
        if call.softcap != numbers.cap:
            raise FoxscopeError(
                f"{where}: caps logits at {call.softcap:g}, and layers before at {numbers.cap:g}: a run file has one cap for "
                f"all layers; record them apart with layers="
            )
        if call.scale != numbers.scale and numbers.dtype == "bfloat16":
            raise FoxscopeError(
                f"{where}: multiplies logits by {call.scale:.6g}, and layers before by {numbers.scale:.6g}: pass "
                f"dtype='float32', where queries can take the difference"
            )

    # ---- the end

    def _targets(self) -> Any:
        """What each of input_ids predicts; -1 where nothing is known."""
        assert self._ids is not None
        table = self._tokens if self._tokens is not None and len(self._tokens.id) == len(self._ids) else None
        return table.id if table is not None else np.append(self._ids[1:], np.int32(-1))

    def _finish(self, writer: RunWriter) -> None:
        if not self._layers:
            raise FoxscopeError(self._nothing_seen())
        if self._skipped:
            first = self._skipped[0]
            warnings.warn(
                f"{self._path}: left out {len(self._skipped)} kinds of calls, the first {first.source} in "
                f"{first.module or 'no module'}: {first.reason} (rec.summary() lists them)",
                stacklevel=3,
            )
        length = self._length()
        writer.join_pieces()
        self._write_tokens(writer, length)
        self._write_loss(writer, length)
        missing = self._missing()
        schema = write_model(writer, self._layers, missing.count, self._numbers, self._heads_wanted)
        ids = "" if self._ids is None else f", {length} tokens"
        writer.finish(schema, VERSION, f"foxscope.record({os.path.basename(self._path)!r}, name={self._name!r}){ids}")
        if missing.warning():
            warnings.warn(f"{self._path}: {missing.warning()}", stacklevel=3)
        self._warn_of_unchecked()
        self._warn_of_coarse()

    def _missing(self) -> Unrecorded:
        return unrecorded(self._layers, self._not_wanted, self._layers_wanted, self._of_model)

    def _warn_of_unchecked(self) -> None:
        """Names the layers that check=True could not compare with anything."""
        unchecked = {number: seen for number, seen in self._layers.items() if seen.comparison is None}
        if not (self._check and unchecked):
            return
        number, seen = min(unchecked.items())
        more = f" and {len(unchecked) - 1} more" if len(unchecked) > 1 else ""
        warnings.warn(
            f"{self._path}: layer {number}{more} could not be checked, as {self._unchecked(seen.call)}: pass v= and output=, "
            f"or check=False",
            stacklevel=4,
        )

    def _warn_of_coarse(self) -> None:
        """Names the layer whose error is the largest of those that hide a small mistake."""
        errors = {n: seen.comparison.error for n, seen in self._layers.items() if seen.comparison and seen.comparison.coarse}
        if not errors:
            return
        number = max(errors, key=lambda layer: errors[layer])
        more = f" and {len(errors) - 1} more differ" if len(errors) > 1 else " differs"
        warnings.warn(
            f"{self._path}: layer {number}{more} from what the model's own mixer returned, by up to {errors[number]:.2g}: "
            f"16 bits inside the mixer may explain that, and so may gates or a scale that are a little wrong; "
            f"record the model in float32 to tell",
            stacklevel=4,
        )

    def _nothing_seen(self) -> str:
        if self._skipped:
            reasons = "; ".join(dict.fromkeys(f"{left.source}: {left.reason}" for left in self._skipped))
            return f"{self._path}: no call could be recorded: {reasons}"
        if self._layers_wanted is not None and self._not_wanted:
            return (
                f"{self._path}: layers: none of {sorted(self._layers_wanted)} was seen, but "
                f"{sorted(self._not_wanted)}: name some of these"
            )
        if self._capture is not None and self._capture.elsewhere:
            return (
                f"{self._path}: no attention was seen in the thread of the block, and calls of other threads "
                f"were: run the model in the thread that opens the recording"
            )
        return (
            f"{self._path}: no attention was seen: the model ran outside of the block, computes attention itself, or a "
            f"compiled graph (torch.jit, torch.export, CUDA graphs) hides the call: run it within the block, the model that "
            f"the graph was made of, or call rec.attention(layer, q, k, v, output=...) where it computes attention"
        )

    def _length(self) -> int:
        """Positions of the run, which all layers have."""
        counts = {layer: seen.positions for layer, seen in self._layers.items()}
        length = max(counts.values())
        short = next((layer for layer, count in counts.items() if count != length), None)
        if short is not None:
            longest = max(counts, key=lambda layer: counts[layer])
            raise FoxscopeError(
                f"layer {short} was seen at {counts[short]} positions, and layer {longest} at {length}: record one forward "
                f"pass of all layers, or some of them with layers="
            )
        if self._ids is None:
            raise FoxscopeError(f"{self._path}: what was read is not known: call rec.tokens(input_ids)")
        if len(self._ids) not in (length, length + 1):
            raise FoxscopeError(
                f"{self._path}: layers have {length} positions, and input_ids {len(self._ids)}: pass the ids of all "
                f"positions (after a generation: rec.tokens(output_ids)){self._turned()}"
            )
        return length

    def _turned(self) -> str:
        """Words for axes that are likely in another order than rec.attention and rec.mixer take."""
        assert self._ids is not None
        if any("rec." in seen.call.source and seen.given["heads"] == len(self._ids) for seen in self._layers.values()):
            return f", or, if {len(self._ids)} is positions and not heads, q, k and v with heads first, [H, L, d]"
        return ""

    def _write_tokens(self, writer: RunWriter, length: int) -> None:
        assert self._ids is not None
        table = self._tokens
        if table is None or len(table.id) != length:
            behind = int(self._ids[length]) if len(self._ids) > length else None
            table = make_tokens(self._ids[:length], behind, self._text, self._tokenizer, self._offsets)
        writer.write("tokens/id", "int32", table.id)
        writer.write("tokens/input_id", "int32", table.input_id)
        if table.byte_start is not None and table.byte_end is not None:
            writer.write("tokens/byte_start", "int64", table.byte_start)
            writer.write("tokens/byte_end", "int64", table.byte_end)
        if table.string is not None:
            writer.write_strings("tokens/string", table.string)
        if table.first_string is not None:
            writer.attributes("tokens", {"first_string": table.first_string.replace("\0", "\\0")})
        if table.text is not None:
            writer.write_text(table.text, table.text_attributes)

    def _write_loss(self, writer: RunWriter, length: int) -> None:
        if not self._loss:
            return
        loss = np.concatenate([finite_losses(*read) for read in self._loss])
        if len(loss) < length:
            raise FoxscopeError(
                f"rec.logits: got rows of {len(loss)} of {length} positions: pass those of all (generate returns those of the "
                f"answer alone: leave rec.logits out, or record the whole text in one more pass)"
            )
        writer.write("loss/per_token_loss", "float32", loss[:length].astype(np.float32))
        writer.attributes("loss", {"NX_class": "NXdata", "signal": "per_token_loss"})


#: Calls of a GPU whose readings may be on their way. Their tensors are kept alive until then.
_MOST_TAKEN = 2


def _runs_beside(call: Call) -> bool:
    """Whether a layer is checked and written while the model goes on: where its tensors lie on a GPU."""
    return device_of(call.q).startswith("cuda")


def _check_cache(where: str, known: Layer, before: Tensor) -> None:
    """Raises FoxscopeError unless the keys that stand before those of a call are the last that were recorded."""
    if known.last_key is None:
        return
    keys = to_float64(before)
    if np.abs(keys - to_float64(known.last_key)).max() <= 2.0**-6 * np.abs(keys).max():
        return
    raise FoxscopeError(
        f"{where}: the cache of position {known.positions} holds other keys than were recorded: sequences changed places, as "
        f"in beam search; generate with one beam, or run the answer once more in one pass and record that"
    )


def record(
    path: str | os.PathLike[str],
    *,
    name: str = "model",
    input_ids: Any = None,
    text: str | None = None,
    tokenizer: Any = None,
    offsets: Any = None,
    keep: str | Sequence[str] = "loss,gates,qk,values",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    sequence: int = 0,
    check: bool = True,
    automatic: bool = True,
    dtype: str | None = None,
    overwrite: bool = False,
) -> Recording:
    """Records a forward pass of a PyTorch model into a run file, which appears whole when the block ends.

        with foxscope.record("run.h5", name="mine", input_ids=ids, text=text, tokenizer=tok) as rec:
            out = model(ids)
            rec.logits(out.logits)

    path       the file; one that exists is refused unless `overwrite`
    name       of the model in the file: letters, digits, '.', '_' and '-'
    input_ids  [L] or [B, L], what each position reads; after a generation rec.tokens takes all of them
    text       with tokenizer (transformers or tokenizers), or with offsets [L, 2], the places of input_ids in characters
    keep       loss, gates, qk, values, logits: a list, or words with commas
    layers     numbers of the layers that are kept; None: all
    heads      numbers of the heads that are kept, of every layer; None: all
    sequence   which sequence of a batch
    check      whether the first 64 rows of every layer are compared with what its own attention returned
    automatic  False: nothing is seen but calls of rec.attention and rec.mixer
    dtype      "float32" or "bfloat16" of queries, keys and values in the file; None: bfloat16 where the first layer
               is softmax attention in bfloat16, else float32

    Under torch.distributed rank 0 writes, and the other ranks do nothing here.
    """
    return Recording(
        path,
        name=name,
        input_ids=input_ids,
        text=text,
        tokenizer=tokenizer,
        offsets=offsets,
        keep=keep,
        layers=layers,
        heads=heads,
        sequence=sequence,
        check=check,
        automatic=automatic,
        dtype=dtype,
        overwrite=overwrite,
    )
