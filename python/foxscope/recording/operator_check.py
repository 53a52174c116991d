"""Compares what was recorded with what the model's own mixer returned.

softmax attention   O = softmax(cap(s Q K^T) + D) V with D_ij = c_i - c_j (Lin et al. 2025, eq. 6)
linear mixers       S_t = (Diag(a_t) + b_t e_t^T) S_(t-1) + k_t u_t^T,  y_t = S_t^T q_t (docs/maps.md)

Everything is float64 and made of the first rows (`ROWS`), of softmax attention of the last four too.

What rounding explains is a relative error of each head, 16 u (4 + s) + 16 u (|c| + r), where u = 2^-24 is that of float32
and s the largest logit of the rows. Sums c in float32 are off by u |c|, and so are the logits that hold them. r counts the
rows that a chunk of the delta rule solves for, and is 0 for other mixers. Coarser formats have 2 u' (4 + s) first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import FoxscopeError
from .arrays import ROUNDING, Float64, Tensor, dtype_of, is_torch, to_bfloat16_bits, to_float32, to_float64, torch_module
from .call import CLOSED, Call

#: Rows from the first position on that are compared.
ROWS = 64
LAST_ROWS = 4

#: Mixers whose chunked code solves a triangular system of the rows of a chunk: the rounding of each row adds up.
ERASING = ("delta_rule", "delta_product", "diagonal_plus_low_rank")


def _group(part: Tensor, heads: int) -> Any:
    """Each of [h, ...] for its H / h heads."""
    times = heads // part.shape[0]
    return part.repeat_interleave(times, 0) if is_torch(part) else np.repeat(part, times, axis=0)


def _wide(part: Tensor, beside: Tensor) -> Tensor:
    """The same numbers in float64, beside a tensor where its device has float64, else in host memory."""
    if not is_torch(beside) or beside.device.type not in ("cpu", "cuda"):
        return to_float64(part)
    torch = torch_module()
    return torch.as_tensor(part).to(beside.device, torch.float64)


def softmax_rows(logits: Tensor, c: Tensor, begin: int, window: int, softcap: float, sinks: Tensor | None) -> Tensor:
    """Rows of A, [H, r, m]: logits [H, r, m] are s q.k of the queries begin, begin + 1, ...; c [H, m] nats.

    All are float64, of numpy or of torch on one device.
    """
    of: Any = torch_module() if is_torch(logits) else np
    if softcap > 0:
        logits = softcap * of.tanh(logits / softcap)
    rows, keys = logits.shape[1:]
    key = of.arange(keys, device=logits.device)[None, :]
    query = begin + of.arange(rows, device=logits.device)[:, None]
    seen = (key <= query) & ((key > query - window) if window > 0 else True)
    logits = of.where(seen, logits + c[:, begin : begin + rows, None] - c[:, None, :], -math.inf)
    largest = of.amax(logits, axis=2, keepdims=True)
    if sinks is not None:
        largest = of.maximum(largest, sinks[:, None, None])
    weights = of.exp(logits - largest)
    total = weights.sum(axis=2, keepdims=True)
    if sinks is not None:
        total = total + of.exp(sinks[:, None, None] - largest)
    return weights / total


def _sums(call: Call, rows: int) -> Float64:
    """Sums c of the first rows, [H, rows] nats."""
    if call.log_decay is None:
        return np.zeros((call.heads, rows))
    sums: Float64 = np.cumsum(np.clip(to_float64(call.log_decay[:, :rows]), CLOSED, 0.0), axis=1)
    return sums


def first_rows(call: Call, sums: Float64 | None = None) -> Float64:
    """What the recorded operator gives for the first rows of a text, [H, r, d_v].

    sums   c of softmax attention, [H, r] nats; None: the sums of its gates
    """
    rows = min(call.rows, ROWS)
    assert call.v is not None
    if call.mixer == "attention":
        logits = _first_logits(call, rows)
        sinks = None if call.sinks is None else _wide(call.sinks, logits)
        c = _wide(_sums(call, rows) if sums is None else sums, logits)
        v = _group(_wide(call.v[:, :rows], logits), call.heads)
        return to_float64(softmax_rows(logits, c, 0, call.window, call.softcap, sinks) @ v)
    q, k, v = (to_float64(part[:, :rows]) for part in (call.q, call.k, call.v))
    return _linear_rows(call, q * call.scale, k, v, rows)


def _first_logits(call: Call, rows: int) -> Tensor:
    """Logits s q.k of the first rows of softmax attention, [H, r, r] float64."""
    q, k = (_wide(part[:, :rows], call.q) for part in (call.q, call.k))
    return call.scale * q @ _group(k, call.heads).swapaxes(1, 2)


def _linear_rows(call: Call, q: Float64, k: Float64, v: Float64, rows: int) -> Float64:
    heads = call.heads
    q, k, v = (_group(part, heads) for part in (q, k, v))
    decay = np.ones((heads, rows, 1))
    if call.log_decay is not None:
        log_decay = np.maximum(to_float64(call.log_decay[:, :rows]), CLOSED)
        if call.decay == "channel":
            decay = np.exp(_group(log_decay, heads))
        elif call.decay_rate is not None:
            decay = np.exp(log_decay[:, :, None] * to_float64(call.decay_rate)[:, None, :])
        else:
            decay = np.exp(log_decay[:, :, None])
    beta = np.ones((heads, rows)) if call.beta is None else to_float64(call.beta[:, :rows])
    if call.mixer == "delta_product":
        return _delta_product(call, q, k, v, decay, beta)
    state = np.zeros((heads, k.shape[2], v.shape[2]))
    out = np.empty((heads, rows, v.shape[2]))
    erase_read, erase_write = call.erase_read, call.erase_write
    if erase_read is not None and erase_write is not None:
        e = _group(to_float64(erase_read[:, :rows]), heads)
        b = _group(to_float64(erase_write[:, :rows]), heads)
    for t in range(rows):
        before = state
        state = decay[:, t, :, None] * state
        write = v[:, t]
        if call.mixer == "delta_rule":
            write = write - np.einsum("hkv,hk->hv", state, k[:, t])
        if erase_read is not None:
            state = state + b[:, t, :, None] * np.einsum("hkv,hk->hv", before, e[:, t])[:, None, :]
        state = state + k[:, t, :, None] * (beta[:, t, None] * write)[:, None, :]
        out[:, t] = np.einsum("hkv,hk->hv", state, q[:, t])
    return out


def _delta_product(call: Call, q: Float64, k: Float64, v: Float64, decay: Float64, beta: Float64) -> Float64:
    """Heads h n to h n + n - 1 are the steps of query head h."""
    query_heads = int(call.q.shape[0])
    steps, rows = call.heads // query_heads, q.shape[1]
    state = np.zeros((query_heads, k.shape[2], v.shape[2]))
    out = np.empty((query_heads, rows, v.shape[2]))
    for t in range(rows):
        state = decay[::steps, t, :, None] * state
        for step in range(steps):
            key = k[step::steps, t]
            write = beta[step::steps, t, None] * (v[step::steps, t] - np.einsum("hkv,hk->hv", state, key))
            state = state + key[:, :, None] * write[:, None, :]
        out[:, t] = np.einsum("hkv,hk->hv", state, q[::steps, t])
    return out


def _last_logits(call: Call) -> Tensor:
    """Logits s q.k of the last rows of softmax attention, [H, r, m], made in float32 where the tensors lie."""
    key_heads, rows = int(call.k.shape[0]), LAST_ROWS
    of_key_head = (key_heads, call.heads // key_heads * rows, -1)
    q, k = (to_float32(part) for part in (call.q[:, -rows:], call.k))
    return call.scale * _wide((q.reshape(of_key_head) @ k.swapaxes(1, 2)).reshape(call.heads, rows, -1), q)


def _last_rows(call: Call, logits: Tensor, sums: Tensor) -> Float64:
    """What the recorded operator gives for the last rows of softmax attention, [H, r, d_v], of their logits and of c."""
    key_heads, rows, v = int(call.k.shape[0]), LAST_ROWS, to_float32(call.v)
    of_key_head = (key_heads, call.heads // key_heads * rows, -1)
    sinks = None if call.sinks is None else _wide(call.sinks, logits)
    entries = softmax_rows(logits, _wide(sums, logits), call.rows - rows, call.window, call.softcap, sinks)
    weights = to_float32(entries.reshape(of_key_head))
    if is_torch(v):
        weights = torch_module().as_tensor(weights).to(v.device)
    return to_float64(weights @ v).reshape(call.heads, rows, -1)


def _rounding(call: Call) -> float:
    """Unit roundoff of what the mixer computed with."""
    largest = max(ROUNDING.get(dtype_of(part), 2.0**-24) for part in (call.q, call.k, call.v, call.output))
    on_gpu = is_torch(call.q) and call.q.device.type != "cpu"
    # Tensor cores may take float32 as TF32, with 10 bits behind the point.
    return max(largest, 2.0**-11) if on_gpu else max(largest, 2.0**-24)


def _errors(given: Float64, made: Float64) -> Float64:
    """The relative error of each head, root mean squares over its rows."""
    norm = np.sqrt((given**2).mean(axis=(1, 2))) + 1e-30
    errors = np.sqrt(((given - made) ** 2).mean(axis=(1, 2))) / norm
    return np.where(np.isfinite(errors), errors, np.inf)


def _fits(given: Float64, made: Float64, allowed: Float64) -> bool:
    """Whether no head's error is above what is allowed to it."""
    return bool((_errors(given, made) <= allowed).all())


@dataclass(frozen=True)
class Comparison:
    """How far the recorded operator is from the model's own: a relative error, root mean squares over a head's rows.

    of_sums   whether only the size of c explains it: the model sums log f in float32
    """

    rows: int
    error: float
    of_sums: bool = False


def _allowed(call: Call, spread: Float64, sums: Float64) -> Float64:
    """The relative errors that rounding explains, of each head of the output.

    spread   [H] the largest logit of its rows; sums [H] the size of its c, nats
    """
    rounding = _rounding(call)
    solved = min(call.rows, ROWS) if call.mixer in ERASING else 0
    of_products = (16 if rounding <= 2.0**-24 else 2) * rounding * (4 + spread)
    allowed = np.minimum(0.3, of_products + 16 * 2.0**-24 * (sums + solved))
    assert call.output is not None
    by_head: Float64 = allowed.reshape(int(call.output.shape[0]), -1).max(axis=1)
    return by_head


def _of_first_rows(call: Call, rows: int) -> tuple[Float64, Float64]:
    """The largest logit of each head, and the size of its c, [H] each."""
    heads = call.heads
    sums = np.zeros(heads)
    if call.log_decay is not None:
        of_rows = _sums(call, rows)
        sums = (
            _group(np.abs(of_rows.reshape(len(of_rows), -1)).max(axis=1), heads) if call.decay == "channel" else -of_rows[:, -1]
        )
        if call.decay_rate is not None:
            sums = sums * np.abs(to_float64(call.decay_rate)).max(axis=1)
    if call.mixer != "attention":
        return np.zeros(heads), sums
    logits = abs(_first_logits(call, rows))
    of: Any = torch_module() if is_torch(logits) else np
    return to_float64(of.amax(of.tril(logits), axis=(1, 2))), sums


def _largest(errors: Float64, allowed: Float64) -> tuple[int, float, float]:
    """The head whose error is the largest beside what is allowed to it, and both."""
    head = int((errors / allowed).argmax())
    return head, float(errors[head]), float(allowed[head])


def compare(call: Call, where: str, sums: Float64 | None) -> Comparison | None:
    """Compares a call that begins a text with its output; None where there is nothing to compare.

    sums   c of all rows, [H, n] nats
    Raises FoxscopeError naming layer, head, error and the likely cause.
    """
    if call.output is None or call.v is None:
        return None
    rows = min(call.rows, ROWS)
    spread, size = _of_first_rows(call, rows)
    allowed = _allowed(call, spread, size)
    given = to_float64(call.output[:, :rows])
    errors = _errors(given, first_rows(call))
    if (errors > allowed).any():
        _raise(call, where, f"the first {rows} rows", _largest(errors, allowed), likely_cause(call, given, allowed))
    error, of_sums = float(errors.max()), bool((errors > _allowed(call, spread, size * 0)).any())
    if call.mixer == "attention" and sums is not None and call.rows > ROWS + LAST_ROWS:
        last, logits = to_float64(call.output[:, -LAST_ROWS:]), _last_logits(call)
        largest = (torch_module() if is_torch(logits) else np).amax(abs(logits), axis=(1, 2))
        spread, size = to_float64(largest), np.abs(sums).max(axis=1)
        allowed = _allowed(call, spread, size)
        errors = _errors(last, _last_rows(call, logits, sums))
        if (errors > allowed).any():
            cause = _cause_of_last_rows(call, last, logits, sums, allowed)
            _raise(call, where, f"the last {LAST_ROWS} rows", _largest(errors, allowed), cause)
        of_sums = of_sums or bool((errors > _allowed(call, spread, size * 0)).any())
        error, rows = max(error, float(errors.max())), rows + LAST_ROWS
    return Comparison(rows, error, of_sums)


def _cause_of_last_rows(call: Call, last: Float64, logits: Tensor, sums: Float64, allowed: Float64) -> str:
    def fits(call: Call, sums: Float64) -> bool:
        return _fits(last, _last_rows(call, logits, sums), allowed)

    if call.window > 0 and fits(replace(call, window=0), sums):
        return "the model applies no window: pass window=None"
    for name, coarse in _coarse(sums):
        if fits(call, coarse):
            return _HELD.format(name)
    return "the window" if call.window > 0 else "a window that was not recorded (pass window=)"


#: Words for sums c in too coarse a format.
_HELD = "c, which the model holds in {}: sum log f in float32"


def _coarse(sums: Float64) -> Iterator[tuple[str, Float64]]:
    """Sums c as formats of 16 bits hold them, the coarser one first."""
    if not sums.any():
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


def _short(call: Call) -> Call:
    """The first rows alone, in float64, and one gate more."""
    rows = min(call.rows, ROWS)
    cut: dict[str, Any] = {
        name: to_float64(getattr(call, name)[:, : rows + (name == "log_decay")])
        for name in ("q", "k", "v", "log_decay", "beta", "erase_read", "erase_write")
        if getattr(call, name) is not None
    }
    return replace(call, **cut)


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
    normal = replace(call, q=_normalised(call.q), k=_normalised(call.k))
    yield "q and k, which the model normalises behind where they were recorded", lambda: normal
    if call.log_decay is not None:
        decay = to_float64(call.log_decay)
        yield (
            "the gates, which the model multiplies by the scale like the logits (pass log_forget * scale)",
            lambda: replace(call, log_decay=decay * call.scale),
        )
        yield (
            "the gates, which the model does not apply",
            lambda: replace(call, log_decay=None if "none" in _decays(call) else decay * 0),
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


def _decays(call: Call) -> tuple[str, ...]:
    from .call import MIXERS

    return MIXERS[call.mixer][0]


def _fitted_scale(call: Call, given: Float64, allowed: Float64) -> float | None:
    """The scale by which the operator fits, if there is one."""

    def error_of(scale: float) -> float:
        return float((_errors(given, first_rows(replace(call, scale=scale))) / allowed).max())

    logs = np.linspace(-7, 5, 49)
    best = min(logs, key=lambda log: error_of(math.exp(log)))
    step = 0.25
    while step > 1e-7:
        best = min((best - step, best, best + step), key=lambda log: error_of(math.exp(log)))
        step *= 0.6
    scale = math.exp(best)
    return scale if error_of(scale) <= 1 else None


def likely_cause(call: Call, given: Float64, allowed: Float64) -> str:
    """Words for the reason why the first rows differ: the first other operator that gives what the model gave."""
    if call.dropout > 0:
        return f"dropout of {call.dropout:g} in the attention: call model.eval() before"
    call = _short(call)
    for cause, make in _variants(call):
        with np.errstate(all="ignore"):
            if _fits(given, first_rows(make()), allowed):
                return cause
    if call.mixer == "attention":
        for name, coarse in _coarse(_sums(call, min(call.rows, ROWS))):
            if _fits(given, first_rows(call, coarse), allowed):
                return _HELD.format(name)
    scale = _fitted_scale(call, given, allowed)
    if scale is not None:
        return f"the scale: pass scale={scale:.6g}"
    unlike = "rotary embedding, a norm or a shift behind where q and k were recorded"
    if call.mixer == "attention":
        return f"{unlike}, or a mask that is not causal"
    return f"{unlike}, another mixer than {call.mixer}, or a state from before the text"
