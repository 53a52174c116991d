"""What rounding to 16 bits explains: right models pass, however they round, and wrong recordings do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_support import nothing_left

from foxscope.errors import FoxscopeError
from foxscope.recording import operator_check, record
from foxscope.recording.call import Call
from foxscope.recording.readings import Readings

torch = pytest.importorskip("torch")


def forgetting(length: int, channels: int, strength: float, size: float, dtype: Any) -> dict[str, Any]:
    """Arguments of rec.attention of three heads, without output: gates log f of logits around `strength`."""
    random = torch.Generator().manual_seed(length + channels)
    q, k, v = torch.randn(3, 3, length, channels, generator=random)
    log_f = torch.nn.functional.logsigmoid(1.5 * torch.randn(3, length, generator=random) + strength)
    return {"q": (size * q).to(dtype), "k": (size * k).to(dtype), "v": v.to(dtype), "log_forget": log_f}


def biases(log_f: Any) -> tuple[Any, Any]:
    """D = c_i - c_j in float32 [H, L, L], and where keys are hidden."""
    c = log_f.cumsum(1)
    return c[:, :, None] - c[:, None], torch.ones(c.shape[1], c.shape[1], dtype=torch.bool).triu(1)


def fused(q: Any, k: Any, v: Any, log_forget: Any) -> Any:
    """Logits and sums in float32, weights that are not yet normalised in the model's format."""
    added, hidden = biases(log_forget)
    logits = (q.float() @ k.float().mT * q.shape[2] ** -0.5 + added).masked_fill(hidden, -torch.inf)
    weights = (logits - logits.amax(2, keepdim=True)).exp()
    return ((weights.to(q.dtype).float() @ v.float()) / weights.sum(2, keepdim=True)).to(q.dtype)


def by_sdpa(q: Any, k: Any, v: Any, log_forget: Any) -> Any:
    added, hidden = biases(log_forget)
    mask = added.masked_fill(hidden, -torch.inf).to(q.dtype)
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None])[0]


def eager(q: Any, k: Any, v: Any, log_forget: Any) -> Any:
    """Products, logits, sums and weights are each rounded."""
    added, hidden = biases(log_forget)
    logits = (q @ k.mT) * q.shape[2] ** -0.5 + added.to(q.dtype)
    return logits.masked_fill(hidden, -torch.inf).softmax(2, dtype=torch.float32).to(q.dtype) @ v


def scaled_before(q: Any, k: Any, v: Any, log_forget: Any) -> Any:
    """Queries and keys are multiplied by the root of the scale and rounded."""
    added, hidden = biases(log_forget)
    root = q.shape[2] ** -0.25
    return ((q * root) @ (k * root).mT + added.to(q.dtype)).masked_fill(hidden, -torch.inf).softmax(2) @ v


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("way", [fused, by_sdpa, eager, scaled_before])
@pytest.mark.parametrize("length", [2, 3, 64, 130, 600])
def test_right_recordings_pass(length: int, way: Callable[..., Any], dtype: Any, tmp_path: Path) -> None:
    for strength, size in ((-2, 0.3), (1, 1), (6, 2)):
        given = forgetting(length, 80, strength, size, dtype)
        with record(tmp_path / "run.h5", input_ids=list(range(length)), overwrite=True, automatic=False) as rec:
            rec.attention(0, **given, output=way(**given))
        assert f"{min(length, 64) if length < 70 else 68} rows checked" in rec.summary()


WRONG: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "scale": (lambda given: {"scale": 1.1 * 80**-0.5}, "the scale, which is 1/sqrt"),
    "gates x 1.05": (lambda given: {"log_forget": 1.05 * given["log_forget"]}, "the gates, whose logarithms are 0.9"),
    "shifted": (lambda given: {"log_forget": given["log_forget"].roll(1, 1)}, "shifted by one|wrong gates"),
    "other heads": (lambda given: {"log_forget": given["log_forget"].roll(1, 0)}, "wrong gates"),
    "no gates": (lambda given: {"log_forget": None}, "gates that were not recorded"),
    "softcap": (lambda given: {"softcap": 5.0}, "softcap, which the model does not apply"),
}


@pytest.mark.parametrize("way", [fused, eager])
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("length", [65, 600])
def test_wrong_recordings_are_refused(length: int, wrong: str, way: Callable[..., Any], tmp_path: Path) -> None:
    given = forgetting(length, 80, 1, 1, torch.bfloat16)
    change, cause = WRONG[wrong]
    with (
        pytest.raises(FoxscopeError, match=f"the first 64 rows .*likely cause: .*({cause})"),
        record(tmp_path / "run.h5", input_ids=list(range(length))) as rec,
    ):
        rec.attention(0, **{**given, **change(given)}, output=way(**given))
    assert nothing_left(tmp_path)


LATE: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "wrong": (lambda given: {"log_forget": 1.2 * given["log_forget"]}, "wrong gates"),
    "none": (lambda given: {"log_forget": None}, "gates that were not recorded"),
}


@pytest.mark.parametrize("late", LATE)
def test_what_only_the_last_rows_show(late: str, tmp_path: Path) -> None:
    """Gates that close behind the first rows alone."""
    given = forgetting(600, 16, 1, 1, torch.float32)
    given["log_forget"][:, :300] = 0
    change, cause = LATE[late]
    with (
        pytest.raises(FoxscopeError, match=f"the last 4 rows .*likely cause: {cause}"),
        record(tmp_path / "run.h5", input_ids=list(range(600))) as rec,
    ):
        rec.attention(0, **{**given, **change(given)}, output=eager(**given))


def test_a_window_that_was_not_recorded_is_found(tmp_path: Path) -> None:
    given = forgetting(600, 16, 9, 1, torch.float32)
    added, hidden = biases(given["log_forget"])
    hidden = hidden | torch.ones_like(hidden).tril(-171)
    weights = (given["q"] @ given["k"].mT / 4 + added).masked_fill(hidden, -torch.inf).softmax(2)
    with (
        pytest.raises(FoxscopeError, match=r"the last 4 rows .*likely cause: the window, which the model has: pass window=171"),
        record(tmp_path / "run.h5", input_ids=list(range(600))) as rec,
    ):
        rec.attention(0, **given, output=weights @ given["v"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("length", [130, 600])
def test_products_of_a_gpu(length: int, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights as sums of two numbers of 16 bits, as a GPU multiplies them by values, give what float32 gives."""
    for strength, size in ((-2, 0.3), (1, 1), (6, 12)):
        given = forgetting(length, 80, strength, size, dtype)
        call = Call("attention", *(given[name] for name in "qkv"), log_decay=given["log_forget"], scale=80**-0.5)
        call = replace(call, output=eager(**given))
        found = []
        for splits in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr(operator_check, "_splits", lambda a, b, splits=splits: splits and a.dtype == b.dtype)
                patch.setattr(operator_check, "_bmm", lambda a, b: a.float() @ b.float())
                readings = Readings()
                operator_check.measure(call, readings)
                found.append(operator_check.settled(readings.take()))
        assert found[0].keys() == found[1].keys()
        for name in ("first errors", "first spread", "first sums", "last errors", "last spread", "last sums"):
            assert np.allclose(found[0][name], found[1][name], rtol=1e-2 if name == "last spread" else 2e-3), name


@pytest.mark.parametrize("keep", ["gates", "gates,qk"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("part", ["q", "k", "v"])
@pytest.mark.parametrize("window", [None, 20])
def test_numbers_that_are_not_finite_are_found(window: int | None, part: str, number: float, keep: str, tmp_path: Path) -> None:
    """Also in the middle of a text, and in parts that are not kept."""
    for dtype in (torch.float32, torch.bfloat16):
        given = forgetting(200, 16, 1, 1, dtype)
        given[part][1, 90, 3] = number
        added, hidden = biases(given["log_forget"])
        if window is not None:
            hidden = hidden | torch.ones_like(hidden).tril(-window)
        logits = (given["q"].float() @ given["k"].float().mT / 4 + added).masked_fill(hidden, -torch.inf)
        output = logits.softmax(2) @ given["v"].float()
        with (
            pytest.raises(FoxscopeError, match=rf"layer 0: {part} is (NaN|infinite) at head 1, position 90, channel 3"),
            record(tmp_path / "run.h5", input_ids=list(range(200)), keep=keep) as rec,
        ):
            rec.attention(0, **given, window=window, output=output.to(dtype))
        assert nothing_left(tmp_path)
