"""How the functions that are seen take their tensors, and what call of a mixer each one is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .arrays import Tensor, torch_module
from .call import Call
from .masks import BY_HAND, NOT_CAUSAL, NotRecordable, at_most_1, read_block_mask, read_hidden, read_mask, read_score_mod

Function = Callable[..., Any]
#: (arguments by name, sequence, output of the function, words for it) -> the call.
Reader = Callable[[Mapping[str, Any], int, Any, str], Call]


@dataclass(frozen=True)
class Signature:
    """A function by its name: where its tensors stand, and what reads them."""

    name: str
    positional: tuple[str, ...]
    read: Reader


def arguments_of(original: Function, positional: tuple[str, ...], args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
    """Arguments by name: by the function's own signature, else by the names that its documentation has."""
    names = positional
    try:
        parameters = inspect.signature(original).parameters.values()
        own = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
        names = own if len(own) >= len(args) and own else positional
    except (TypeError, ValueError):
        pass
    return {**dict(zip(names, args)), **kwargs}


def _sequence(value: Tensor | None, sequence: int, heads_first: bool) -> Tensor | None:
    """[heads, positions, ...] of a batch [B, heads, positions, ...], or of [B, positions, heads, ...]."""
    if value is None:
        return None
    one = value.detach()[min(sequence, value.shape[0] - 1)]
    return one if heads_first else one.transpose(0, 1)


def _check_batch(value: Tensor, sequence: int) -> None:
    if value.shape[0] <= sequence:
        raise NotRecordable(f"a batch of {value.shape[0]} has no sequence {sequence}")


def _cut(
    arguments: Mapping[str, Any], names: tuple[str, ...], sequence: int
) -> tuple[dict[str, Any], int, tuple[int, int] | None]:
    """Where sequences lie one behind the other (cu_seqlens), the one that is recorded, as a batch of one."""
    bounds = next((arguments[name] for name in ("cu_seqlens", "cu_seqlens_q") if arguments.get(name) is not None), None)
    if bounds is None:
        return dict(arguments), sequence, None
    if len(bounds) <= sequence + 1:
        raise NotRecordable(f"{len(bounds) - 1} packed sequences have no sequence {sequence}")
    begin, end = int(bounds[sequence]), int(bounds[sequence + 1])
    cut = dict(arguments)
    for name in names:
        if cut.get(name) is not None:
            cut[name] = cut[name][:, begin:end]
    return cut, 0, (begin, end)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def _without_empty(q: Tensor, k: Tensor, v: Tensor, mask: Any, sequence: int, from_first: bool) -> tuple[Tensor, Tensor, Any]:
    """Keys, values and mask without the places of a cache of fixed size that no position has filled yet.

    from_first  whether the first query reads the first key where there is no mask, as torch's own function has it
    """
    queries, keys = int(q.shape[2]), int(k.shape[2])
    if keys <= queries or queries == 0:
        return k, v, mask
    used = keys
    if mask is not None and mask.ndim == 4:
        last = mask[min(sequence, len(mask) - 1), 0, -1]
        places = (last > -1e4 if last.is_floating_point() else last).nonzero()
        used = int(places.max()) + 1 if len(places) else keys
        mask = mask[..., :used]
    elif mask is None and queries > 1 and from_first:
        used = queries
    return k[:, :, :used], v[:, :, :used], mask


def _softmax_call(
    qkv: tuple[Tensor, Tensor, Tensor],
    output: Tensor,
    sequence: int,
    source: str,
    *,
    heads_first: tuple[bool, bool] = (True, True),
    log_decay: Tensor | None = None,
    scale: Any = None,
    window: int = 0,
    softcap: Any = None,
    sinks: Tensor | None = None,
    dropout: Any = None,
) -> Call:
    """Softmax attention of a sequence of a batch. heads_first: whether queries, keys and values, and the output, are
    [B, heads, positions, d], or [B, positions, heads, d].
    """
    q, k, v = (_sequence(part, sequence, heads_first[0]) for part in qkv)
    heads, rows = qkv[0].shape[1:3] if heads_first[0] else qkv[0].shape[2:0:-1]
    return Call(
        "attention",
        q,
        k,
        v,
        log_decay=None if log_decay is None else log_decay.expand(int(heads), int(rows)),
        scale=float(qkv[0].shape[-1] ** -0.5 if scale is None else scale),
        window=window,
        softcap=float(softcap or 0.0),
        sinks=None if sinks is None else sinks.detach().reshape(-1),
        output=_sequence(output, sequence, heads_first[1]),
        source=source,
        dropout=float(dropout or 0.0),
    )


def read_sdpa(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """torch.nn.functional.scaled_dot_product_attention, [B, H, L, d] or [H, L, d]."""
    q, k, v = arguments["query"], arguments["key"], arguments["value"]
    if q.ndim == 3:
        q, k, v, output = q[None], k[None], v[None], output[None]
    if q.ndim != 4:
        raise NotRecordable(f"queries have {q.ndim} axes")
    _check_batch(q, sequence)
    mask, causal = arguments.get("attn_mask"), bool(arguments.get("is_causal", False))
    k, v, mask = _without_empty(q, k, v, mask, sequence, causal)
    queries, keys = int(q.shape[2]), int(k.shape[2])
    window, log_decay = 0, None
    if mask is not None:
        reading = read_mask(mask, sequence, queries, keys)
        window, log_decay = reading.window, reading.log_decay
    elif queries > 1 and not causal:
        raise NotRecordable(NOT_CAUSAL)
    return _softmax_call(
        (q, k, v),
        output,
        sequence,
        source,
        log_decay=log_decay,
        scale=arguments.get("scale"),
        window=window,
        dropout=arguments.get("dropout_p"),
    )


def read_interface(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """A function of transformers' attention interface: [B, H, L, d] in, ([B, L, H, d_v], weights) out."""
    module, mask = arguments["module"], arguments.get("attention_mask")
    q, k, v = arguments["query"], arguments["key"], arguments["value"]
    _check_batch(q, sequence)
    causal = arguments.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    window, log_decay = 0, None
    if hasattr(mask, "mask_mod"):
        window = read_block_mask(mask, sequence, int(q.shape[2]), int(k.shape[2]), q.device).window
        mask, causal = None, True
    k, v, mask = _without_empty(q, k, v, mask, sequence, "sdpa" in source)
    queries, keys = int(q.shape[2]), int(k.shape[2])
    if mask is not None and mask.ndim == 4:
        if arguments.get("position_bias") is not None:
            mask = arguments["position_bias"] + (mask if mask.is_floating_point() else 0)
        reading = read_mask(mask, sequence, queries, keys)
        window, log_decay = reading.window, reading.log_decay
    elif mask is not None and mask.ndim == 2 and not bool((mask[min(sequence, len(mask) - 1)] != 0).all()):
        raise NotRecordable("the mask hides positions (padding): record a sequence without padding")
    elif queries > 1 and not causal:
        raise NotRecordable(NOT_CAUSAL)
    sliding = int(arguments.get("sliding_window") or 0)
    if window == 0 and (mask is None or mask.ndim != 4 or keys <= sliding):
        window = sliding  # a mask of few keys does not show its window, and flash_attention has no mask
    scale = arguments.get("scaling")
    scale = getattr(module, "scaling", None) if scale is None else scale
    sinks = arguments.get("s_aux")
    sinks = getattr(module, "sinks", None) if sinks is None else sinks
    return _softmax_call(
        (q, k, v),
        _first(output),
        sequence,
        source,
        heads_first=(True, False),
        log_decay=log_decay,
        scale=scale,
        window=window,
        softcap=arguments.get("softcap"),
        sinks=sinks,
        dropout=arguments.get("dropout"),
    )


def read_flex(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """torch.nn.attention.flex_attention.flex_attention, [B, H, L, d], with gates that its score_mod adds."""
    q, k, mask, score_mod = (arguments.get(name) for name in ("query", "key", "block_mask", "score_mod"))
    _check_batch(q, sequence)
    heads, queries, keys = int(q.shape[1]), int(q.shape[2]), int(k.shape[2])  # type: ignore[union-attr]
    log_decay, window = None, 0
    if score_mod is not None and keys != queries:
        raise NotRecordable(f"a score_mod of a text that goes on: {BY_HAND}")
    if mask is not None:
        window = read_block_mask(mask, sequence, queries, keys, q.device).window  # type: ignore[union-attr]
    elif queries > 1:
        if score_mod is None:
            raise NotRecordable(NOT_CAUSAL)
        window = read_hidden(score_mod, sequence, heads, queries, q.device)  # type: ignore[union-attr]
    if score_mod is not None:
        log_decay = read_score_mod(score_mod, sequence, heads, queries, window, q.device)  # type: ignore[union-attr]
    qkv = (q, k, arguments["value"])
    scale = arguments.get("scale")
    return _softmax_call(qkv, _first(output), sequence, source, log_decay=log_decay, scale=scale, window=window)


def read_flash(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """flash_attn_func, [B, L, H, d], and flash_attn_varlen_func, [T, H, d]."""
    arguments = dict(arguments)
    packed = arguments.get("cu_seqlens_q") is not None
    output = _first(output)
    if packed:
        for name in ("q", "k", "v"):
            arguments[name] = arguments[name][None]
        output = output[None]
    packed_sequence = sequence
    arguments, sequence, bounds = _cut(arguments, ("q",), sequence)
    if bounds is not None:
        of_keys: Any = arguments["cu_seqlens_k"]
        begin, end = int(of_keys[packed_sequence]), int(of_keys[packed_sequence + 1])
        arguments["k"], arguments["v"] = arguments["k"][:, begin:end], arguments["v"][:, begin:end]
        output = output[:, bounds[0] : bounds[1]]
    q, k, v = arguments["q"], arguments["k"], arguments["v"]
    _check_batch(q, sequence)
    left, right = (int(side) for side in arguments.get("window_size") or (-1, -1))
    if not arguments.get("causal", False) and right != 0 and q.shape[1] > 1:
        raise NotRecordable(NOT_CAUSAL)
    scale, slopes = arguments.get("softmax_scale"), arguments.get("alibi_slopes")
    log_decay = None
    if slopes is not None:
        slopes = slopes[min(sequence, len(slopes) - 1)] if slopes.ndim == 2 else slopes
        log_decay = at_most_1((-slopes.detach())[:, None], 0.0)
    return _softmax_call(
        (q, k, v),
        output,
        sequence,
        source,
        heads_first=(False, False),
        log_decay=log_decay,
        scale=scale,
        window=left + 1 if left >= 0 else 0,
        softcap=arguments.get("softcap"),
        dropout=arguments.get("dropout_p"),
    )


def read_forgetting(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """The authors' forgetting_attention, [B, L, H, d], or [B, H, L, d] with head_first."""
    heads_first = bool(arguments.get("head_first", False))
    q, k, v, gates = (arguments[name] for name in ("q", "k", "v", "log_fgate"))
    _check_batch(q, sequence)
    start = arguments.get("seq_start")
    begin = 0 if start is None else int(start[sequence])
    parts = [_sequence(part, sequence, heads_first) for part in (q, k, v, gates, _first(output))]
    if begin > 0:
        raise NotRecordable("the first keys are hidden (padding): record a sequence without padding")
    queries = int(parts[0].shape[1])  # type: ignore[union-attr]
    scale = arguments.get("sm_scale")
    return Call(
        "attention",
        parts[0],
        parts[1],
        parts[2],
        log_decay=parts[3][:, -queries:],  # type: ignore[index]
        scale=float(q.shape[-1] ** -0.5 if scale is None else scale),
        output=parts[4],
        source=source,
    )


def read_fla_forgetting(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """FLA's parallel_forgetting_attn, [B, T, HQ, K], and gates [B, T, HQ]."""
    output = _first(output)
    arguments, sequence, bounds = _cut(arguments, ("q", "k", "v", "g"), sequence)
    if bounds is not None:
        output = output[:, bounds[0] : bounds[1]]
    q, scale, window = arguments["q"], arguments.get("scale"), arguments.get("window_size")
    _check_batch(q, sequence)
    q, k, v, g, out = (_sequence(part, sequence, False) for part in (q, arguments["k"], arguments["v"], arguments["g"], output))
    return Call(
        "attention",
        q,
        k,
        v,
        log_decay=g[:, -q.shape[1] :],  # type: ignore[index,union-attr]
        scale=float(q.shape[-1] ** -0.5 if scale is None else scale),  # type: ignore[union-attr]
        window=int(window or 0),
        output=out,
        source=source,
    )


def read_fla_decoding(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
    """FLA's attn_decoding_one_step: a query of each sequence, [1, B, HQ, K], and all keys one behind the other."""
    q, bounds, scale, gates = arguments["q"], arguments["cu_seqlens"], arguments.get("scale"), arguments.get("g")
    if int(q.shape[1]) <= sequence:
        raise NotRecordable(f"a batch of {q.shape[1]} has no sequence {sequence}")
    if arguments.get("do_gate_scale", False):
        raise NotRecordable("gates are scaled with the logits")
    of = slice(int(bounds[sequence]), int(bounds[sequence + 1]))
    one = slice(sequence, sequence + 1)
    q, out = (_sequence(part[:, one], 0, False) for part in (q, _first(output)))
    k, v = (_sequence(part[:, of], 0, False) for part in (arguments["k"], arguments["v"]))
    return Call(
        "attention",
        q,
        k,
        v,
        log_decay=None if gates is None else _sequence(gates[:, of][:, -1:], 0, False),
        scale=float(k.shape[-1] ** -0.5 if scale is None else scale),  # type: ignore[union-attr]
        sinks=arguments.get("sink_bias"),
        output=out,
        source=source,
    )


def _unit(part: Tensor) -> Tensor:
    """Rows of length 1, l2(z) = z / sqrt(sum z^2 + 1e-6), in float32."""
    wide = part.float()
    return wide * (wide.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def _log_decay(arguments: Mapping[str, Any], gates: Tensor, channels: bool) -> Tensor:
    """Log decays of gates that a kernel of FLA makes itself: -exp(A_log) softplus(g + dt_bias), or with a lower bound."""
    torch = torch_module()
    gates = gates.float()
    bias: Any = arguments.get("dt_bias")
    rates: Any = arguments.get("A_log")
    bound: Any = arguments.get("lower_bound")
    heads = gates.shape[2]
    shape = (heads, -1) if channels else (heads,)
    if bias is not None:
        gates = gates + bias.float().view(*shape)
    if rates is not None:
        rates = rates.float().reshape(-1).exp().view(*((heads, 1) if channels else (heads,)))
    if bound is not None:
        return bound * torch.sigmoid(gates if rates is None else rates * gates)
    if rates is None:
        raise NotRecordable("gates are made in the kernel without A_log")
    return -rates * torch.nn.functional.softplus(gates)


def _has_state(state: Any, sequence: int) -> bool:
    """Whether a sequence begins with what other positions left."""
    return state is not None and bool(state[min(sequence, len(state) - 1)].any())


def read_linear(mixer: str) -> Reader:
    """FLA's functions of a linear mixer, [B, T, H, K], and those of transformers that stand in for them."""

    def read(arguments: Mapping[str, Any], sequence: int, output: Any, source: str) -> Call:
        output = _first(output)
        arguments = dict(arguments)
        for long, short in (("query", "q"), ("key", "k"), ("value", "v")):
            if long in arguments:
                arguments[short] = arguments.pop(long)
        if bool(arguments.get("head_first", False)):
            for name in ("q", "k", "v", "g", "gk", "beta"):
                if arguments.get(name) is not None:
                    arguments[name] = arguments[name].transpose(1, 2)
            output = output.transpose(1, 2)
        arguments, sequence, bounds = _cut(arguments, ("q", "k", "v", "g", "gk", "beta"), sequence)
        if bounds is not None:
            output = output[:, bounds[0] : bounds[1]]
        q, k, v, beta = arguments["q"], arguments["k"], arguments["v"], arguments.get("beta")
        _check_batch(q, sequence)
        if arguments.get("gv") is not None:
            raise NotRecordable("channels of values decay, which a run file cannot hold")
        if arguments.get("reverse", False):
            raise NotRecordable("the text is read backwards")
        scale = arguments.get("scale")
        scale = float(k.shape[-1] ** -0.5 if scale is None else scale)
        if arguments.get("use_qk_l2norm_in_kernel", False):
            q, k = _unit(q), _unit(k)
        gates, of_channels = arguments.get("g"), arguments.get("gk")
        if of_channels is not None:
            gates = of_channels if gates is None else of_channels + gates[..., None]
        if gates is None and arguments.get("g_gamma") is not None:
            gates = arguments["g_gamma"].expand(*q.shape[:2], -1)
        if gates is not None and arguments.get("use_gate_in_kernel", False):
            gates = _log_decay(arguments, gates, gates.ndim == 4)
        if beta is not None and arguments.get("use_beta_sigmoid_in_kernel", False):
            beta = beta.float().sigmoid() * (2 if arguments.get("allow_neg_eigval", False) else 1)
        if mixer == "delta_rule" and beta is None:
            beta = q.new_ones(v.shape[:3])
        heads = int(v.shape[2])
        if gates is not None and gates.ndim == 4 and k.shape[2] != heads:
            # Decays of channels belong to keys: keys stand once more for each head that has decays of its own.
            q, k = (part.repeat_interleave(heads // part.shape[2], dim=2) for part in (q, k))
        if beta is not None and beta.ndim == 4:
            raise NotRecordable("beta is of channels, which a run file cannot hold")
        parts = [_sequence(part, sequence, False) for part in (q, k, v, gates, beta, output)]
        return Call(
            mixer,
            parts[0],
            parts[1],
            parts[2],
            log_decay=parts[3],
            beta=parts[4],
            scale=scale,
            output=parts[5],
            source=source,
            goes_on=_has_state(arguments.get("initial_state"), sequence),
        )

    return read


_QKV = ("q", "k", "v")
_DELTA, _GATED = (*_QKV, "beta"), (*_QKV, "g", "beta")

#: torch, seen wherever it is called from.
SDPA = Signature("scaled_dot_product_attention", ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), read_sdpa)
FLEX = Signature("flex_attention", ("query", "key", "value", "score_mod", "block_mask", "scale"), read_flex)
#: Functions of the attention interface of transformers.
INTERFACE = Signature("attention_interface", ("module", "query", "key", "value", "attention_mask"), read_interface)

#: Functions of packages by name, with the packages (first parts of module names) that have them.
SIGNATURES: tuple[tuple[tuple[str, ...], Signature], ...] = (
    (("forgetting_transformer",), Signature("forgetting_attention", (*_QKV, "log_fgate"), read_forgetting)),
    (("fla",), Signature("parallel_forgetting_attn", (*_QKV, "g"), read_fla_forgetting)),
    (("fla",), Signature("attn_decoding_one_step", (*_QKV, "g"), read_fla_decoding)),
    (("fla",), Signature("chunk_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("fused_chunk_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("fused_recurrent_gla", (*_QKV, "gk"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("chunk_simple_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("fused_chunk_simple_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("fused_recurrent_simple_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("parallel_simple_gla", (*_QKV, "g"), read_linear("gated_linear_attention"))),
    (("fla",), Signature("chunk_delta_rule", _DELTA, read_linear("delta_rule"))),
    (("fla",), Signature("fused_chunk_delta_rule", _DELTA, read_linear("delta_rule"))),
    (("fla",), Signature("fused_recurrent_delta_rule", _DELTA, read_linear("delta_rule"))),
    (("fla", "transformers"), Signature("chunk_gated_delta_rule", _GATED, read_linear("delta_rule"))),
    (
        ("fla", "transformers"),
        Signature("fused_recurrent_gated_delta_rule", (*_QKV, "g", "gk", "gv", "beta"), read_linear("delta_rule")),
    ),
    (("transformers",), Signature("torch_chunk_gated_delta_rule", _GATED, read_linear("delta_rule"))),
    (("transformers",), Signature("torch_recurrent_gated_delta_rule", _GATED, read_linear("delta_rule"))),
    (("fla", "transformers"), Signature("chunk_kda", _GATED, read_linear("delta_rule"))),
    (("fla", "transformers"), Signature("fused_recurrent_kda", _GATED, read_linear("delta_rule"))),
    (("transformers",), Signature("chunk_kimi_delta_attention", _GATED, read_linear("delta_rule"))),
    (("transformers",), Signature("recurrent_kimi_delta_attention", _GATED, read_linear("delta_rule"))),
    (("flash_attn", "flash_attn_interface"), Signature("flash_attn_func", _QKV, read_flash)),
    (
        ("flash_attn", "flash_attn_interface"),
        Signature("flash_attn_varlen_func", (*_QKV, "cu_seqlens_q", "cu_seqlens_k"), read_flash),
    ),
)
