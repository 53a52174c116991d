"""What one call of a layer's mixer was given and gave, and whether its parts fit together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import FoxscopeError
from .arrays import (
    MOST_FLOAT32,
    Float64,
    Tensor,
    as_tensor,
    beside,
    device_of,
    extremes,
    is_torch,
    raise_not_finite,
    shape_of,
    size_of,
    to_float64,
)
from .readings import Readings

#: Of every mixer: the decays that it may have, and whether beta, and e and b, belong to it.
MIXERS: Mapping[str, tuple[tuple[str, ...], bool, bool]] = {
    "attention": (("none", "head"), False, False),
    "mamba2": (("head",), True, False),
    "gated_linear_attention": (("none", "head", "channel"), False, False),
    "delta_rule": (("none", "head", "channel"), True, False),
    "mamba": (("head", "rates"), True, False),
    "diagonal_plus_low_rank": (("head", "channel"), False, True),
    "delta_product": (("none", "head"), True, False),
}

#: log f of a closed gate, as a run holds it: exp(-1000) is 0, and no difference is infinity minus infinity.
CLOSED = -1000.0
#: Largest log f that rounding explains.
MOST_LOG_FORGET = 1e-6
#: Largest window that a run file may have.
MOST_WINDOW = 1 << 40


@dataclass
class Call:
    """One call: tensors of one sequence, heads first.

    mixer       "attention" (softmax), or a linear mixer of `MIXERS`
    q           [H_q, n, d] as it enters the mixer, behind norms and rotary embedding
    k           [H_k, m, d], m >= n: keys of earlier positions may stand before those of the n queries
    v           [H_v, m, d_v]
    log_decay   [H, n] nats: log f of softmax attention, or the log decay of heads; [H_k, n, d] of channels
    beta        [H, n]: beta of the delta rule; dt of Mamba and Mamba-2
    decay_rate  [H, d]: of Mamba, whose channels decay by rate times log_decay
    erase_read, erase_write   [H_k, n, d]: e and b of diagonal plus low rank
    scale       what q.k is multiplied by
    window      w, where a query i sees the keys i - w < j <= i; 0: all
    softcap     cap of logits, cap tanh(s / cap); 0: none
    sinks       [H]: one logit more in every row
    output      [H, n, d_v] that the model's own mixer gave
    source      words for people: which function was called
    dropout     share of entries that the model's own attention leaves out
    goes_on     whether a linear mixer began with the state that positions before left
    """

    mixer: str
    q: Tensor
    k: Tensor
    v: Tensor | None = None
    log_decay: Tensor | None = None
    beta: Tensor | None = None
    decay_rate: Tensor | None = None
    erase_read: Tensor | None = None
    erase_write: Tensor | None = None
    scale: float = 1.0
    window: int = 0
    softcap: float = 0.0
    sinks: Tensor | None = None
    output: Tensor | None = None
    source: str = ""
    dropout: float = 0.0
    goes_on: bool = False

    @property
    def rows(self) -> int:
        """n, positions of the call."""
        return int(self.q.shape[1])

    @property
    def heads(self) -> int:
        """H, heads that have maps."""
        if self.mixer == "attention":
            return int(self.q.shape[0])
        counts = [self.q.shape[0], self.k.shape[0]]
        counts += [part.shape[0] for part in (self.v, self.beta) if part is not None]
        if self.log_decay is not None and self.log_decay.ndim == 2:
            counts.append(self.log_decay.shape[0])
        return int(max(counts))

    @property
    def decay(self) -> str:
        """The word of the run file: "none", "head", "channel" or "rates"."""
        if self.log_decay is None:
            return "none"
        if self.decay_rate is not None:
            return "rates"
        return "channel" if self.log_decay.ndim == 3 else "head"

    @property
    def d(self) -> int:
        """Channels of queries and keys."""
        return int(self.q.shape[2])

    def sizes(self) -> dict[str, int]:
        """Extents by their names in a run file."""
        value = self.k if self.v is None else self.v
        return {
            "heads": self.heads,
            "query_heads": int(self.q.shape[0]),
            "key_heads": int(self.k.shape[0]),
            "value_heads": int(value.shape[0]),
            "head_dim": self.d,
            "value_dim": int(value.shape[2]),
        }


#: The tensors of a call.
PARTS = ("q", "k", "v", "log_decay", "beta", "decay_rate", "erase_read", "erase_write", "sinks", "output")


#: Parts with an axis of positions.
_OF_POSITIONS = ("q", "k", "v", "output", "log_decay", "beta", "erase_read", "erase_write")


def _shown(call: Call, name: str) -> str:
    """A part as a user calls it."""
    return "log_forget" if name == "log_decay" and call.mixer == "attention" else name


def _turned(call: Call, name: str) -> str:
    """The code that exchanges positions and heads of a part, with or without a batch axis."""
    part = getattr(call, name)
    method = "transpose" if is_torch(part) else "swapaxes"
    return f"{_shown(call, name)}.{method}({'-3, -2' if part.ndim == 3 else '-2, -1'})"


def heads_first(call: Call) -> str:
    """What to do where all parts have positions first, [L, H, d] and [L, H], with or without a batch axis."""
    parts = [(name, getattr(call, name).ndim) for name in _OF_POSITIONS if getattr(call, name) is not None]
    said = []
    for axes, shape in ((3, "[H, L, d]"), (2, "[H, L]")):
        turned = [_turned(call, name) for name, count in parts if count == axes]
        if turned:
            said.append(f"{', '.join(turned)}, {shape}")
    return f"heads come first, so pass {', and '.join(said)}"


def _order_of_axes(call: Call, name: str) -> str:
    """What to do where a part does not fit q, as all of them or one of the two seem to have positions first; or nothing."""
    part = getattr(call, name)
    if name == "q" or call.q.ndim != 3 or part.ndim not in (2, 3):
        return ""
    (heads, positions), found = call.q.shape[:2], part.shape[:2]
    if name == "k" and found[0] == heads and found[1] < positions and part.shape[2] == call.d:
        return f": {heads_first(call)}"
    if heads != positions and (found[0] == positions != found[1] or found[1] == heads != found[0]):
        return f": heads come first, so pass {_turned(call, name)} or {_turned(call, 'q')}, whichever has positions first"
    return ""


def _fail(where: str, call: Call, name: str, expected: str) -> FoxscopeError:
    found = shape_of(getattr(call, name))
    return FoxscopeError(f"{where}: {_shown(call, name)}: expected {expected}, got {found}{_order_of_axes(call, name)}")


def one_sequence(value: Tensor | None, axes: int, sequence: int, where: str, name: str) -> Tensor | None:
    """A tensor without its batch axis, where it has one: sequence `sequence` of it."""
    if value is None:
        return None
    value = as_tensor(value, f"{where}: {name}")
    if value.ndim == axes:
        return value
    if value.ndim == axes + 1:
        if value.shape[0] > sequence:
            return value[sequence]
        if value.shape[0] == 1:
            return value[0]
        raise FoxscopeError(f"{where}: {name}: a batch of {value.shape[0]} has no sequence {sequence}")
    raise FoxscopeError(f"{where}: {name}: expected {axes} axes, or {axes + 1} with a batch, got {shape_of(value)}")


def checked(call: Call, where: str) -> Call:
    """The call with tensors that are arrays and fit together; `check_numbers` looks at what they hold.

    Raises FoxscopeError, which begins with `where`, for the first part that does not.
    """
    if call.mixer not in MIXERS:
        raise FoxscopeError(f"{where}: the mixer '{call.mixer}' is not known: use {', '.join(MIXERS)}")
    parts: dict[str, Any] = {
        name: as_tensor(getattr(call, name), f"{where}: {name}") for name in PARTS if getattr(call, name) is not None
    }
    _check_devices(parts, where)
    leader = next((part for part in parts.values() if is_torch(part) and part.ndim > 0), call.q)
    call = replace(call, **{name: beside(part, leader) for name, part in parts.items()})
    _check_shapes(call, where)
    _check_scalars(call, where)
    return call


def _check_devices(parts: Mapping[str, Tensor], where: str) -> None:
    devices: dict[str, str] = {}
    for name, part in parts.items():
        if is_torch(part) and part.ndim > 0:
            devices.setdefault(device_of(part), name)
    if len(devices) > 1:
        found = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise FoxscopeError(f"{where}: the tensors of a layer lie on several devices ({found}): move them to one")


def _check_shapes(call: Call, where: str) -> None:
    for name in ("q", "k", "v"):
        part = getattr(call, name)
        if part is not None and (part.ndim != 3 or 0 in part.shape):
            raise _fail(where, call, name, "[heads, positions, channels]")
    n, m, d = call.rows, int(call.k.shape[1]), call.d
    if call.k.shape[2] != d:
        raise _fail(where, call, "k", f"[heads, {m}, {d}] as q has {d} channels")
    if m < n:
        raise _fail(where, call, "k", f"[heads, {n}, {d}] as q has {n} positions")
    if call.v is not None and call.v.shape[1] != m:
        raise _fail(where, call, "v", f"[heads, {m}, channels] as k has {m} positions")
    heads = call.heads
    for name in ("q", "k", "v"):
        part = getattr(call, name)
        if part is not None and heads % part.shape[0] != 0:
            raise _fail(where, call, name, f"a number of heads that divides {heads}")
    if call.mixer == "attention" and call.v is not None and call.v.shape[0] != call.k.shape[0]:
        raise _fail(where, call, "v", f"[{call.k.shape[0]}, {m}, channels] as k has")
    decays, writes_beta, erases = MIXERS[call.mixer]
    if call.decay not in decays:
        raise FoxscopeError(
            f"{where}: {call.mixer} has a decay by {' or '.join(decays)}, and log_decay "
            f"{'is missing' if call.log_decay is None else 'is ' + str(shape_of(call.log_decay))}"
        )
    expected: dict[str, tuple[int, ...]] = {"beta": (heads, n), "sinks": (heads,), "decay_rate": (heads, d)}
    expected["log_decay"] = (int(call.k.shape[0]), n, d) if call.decay == "channel" else (heads, n)
    expected["erase_read"] = expected["erase_write"] = (int(call.k.shape[0]), n, d)
    for name, shape in expected.items():
        part = getattr(call, name)
        if part is not None and tuple(part.shape) != shape:
            raise _fail(where, call, name, str(list(shape)))
    for name, belongs in (("beta", writes_beta), ("erase_read", erases), ("erase_write", erases)):
        if (getattr(call, name) is not None) != belongs:
            raise FoxscopeError(f"{where}: {call.mixer} {'needs' if belongs else 'has no'} {name}")
    if call.output is not None:
        out_heads = int(call.q.shape[0]) if call.mixer == "delta_product" else heads
        channels = call.output.shape[-1] if call.v is None else call.v.shape[2]
        if tuple(call.output.shape) != (out_heads, n, channels):
            raise _fail(where, call, "output", str([out_heads, n, int(channels)]))


#: Parts that hold finite numbers alone. A closed gate is -infinity.
_FINITE = ("q", "k", "v", "beta", "decay_rate", "erase_read", "erase_write", "sinks", "output")


def measure_numbers(call: Call, readings: Readings, without: Collection[str] = ()) -> None:
    """Reads, beside the tensors, the sizes of numbers that `check_numbers` looks at, but those of parts named in `without`."""
    if call.log_decay is not None:
        readings.add("log_decay", extremes(call.log_decay))
    for name in _FINITE:
        part = getattr(call, name)
        if part is not None and name not in without:
            readings.add(name, size_of(part))


def check_numbers(call: Call, found: Mapping[str, Float64], where: str) -> None:
    """Raises FoxscopeError for gates above 1, the first number that is not finite, and logits that float32 cannot hold.

    found   the readings of `measure_numbers`
    The logit of any query and key is at most scale d max|q| max|k|. Where this is beyond float32, logits are made. Numbers that
    were not read are not looked at.
    """
    if call.log_decay is not None and not found["log_decay"][1] <= MOST_LOG_FORGET:
        _check_gates(call, call.log_decay, where)
        raise _overwritten(where, "log_forget" if call.mixer == "attention" else "log_decay", "is NaN or above 0")
    size = {name: float(found[name]) for name in _FINITE if name in found}
    for name, largest in size.items():
        if not math.isfinite(largest):
            unread = [part for part in _FINITE if part not in size and getattr(call, part) is not None]
            look_for_not_finite(call, [*unread, name], where)
            raise _overwritten(where, name, "is not finite")
    if (
        call.mixer != "attention"
        or not size.keys() >= {"q", "k"}
        or call.scale * call.d * size["q"] * size["k"] <= MOST_FLOAT32
    ):
        return
    for head in range(call.heads):
        q, k = (to_float64(part[head * part.shape[0] // call.heads]) for part in (call.q, call.k))
        for begin in range(0, call.rows, 256):
            largest = np.abs(np.tril(call.scale * q[begin : begin + 256] @ k.T, begin)).max(axis=1)
            if largest.max() <= MOST_FLOAT32:
                continue
            position = int((largest > MOST_FLOAT32).argmax())
            raise FoxscopeError(
                f"{where}: logits of head {head}, position {begin + position} are as large as {largest[position]:.3g}, which "
                f"float32 cannot hold: |q| is up to {np.abs(q).max():.3g}, |k| up to {np.abs(k).max():.3g}, and the scale is "
                f"{call.scale:.6g}: record q and k as attention multiplies them"
            )


def look_for_not_finite(call: Call, names: Iterable[str], where: str) -> None:
    """Raises FoxscopeError naming the first number of some parts that is not finite, if there is one."""
    for name in names:
        part = getattr(call, name)
        for head in range(part.shape[0]):
            raise_not_finite(part[head], head, f"{where}: {name}")


def _overwritten(where: str, name: str, what: str) -> FoxscopeError:
    return FoxscopeError(f"{where}: {name} {what}; the model wrote over it meanwhile, so the place is not known")


def _check_scalars(call: Call, where: str) -> None:
    if not (math.isfinite(call.scale) and call.scale > 0):
        raise FoxscopeError(f"{where}: scale: expected a number above 0, got {call.scale}")
    if not (math.isfinite(call.softcap) and call.softcap >= 0):
        raise FoxscopeError(f"{where}: softcap: expected a number of 0 or above, got {call.softcap}")
    if not 0 <= call.window <= MOST_WINDOW:
        raise FoxscopeError(f"{where}: window: expected a number of 0 to {MOST_WINDOW}, got {call.window}")


def _check_gates(call: Call, log_decay: Tensor, where: str) -> None:
    shown = _shown(call, "log_decay")
    for head in range(log_decay.shape[0]):
        numbers = to_float64(log_decay[head])
        wrong = np.argwhere(~(numbers <= MOST_LOG_FORGET))
        if len(wrong) == 0:
            continue
        place = tuple(int(index) for index in wrong[0])
        channel = f", channel {place[1]}" if len(place) > 1 else ""
        number = numbers[place]
        at = f"at head {head}, position {place[0]}{channel}"
        if np.isnan(number):
            raise FoxscopeError(f"{where}: {shown} is NaN {at}: look for the layer before it")
        inside = 0 < number <= 1 and bool(np.all((numbers >= 0) & (numbers <= 1)))
        remedy = "these look like gates f: pass their logarithm" if inside else "pass logsigmoid of the gate's logit"
        raise FoxscopeError(f"{where}: {shown} is {number:.6g} {at}, so the gate is above 1: {remedy}")
