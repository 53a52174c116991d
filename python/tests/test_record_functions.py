"""Functions that are seen where they are called: the authors', FLA's, flash_attn's and torch's.

Their packages need a GPU, so modules of their names stand in for them, with functions that compute from the definition.
"""

import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_support import DATA, assert_maps, check_file, dense_attention, mixing_of

torch = pytest.importorskip("torch", exc_type=ImportError)
safetensors = pytest.importorskip("safetensors.numpy")

from foxscope.errors import FoxscopeError  # noqa: E402
from foxscope.recording import record  # noqa: E402

Tensor = Any


def forgetting(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor, scale: float) -> Tensor:
    """Softmax(scale q k^T + D) v of [B, T, H, d] and [B, T, H]."""
    q, k, v = (part.double().transpose(1, 2) for part in (q, k, v))
    c = log_f.double().transpose(1, 2).cumsum(-1)
    k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
    logits = scale * q @ k.transpose(-1, -2) + c[..., :, None] - c[..., None, :]
    hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
    return (logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2).float()


def linear(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor | None, scale: float, erases: bool) -> Tensor:
    """y = M v, head by head, of [B, T, H, d]."""
    out = torch.zeros(*v.shape)
    for h in range(v.shape[2]):
        of = h * q.shape[2] // v.shape[2]
        m = mixing_of(
            q[0, :, of].double().numpy() * scale,
            k[0, :, of].double().numpy(),
            None if g is None else g[0, :, h].double().numpy(),
            None if beta is None else beta[0, :, h].double().numpy(),
            erases,
        )
        out[0, :, h] = (torch.tensor(m) @ v[0, :, h].double()).float()
    return out


@pytest.fixture
def packages() -> Iterator[Callable[[str, str, Callable[..., Any]], None]]:
    """Puts a function into a module of a name, which goes away behind the test."""
    before = dict(sys.modules)

    def put(module: str, name: str, function: Callable[..., Any]) -> None:
        parts = module.split(".")
        for n in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n])))
        function.__name__, function.__module__ = name, module
        setattr(sys.modules[module], name, function)

    yield put
    for module in set(sys.modules) - set(before):
        if module.split(".")[0] in ("fla", "forgetting_transformer", "flash_attn"):
            del sys.modules[module]


class Layer(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A layer that calls a function, which it keeps as an attribute, as models of transformers do."""

    def __init__(self, layer_idx: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.layer_idx, self.function, self.args, self.kwargs = layer_idx, function, args, kwargs

    def forward(self) -> Any:
        return self.function(*self.args, **self.kwargs)


def rows_first(part: Any) -> Tensor:
    """[H, L, ...] as [1, L, H, ...]."""
    return torch.tensor(np.asarray(part)).transpose(0, 1)[None].contiguous()


def run(layers: list[Layer], length: int, path: Path, **options: Any) -> str:
    with record(path, input_ids=list(range(length)), **options) as rec, torch.no_grad():
        for layer in layers:
            layer()
    check_file(path)
    return rec.summary()


def golden(name: str, file: str = "golden") -> dict[str, Any]:
    return dict(safetensors.load_file(DATA / name / f"{file}.safetensors"))


@pytest.mark.parametrize("head_first", [False, True])
def test_the_authors_forgetting_attention(packages: Any, tmp_path: Path, head_first: bool) -> None:
    def forgetting_attention(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_fgate: Tensor,
        *,
        head_first: bool = False,
        seq_start: Tensor = None,
        sm_scale: float | None = None,
    ) -> Tensor:
        if head_first:
            q, k, v, log_fgate = (part.transpose(1, 2) for part in (q, k, v, log_fgate))
        out = forgetting(q, k, v, log_fgate, sm_scale or q.shape[-1] ** -0.5)
        return out.transpose(1, 2) if head_first else out

    packages("forgetting_transformer.ops.forgetting_attention", "forgetting_attention", forgetting_attention)
    of = golden("fox-llama")
    layers = []
    for n in range(2):
        parts = [rows_first(of[f"layers.{n}.{part}"][1]) for part in ("q", "k", "v", "log_fgate")]
        parts = [part.transpose(1, 2) if head_first else part for part in parts]
        layers.append(Layer(n, forgetting_attention, *parts, head_first=head_first))
    summary = run(layers, 64, tmp_path / "run.h5")
    assert summary.count("forgetting_transformer's forgetting_attention in Layer, 64 rows checked") == 2
    for n in range(2):
        assert_maps(tmp_path / "run.h5", n, of[f"layers.{n}.attention"][1])
        c = np.cumsum(of[f"layers.{n}.log_fgate"][1].astype(float), axis=1)
        assert_maps(tmp_path / "run.h5", n, np.tril(np.exp(np.minimum(c[:, :, None] - c[:, None], 0))), "forget")


def test_fla_forgetting_attention(packages: Any, tmp_path: Path) -> None:
    def parallel_forgetting_attn(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        scale: float | None = None,
        window_size: int | None = None,
        cu_seqlens: Tensor = None,
    ) -> Tensor:
        return forgetting(q, k, v, g, scale or q.shape[-1] ** -0.5)

    packages("fla.ops.forgetting_attn", "parallel_forgetting_attn", parallel_forgetting_attn)
    of = golden("fla-fox")
    layers = [
        Layer(n, parallel_forgetting_attn, *(rows_first(of[f"layers.{n}.{part}"][0]) for part in ("q", "k", "v", "log_fgate")))
        for n in range(2)
    ]
    run(layers, 64, tmp_path / "run.h5")
    for n in range(2):
        assert_maps(tmp_path / "run.h5", n, of[f"layers.{n}.attention"][0])


def test_fla_forgetting_attention_goes_on_with_a_cache(packages: Any, tmp_path: Path) -> None:
    """A prompt of 60 positions, then four by FLA's function for one query of each of two sequences."""

    def parallel_forgetting_attn(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None) -> Tensor:
        return forgetting(q, k, v, g, q.shape[-1] ** -0.5)

    def attn_decoding_one_step(q: Tensor, k: Tensor, v: Tensor, g: Tensor, cu_seqlens: Tensor) -> Tensor:
        return torch.full_like(q, torch.nan)  # rows behind the first ones are not checked

    packages("fla.ops.forgetting_attn", "parallel_forgetting_attn", parallel_forgetting_attn)
    packages("fla.ops.attn.decoding", "attn_decoding_one_step", attn_decoding_one_step)
    of = golden("fla-fox")
    parts = [rows_first(of[f"layers.0.{part}"][1]) for part in ("q", "k", "v", "log_fgate")]
    layer = Layer(0, parallel_forgetting_attn)
    with record(tmp_path / "run.h5", input_ids=[list(range(64))] * 2, sequence=1) as rec:
        layer.args = tuple(part[:, :60].repeat(2, *[1] * (part.ndim - 1)) for part in parts)
        layer()
        layer.function = sys.modules["fla.ops.attn.decoding"].attn_decoding_one_step
        for end in range(61, 65):
            q, *others = parts
            query = torch.cat([torch.zeros_like(q[:, :1]), q[:, end - 1 : end]], 1)
            packed = [torch.cat([torch.zeros_like(part[:, :end]), part[:, :end]], 1) for part in others]
            layer.args = (query, *packed, torch.tensor([0, end, 2 * end]))
            layer()
    assert "64 positions" in rec.summary()
    check_file(tmp_path / "run.h5")
    assert_maps(tmp_path / "run.h5", 0, of["layers.0.attention"][1])


def test_fla_gla(packages: Any, tmp_path: Path) -> None:
    def chunk_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None, initial_state: Tensor = None) -> Any:
        return linear(q, k, v, g, None, q.shape[-1] ** -0.5 if scale is None else scale, False), None

    packages("fla.ops.gla", "chunk_gla", chunk_gla)
    of, layers = golden("gla", "golden_maps"), []
    for n in range(2):
        q, k, v, g = (rows_first(of[f"layers.{n}.{part}"]) for part in ("q", "k", "v", "log_decay"))
        layers.append(Layer(n, chunk_gla, q * q.shape[-1] ** 0.5, k, v, g=g))
    run(layers, 96, tmp_path / "run.h5")
    for n in range(2):
        assert_maps(tmp_path / "run.h5", n, of[f"layers.{n}.mixing"], "mixing")


def test_states_from_before_and_gates_of_heads_and_channels(packages: Any, tmp_path: Path) -> None:
    """A state of zeros is none. Gates of a head and of its channels act together."""

    def fused_recurrent_gated_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor = None, gk: Tensor = None, gv: Tensor = None, beta: Tensor = None,
        scale: float | None = None, initial_state: Tensor = None,
    ) -> Any:  # fmt: skip
        return linear(q, k, v, gk + g[..., None], beta, 1.0, True), None

    packages("fla.ops.gated_delta_rule", "fused_recurrent_gated_delta_rule", fused_recurrent_gated_delta_rule)
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 30, 2, 4, generator=random)
    k, beta = torch.nn.functional.normalize(k, dim=-1), torch.full((1, 30, 2), 0.5)
    g, gk = -torch.rand(1, 30, 2, generator=random), -torch.rand(1, 30, 2, 4, generator=random)
    layer = Layer(0, fused_recurrent_gated_delta_rule, q, k, v, g, gk, None, beta, 1.0, torch.zeros(1, 2, 4, 4))
    run([layer], 30, tmp_path / "run.h5")
    both = (gk + g[..., None])[0].double().numpy()
    expected = [mixing_of(*(p[0, :, h].double().numpy() for p in (q, k)), both[:, h], np.full(30, 0.5), True) for h in range(2)]
    assert_maps(tmp_path / "run.h5", 0, np.array(expected), "mixing")
    layer.args = (*layer.args[:-1], torch.ones(1, 2, 4, 4))
    with (
        pytest.raises(FoxscopeError, match="it begins with a state from before the recording"),
        record(tmp_path / "other.h5", input_ids=list(range(30))),
    ):
        layer()


def test_fla_gated_delta_net(packages: Any, tmp_path: Path) -> None:
    def chunk_gated_delta_rule(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
    ) -> Any:
        assert use_qk_l2norm_in_kernel
        q, k = (torch.nn.functional.normalize(part, dim=-1) for part in (q, k))
        return linear(q, k, v, g, beta, q.shape[-1] ** -0.5, True), None

    packages("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", chunk_gated_delta_rule)
    of, layers = golden("gated-deltanet", "golden_maps"), []
    for n in range(2):
        q, k, v, g, beta = (rows_first(of[f"layers.{n}.{part}"]) for part in ("q", "k", "v", "log_decay", "beta"))
        layers.append(Layer(n, chunk_gated_delta_rule, 30 * q, 20 * k, v, g, beta, use_qk_l2norm_in_kernel=True))
    run(layers, 96, tmp_path / "run.h5")
    for n in range(2):
        assert_maps(tmp_path / "run.h5", n, of[f"layers.{n}.mixing"], "mixing")


def test_fla_kda_with_gates_made_in_the_kernel(packages: Any, tmp_path: Path) -> None:
    """Four heads of values share two of keys, and each has decays of its own."""

    def gates(g: Tensor, A_log: Tensor, dt_bias: Tensor) -> Tensor:  # noqa: N803
        return -A_log.exp()[:, None] * torch.nn.functional.softplus(g + dt_bias.view(4, 8))

    def chunk_kda(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        scale: float | None = None,
        use_gate_in_kernel: bool = False,
        **kwargs: Any,
    ) -> Any:
        return linear(q, k, v, gates(g, kwargs["A_log"], kwargs["dt_bias"]), beta.sigmoid(), q.shape[-1] ** -0.5, True), None

    packages("fla.ops.kda", "chunk_kda", chunk_kda)
    random = torch.Generator().manual_seed(0)
    q, k = torch.nn.functional.normalize(torch.randn(2, 1, 50, 2, 8, generator=random), dim=-1)
    v, g, beta = (torch.randn(1, 50, 4, *extent, generator=random) for extent in ((6,), (8,), ()))
    rates, bias = torch.randn(4, generator=random), torch.randn(32, generator=random)
    in_kernel = {"A_log": rates, "dt_bias": bias, "use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True}
    run([Layer(0, chunk_kda, q, k, v, g, beta, **in_kernel)], 50, tmp_path / "run.h5")
    decay = gates(g, rates, bias)
    expected = [
        mixing_of(
            q[0, :, h // 2].double().numpy() * 8**-0.5,
            k[0, :, h // 2].double().numpy(),
            decay[0, :, h].double().numpy(),
            beta[0, :, h].sigmoid().double().numpy(),
            True,
        )
        for h in range(4)
    ]
    assert_maps(tmp_path / "run.h5", 0, np.array(expected), "mixing")


@pytest.mark.parametrize("name", ["chunk_simple_gla", "fused_recurrent_simple_gla"])
def test_fla_simple_gla_and_retention(packages: Any, tmp_path: Path, name: str) -> None:
    def simple_gla(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor = None, g_gamma: Tensor = None, scale: float | None = None
    ) -> Any:
        return linear(
            q, k, v, g_gamma.expand(*q.shape[:3]) if g is None and g_gamma is not None else g, None, scale or 1.0, False
        ), None

    packages("fla.ops.simple_gla", name, simple_gla)
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 40, 2, 8, generator=random)
    g = torch.nn.functional.logsigmoid(torch.randn(1, 40, 2, generator=random) + 2)
    gamma = torch.tensor([-0.1, -0.02])
    kinds: list[dict[str, Any]] = [{"g": g}, {"g_gamma": gamma}, {}]
    run([Layer(n, simple_gla, q, k, v, scale=0.5, **kind) for n, kind in enumerate(kinds)], 40, tmp_path / "run.h5")
    for n, decay in enumerate((g[0], gamma.expand(40, 2), torch.zeros(40, 2))):
        expected = [
            mixing_of(q[0, :, h].double().numpy() * 0.5, k[0, :, h].double().numpy(), decay[:, h].double().numpy(), None, False)
            for h in range(2)
        ]
        assert_maps(tmp_path / "run.h5", n, np.array(expected), "mixing")


def test_fla_delta_rule_of_packed_sequences(packages: Any, tmp_path: Path) -> None:
    """cu_seqlens: the second of two sequences, which lie one behind the other."""

    def fused_recurrent_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: float | None = None, cu_seqlens: Tensor = None
    ) -> Any:
        parts = [slice(int(begin), int(end)) for begin, end in itertools.pairwise(cu_seqlens)]
        out = [linear(q[:, p], k[:, p], v[:, p], None, beta[:, p], q.shape[-1] ** -0.5, True) for p in parts]
        return torch.cat(out, 1), None

    packages("fla.ops.delta_rule", "fused_recurrent_delta_rule", fused_recurrent_delta_rule)
    of = golden("delta-net", "golden_maps")
    q, k, v, beta = (rows_first(of[f"layers.0.{part}"]) for part in ("q", "k", "v", "beta"))
    q = q * q.shape[-1] ** 0.5
    packed = [torch.cat([part[:, :30], part], 1) for part in (q, k, v, beta)]
    layer = Layer(0, fused_recurrent_delta_rule, *packed, cu_seqlens=torch.tensor([0, 30, 126]))
    with record(tmp_path / "run.h5", input_ids=[list(range(96))] * 2, sequence=1) as rec:
        layer()
    assert "64 rows checked" in rec.summary()
    assert_maps(tmp_path / "run.h5", 0, of["layers.0.mixing"], "mixing")


def test_flash_attention(packages: Any, tmp_path: Path) -> None:
    def flash_attn_func(
        q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0, softmax_scale: float | None = None, causal: bool = False,
        window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0, alibi_slopes: Tensor = None,
    ) -> Tensor:  # fmt: skip
        q, k, v = (part[0].transpose(0, 1).double().numpy() for part in (q, k, v))
        slopes = None if alibi_slopes is None else -np.repeat(alibi_slopes.double().numpy()[:, None], q.shape[1], 1)
        a = dense_attention(q, k, slopes, softmax_scale, window_size[0] + 1, softcap)
        return torch.tensor(a @ np.repeat(v, 2, axis=0)).transpose(0, 1)[None].float()

    packages("flash_attn", "flash_attn_func", flash_attn_func)
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 80, heads, 8, generator=random) for heads in (4, 2, 2))
    slopes = torch.tensor([0.5, 0.1, 0.02, 0.0])
    options = {"causal": True, "softmax_scale": 0.5, "window_size": (16, 0), "softcap": 2.0, "alibi_slopes": slopes}
    assert "window 17, softcap 2" in run([Layer(0, flash_attn_func, q, k, v, **options)], 80, tmp_path / "run.h5")
    parts = [part[0].transpose(0, 1).double().numpy() for part in (q, k)]
    log_f = -np.repeat(slopes.double().numpy()[:, None], 80, 1)
    assert_maps(tmp_path / "run.h5", 0, dense_attention(*parts, log_f, 0.5, 17, 2.0))
    rising = Layer(0, flash_attn_func, q, k, v, **{**options, "alibi_slopes": -slopes})
    with pytest.raises(FoxscopeError, match=r"no call could be recorded: flash_attn's flash_attn_func: .* rises with distance"):
        run([rising], 80, tmp_path / "rising.h5")


class Plain(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Attention as people write it, without a number of its layer."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize("kind", ["causal", "alibi", "fox", "window", "bool"])
def test_scaled_dot_product_attention_with_masks(kind: str, tmp_path: Path) -> None:
    """A forget gate that is added as a mask is read back from it."""
    random = torch.Generator().manual_seed(3)
    length, heads = 90, 3
    q, k, v = torch.randn(3, 1, heads, length, 8, generator=random)
    log_f, window = torch.zeros(heads, length), 0
    distance = torch.arange(length)[:, None] - torch.arange(length)
    hidden = distance < 0
    if kind == "alibi":
        log_f = -torch.tensor([0.5, 0.1, 0.01])[:, None].expand(heads, length)
    if kind == "fox":
        log_f = torch.nn.functional.logsigmoid(torch.randn(heads, length, generator=random) + 2)
    if kind == "window":
        window, hidden = 30, hidden | (distance >= 30)
    if kind == "causal":
        options: dict[str, Any] = {"is_causal": True}
    elif kind == "bool":
        options = {"attn_mask": ~hidden}
    else:
        c = log_f.cumsum(1)
        options = {"attn_mask": (c[:, :, None] - c[:, None]).masked_fill(hidden, -torch.inf)[None]}
    with record(tmp_path / "run.h5", input_ids=list(range(length))) as rec:
        for _ in range(2):
            Plain(**options)(q, k, v)
    assert "layer 1" in rec.summary()
    check_file(tmp_path / "run.h5")
    expected = dense_attention(q[0].double().numpy(), k[0].double().numpy(), log_f.double().numpy(), window=window)
    assert_maps(tmp_path / "run.h5", 1, expected)


def biased(kind: str, length: int) -> Tensor:
    """Four heads' bias: one that rises with distance by 0.1 a position in the first of them, or random numbers."""
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    distance = torch.arange(length)[:, None] - torch.arange(length)
    bias = torch.tensor([0.1, 0.01, -0.1, -0.2])[:, None, None] * distance
    if kind == "random":
        bias = torch.randn(4, length, length, generator=torch.Generator().manual_seed(3))
    return bias.masked_fill(hidden, -torch.inf)[None]


@pytest.mark.parametrize("kind", ["rises", "random", "rises in flex_attention"])
def test_a_bias_that_is_no_gate_is_left_out(kind: str, tmp_path: Path) -> None:
    """The user's model goes on behind it, and what else it calls is recorded."""
    length = 64
    q = torch.randn(1, 4, length, 16, generator=torch.Generator().manual_seed(3))
    bias = biased(kind, length)
    layer = Plain(attn_mask=bias)
    if "flex" in kind:
        from torch.nn.attention import flex_attention as flex

        mask = flex.create_block_mask(lambda b, h, i, j: j <= i, None, None, length, length, device="cpu")
        layer = Layer(0, flex.flex_attention, q, q, q, lambda s, b, h, i, j: s + 0.1 * (i - j), mask)
    reason = (
        "is no sum of log gates" if kind == "random" else r"rises with distance, by 0\.1 a position, as no forget gate does"
    )
    with (
        pytest.warns(UserWarning, match=f"left out 1 kinds of calls, the first torch's .*: what is added to logits {reason}"),
        record(tmp_path / "run.h5", input_ids=list(range(length))) as rec,
    ):
        Plain(is_causal=True)(q, q, q)
        layer(*(() if "flex" in kind else (q, q, q)))
        Plain(is_causal=True)(q, q, q)
    assert [line.split(":")[0] for line in rec.summary().splitlines()] == ["layer 0", "layer 1", "left out"]
    check_file(tmp_path / "run.h5")


@pytest.mark.parametrize("sign", [1, 1.001])
def test_a_mask_of_sums_in_float32_that_was_widened(sign: float, tmp_path: Path) -> None:
    """Its rounding is that of float32, though its numbers are float64; what does not add up is left out as before."""
    random = torch.Generator().manual_seed(3)
    length = 400
    q, k, v = torch.randn(3, 1, 2, length, 8, generator=random, dtype=torch.float64)
    log_f = torch.nn.functional.logsigmoid(torch.randn(2, length, generator=random))
    c = log_f.cumsum(1)
    bias = (c[:, :, None] - c[:, None]).double()
    bias[:, 2:, 0] *= sign
    bias.masked_fill_(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
    layer = Plain(attn_mask=bias[None])
    if sign != 1:
        with (
            pytest.raises(FoxscopeError, match="what is added to logits is no sum of log gates"),
            record(tmp_path / "run.h5", input_ids=list(range(length))),
        ):
            layer(q, k, v)
        return
    with record(tmp_path / "run.h5", input_ids=list(range(length))) as rec:
        layer(q, k, v)
    assert "68 rows checked" in rec.summary()
    assert_maps(tmp_path / "run.h5", 0, dense_attention(q[0].numpy(), k[0].numpy(), log_f.double().numpy()))


@pytest.mark.parametrize("compiled", [False, True])
def test_flex_attention_with_gates_that_it_adds(compiled: bool, tmp_path: Path) -> None:
    """FoX as people write it with a score_mod, compiled by the model or not, in a window."""
    from torch.nn.attention import flex_attention as flex

    random = torch.Generator().manual_seed(3)
    length, heads = 128, 2
    q, k, v = torch.randn(3, 1, heads, length, 16, generator=random)
    log_f = torch.nn.functional.logsigmoid(torch.randn(1, heads, length, generator=random) + 2)
    c = log_f.cumsum(-1)
    mask = flex.create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 50), None, None, length, length, device="cpu")
    function = torch.compile(flex.flex_attention, backend="eager") if compiled else flex.flex_attention
    layer = Layer(0, function, q, k, v, lambda s, b, h, i, j: s + c[b, h, i] - c[b, h, j], mask)
    assert "window 50, torch's flex_attention in Layer, 68 rows checked" in run([layer], length, tmp_path / "run.h5")
    expected = dense_attention(q[0].double().numpy(), k[0].double().numpy(), log_f[0].double().numpy(), window=50)
    assert_maps(tmp_path / "run.h5", 0, expected)
    layer.args = (q, k, v, lambda s, b, h, i, j: torch.tanh(s), mask)
    with (
        pytest.raises(FoxscopeError, match="torch's flex_attention: its score_mod does not add to logits"),
        record(tmp_path / "other.h5", input_ids=list(range(length))),
    ):
        layer()


def test_calls_that_are_not_causal_are_left_out_and_listed(tmp_path: Path) -> None:
    q = torch.randn(1, 2, 20, 8)
    with (
        pytest.warns(UserWarning, match="left out 1 kinds of calls"),
        record(tmp_path / "run.h5", input_ids=list(range(20))) as rec,
    ):
        Plain()(q, q, q)
        Plain(is_causal=True)(q, q, q)
    assert "left out: torch's scaled_dot_product_attention in Plain: queries see keys behind them" in rec.summary()


def test_multihead_attention_of_torch(tmp_path: Path) -> None:
    """nn.TransformerEncoderLayer computes all in one call of C++, unless that is turned off."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(30)
    with record(tmp_path / "run.h5", input_ids=list(range(30))) as rec, torch.no_grad():
        layer(torch.randn(1, 30, 16), src_mask=mask, is_causal=True)
    assert "2 heads of 8, 30 positions" in rec.summary()
    assert torch.backends.mha.get_fastpath_enabled()
