"""Linear mixers are held to what rounding explains: right ones pass however they round, and wrong ones do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_support import mixing_of, nothing_left

from foxscope.errors import FoxscopeError
from foxscope.recording import record
from foxscope.recording.call import Call
from foxscope.recording.linear_rows import linear_rows

torch = pytest.importorskip("torch")
functional = torch.nn.functional

HEADS, CHANNELS, VALUES = 3, 24, 8
KINDS = ("gla", "gla head", "gla channel", "delta", "delta head", "delta channel")


def mixer_of(kind: str, length: int, dtype: Any, seed: int = 0) -> tuple[str, dict[str, Any]]:
    """Words for a mixer, and the arguments of rec.mixer without output: q, k [3, L, 24], v [3, L, 8]."""
    random = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, HEADS, length, CHANNELS, generator=random)
    given = {"q": q, "k": k, "v": torch.randn(HEADS, length, VALUES, generator=random)}
    if "delta" in kind:
        given.update(q=functional.normalize(q, dim=2), k=functional.normalize(k, dim=2))
        given["beta"] = torch.rand(HEADS, length, generator=random)
    given = {name: part.to(dtype) for name, part in given.items()}
    if " " in kind:
        shape = (HEADS, length, CHANNELS) if "channel" in kind else (HEADS, length)
        decay = functional.logsigmoid(1.5 * torch.randn(shape, generator=random) + 1)
        given["log_decay"] = decay.double() if dtype == torch.float64 else decay
    return "delta_rule" if "delta" in kind else "gated_linear_attention", {**given, "scale": CHANNELS**-0.5}


def recurrence(q: Any, k: Any, v: Any, beta: Any = None, log_decay: Any = None, scale: float = 1.0, dtype: Any = None) -> Any:
    """Row by row, in float32 or what is said; the output is in the format of the values."""
    made = v.dtype
    q, k, v = (part.to(dtype or torch.float32) for part in (q, k, v))
    state, rows = torch.zeros(HEADS, CHANNELS, VALUES, dtype=q.dtype), []
    for t in range(q.shape[1]):
        if log_decay is not None:
            decay = log_decay[:, t].to(q.dtype).exp()
            state = state * (decay[:, None, None] if decay.ndim == 1 else decay[:, :, None])
        write = v[:, t]
        if beta is not None:
            write = beta[:, t, None].to(q.dtype) * (write - (state * k[:, t, :, None]).sum(1))
        state = state + k[:, t, :, None] * write[:, None]
        rows.append(scale * (state * q[:, t, :, None]).sum(1))
    return torch.stack(rows, 1).to(made)


def in_its_format(v: Any, **given: Any) -> Any:
    """Row by row, with states and products of the format of the values."""
    return recurrence(v=v, **given, dtype=v.dtype)


def parallel(q: Any, k: Any, v: Any, beta: Any = None, log_decay: Any = None, scale: float = 1.0) -> Any:
    """As one chunk, whose factors, products, inverse and writes are each rounded to the format of the values."""

    def rounded(part: Any) -> Any:
        return part.to(v.dtype).float()

    rows, log_decay = q.shape[1], torch.zeros(HEADS, q.shape[1], 1) if log_decay is None else log_decay
    c = (log_decay if log_decay.ndim == 3 else log_decay[:, :, None]).cumsum(1)
    decays = (c[:, :, None] - c[:, None]).clamp(max=0).exp()

    def products(x: Any, y: Any) -> Any:
        return torch.einsum("hic,hjc,hijc->hij", rounded(x), rounded(y), decays.expand(-1, -1, -1, CHANNELS)).tril()

    weights, write = rounded(products(scale * q.float(), k)), v.float()
    if beta is not None:
        erased = products(k.float() * beta[:, :, None].float(), k).tril(-1)
        inverse = torch.linalg.inv(torch.eye(rows) + erased)
        write = rounded(inverse) @ rounded(write * beta[:, :, None].float())
    return (weights @ rounded(write)).to(v.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("way", [recurrence, in_its_format, parallel])
@pytest.mark.parametrize("kind", KINDS)
def test_right_recordings_pass(kind: str, way: Callable[..., Any], dtype: Any, tmp_path: Path) -> None:
    for length in (2, 17, 64, 70):
        mixer, given = mixer_of(kind, length, dtype, seed=length)
        with record(tmp_path / "run.h5", input_ids=list(range(length)), overwrite=True, automatic=False) as rec:
            rec.mixer(0, mixer, **given, output=way(**given))
        assert f"{min(length, 64)} rows checked" in rec.summary()


WRONG: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "scale": (lambda given: {"scale": 1.1 * given["scale"]}, "the scale, which is 1/sqrt"),
    "no scale": (lambda given: {"scale": 1.0}, "the scale, which is 1/sqrt"),
    "later decay": (lambda given: {"log_decay": given["log_decay"].roll(-1, 1)}, "shifted by one"),
    "earlier decay": (lambda given: {"log_decay": given["log_decay"].roll(1, 1)}, "shifted by one"),
    "no decay": (lambda given: {"log_decay": None}, "gates that were not recorded .pass log_decay="),
    "decays of other heads": (lambda given: {"log_decay": given["log_decay"].roll(1, 0)}, "wrong gates"),
    "logits of beta": (lambda given: {"beta": given["beta"].logit()}, "beta, which the model puts through a sigmoid"),
    "shifted beta": (lambda given: {"beta": given["beta"].roll(1, 1)}, "beta, which is that of the position before"),
    "half of beta": (lambda given: {"beta": given["beta"] / 2}, "beta, which the model doubles"),
    "q and k as they were": (lambda given: {"q": 3 * given["q"], "k": 2 * given["k"]}, "q and k, which the model normalises"),
    "other keys": (lambda given: {"k": given["k"].roll(1, 0)}, "rotary embedding, a norm or a shift"),
}


def applies(kind: str, wrong: str) -> bool:
    """Whether a mixer has what is wrong."""
    return ("decay" not in wrong or " " in kind) and (("beta" not in wrong and "q and k" not in wrong) or "delta" in kind)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("kind", "wrong"), [(kind, wrong) for kind in KINDS for wrong in WRONG if applies(kind, wrong)])
def test_wrong_recordings_are_refused(kind: str, wrong: str, dtype: Any, tmp_path: Path) -> None:
    mixer, given = mixer_of(kind, 70, dtype)
    change, cause = WRONG[wrong]
    with (
        pytest.raises(FoxscopeError, match=f"the first 64 rows .*likely cause: .*({cause})"),
        record(tmp_path / "run.h5", input_ids=list(range(70))) as rec,
    ):
        rec.mixer(0, mixer, **{**given, **change(given)}, output=recurrence(**given))
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_is_the_recurrence_in_float64(kind: str) -> None:
    """As torch and numpy have it, of any number of rows."""
    for rows in (1, 15, 16, 33, 64):
        mixer, given = mixer_of(kind, rows, torch.float64)
        wanted = recurrence(**given, dtype=torch.float64)
        found, spread = linear_rows(Call(mixer, **given))
        assert (found - wanted).abs().max() <= 1e-13 * wanted.abs().max()
        arrays = {name: part.double().numpy() if isinstance(part, torch.Tensor) else part for name, part in given.items()}
        again, spread_again = linear_rows(Call(mixer, **arrays))
        assert np.abs(again - found.numpy()).max() <= 1e-13 * wanted.abs().max()
        assert np.allclose(spread_again, spread.numpy(), rtol=1e-12)


def test_closed_gates_empty_the_state() -> None:
    mixer, given = mixer_of("delta channel", 40, torch.float64)
    given["log_decay"][:, 20] = -torch.inf
    wanted = recurrence(**given, dtype=torch.float64)
    assert (linear_rows(Call(mixer, **given))[0] - wanted).abs().max() <= 1e-13


@pytest.mark.parametrize("decays", [False, True])
def test_the_steps_of_a_delta_product(decays: bool) -> None:
    """Each step is a position of a delta rule, of which the first alone decays and the last alone is read."""
    random, steps, rows = torch.Generator().manual_seed(1), 3, 33
    q = torch.randn(2, rows, 6, generator=random, dtype=torch.float64)
    k = functional.normalize(torch.randn(2 * steps, rows, 6, generator=random, dtype=torch.float64), dim=2)
    v = torch.randn(2 * steps, rows, 5, generator=random, dtype=torch.float64)
    beta = 2 * torch.rand(2 * steps, rows, generator=random, dtype=torch.float64)
    log_decay = -torch.rand(2, rows, generator=random, dtype=torch.float64) if decays else None
    of_heads = None if log_decay is None else log_decay.repeat_interleave(steps, 0)
    found = linear_rows(Call("delta_product", q, k, v, log_decay=of_heads, beta=beta))[0]
    for head in range(2):
        own = slice(head * steps, (head + 1) * steps)
        at_steps = torch.zeros(rows, steps, dtype=torch.float64)
        if log_decay is not None:
            at_steps[:, 0] = log_decay[head]
        mixing = mixing_of(
            q[head].repeat_interleave(steps, 0).numpy(),
            k[own].swapaxes(0, 1).reshape(-1, 6).numpy(),
            at_steps.reshape(-1).numpy(),
            beta[own].T.reshape(-1).numpy(),
            True,
        )
        wanted = (mixing @ v[own].swapaxes(0, 1).reshape(-1, 5).numpy())[steps - 1 :: steps]
        assert np.abs(found[head].numpy() - wanted).max() <= 1e-13 * np.abs(wanted).max()


def test_what_a_scale_that_is_off_by_a_little_hides_behind(tmp_path: Path) -> None:
    """An error between what 16 bits usually make and what they may make is warned of."""
    mixer, given = mixer_of("gla", 70, torch.bfloat16, 2)
    output = recurrence(**given)
    with (
        pytest.warns(UserWarning, match=r"layer 0 differs from .* by up to 0\.0.* 16 bits inside the mixer may explain that"),
        record(tmp_path / "run.h5", input_ids=list(range(70))) as rec,
    ):
        rec.mixer(0, mixer, **{**given, "scale": 1.0175 * given["scale"]}, output=output)
    assert rec.summary().endswith("which 16 bits inside the mixer may explain")


@pytest.mark.parametrize("keep", ["gates", "gates,qk"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("part", ["q", "k", "v", "beta"])
@pytest.mark.parametrize("position", [20, 99])
def test_numbers_that_are_not_finite_are_found(position: int, part: str, number: float, keep: str, tmp_path: Path) -> None:
    """Also behind the first rows, and in parts that are not kept."""
    for dtype in (torch.float32, torch.bfloat16):
        mixer, given = mixer_of("delta head", 100, dtype)
        given[part][(1, position) if part == "beta" else (1, position, 3)] = number
        with (
            pytest.raises(FoxscopeError, match=rf"layer 0: {part} is (NaN|infinite) at head 1, position {position}"),
            record(tmp_path / "run.h5", input_ids=list(range(100)), keep=keep) as rec,
        ):
            rec.mixer(0, mixer, **given, output=recurrence(**given))
        assert nothing_left(tmp_path)
