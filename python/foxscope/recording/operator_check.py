"""Compares what was recorded with what the model's own mixer returned.

softmax attention   O = softmax(cap(s Q K^T) + D) V with D_ij = c_i - c_j (Lin et al. 2025, eq. 6)
linear mixers       S_t = (Diag(a_t) + b_t e_t^T) S_(t-1) + k_t u_t^T,  y_t = S_t^T q_t (docs/maps.md)

Everything is float64 and made of the first rows (`ROWS`), of softmax attention of the last four too. It is computed where
the tensors lie, and a few numbers of each head come to the host.

What rounding explains is a relative error of each head, 16 u (4 + s) + 16 u (|c| + r), where u = 2^-24 is that of float32
and s the largest logit of the rows. Sums c in float32 are off by u |c|, and so are the logits that hold them. r counts the
rows that a chunk of the delta rule solves for, and is 0 for other mixers. TF32, and linear mixers of 16 bits, have
2 u' (4 + s) first.

Softmax attention of 16 bits may hold its logits and weights in that format too. Each is then off by about u' of its size, at
random, and the output by u' E, E^2 = 1 + sum_j A_ij^2 (1 + s_ij^2 + mean_j s_ij^2 + D_ij^2) |v_j - o_i|^2 / |o|^2, of the
mean of rows. The term with a mean is that of queries that were scaled and rounded before. Twice u' E is allowed, and
2 u' E / sqrt(rows) more, as few rows lie further from the mean.
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
    device_of,
    dtype_of,
    is_torch,
    to_bfloat16_bits,
    to_float32,
    to_float64,
    torch_module,
)
from .call import CLOSED, MIXERS, PARTS, Call
from .readings import Readings

#: Rows from the first position on that are compared.
ROWS = 64
LAST_ROWS = 4

#: Keys whose products a GPU sums apart from others.
_KEYS_APART = 512

#: Mixers whose chunked code solves a triangular system of the rows of a chunk: the rounding of each row adds up.
ERASING = ("delta_rule", "delta_product", "diagonal_plus_low_rank")


def _group(part: Tensor, heads: int) -> Any:
    """Each of [h, ...] for its H / h heads."""
    times = heads // part.shape[0]
    if times == 1:
        return part
    return part.repeat_interleave(times, 0) if is_torch(part) else np.repeat(part, times, axis=0)


def _library(part: Tensor) -> Any:
    """The module whose functions take an array: torch or numpy."""
    return torch_module() if is_torch(part) else np


def _wide(part: Tensor) -> Tensor:
    """The same numbers in float64, where they lie if the device has float64, else in host memory."""
    if is_torch(part) and part.device.type in ("cpu", "cuda"):
        return part.double()
    return to_float64(part)


def softmax_rows(logits: Tensor, c: Tensor | None, begin: int, window: int, softcap: float, sinks: Tensor | None) -> Tensor:
    """Rows of A, [H, r, m]: logits [H, r, m] are s q.k of the queries begin, begin + 1, ...; c [H, m] nats; None: no gates.

    All are float64, of numpy or of torch on one device.
    """
    of = _library(logits)
    if softcap > 0:
        logits = softcap * of.tanh(logits / softcap)
    rows, keys = logits.shape[1:]
    if c is not None:
        logits = logits + (c[:, begin : begin + rows, None] - c[:, None, :])
    logits = of.where(_seen(rows, keys, begin, window, is_torch(logits), logits.device), logits, -math.inf)
    if sinks is not None:
        logits = of.concatenate([logits, of.broadcast_to(sinks[:, None, None], (len(logits), rows, 1))], axis=2)
    if of is np:
        entries = np.exp(logits - logits.max(axis=2, keepdims=True))
        entries /= entries.sum(axis=2, keepdims=True)
    else:
        entries = of.softmax(logits, 2)
    return entries[:, :, :keys]


@functools.lru_cache(maxsize=8)
def _seen(rows: int, keys: int, begin: int, window: int, torch: bool, device: Any) -> Tensor:
    """Which keys the queries begin, begin + 1, ... see, [rows, keys]."""
    of: Any = torch_module() if torch else np
    key = of.arange(keys, device=device)[None, :]
    query = begin + of.arange(rows, device=device)[:, None]
    return (key <= query) & (key > query - (window if window > 0 else keys))


def _sums(log_decay: Tensor) -> Tensor:
    """Sums c along positions of log decays [H, rows] or [H, rows, d], nats, of those of float64."""
    of = _library(log_decay)
    return of.cumsum(of.clip(log_decay, CLOSED, 0.0), axis=1)


def _short(call: Call) -> Call:
    """The first rows alone, in float64, and one gate more."""
    rows = min(call.rows, ROWS)
    # Linear mixers go row by row, in which numpy is faster than torch on a CPU.
    by_rows = call.mixer != "attention" and not device_of(call.q).startswith("cuda")
    wide = to_float64 if by_rows else _wide
    cut: dict[str, Any] = {}
    for name in ("q", "k", "v", "log_decay", "beta", "erase_read", "erase_write", "output"):
        part = getattr(call, name)
        if part is not None:
            cut[name] = wide(part[:, : rows + (name == "log_decay")])
    for name in ("decay_rate", "sinks"):
        if getattr(call, name) is not None:
            cut[name] = wide(getattr(call, name))
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
        return _linear_rows(short, short.rows)
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


def _linear_rows(short: Call, rows: int) -> Tensor:
    heads = short.heads
    assert short.v is not None
    of = _library(short.q)
    new = {"dtype": of.float64, "device": short.q.device}
    q, k, v = (_group(part, heads) for part in (short.scale * short.q, short.k, short.v))
    decay = of.ones((heads, rows, 1), **new)
    if short.log_decay is not None:
        log_decay = of.clip(short.log_decay[:, :rows], CLOSED, None)
        if short.decay == "channel":
            decay = of.exp(_group(log_decay, heads))
        elif short.decay_rate is not None:
            decay = of.exp(log_decay[:, :, None] * short.decay_rate[:, None, :])
        else:
            decay = of.exp(log_decay[:, :, None])
    beta = of.ones((heads, rows), **new) if short.beta is None else short.beta
    if short.mixer == "delta_product":
        return _delta_product(short, q, k, v, decay, beta)
    state = of.zeros((heads, k.shape[2], v.shape[2]), **new)
    out = of.empty((heads, rows, v.shape[2]), **new)
    erase_read, erase_write = short.erase_read, short.erase_write
    if erase_read is not None and erase_write is not None:
        e, b = _group(erase_read, heads), _group(erase_write, heads)
    for t in range(rows):
        before = state
        state = decay[:, t, :, None] * state
        write = v[:, t]
        if short.mixer == "delta_rule":
            write = write - of.einsum("hkv,hk->hv", state, k[:, t])
        if erase_read is not None:
            state = state + b[:, t, :, None] * of.einsum("hkv,hk->hv", before, e[:, t])[:, None, :]
        state = state + k[:, t, :, None] * (beta[:, t, None] * write)[:, None, :]
        out[:, t] = of.einsum("hkv,hk->hv", state, q[:, t])
    return out


def _delta_product(short: Call, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """Heads h n to h n + n - 1 are the steps of query head h."""
    of = _library(q)
    new = {"dtype": of.float64, "device": q.device}
    query_heads = int(short.q.shape[0])
    steps, rows = short.heads // query_heads, short.rows
    q = short.scale * short.q
    state = of.zeros((query_heads, k.shape[2], v.shape[2]), **new)
    out = of.empty((query_heads, rows, v.shape[2]), **new)
    for t in range(rows):
        state = decay[::steps, t, :, None] * state
        for step in range(steps):
            key = k[step::steps, t]
            write = beta[step::steps, t, None] * (v[step::steps, t] - of.einsum("hkv,hk->hv", state, key))
            state = state + key[:, :, None] * write[:, None, :]
        out[:, t] = of.einsum("hkv,hk->hv", state, q[:, t])
    return out


def _last_logits(call: Call) -> Tensor:
    """Logits s q.k of the last rows of softmax attention, [H, r, m], made in float32 where the tensors lie."""
    q, k = _by_key_head(call, call.q[:, -LAST_ROWS:]), call.k.swapaxes(1, 2)
    products = _products_in_float32(q, k)
    if products is None:
        products = to_float32(q) @ to_float32(k)
    return call.scale * _wide(products.reshape(call.heads, LAST_ROWS, -1))


def _products_in_float32(a: Tensor, b: Tensor) -> Tensor | None:
    """Products of 16-bit matrices of a GPU, summed in float32, where this torch has them."""
    if not is_torch(a) or a.device.type != "cuda" or a.dtype != b.dtype or a.element_size() != 2:
        return None
    torch = torch_module()
    try:
        return torch.bmm(a, b, out_dtype=torch.float32)
    except (TypeError, RuntimeError):
        return None


def _last_rows(call: Call, logits: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """A [H, r, m] of the last rows of softmax attention, of their logits and of c; the values; A V [H, r, d_v]."""
    v = to_float32(call.v)
    sinks = None if call.sinks is None else _wide(call.sinks)
    entries = softmax_rows(logits, c, call.rows - LAST_ROWS, call.window, call.softcap, sinks)
    weights = to_float32(_by_key_head(call, entries))
    if is_torch(v):
        weights = torch_module().as_tensor(weights).to(v.device)
    return entries, v, _wide(_mixed(weights, v)).reshape(call.heads, LAST_ROWS, -1)


def _mixed(weights: Tensor, v: Tensor) -> Tensor:
    """Products [H, r, m] @ [H, m, d]. Few rows of many keys keep a GPU busy where parts of the keys are summed apart."""
    heads, rows, keys = weights.shape
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


def _spread_of_rounding(call: Call, logits: Tensor, c: Tensor | None, made: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """E of each head, [H]: the output's relative error beside the unit roundoff of rounded logits and weights.

    logits   [H, r, m] of the last r queries of m keys; c [H, m] nats
    made     A [H, r, m], the values [H_k, m, d_v] and the output [H, r, d_v] of these rows
    """
    entries, v, output = made
    rows, keys = entries.shape[1:]
    squares = logits**2
    of_logits = 1 + squares + squares.mean(axis=2)[:, :, None]
    if c is not None:
        of_logits = of_logits + (c[:, keys - rows :, None] - c[:, None, :]) ** 2
        if dtype_of(call.log_decay) in ("bfloat16", "float16"):
            of_logits = of_logits + (2 * c[:, None, :]) ** 2  # sums of them are of 16 bits too, and are the same in all rows
    weights = _by_key_head(call, entries**2 * of_logits)
    weights = torch_module().as_tensor(weights).to(v.device, v.dtype) if is_torch(v) else weights.astype(v.dtype)
    values = _wide((weights * (v**2).sum(axis=2)[:, None, :]).sum(axis=2)).reshape(len(entries), rows)
    mixed = _wide(_mixed(weights, v)).reshape(len(entries), rows, -1)
    moved = (
        values - 2 * (mixed * output).sum(axis=2) + _wide(weights.sum(axis=2)).reshape(values.shape) * (output**2).sum(axis=2)
    )
    of = _library(moved)
    mean = of.clip(moved, 0.0, None).mean(axis=1) / output.shape[2]
    return of.sqrt(1 + mean / (_size(output) ** 2 + 1e-60))


def _size(part: Tensor) -> Tensor:
    """The root mean square of each head, [H]."""
    return _library(part).sqrt((part**2).mean(axis=(1, 2)))


def _errors(given: Tensor, made: Tensor) -> Tensor:
    """The relative error of each head, root mean squares over its rows; NaN where it is not known."""
    return _size(given - made) / (_size(given) + 1e-30)


def _fits(given: Float64, made: Float64, allowed: Float64) -> bool:
    """Whether no head's error is above what is allowed to it."""
    return bool((_errors(given, made) <= allowed).all())


@dataclass(frozen=True)
class Comparison:
    """How far the recorded operator is from the model's own: a relative error, root mean squares over a head's rows.

    of_sums   whether only the size of c explains it: the model sums log f in float32
    coarse    whether it is above ten times what rounding of the output alone gives, and only 16 bits inside a mixer explain it
    """

    rows: int
    error: float
    of_sums: bool = False
    coarse: bool = False


def _allowed(call: Call, rows: int, spread: Float64, sums: Float64) -> Float64:
    """The relative errors that rounding explains, of each head of the output.

    rows     that are compared
    spread   [H] E of softmax attention of 16 bits, else the largest logit of its rows; sums [H] the size of its c, nats
    """
    rounding = _rounding(call)
    solved = min(call.rows, ROWS) if call.mixer in ERASING else 0
    if call.mixer == "attention" and _of_16_bits(call):
        of_products = 2 * (1 + rows**-0.5) * rounding * spread
    else:
        of_products = (16 if rounding <= 2.0**-24 else 2) * rounding * (4 + spread)
    allowed = np.minimum(0.3, of_products + 16 * 2.0**-24 * (sums + solved))
    assert call.output is not None
    by_head: Float64 = allowed.reshape(int(call.output.shape[0]), -1).max(axis=1)
    return by_head


def _size_of_sums(short: Call) -> Tensor:
    """The size of c of each head in the first rows, [H] nats."""
    assert short.log_decay is not None
    of = _library(short.log_decay)
    sizes = abs(_sums(short.log_decay[:, : short.rows]))[:, -1]
    if short.decay == "channel":
        return _group(of.amax(sizes, axis=1), short.heads)
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
    short = _short(call)
    if call.mixer == "attention":
        _measure_first_rows(call, short, readings)
    else:
        readings.add("first errors", _errors(short.output, first_rows(short)))
    if call.log_decay is not None:
        readings.add("first sums", _size_of_sums(short))
    if has_last_rows(call):
        _measure_last_rows(call, readings)
    return short


def _measure_first_rows(call: Call, short: Call, readings: Readings) -> None:
    logits = _first_logits(short)
    c = None if short.log_decay is None else _sums(short.log_decay[:, : short.rows])
    entries = softmax_rows(logits, c, 0, short.window, short.softcap, short.sinks)
    output = _mixed_first(short, entries)
    readings.add("first errors", _errors(short.output, output))
    if _of_16_bits(call):
        readings.add("first spread", _spread_of_rounding(call, logits, c, (entries, short.v, output)))
    else:
        of = _library(logits)
        readings.add("first spread", of.amax(of.tril(abs(logits)), axis=(1, 2)))


def _measure_last_rows(call: Call, readings: Readings) -> None:
    logits = _last_logits(call)
    c = None if call.log_decay is None else _sums(_wide(call.log_decay))
    made = _last_rows(call, logits, c)
    readings.add("last errors", _errors(_wide(call.output[:, -LAST_ROWS:]), made[2]))  # type: ignore[index]
    if _of_16_bits(call):
        readings.add("last spread", _spread_of_rounding(call, logits, c, made))
    else:
        readings.add("last spread", _library(logits).amax(abs(logits), axis=(1, 2)))
    if c is not None:
        readings.add("last sums", -c[:, -1])


def judge(call: Call, short: Call, found: Mapping[str, Float64], where: str) -> Comparison:
    """Compares a call with its output by the readings of `measure`, which made its first rows `short`.

    Raises FoxscopeError naming layer, head, error and the likely cause.
    """
    error, of_sums, rows = 0.0, False, 0
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
        of_sums = of_sums or bool((errors > _allowed(call, count, spread, none)).any())
        error, rows = max(error, float(errors.max())), rows + count
    # Rounding to nearest of numbers of all sizes is off by 0.4 u of them, root mean squares.
    coarse = _of_16_bits(call) and error > 10 * 0.4 * _rounding(call)
    return Comparison(rows, error, of_sums, coarse)


def _cause_of_last_rows(call: Call, allowed: Float64) -> str:
    last, logits = to_float64(call.output[:, -LAST_ROWS:]), to_float64(_last_logits(call))  # type: ignore[index]

    def sums_of(call: Call) -> Float64 | None:
        return None if call.log_decay is None else to_float64(_sums(_wide(call.log_decay)))

    def fits(call: Call, logits: Float64, c: Float64 | None) -> bool:
        return _fits(last, to_float64(_last_rows(call, logits, c)[2]), allowed)

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
    if call.log_decay is None:
        return "gates that were not recorded (pass log_forget=, if the model has them)"
    return "wrong gates (log_forget of another head, position or base: nats are expected)"


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
    if call.log_decay is not None:
        decay = to_float64(call.log_decay)
        yield (
            "the gates, which the model multiplies by the scale like the logits (pass log_forget * scale)",
            lambda: replace(call, log_decay=decay * call.scale),
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


def likely_cause(short: Call, allowed: Float64) -> str:
    """Words for the reason why the first rows differ: the first other operator that gives what the model gave."""
    if short.dropout > 0:
        return f"dropout of {short.dropout:g} in the attention: call model.eval() before"
    parts: dict[str, Any] = {name: to_float64(part) for name in PARTS if (part := getattr(short, name)) is not None}
    short = replace(short, **parts)
    given: Float64 = parts["output"]
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
    unlike = "rotary embedding, a norm or a shift behind where q and k were recorded"
    if short.mixer == "attention":
        return f"{_of_gates(short)}, {unlike}, or a mask that is not causal"
    return f"{unlike}, another mixer than {short.mixer}, or a state from before the text"
