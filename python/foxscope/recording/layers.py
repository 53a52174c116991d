"""The arrays of a layer in the run file, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import FoxscopeError
from .arrays import Float64, Tensor, is_torch, pad_channels, pieces, take_heads, to_float32, to_float64, torch_module
from .call import CLOSED, PARTS, Call
from .operator_check import Comparison
from .run_writer import ARRAYS, RunWriter


@dataclass
class Numbers:
    """What holds for all layers of a run file: its words of keep=, the dtype of queries, keys and values, the scale and the
    cap of logits. The first layer of softmax attention chooses scale and cap.
    """

    keep: frozenset[str]
    dtype: str | None
    scale: float | None = None
    cap: float = 0.0


@dataclass
class Layer:
    """What is remembered of a layer: its first call, without its numbers, and what later rows go on from.

    given     extents of its calls
    sizes     extents in the file, where values are as wide as keys
    last_sum  c of the last position, [H, 1] nats, or P, [H_k, d]
    last_key  keys of the last position, [H_k, d], which a cache has to hold, beside the model's
    """

    call: Call
    given: dict[str, int]
    sizes: dict[str, int]
    module: str
    device: str
    comparison: Comparison | None = None
    positions: int = 0
    forgets: bool = False
    last_sum: Float64 | None = None
    last_key: Tensor | None = None

    @property
    def decay(self) -> str:
        """The word of the run file for its decays."""
        return self.call.decay

    @property
    def softmax(self) -> bool:
        """Whether it is softmax attention."""
        return self.call.mixer == "attention"

    @property
    def origin(self) -> str:
        """Words for where its first call came from."""
        return f"{self.call.source} in {self.module}" if self.module else self.call.source


def meta(part: Tensor) -> Tensor:
    """An array of the same shape that takes no memory."""
    if is_torch(part):
        return torch_module().empty(part.shape, device="meta", dtype=part.dtype)
    return np.broadcast_to(np.zeros(1, part.dtype), part.shape)


def without_numbers(call: Call) -> Call:
    """The call with arrays of the same shapes that take no memory."""
    parts: dict[str, Any] = {name: meta(part) for name in PARTS if (part := getattr(call, name)) is not None}
    return replace(call, **parts)


def written_parts(call: Call, keep: frozenset[str]) -> set[str]:
    """The names of a call's parts that `write_layer` reads."""
    names = {"sinks"}
    if "gates" in keep or (call.log_decay is not None and call.log_decay.ndim == 2):  # the last c says whether a layer forgets
        names |= {"log_decay", "decay_rate"}
    if "qk" in keep:
        names |= {"q", "k", "beta", "erase_read", "erase_write"}
    return names | ({"v"} if "values" in keep else set())


def select_heads(call: Call, wanted: list[int] | None, where: str) -> Call:
    """The heads that are kept. Keys and values then stand once for each."""
    if wanted is None:
        return call
    heads = call.heads
    if max(wanted) >= heads:
        raise FoxscopeError(f"{where}: heads: there is no head {max(wanted)}, it has {heads}")
    if call.mixer == "delta_product":
        raise FoxscopeError(f"{where}: heads: the heads of a delta product are steps, which stay together")

    def of(part: Tensor | None) -> Tensor | None:
        if part is None:
            return None
        group = heads // int(part.shape[0])
        return take_heads(part, [head // group for head in wanted])

    parts: dict[str, Any] = {name: of(getattr(call, name)) for name in PARTS if name != "output"}
    return replace(call, output=None, **parts)


def _falling(log_decay: Tensor, axis: int) -> Float64:
    """Sums of log decays along an axis, nats. A closed gate is -1000, and what rounding put above 0 is 0."""
    sums: Float64 = np.clip(to_float64(log_decay), CLOSED, 0.0).cumsum(axis=axis)
    return sums


def _sums_of(call: Call) -> Float64 | None:
    """Sums c of the rows of a call, [H, n] nats, from 0 on; None where decays are of channels."""
    if call.decay == "channel":
        return None
    return np.broadcast_to(np.zeros(1), (call.heads, call.rows)) if call.log_decay is None else _falling(call.log_decay, 1)


class _ChannelSums:
    """P, [H_k, n, d], made head by head where it is asked for: sums of log decays of channels, nats."""

    def __init__(self, log_decay: Tensor, before: Float64 | None) -> None:
        self._log_decay, self._before = log_decay, before
        self.shape = tuple(int(extent) for extent in log_decay.shape)
        self.dtype = np.dtype(np.float64)
        self.ends = np.zeros((self.shape[0], self.shape[2]))

    def __getitem__(self, head: int) -> Float64:
        sums = _falling(self._log_decay[head], 0)
        if self._before is not None:
            sums += self._before[head]
        self.ends[head] = sums[-1]
        return sums


def write_layer(writer: RunWriter, number: int, layer: Layer, call: Call, numbers: Numbers) -> None:
    """Writes the rows of a call behind those that the layer has; one head of one array is in memory beside the call."""
    dtype = numbers.dtype or "float32"
    group = f"layers/{number:02}"

    def put(name: str, part: Tensor, shown: str) -> None:
        kind = dtype if ARRAYS[name][0] == "run" else ARRAYS[name][0]
        shape = tuple(int(extent) for extent in part.shape)
        writer.append(f"{group}/{name}", kind, shape, pieces(part, kind, f"layer {number}: {shown}"))

    first, kept = layer.positions == 0, "gates" in numbers.keep
    if first:
        writer.attributes(group, {"source": layer.origin})
    _write_decays(
        put, lambda sums: writer.append(f"{group}/cumulative_log_gate", "float64", sums.shape, sums), layer, call, kept
    )
    width = call.d
    if layer.softmax:
        if call.v is not None and "values" in numbers.keep:
            width = max(width, int(call.v.shape[2]))
        layer.sizes.update(head_dim=width, value_dim=width, value_heads=layer.sizes["key_heads"])
        if call.sinks is not None and first:
            writer.write(f"{group}/sink_logit", "float32", to_float64(call.sinks).astype(np.float32))
    if "qk" in numbers.keep:
        # The scale of linear mixers is part of their queries, and so is what a layer's scale differs by from the file's.
        factor = call.scale / (numbers.scale or 1.0) if layer.softmax else call.scale
        put("query", pad_channels(call.q if factor == 1 else to_float32(call.q) * factor, width), "q")
        put("key", pad_channels(call.k, width), "k")
        for name, part in (("beta", call.beta), ("erase_read", call.erase_read), ("erase_write", call.erase_write)):
            if part is not None:
                put(name, part, name)
    if "values" in numbers.keep and call.v is not None:
        put("value", pad_channels(call.v, width) if layer.softmax else call.v, "v")
    layer.positions += call.rows


def _write_decays(put: Any, put_sums: Callable[[Float64], None], layer: Layer, call: Call, kept: bool) -> None:
    sums = _sums_of(call)
    if sums is None:
        of_channels = _ChannelSums(call.log_decay, layer.last_sum)
        layer.forgets = True
        if kept:
            put("cumulative_log_decay", of_channels, "log_decay")
            layer.last_sum = of_channels.ends
        return
    if not layer.softmax and layer.decay == "none":
        return
    if layer.last_sum is not None:
        sums = sums + layer.last_sum
    layer.last_sum = sums[:, -1:].copy()
    layer.forgets = bool((layer.last_sum < 0).any())
    if not kept:
        return
    put_sums(sums)
    if call.decay_rate is not None and layer.positions == 0:
        put("decay_rate", to_float64(call.decay_rate), "decay_rate")
