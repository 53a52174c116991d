"""Layers that are checked and written in another thread, as those of a GPU are: here tensors of the CPU take that way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_support import arrays_of, check_file

from foxscope import FoxscopeError
from foxscope.recording import record, recording

torch = pytest.importorskip("torch", exc_type=ImportError)

LENGTH = 90


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_runs_beside", lambda call: True)


def layer_of(seed: int) -> Any:
    """q, k, v and log f of a layer, and what attention makes of them."""
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, 4, LENGTH, 8)
    log_f = torch.nn.functional.logsigmoid(torch.randn(4, LENGTH) + 3)
    c = log_f.cumsum(-1)
    mask = (c[:, :, None] - c[:, None, :]).masked_fill(torch.ones(LENGTH, LENGTH, dtype=bool).triu(1), -torch.inf)
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
    assert np.array_equal(arrays_of(tmp_path / "run.h5")["models/model/layers/00/query"], q.numpy())
