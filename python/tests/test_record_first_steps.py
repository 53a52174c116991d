"""What people stumble over at first, and the one line that says what to do."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recording_support import check_file, dense_attention, map_of, mixing_of, nothing_left

from foxscope.errors import FoxscopeError
from foxscope.recording import record

torch = pytest.importorskip("torch")
functional = torch.nn.functional

LENGTH, HEADS, CHANNELS = 90, 4, 8


def fox(length: int = LENGTH) -> dict[str, Any]:
    """Arguments of rec.attention of a FoX in float32."""
    random = torch.Generator().manual_seed(3)
    q, k, v = torch.randn(3, HEADS, length, CHANNELS, generator=random)
    log_f = functional.logsigmoid(torch.randn(HEADS, length, generator=random) + 2)
    bias = log_f.cumsum(1)[:, :, None] - log_f.cumsum(1)[:, None]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = (q @ k.mT / CHANNELS**0.5 + bias).masked_fill(hidden, -torch.inf).softmax(2)
    return {"q": q, "k": k, "v": v, "log_forget": log_f, "output": weights @ v}


def turned(given: dict[str, Any]) -> dict[str, Any]:
    """Positions first, as many models hold their tensors."""
    return {name: part.transpose(0, 1) for name, part in given.items()}


def summed(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "log_forget": given["log_forget"].cumsum(1)}


def behind_a_projection(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "output": given["output"] @ torch.randn(CHANNELS, CHANNELS, generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (turned, r"likely cause: the order of axes: heads come first, so pass q\.transpose\(-3, -2\)"),
        (summed, r"likely cause: log_forget, which is the sum c of log f up to each position: pass log f"),
        (behind_a_projection, r"likely cause: .*an output from behind a norm, a gate or a projection"),
    ],
)
def test_what_was_given_by_hand(change: Callable[..., Any], message: str, tmp_path: Path) -> None:
    with (
        pytest.raises(FoxscopeError, match=message),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False) as rec,
    ):
        rec.attention(0, **change(fox()))
    assert nothing_left(tmp_path)


def recorded(given: dict[str, Any], path: Path) -> str:
    """What recording a layer raises, or nothing."""
    try:
        with record(path, input_ids=list(range(LENGTH)), automatic=False) as rec:
            rec.attention(0, **given)
    except FoxscopeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key_heads", [HEADS, 2])
@pytest.mark.parametrize("arrays", [torch.Tensor, np.ndarray])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_what_the_error_says_of_axes_can_be_done_word_for_word(
    batch: int, arrays: type, key_heads: int, tmp_path: Path
) -> None:
    given = fox()
    if key_heads != HEADS:
        shared = {name: given[name][:: HEADS // key_heads] for name in ("k", "v")}
        k, v = (part.repeat_interleave(HEADS // key_heads, 0) for part in shared.values())
        weights = dense_attention(*(part.double().numpy() for part in (given["q"], k, given["log_forget"])))
        given |= shared | {"output": (torch.tensor(weights) @ v.double()).float()}
    parts = {name: part[None].expand(batch, *part.shape) if batch else part for name, part in turned(given).items()}
    if arrays is np.ndarray:
        parts = {name: part.numpy() for name, part in parts.items()}
    said = recorded(parts, tmp_path / "run.h5")
    words = re.findall(r"(\w+)\.(transpose|swapaxes)\((-\d), (-\d)\)", said.partition("heads come first, so pass ")[2])
    assert {name for name, *_ in words} == set(parts), said
    for name, method, first, second in words:
        parts[name] = getattr(parts[name], method)(int(first), int(second))
    assert recorded(parts, tmp_path / "run.h5") == ""


@pytest.mark.parametrize("name", ["q", "k", "v", "log_forget", "output"])
def test_a_part_alone_has_positions_first(name: str, tmp_path: Path) -> None:
    given = fox()
    said = recorded({**given, name: given[name].transpose(0, 1)}, tmp_path / "run.h5")
    axes = "-2, -1" if name == "log_forget" else "-3, -2"
    assert "heads come first" in said and f"{name}.transpose({axes})" in said, said
    assert "heads come first" not in recorded({**given, "k": given["k"].transpose(1, 2)}, tmp_path / "run.h5")


MIXERS: dict[str, tuple[Callable[..., Any], str]] = {
    "turned": (turned, r"the order of axes: heads come first, so pass q\.transpose\(-3, -2\)"),
    "summed": (
        lambda given: {**given, "log_decay": given["log_decay"].cumsum(1)},
        "log_decay, which is the sum c of log f up to each position: pass log f",
    ),
    "keys": (lambda given: {**given, "k": 3 * given["k"]}, "k, which the model normalises behind where it was recorded"),
}


@pytest.mark.parametrize("name", MIXERS)
def test_what_was_given_of_a_delta_rule(name: str, tmp_path: Path) -> None:
    change, message = MIXERS[name]
    given = fox()
    k, beta = functional.normalize(given["k"], dim=2), torch.linspace(0.1, 0.9, LENGTH).expand(HEADS, LENGTH)
    rows = [
        mixing_of(*(part[h].double().numpy() for part in (given["q"], k, given["log_forget"], beta)), True)
        for h in range(HEADS)
    ]
    given = {"q": given["q"], "k": k, "v": given["v"], "log_decay": given["log_forget"], "beta": beta}
    given["output"] = torch.tensor(np.stack(rows), dtype=torch.float32) @ given["v"]
    with (
        pytest.raises(FoxscopeError, match=f"likely cause: {message}"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False) as rec,
    ):
        rec.mixer(0, "delta_rule", **change(given))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("The fox ran.", "^input_ids: got a text: pass the ids that the tokenizer makes of it, and it as text=$"),
        ([[1, 2], [3]], r"^input_ids: expected \[L\] or \[B, L\], got lists of several lengths$"),
    ],
)
def test_what_are_no_ids(ids: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(FoxscopeError, match=message):
        record(tmp_path / "run.h5", input_ids=ids)


def test_axes_in_another_order_that_nothing_checks(tmp_path: Path) -> None:
    with (
        pytest.raises(FoxscopeError, match=rf"have 4 positions, and input_ids {LENGTH}: .* or, if {LENGTH} is positions and"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False, check=False) as rec,
    ):
        rec.attention(0, **turned(fox()))
    assert nothing_left(tmp_path)


def test_what_a_model_returns_is_no_array(tmp_path: Path) -> None:
    with (
        pytest.raises(FoxscopeError, match=r"^rec\.logits: logits is no array of real numbers but \w+: pass its logits$"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec,
    ):
        rec.logits(SimpleNamespace(logits=torch.zeros(LENGTH, 100)))
    with (
        pytest.raises(FoxscopeError, match=r"^input_ids: got dict without input_ids: pass the token ids of it$"),
        record(tmp_path / "run.h5") as rec,
    ):
        rec.tokens({"tokens": [1, 2]})


def test_what_generate_returns(tmp_path: Path) -> None:
    """With return_dict_in_generate it holds the ids as `sequences`, and logits of the answer alone."""
    ids, given = torch.arange(LENGTH)[None], fox()
    with record(tmp_path / "run.h5", input_ids=ids) as rec:
        rec.attention(0, **given)
        rec.tokens(SimpleNamespace(sequences=ids))
    check_file(tmp_path / "run.h5")
    with (
        pytest.raises(FoxscopeError, match=rf"got rows of 5 of {LENGTH} positions: .*record the whole text in one more pass"),
        record(tmp_path / "more.h5", input_ids=ids) as rec,
    ):
        rec.attention(0, **given)
        rec.logits(torch.zeros(5, 100))


@pytest.mark.parametrize("window", [0, 20])
def test_a_score_mod_that_hides_the_future(window: int, tmp_path: Path) -> None:
    """Flex attention without a block mask: the score_mod adds gates, and -infinity where a query does not see."""
    from torch.nn.attention import flex_attention as flex

    given = fox()
    c = given["log_forget"].cumsum(1)

    def score_mod(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
        sees = query >= key if window == 0 else (query >= key) & (query - key < window)
        return torch.where(sees, score + c[head, query] - c[head, key], -float("inf"))

    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec:
        flex.flex_attention(*(given[name][None] for name in "qkv"), score_mod=score_mod)
    assert "68 rows checked" in rec.summary()
    assert ("window 20" in rec.summary()) == (window > 0)
    wanted = dense_attention(*(given[name].double().numpy() for name in ("q", "k", "log_forget")), window=window)
    assert abs(map_of(tmp_path / "run.h5", 0, 2) - wanted[2]).max() < 1e-4


def test_a_score_mod_that_hides_nothing_or_by_heads(tmp_path: Path) -> None:
    from torch.nn.attention import flex_attention as flex

    q, k, v = (fox()[name][None] for name in "qkv")
    for score_mod, message in (
        (
            lambda score, b, h, i, j: score + 0.1 * (j - i),
            "queries see keys behind them, and a run file holds causal attention",
        ),
        (
            lambda score, b, h, i, j: (
                torch.where(i - j >= h * 0, score, -torch.inf) + torch.where((h > 0) & (i - j > 9), -torch.inf, 0)
            ),
            "heads have masks of their own",
        ),
        (
            lambda score, b, h, i, j: torch.where(i >= j, 20 * torch.tanh(score / 20), -torch.inf),
            "does not add to logits: give it by hand",
        ),
    ):
        with pytest.raises(FoxscopeError, match=message), record(tmp_path / "run.h5", input_ids=list(range(LENGTH))):
            flex.flex_attention(q, k, v, score_mod=score_mod)
    assert nothing_left(tmp_path)
