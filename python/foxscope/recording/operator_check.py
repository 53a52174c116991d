"""Compares what was recorded with what the model's own mixer returned.

softmax attention   O = softmax(cap(s Q K^T) + D) V with D_ij = c_i - c_j (Lin et al. 2025, eq. 6)
linear mixers       as in `linear_rows`

The first rows (`ROWS`) are made in float64. Of softmax attention the last four are made too, in float32 where the model is of
16 bits. All is computed where the tensors lie, and a few numbers of each head come to the host.

What rounding explains is a relative error of each head. u is 2^-24, that of float32, and u' that of the mixer's format.

Mixers of 16 bits may hold logits, weights and states in that format. Each is then off by about u' of its size, at random, and
the output by u' E, of the mean of rows. Twice that is allowed, and 2 u' E / sqrt(rows) more, as few rows lie further from the
mean. Of softmax attention E^2 = 1 + sum_j A_ij^2 (1 + s_ij^2 + mean_j s_ij^2 + D_ij^2) |v_j - o_i|^2 / |o|^2. The term with a
mean is that of queries that were scaled and rounded before. `linear_rows` has E of linear mixers.

In float32 16 u (4 + s) is allowed, s the largest logit of the rows, or E of linear mixers. TF32 has 2 u' (4 + s), or E as 16
bits have it. 16 u |c| is allowed beside it: sums c in float32 are off by u |c|, and so are the logits that hold them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import FoxscopeError
from .arrays import (
    ROUNDING,
    Float64,
    Tensor,
    dtype_of,
    group,
    is_torch,
    library,
    own_settings,
    to_bfloat16_bits,
    to_float32,
    to_float64,
    torch_module,
)
from .call import CLOSED, MIXERS, PARTS, Call, heads_first
from .linear_rows import linear_rows
from .readings import Readings

#: Rows from the first position on that are compared.
ROWS = 64
LAST_ROWS = 4

#: Keys whose products a GPU sums apart from others.
_KEYS_APART = 512


def _wide(part: Tensor) -> Tensor:
    """The same numbers in float64, where they lie."""
    return part.double() if is_torch(part) else to_float64(part)


def _with_float64(call: Call) -> Call:
    """The call, on the CPU where its device has no float64."""
    parts = {name: part for name in PARTS if is_torch(part := getattr(call, name))}
    if all(part.device.type in ("cpu", "cuda") for part in parts.values()):
        return call
    on_cpu: dict[str, Any] = {name: part.cpu() for name, part in parts.items()}
    return replace(call, **on_cpu)


def softmax_rows(logits: Tensor, c: Tensor | None, begin: int, window: int, softcap: float, sinks: Tensor | None) -> Tensor:
    """Rows of A, [H, r, m], in the format of the logits [H, r, m], s q.k of the queries begin, begin + 1, ...

    c, sinks   float64 [H, m] nats, None: no gates; [H]. All are of numpy, or of torch on one device.
    """
    of = library(logits)
    if softcap > 0:
        logits = softcap * of.tanh(logits / softcap)
    rows, keys = logits.shape[1:]
    if c is not None:
        logits = logits + _biases(c, begin, rows, logits)
    hidden = _hidden(rows, keys, begin, window, is_torch(logits), logits.device)
    logits = np.where(hidden, -math.inf, logits) if of is np else logits.masked_fill(hidden, -math.inf)
    if sinks is not None:
        logits = of.concatenate([logits, of.broadcast_to(_as(sinks, logits)[:, None, None], (len(logits), rows, 1))], axis=2)
    if of is np:
        entries = np.exp(logits - logits.max(axis=2, keepdims=True))
        entries /= entries.sum(axis=2, keepdims=True)
    else:
        entries = of.softmax(logits, 2)
    return entries[:, :, :keys]


def _as(part: Tensor, other: Tensor) -> Tensor:
    """The same numbers in the format of another array of the same library."""
    return part.to(other.dtype) if is_torch(part) else part.astype(other.dtype)


def _biases(c: Tensor, begin: int, rows: int, like: Tensor) -> Tensor:
    """D of the rows from `begin` on, [H, r, m], of c [H, m] float64, in the format of `like`."""
    return _as(c[:, begin : begin + rows, None] - c[:, None, :], like)


@functools.lru_cache(maxsize=8)
def _hidden(rows: int, keys: int, begin: int, window: int, torch: bool, device: Any) -> Tensor:
    """Which keys the queries begin, begin + 1, ... do not see, [rows, keys]."""
    of: Any = torch_module() if torch else np
    key = of.arange(keys, device=device)[None, :]
    query = begin + of.arange(rows, device=device)[:, None]
    return (key > query) | (key <= query - (window if window > 0 else keys))


def _sums(log_decay: Tensor) -> Tensor:
    """Sums c along positions of log decays [H, rows] or [H, rows, d], nats, of those of float64."""
    of = library(log_decay)
    return of.cumsum(of.clip(log_decay, CLOSED, 0.0), axis=1)


def _short(call: Call) -> Call:
    """The first rows alone, in float64, and one gate and one beta more."""
    rows = min(call.rows, ROWS)
    cut: dict[str, Any] = {}
    for name in ("q", "k", "v", "log_decay", "beta", "erase_read", "erase_write", "output"):
        part = getattr(call, name)
        if part is not None:
            cut[name] = _wide(part[:, : rows + (name in ("log_decay", "beta"))])
    for name in ("decay_rate", "sinks"):
        if getattr(call, name) is not None:
            cut[name] = _wide(getattr(call, name))
    return replace(call, **cut)


def _by_key_head(call: Call, part: Tensor) -> Tensor:
    """[H, r, n] as [H_k, H / H_k r, n], what belongs to a key head side by side."""
    key_heads = int(call.k.shape[0])
    return part.reshape(key_heads, -1, part.shape[2])


def first_rows(short: Call, c: Tensor | None = None, logits: Tensor | None = None) -> Tensor:
    """What the recorded operator gives for the first rows of a text, [H, r, d_v], of a call of `_short`.

    c        of softmax attention, [H, r] nats; None: the sums of its gates
    logits   of softmax attention, where they are made already
    """
    if short.mixer != "attention":
        return linear_rows(short)[0]
    if c is None and short.log_decay is not None:
        c = _sums(short.log_decay[:, : short.rows])
    logits = _first_logits(short) if logits is None else logits
    return _mixed_first(short, softmax_rows(logits, c, 0, short.window, short.softcap, short.sinks))


def _mixed_first(short: Call, entries: Tensor) -> Tensor:
    """A V of the first rows, [H, r, d_v]."""
    return (_by_key_head(short, entries) @ short.v).reshape(short.heads, short.rows, -1)


def _first_logits(short: Call) -> Tensor:
    """Logits s q.k of the first rows of softmax attention, [H, r, r] float64."""
    return (_by_key_head(short, short.scale * short.q) @ short.k.swapaxes(1, 2)).reshape(short.heads, short.rows, -1)


def _last_logits(call: Call) -> Tensor:
    """Logits s q.k of the last rows of softmax attention, [H, r, m], where the tensors lie: products in float32, and float64
    where the model's own are not of 16 bits.
    """
    q, k = _by_key_head(call, call.q[:, -LAST_ROWS:]), call.k.swapaxes(1, 2)
    products = _bmm(q, k) if _splits(q, k) else to_float32(q) @ to_float32(k)
    products = products.reshape(call.heads, LAST_ROWS, -1)
    return call.scale * (products if _of_16_bits(call) else _wide(products))


def _splits(a: Tensor, b: Tensor) -> bool:
    """Whether a GPU multiplies 16-bit matrices and sums in float32, as matrices lie and without copies of them."""
    if not (is_torch(a) and is_torch(b)) or b.device.type != "cuda" or b.element_size() != 2:
        return False
    return bool(a.dtype == b.dtype) and _sums_in_float32()


@functools.lru_cache(maxsize=1)
def _sums_in_float32() -> bool:
    """Whether this torch returns products of 16-bit matrices of a GPU in float32."""
    torch = torch_module()
    one = torch.ones(1, 8, 8, dtype=torch.bfloat16, device="cuda")
    try:
        _bmm(one, one)
    except (TypeError, RuntimeError):
        return False
    return True


def _bmm(a: Tensor, b: Tensor) -> Tensor:
    """Products of 16-bit matrices of a GPU, summed in float32."""
    torch = torch_module()
    return torch.bmm(a, b, out_dtype=torch.float32)


def _last_rows(call: Call, logits: Tensor, c: Tensor | None) -> Tensor:
    """A [H, r, m] of the last rows of softmax attention, of their logits and of c."""
    sinks = None if call.sinks is None else _wide(call.sinks)
    if sinks is not None and not is_torch(logits):
        sinks = to_float64(sinks)
    return softmax_rows(logits, c, call.rows - LAST_ROWS, call.window, call.softcap, sinks)


def _mixed_last(call: Call, rows: Tensor) -> Tensor:
    """Rows [H, r, m] of the last queries times the values, [H, r, d_v] in the format and library of the rows."""
    weights = _by_key_head(call, rows)
    if is_torch(call.v) and not is_torch(rows):
        mixed = _mixed(torch_module().as_tensor(weights, device=call.v.device), call.v)  # type: ignore[union-attr]
        return to_float64(mixed).reshape(*rows.shape[:2], -1)
    return _as(_mixed(weights, call.v), rows).reshape(*rows.shape[:2], -1)


def _mixed(weights: Tensor, v: Tensor) -> Tensor:
    """Products [H, r, m] @ [H, m, d] in float32.

    On a GPU values of 16 bits are read as they lie. In float16 weights are then parts of the largest of their row, as the
    format holds few sizes. Of float32, few rows of many keys keep a GPU busy where parts of the keys are summed apart.
    """
    heads, rows, keys = weights.shape
    if _splits(v, v):
        if dtype_of(v) == "float16":
            largest = weights.amax(2, keepdim=True).clamp(min=1e-30)
            return largest * _mixed_of_two(weights / largest, v)
        return _mixed_of_two(weights, v)
    weights, v = to_float32(weights), to_float32(v)
    whole = keys - keys % _KEYS_APART
    if not is_torch(v) or v.device.type != "cuda" or whole == 0:
        return weights @ v
    parts = whole // _KEYS_APART
    of_parts = weights[:, :, :whole].reshape(heads, rows, parts, _KEYS_APART).transpose(1, 2)
    values = v[:, :whole].reshape(heads, parts, _KEYS_APART, -1)
    return (of_parts @ values).sum(1) + weights[:, :, whole:] @ v[:, whole:]


def _rounding(call: Call) -> float:
    """Unit roundoff of what the mixer computed with."""
    largest = max(ROUNDING.get(dtype_of(part), 2.0**-24) for part in (call.q, call.k, call.v, call.output))
    on_gpu = is_torch(call.q) and call.q.device.type != "cpu"
    # Tensor cores may take float32 as TF32, with 10 bits behind the point.
    return max(largest, 2.0**-11) if on_gpu else max(largest, 2.0**-24)


def _of_16_bits(call: Call) -> bool:
    """Whether a mixer may have held numbers between its input and output in 16 bits, as logits and weights."""
    return any(dtype_of(part) in ("bfloat16", "float16") for part in (call.q, call.k, call.v, call.output))


def _mixed_of_two(weights: Tensor, v: Tensor) -> Tensor:
    """Products [H, r, m] @ [H, m, d] with each weight as a sum of two numbers of 16 bits, which is off by u'^2 of its size."""
    high = weights.to(v.dtype)
    products = _bmm(library(v).concatenate([high, (weights - high).to(v.dtype)], 1), v)
    return products[:, : weights.shape[1]] + products[:, weights.shape[1] :]


def _weights_of_rounding(call: Call, entries: Tensor, logits: Tensor, c: Tensor | None) -> Tensor:
    """A_ij^2 (1 + s_ij^2 + mean_j s_ij^2 + D_ij^2), [H, r, m] of the last r queries of m keys, of A, logits and c [H, m]."""
    rows, keys = entries.shape[1:]
    squares = logits**2
    of_logits = squares + (1 + squares.mean(axis=2)[:, :, None])
    if c is not None:
        of_logits = of_logits + _biases(c, keys - rows, rows, entries) ** 2
        if dtype_of(call.log_decay) in ("bfloat16", "float16"):
            # Sums of them are of 16 bits too, and are the same in all rows.
            of_logits = of_logits + _as((2 * c[:, None, :]) ** 2, entries)
    return entries**2 * of_logits


def _read_spread(call: Call, readings: Readings, part: str, entries: Tensor, of_rounding: Tensor, mixed: Tensor) -> Tensor:
    """Reads what E is made of: A, its weights of rounding W, [H, r, m], and [A; W] V [H, 2 r, d_v]. Returns the output A V.

    sum_j W_ij |v_j - o_i|^2 = "values" - "crossed", [H, r]; "made" is |o|, [H].
    """
    rows = entries.shape[1]
    output, of_values = mixed[:, :rows], mixed[:, rows:]
    # Entry by entry: a product in TF32 would differ from the others by more than E is.
    values = (_by_key_head(call, of_rounding) * _as(_sizes_squared(call.v), entries)[:, None]).sum(axis=2)
    readings.add(f"{part} values", values.reshape(entries.shape[:2]))
    readings.add(f"{part} crossed", ((2 * of_values - of_rounding.sum(axis=2)[:, :, None] * output) * output).sum(axis=2))
    readings.add(f"{part} made", _norm(output))
    return output


def _sizes_squared(v: Tensor) -> Tensor:
    """|v_j|^2, [H, m] in float32 or better."""
    if is_torch(v):
        torch = torch_module()
        return torch.linalg.vector_norm(v, dim=2, dtype=torch.promote_types(v.dtype, torch.float32)) ** 2
    return (to_float32(v) ** 2).sum(axis=2)


def _norm(part: Tensor) -> Tensor:
    """The root of the sum of squares of each head, [H]."""
    if is_torch(part):
        return torch_module().linalg.vector_norm(part, dim=(1, 2))
    return np.sqrt((part**2).sum(axis=(1, 2)))


def _errors(given: Tensor, made: Tensor) -> Tensor:
    """The relative error of each head, root mean squares over its rows; NaN where it is not known."""
    return _norm(given - made) / (_norm(given) + 1e-30)


def _fits(given: Float64, made: Float64, allowed: Float64) -> bool:
    """Whether no head's error is above what is allowed to it."""
    return bool((_errors(given, made) <= allowed).all())


@dataclass(frozen=True)
class Comparison:
    """How far the recorded operator is from the model's own: a relative error, root mean squares over a head's rows.

    of_sums   whether only the size of c explains it: the model sums log f in float32
    coarse    whether only 16 bits inside a mixer explain it, and it is above ten times what rounding of the output alone gives,
              or above 0.8 of what is allowed to a head, which none of the right recordings had that were tried
    """

    rows: int
    error: float
    of_sums: bool = False
    coarse: bool = False


def _allowed(call: Call, rows: int, spread: Float64, sums: Float64) -> Float64:
    """The relative errors that rounding explains, of each head of the output.

    rows     that are compared
    spread   [H] E of 16 bits and of linear mixers, else the largest logit of the rows; sums [H] the size of c, nats
    """
    assert call.output is not None
    heads, rounding = int(call.output.shape[0]), _rounding(call)
    spread, sums = (np.where(np.isnan(part), np.inf, part).reshape(heads, -1).max(axis=1) for part in (spread, sums))
    if rounding <= 2.0**-24:
        of_products = 16 * rounding * (4 + spread)
    elif call.mixer == "attention" and not _of_16_bits(call):
        of_products = 2 * rounding * (4 + spread)
    else:
        of_products = 2 * (1 + rows**-0.5) * rounding * spread
    allowed: Float64 = np.minimum(0.3, of_products + 16 * 2.0**-24 * sums)
    return allowed


def _size_of_sums(short: Call) -> Tensor:
    """The size of c of each head in the first rows, [H] nats."""
    assert short.log_decay is not None
    of = library(short.log_decay)
    sizes = abs(_sums(short.log_decay[:, : short.rows]))[:, -1]
    if short.decay == "channel":
        return group(of.amax(sizes, axis=1), short.heads)
    return sizes if short.decay_rate is None else sizes * of.amax(abs(short.decay_rate), axis=1)


def _largest(errors: Float64, allowed: Float64) -> tuple[int, float, float]:
    """The head whose error is the largest beside what is allowed to it, and both."""
    head = int((errors / allowed).argmax())
    return head, float(errors[head]), float(allowed[head])


def has_last_rows(call: Call) -> bool:
    """Whether the last rows of a call are compared too."""
    return call.mixer == "attention" and call.rows > ROWS + LAST_ROWS


def measure(call: Call, readings: Readings) -> Call | None:
    """Reads, where the tensors lie, how far a call that begins a text is from its output, for `judge`.

    Returns its first rows in float64; None where there is nothing to compare.
    """
    if call.output is None or call.v is None:
        return None
    with own_settings(call.q):
        return _measure(_with_float64(call), readings)


def _measure(call: Call, readings: Readings) -> Call:
    short = _short(call)
    if call.mixer == "attention":
        _measure_first_rows(call, short, readings)
    else:
        output, spread = linear_rows(short)
        _compare(readings, "first", short.output, output)
        readings.add("first spread", spread)
    if call.log_decay is not None:
        readings.add("first sums", _size_of_sums(short))
    if has_last_rows(call):
        _measure_last_rows(call, readings)
    return short


def _measure_first_rows(call: Call, short: Call, readings: Readings) -> None:
    of, logits = library(short.q), _first_logits(short)
    c = None if short.log_decay is None else _sums(short.log_decay[:, : short.rows])
    entries = softmax_rows(logits, c, 0, short.window, short.softcap, short.sinks)
    if _of_16_bits(call):
        of_rounding = _weights_of_rounding(call, entries, logits, c)
        rows = of.concatenate([entries, of_rounding], axis=1)
        mixed = (_by_key_head(short, rows) @ short.v).reshape(*rows.shape[:2], -1)
        output = _read_spread(short, readings, "first", entries, of_rounding, mixed)
    else:
        output = _mixed_first(short, entries)
        readings.add("first spread", of.amax(of.tril(abs(logits)), axis=(1, 2)))
    _compare(readings, "first", short.output, output)


def _measure_last_rows(call: Call, readings: Readings) -> None:
    logits = _last_logits(call)
    of = library(logits)
    c = None if call.log_decay is None else _sums(_wide(call.log_decay))
    entries = _last_rows(call, logits, c)
    if _of_16_bits(call):
        of_rounding = _weights_of_rounding(call, entries, logits, c)
        if is_torch(of_rounding):  # E is a difference of sums, which need the same weights as a product in bfloat16 has
            of_rounding = _as(of_rounding.to(library(of_rounding).bfloat16), entries)
        mixed = _mixed_last(call, of.concatenate([entries, of_rounding], axis=1))
        output = _read_spread(call, readings, "last", entries, of_rounding, mixed)
    else:
        output = _mixed_last(call, entries)
        readings.add("last spread", of.amax(abs(logits), axis=(1, 2)))
    _compare(readings, "last", _as(call.output[:, -LAST_ROWS:], output), output)  # type: ignore[index]
    if c is not None:
        readings.add("last sums", -c[:, -1])


def _compare(readings: Readings, part: str, given: Tensor, made: Tensor) -> None:
    readings.add(f"{part} given", _norm(given))
    readings.add(f"{part} difference", _norm(given - made))


def settled(found: Mapping[str, Float64]) -> dict[str, Float64]:
    """The readings of `measure`, and what they say of each head, [H]: "errors" and, of attention of 16 bits, "spread", E."""
    numbers = dict(found)
    for part in ("first", "last"):
        if f"{part} difference" not in found:
            continue
        with np.errstate(all="ignore"):
            numbers[f"{part} errors"] = found[f"{part} difference"] / (found[f"{part} given"] + 1e-30)
            if f"{part} values" in found:
                moved = (found[f"{part} values"] - found[f"{part} crossed"]).sum(axis=1)
                numbers[f"{part} spread"] = np.sqrt(1 + np.clip(moved, 0, None) / (found[f"{part} made"] ** 2 + 1e-30))
    return numbers


def judge(call: Call, short: Call, found: Mapping[str, Float64], where: str) -> Comparison:
    """Compares a call with its output by the readings of `measure`, `settled`, which made its first rows `short`.

    Raises FoxscopeError naming layer, head, error and the likely cause.
    """
    error, of_sums, near, rows = 0.0, False, False, 0
    for part, count in (("first", short.rows), ("last", LAST_ROWS if has_last_rows(call) else 0)):
        if count == 0:
            continue
        none = np.zeros(call.heads)
        spread, sums = found.get(f"{part} spread", none), found.get(f"{part} sums", none)
        errors = found[f"{part} errors"]
        errors = np.where(np.isfinite(errors), errors, np.inf)
        allowed = _allowed(call, count, spread, sums)
        if (errors > allowed).any():
            cause = likely_cause(short, allowed) if part == "first" else _cause_of_last_rows(call, allowed)
            _raise(call, where, f"the {part} {count} rows", _largest(errors, allowed), cause)
        near = near or bool((errors > 0.8 * allowed).any())
        of_sums = of_sums or bool((errors > _allowed(call, count, spread, none)).any())
        error, rows = max(error, float(errors.max())), rows + count
    # Rounding to nearest of numbers of all sizes is off by 0.4 u of them, root mean squares.
    coarse = _of_16_bits(call) and (near or error > 10 * 0.4 * _rounding(call))
    return Comparison(rows, error, of_sums, coarse)


def _cause_of_last_rows(call: Call, allowed: Float64) -> str:
    with own_settings(call.q):
        return _cause_in_last_rows(_with_float64(call), allowed)


def _cause_in_last_rows(call: Call, allowed: Float64) -> str:
    last, logits = to_float64(call.output[:, -LAST_ROWS:]), to_float64(_last_logits(call))  # type: ignore[index]

    def sums_of(call: Call) -> Float64 | None:
        return None if call.log_decay is None else to_float64(_sums(_wide(call.log_decay)))

    def fits(call: Call, logits: Float64, c: Float64 | None) -> bool:
        return _fits(last, _mixed_last(call, _last_rows(call, logits, c)), allowed)

    c = sums_of(call)
    if fits(call, logits, c):
        return "not known, as the model wrote over its tensors meanwhile"
    if call.window > 0 and fits(replace(call, window=0), logits, c):
        return "the model applies no window: pass window=None"
    for name, coarse in _coarse(c):
        if fits(call, logits, coarse):
            return _HELD.format(name)
    window = _fitted_window(call, last, logits, c)
    if fits(replace(call, window=window), logits, c):
        return f"the window, which the model has: pass window={window}"
    for cause, make in _variants(call):
        other = make()
        with np.errstate(all="ignore"):
            if fits(other, to_float64(_last_logits(other)), sums_of(other)):
                return cause
    return f"{_of_gates(call)}, the scale, or a mask that was not recorded"


def _fitted_window(call: Call, last: Float64, logits: Float64, c: Float64 | None) -> int:
    """The window of which the last row of head 0, [H, r, d_v], is nearest to the model's."""
    row, keys = logits[0, -1], logits.shape[2]
    if call.softcap > 0:
        row = call.softcap * np.tanh(row / call.softcap)
    if c is not None:
        row = row + c[0, -1] - c[0]
    weights = np.exp(row - row.max())[::-1]
    sums = np.cumsum(weights)
    if call.sinks is not None:
        sums = sums + math.exp(float(to_float64(call.sinks)[0]) - row.max())
    assert call.v is not None
    outputs = np.cumsum(weights[:, None] * to_float64(call.v[0])[::-1], axis=0) / (sums[:, None] + 1e-300)
    return min(1 + int(((outputs - last[0, -1]) ** 2).sum(axis=1).argmin()), int(keys))


def _of_gates(call: Call) -> str:
    """Words for gates that are likely wrong, where nothing else was found."""
    name = "log_forget" if call.mixer == "attention" else "log_decay"
    if call.log_decay is None:
        return f"gates that were not recorded (pass {name}=, if the model has them)"
    return f"wrong gates ({name} of another head, position or base: nats are expected)"


#: Words for sums c in too coarse a format.
_HELD = "c, which the model holds in {}: sum log f in float32"


def _coarse(sums: Float64 | None) -> Iterator[tuple[str, Float64]]:
    """Sums c as formats of 16 bits hold them, the coarser one first."""
    if sums is None or not sums.any():
        return
    bits = to_bfloat16_bits(np.ascontiguousarray(sums, dtype=np.float32)).astype(np.uint32) << np.uint32(16)
    yield "bfloat16", bits.view(np.float32).astype(np.float64)
    yield "float16", np.clip(sums, -65504, 65504).astype(np.float16).astype(np.float64)


def _raise(call: Call, where: str, rows: str, largest: tuple[int, float, float], cause: str) -> None:
    head, error, allowed = largest
    raise FoxscopeError(
        f"{where} ({call.source}): what was recorded does not give what the model's own mixer returned: {rows} of head "
        f"{head} differ by {error:.2g} of their size, and rounding explains {allowed:.1g}; likely cause: {cause} "
        f"(check=False records it all the same)"
    )


def _normalised(part: Tensor) -> Float64:
    numbers = to_float64(part)
    unit: Float64 = numbers / np.sqrt((numbers**2).sum(axis=2, keepdims=True) + 1e-6)
    return unit


def _variants(call: Call) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Operators that a model may have had instead, the likeliest first, with what to do."""
    usual = call.d**-0.5
    if not math.isclose(call.scale, usual):
        yield f"the scale, which is 1/sqrt(d): pass scale={usual:.6g}", lambda: replace(call, scale=usual)
    if call.scale != 1:
        yield "the scale: the model's queries have it in them (pass scale=1)", lambda: replace(call, scale=1.0)
        yield (
            "the scale, which is applied twice: q was recorded with it (pass scale=1 or q without it)",
            lambda: replace(call, scale=call.scale**2),
        )
    yield (
        "q and k, which the model normalises behind where they were recorded",
        lambda: replace(call, q=_normalised(call.q), k=_normalised(call.k)),
    )
    yield "k, which the model normalises behind where it was recorded", lambda: replace(call, k=_normalised(call.k))
    if call.log_decay is not None:
        decay = to_float64(call.log_decay)
        yield (
            "the gates, which the model multiplies by the scale like the logits (pass log_forget * scale)",
            lambda: replace(call, log_decay=decay * call.scale),
        )
        name = "log_forget" if call.mixer == "attention" else "log_decay"
        yield (
            f"{name}, which is the sum c of log f up to each position: pass log f",
            lambda: replace(call, log_decay=np.diff(decay, axis=1, prepend=0)),
        )
        yield (
            "the gates, which the model does not apply",
            lambda: replace(call, log_decay=None if "none" in MIXERS[call.mixer][0] else decay * 0),
        )
        later = np.concatenate([decay[:, 1:], decay[:, :1] * 0], axis=1)
        earlier = np.concatenate([decay[:, :1] * 0, decay[:, :-1]], axis=1)
        yield (
            "the gates, which are those of the position before (shifted by one)",
            lambda: replace(call, log_decay=later),
        )
        yield (
            "the gates, which are those of the position behind (shifted by one)",
            lambda: replace(call, log_decay=earlier),
        )
    if call.beta is not None:
        beta = to_float64(call.beta)
        yield "beta, which the model puts through a sigmoid", lambda: replace(call, beta=1 / (1 + np.exp(-beta)))
        yield "beta, which the model doubles", lambda: replace(call, beta=2 * beta)
        yield (
            "beta, which is that of the position before (shifted by one)",
            lambda: replace(call, beta=np.roll(beta, -1, axis=1)),
        )
        yield (
            "beta, which is that of the position behind (shifted by one)",
            lambda: replace(call, beta=np.roll(beta, 1, axis=1)),
        )
    if call.softcap > 0:
        yield "softcap, which the model does not apply", lambda: replace(call, softcap=0.0)
    if call.window > 0:
        yield "window, which the model does not apply", lambda: replace(call, window=0)
        yield (
            "window, which the model counts without the query itself (pass window + 1)",
            lambda: replace(call, window=call.window + 1),
        )
    if call.sinks is not None:
        yield "sinks, which the model does not apply", lambda: replace(call, sinks=None)


def _fitted(short: Call, allowed: Float64, make: Callable[[float], Call]) -> float | None:
    """The factor by which the operator that `make` gives for it fits, if there is one."""

    def error_of(log: float) -> float:
        return float((_errors(short.output, first_rows(make(math.exp(log)))) / allowed).max())

    best = float(min(np.linspace(-7, 5, 49), key=error_of))
    step = 0.25
    while step > 1e-7:
        best = min((best - step, best, best + step), key=error_of)
        step *= 0.6
    return math.exp(best) if error_of(best) <= 1 else None


def _fits_turned(short: Call, allowed: Float64) -> bool:
    """Whether a call fits whose tensors were given with positions first, [L, H, ...]."""
    if short.heads <= short.rows or short.q.shape[0] != short.k.shape[0]:
        return False
    names = ("q", "k", "v", "log_decay", "beta", "output")
    turned: dict[str, Any] = {name: part.swapaxes(0, 1) for name in names if (part := getattr(short, name)) is not None}
    call = replace(short, **turned)
    return bool((_errors(call.output, first_rows(call)) <= allowed.max()).all())


def likely_cause(short: Call, allowed: Float64) -> str:
    """Words for the reason why the first rows differ: the first other operator that gives what the model gave."""
    if short.dropout > 0:
        return f"dropout of {short.dropout:g} in the attention: call model.eval() before"
    turn = heads_first(short)
    parts: dict[str, Any] = {name: to_float64(part) for name in PARTS if (part := getattr(short, name)) is not None}
    short = replace(short, **parts)
    given: Float64 = parts["output"]
    if _fits_turned(short, allowed):
        return f"the order of axes: {turn}"
    for cause, make in _variants(short):
        with np.errstate(all="ignore"):
            if _fits(given, first_rows(make()), allowed):
                return cause
    if short.mixer == "attention" and short.log_decay is not None:
        for name, coarse in _coarse(_sums(short.log_decay[:, : short.rows])):
            if _fits(given, first_rows(short, coarse), allowed):
                return _HELD.format(name)
    scale = _fitted(short, allowed, lambda scale: replace(short, scale=scale))
    if scale is not None:
        return f"the scale: pass scale={scale:.6g}"
    decay = parts.get("log_decay")
    factor = None if decay is None else _fitted(short, allowed, lambda factor: replace(short, log_decay=decay * factor))
    if factor is not None:
        return f"the gates, whose logarithms are {factor:.4g} times as large in the model (nats are expected)"
    unlike = (
        "rotary embedding, a norm or a shift behind where q and k were recorded, an output from behind a norm, a gate or a "
        "projection"
    )
    if short.mixer == "attention":
        return f"{_of_gates(short)}, {unlike}, or a mask that is not causal"
    beta = "" if short.beta is None else ", wrong beta"
    return f"{_of_gates(short)}{beta}, {unlike}, another mixer than {short.mixer}, or a state from before the text"
