"""Layers that are read and written while the model goes on, as those of a GPU are: here tensors of the CPU take that way.

With FOXSCOPE_TEST_DEVICE=cuda they are a GPU's.
"""

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recording_support import arrays_of, check_file

from foxscope import FoxscopeError
from foxscope.recording import losses, readings, record, recording

torch = pytest.importorskip("torch", exc_type=ImportError)

LENGTH = 90
DEVICE = os.environ.get("FOXSCOPE_TEST_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_runs_beside", lambda call: True)
    monkeypatch.setattr(readings.Readings, "have_come", lambda read: False)


def layer_of(seed: int) -> Any:
    """q, k, v and log f of a layer, and what attention makes of them."""
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, 4, LENGTH, 8).to(DEVICE)
    log_f = torch.nn.functional.logsigmoid(torch.randn(4, LENGTH) + 3).to(DEVICE)
    c = log_f.cumsum(-1)
    future = torch.ones(LENGTH, LENGTH, dtype=bool, device=DEVICE).triu(1)
    mask = (c[:, :, None] - c[:, None, :]).masked_fill(future, -torch.inf)
    return q, k, v, log_f, torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_the_file_is_that_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the model overwrites its tensors at once."""
    for name in ("beside", "within"):
        with record(tmp_path / f"{name}.h5", input_ids=list(range(LENGTH)), automatic=False) as rec:
            for layer in range(9):
                q, k, v, log_f, output = layer_of(layer)
                rec.attention(layer, q, k, v, log_forget=log_f, output=output)
                for part in (q, k, v, log_f, output):
                    part.fill_(torch.nan)
        assert rec.summary().count("68 rows checked") == 9
        monkeypatch.setattr(recording, "_runs_beside", lambda call: False)
    check_file(tmp_path / "beside.h5")
    found, wanted = (arrays_of(tmp_path / f"{name}.h5") for name in ("beside", "within"))
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(array, wanted[name]) for name, array in found.items())


def test_sums_of_gates_are_those_of_float64(tmp_path: Path) -> None:
    q, k, v, log_f, output = layer_of(0)
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False, keep="gates") as rec:
        rec.attention(0, q, k, v, log_forget=log_f, output=output)
        log_f.fill_(torch.nan)
    found = arrays_of(tmp_path / "run.h5")
    assert not any("query" in name for name in found)
    c = np.cumsum(layer_of(0)[3].cpu().numpy().astype(np.float64), axis=1)
    assert np.array_equal(found["models/model/layers/00/cumulative_log_gate"], c)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.2}, r"the first 64 rows of head \d .*: the scale, which is 1/sqrt\(d\): pass scale=0.353553"),
        ({"window": 70}, r"the last 4 rows of head \d .*: the model applies no window"),
        ({"log_forget": 0.4}, r"layer 0: log_forget is 0.4 at head 0, position 0, so the gate is above 1"),
        ({"log_forget": None}, r"layer 0 .* differ by .* likely cause"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    q, k, v, log_f, output = layer_of(0)
    if change.get("log_forget") is not None:
        change = {"log_forget": torch.full_like(log_f, change["log_forget"])}
    options: dict[str, Any] = {"log_forget": log_f, "output": output, **change}
    with (
        pytest.raises(FoxscopeError, match=message),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False) as rec,
    ):
        rec.attention(0, q, k, v, **options)
        rec.summary()


def test_what_the_model_overwrote_has_no_place(tmp_path: Path) -> None:
    """The numbers of the call are judged, not those that stand there later."""
    for name, message in (
        ("k", "layer 0: k is not finite; the model wrote over it"),
        ("gate", "layer 0: log_forget is NaN or"),
    ):
        q, k, v, log_f, output = layer_of(0)
        wrong = k if name == "k" else log_f
        wrong[1, 7] = torch.nan
        with (
            pytest.raises(FoxscopeError, match=message),
            record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False) as rec,
        ):
            rec.attention(0, q, k, v, log_forget=log_f, output=output)
            wrong.zero_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_of_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    """Whatever the pieces, and where the logits are overwritten at once."""
    torch.manual_seed(1)
    logits = (4 * torch.randn(LENGTH, 101)).to(DEVICE, dtype)
    logits[-1, 5] = -torch.inf
    ids = [(7 * n * n) % 101 for n in range(LENGTH)]
    log_p = logits.double().log_softmax(-1).cpu()
    wanted = -log_p[torch.arange(LENGTH - 1), torch.tensor(ids[1:])]
    p = log_p[-1].exp()
    entropy = -(p * log_p[-1].clamp(min=-1e3)).sum()
    for piece in (1, 101 * 16, 1 << 19):
        monkeypatch.setattr(losses, "PIECE", piece)
        monkeypatch.setattr(losses, "GPU_PIECE", piece)
        q, k, v, log_f, output = layer_of(0)
        with record(tmp_path / f"{piece}.h5", input_ids=ids, automatic=False, keep="loss") as rec:
            rec.attention(0, q, k, v, log_forget=log_f, output=output)
            given = logits.clone()
            rec.logits(given)
            given.fill_(torch.nan)
        found = arrays_of(tmp_path / f"{piece}.h5")["models/model/loss/per_token_loss"]
        assert np.abs(found - np.append(wanted, entropy)).max() < 4e-6
    logits[40, 3] = torch.nan
    with (
        pytest.raises(FoxscopeError, match=r"rec\.logits: not finite at position 40"),
        record(tmp_path / "nan.h5", input_ids=ids, automatic=False, keep="loss") as rec,
    ):
        rec.attention(0, q, k, v, log_forget=log_f, output=output)
        rec.logits(logits)


def test_an_error_comes_at_a_later_call_or_the_end(tmp_path: Path) -> None:
    for layers in (1, 9):
        rec = record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False)
        with pytest.raises(FoxscopeError, match="layer 0: k is NaN at head 2, position 5, channel 1"), rec:
            for layer in range(layers):
                q, k, v, log_f, output = layer_of(layer)
                if layer == 0:
                    k[2, 5, 1] = torch.nan
                rec.attention(layer, q, k, v, log_forget=log_f, output=output)
            if layers == 9:
                rec.summary()
        assert not (tmp_path / "run.h5").exists()


def test_positions_go_on_behind_the_first(tmp_path: Path) -> None:
    q, k, v, log_f, output = layer_of(0)
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False) as rec:
        rec.attention(0, q[:, :80], k[:, :80], v[:, :80], log_forget=log_f[:, :80], output=output[:, :80])
        rec.attention(0, q[:, 80:], k, v, log_forget=log_f[:, 80:])
    assert np.array_equal(arrays_of(tmp_path / "run.h5")["models/model/layers/00/query"], q.cpu().numpy())


def test_what_has_no_positions_stays_where_others_follow(tmp_path: Path) -> None:
    q, k, v, log_f, _ = layer_of(0)
    sinks = torch.arange(4.0, device=DEVICE)
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), automatic=False, check=False) as rec:
        rec.attention(0, q[:, :80], k[:, :80], v[:, :80], log_forget=log_f[:, :80], sinks=sinks)
        rec.attention(0, q[:, 80:], k, v, log_forget=log_f[:, 80:], sinks=sinks)
    check_file(tmp_path / "run.h5")
    assert np.array_equal(arrays_of(tmp_path / "run.h5")["models/model/layers/00/sink_logit"], sinks.cpu().numpy())
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["models/model/layers/00"].attrs["source"] == "rec.attention"
