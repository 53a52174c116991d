"""Bad input gives one clear line, and nothing half-written stays under the name or beside it."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recording_support import arrays_of, check_file, dense_attention, mixing_of, nothing_left

from foxscope.errors import FoxscopeError
from foxscope.recording import Recording, record

LENGTH = 70
RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.standard_normal((heads, LENGTH, 8)).astype(np.float32) for heads in (4, 2, 2))
LOG_F = -np.logaddexp(0, -RANDOM.normal(1, 1, (4, LENGTH)))
A = dense_attention(Q.astype(float), K.astype(float), LOG_F)
OUT = A @ np.repeat(V, 2, axis=0)


def spoiled(part: Any, place: tuple[int, ...], value: float) -> Any:
    part = part.copy()
    part[place] = value
    return part


WRONG: dict[str, tuple[Callable[[Recording], object], str]] = {
    "axes": (lambda rec: rec.attention(0, Q[0], K), r"layer 0: q: expected 3 axes, or 4 with a batch, got \[70, 8\]"),
    "channels": (lambda rec: rec.attention(3, Q, K[..., :5]), r"layer 3: k: expected \[heads, 70, 8\].*got \[2, 70, 5\]"),
    "positions": (lambda rec: rec.attention(0, Q, K[:, :60]), r"layer 0: k: expected \[heads, 70, 8\].*got \[2, 60, 8\]"),
    "more keys": (
        lambda rec: rec.attention(0, Q[:, :60], K),
        r"layer 0: k: expected \[heads, 60, 8\] as q has, got \[2, 70, 8\]",
    ),
    "heads": (
        lambda rec: rec.attention(0, Q[:3], K),
        r"layer 0: k: expected a number of heads that divides 3, got \[2, 70, 8\]",
    ),
    "values": (lambda rec: rec.attention(0, Q, K, V[:, :9]), r"layer 0: v: expected \[heads, 70, channels\].*got \[2, 9, 8\]"),
    "gates": (lambda rec: rec.attention(0, Q, K, log_forget=LOG_F[:2]), r"log_forget: expected \[4, 70\], got \[2, 70\]"),
    "sinks": (lambda rec: rec.attention(0, Q, K, sinks=np.zeros(3)), r"sinks: expected \[4\], got \[3\]"),
    "output": (lambda rec: rec.attention(0, Q, K, V, output=OUT[:, :, :3]), r"output: expected \[4, 70, 8\], got \[4, 70, 3\]"),
    "length": (lambda rec: rec.attention(0, *(np.tile(p, (1, 2, 1)) for p in (Q, K))), "q has 140 positions, and input_ids 70"),
    "layer": (lambda rec: rec.attention(-1, Q, K), "layer -1: expected a number from 0 to 3999"),
    "many layers": (lambda rec: rec.attention(4000, Q, K), "layer 4000: expected a number from 0 to 3999"),
    "named layer": (lambda rec: rec.attention("a", Q, K), "layer: expected a whole number, got 'a'"),
    "scale": (lambda rec: rec.attention(0, Q, K, scale=0), "scale: expected a number above 0, got 0"),
    "window": (lambda rec: rec.attention(0, Q, K, window=-2), "window: expected a number above 0, or None for none, got -2"),
    "window of 0": (lambda rec: rec.attention(0, Q, K, window=0), "window: expected a number above 0, or None for none, got 0"),
    "wide window": (
        lambda rec: rec.attention(0, Q, K, window=10**25),
        "layer 0: window: expected a number of 0 to 1099511627776, got 10000000000000000000000000",
    ),
    "window of truth": (lambda rec: rec.attention(0, Q, K, window=True), "window: expected a whole number, got True"),
    "scale of truth": (lambda rec: rec.attention(0, Q, K, scale=np.True_), "scale: expected a number, got"),
    "huge softcap": (lambda rec: rec.attention(0, Q, K, softcap=10**400), "softcap: expected a number, got 1000"),
    "layer of truth": (lambda rec: rec.attention(False, Q, K), "layer: expected a whole number, got False"),
    "no queries": (
        lambda rec: rec.attention(0, None, K),
        r"layer 0: q: expected a tensor \[heads, positions, channels\], got None",
    ),
    "no keys": (lambda rec: rec.attention(0, Q, None), r"layer 0: k: expected a tensor .*got None"),
    "no queries of a mixer": (lambda rec: rec.mixer(0, "mamba2", None, K), r"layer 0: q is no array of real numbers"),
    "no channels": (
        lambda rec: rec.attention(0, Q[..., :0], K[..., :0]),
        r"layer 0: q: expected \[heads, positions, channels\], got \[4, 70, 0\]",
    ),
    "complex": (lambda rec: rec.attention(0, Q + 0j, K), "layer 0: q is no array of real numbers but of complex64"),
    "truth": (lambda rec: rec.attention(0, Q, K > 0), "layer 0: k is no array of real numbers but of bool"),
    "masked": (
        lambda rec: rec.attention(0, Q, np.ma.masked_less(K, 0)),
        r"layer 0: k is masked in \d+ places: pass the numbers that attention read there",
    ),
    "part of a window": (lambda rec: rec.attention(0, Q, K, window=2.5), "window: expected a whole number, got 2.5"),
    "gate just above 1": (
        lambda rec: rec.attention(0, Q, K, log_forget=spoiled(LOG_F, (2, 17), 2e-6)),
        "log_forget is 2e-06 at head 2, position 17, so the gate is above 1: pass logsigmoid",
    ),
    "scale of words": (lambda rec: rec.attention(0, Q, K, scale="a"), "layer 0: scale: expected a number, got 'a'"),
    "softcap of words": (lambda rec: rec.attention(0, Q, K, softcap="a"), "layer 0: softcap: expected a number, got 'a'"),
    "softcap": (lambda rec: rec.attention(0, Q, K, softcap=-2), "softcap: expected a number above 0, or None for none, got -2"),
    "softcap of 0": (lambda rec: rec.attention(0, Q, K, softcap=0), "softcap: expected a number above 0.*, got 0"),
    "infinite softcap": (lambda rec: rec.attention(0, Q, K, softcap=np.inf), "softcap: expected a number.*, got inf"),
    "objects": (lambda rec: rec.attention(0, [object()], K), "layer 0: q is no array of real numbers"),
    "gate above 1": (
        lambda rec: rec.attention(0, Q, K, log_forget=spoiled(LOG_F, (2, 17), 0.25)),
        "log_forget is 0.25 at head 2, position 17, so the gate is above 1: pass logsigmoid",
    ),
    "gates for logarithms": (
        lambda rec: rec.attention(0, Q, K, log_forget=np.exp(LOG_F)),
        "so the gate is above 1: these look like gates f: pass their logarithm",
    ),
    "NaN gate": (
        lambda rec: rec.attention(0, Q, K, log_forget=spoiled(LOG_F, (2, 17), np.nan)),
        "layer 0: log_forget is NaN at head 2, position 17",
    ),
    "NaN": (
        lambda rec: rec.attention(0, Q, spoiled(K, (1, 5, 2), np.nan)),
        "layer 0: k is NaN at head 1, position 5, channel 2",
    ),
    "infinity": (
        lambda rec: rec.attention(0, Q, K, spoiled(V, (0, 69, 0), np.inf)),
        "layer 0: v is infinite at head 0, position 69",
    ),
    "NaN output": (
        lambda rec: rec.attention(0, Q, K, V, output=spoiled(OUT, (3, 69, 1), np.nan)),
        "layer 0: output is NaN at head 3, position 69, channel 1",
    ),
    "infinite sink": (
        lambda rec: rec.attention(0, Q, K, sinks=spoiled(np.zeros(4), (2,), -np.inf)),
        "layer 0: sinks is infinite at head 2: look",
    ),
    "logits beyond float32": (
        lambda rec: rec.attention(2, spoiled(Q, (1, 33, 4), 1e19), K * np.float32(1e21)),
        r"layer 2: logits of head 1, position 33 are as large as .*e\+3\d, which float32 cannot hold: \|q\| is up to 1e\+19",
    ),
    "a scale that overflows": (
        lambda rec: rec.attention(0, Q, K, scale=1e39),
        "layer 0: logits of head 0, position .* scale is 1e",
    ),
    "mixer": (lambda rec: rec.mixer(0, "hyena", Q, K, V), "the mixer 'hyena' is not known: use attention, mamba2"),
    "softmax as a mixer": (lambda rec: rec.mixer(0, "attention", Q, K), "use rec.attention for softmax attention"),
    "no beta": (lambda rec: rec.mixer(0, "delta_rule", Q, K, V), "layer 0: delta_rule needs beta"),
    "beta": (lambda rec: rec.mixer(0, "gated_linear_attention", Q, K, V, None, LOG_F), "gated_linear_attention has no beta"),
    "no decay": (
        lambda rec: rec.mixer(0, "mamba2", Q, K, V, None, LOG_F),
        "mamba2 has a decay by head, and log_decay is missing",
    ),
    "twice": (
        lambda rec: [rec.attention(0, Q, K), rec.attention(0, Q, K)],
        "layer 0: was recorded already, 70 positions, and is called again without the keys",
    ),
    "too many logits": (lambda rec: rec.logits(np.zeros((71, 90))), r"expected \[70, V\].*got \[71, 90\]"),
    "few tokens": (lambda rec: rec.logits(np.zeros((70, 60))), "input_ids have token 69, and logits are of 60 tokens"),
    "NaN logits": (lambda rec: rec.logits(np.full((70, 90), np.nan)), "rec.logits: not finite at position 0"),
    "some logits": (
        lambda rec: [rec.attention(0, Q, K), rec.logits(np.zeros((30, 90)))],
        "rec.logits: got rows of 30 of 70 positions",
    ),
    "layers of two lengths": (
        lambda rec: [rec.attention(0, Q, K), rec.attention(1, Q[:, :60], K[:, :60])],
        "layer 1 was seen at 60 positions, and layer 0 at 70",
    ),
    "no layer": (
        lambda rec: None,
        "no attention was seen: the model ran outside of the block, .* or a compiled graph .* call rec.attention",
    ),
}


@pytest.mark.parametrize("case", ["NaN", "infinity", "NaN gate", "logits beyond float32"])
def test_what_is_not_kept_is_looked_at_too(case: str, tmp_path: Path) -> None:
    call, message = WRONG[case]
    rec = record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), keep="gates,loss")
    with pytest.raises(FoxscopeError, match=message), rec:
        call(rec)


@pytest.mark.parametrize("case", WRONG)
def test_one_line_and_nothing_left(case: str, tmp_path: Path) -> None:
    call, message = WRONG[case]
    with (
        pytest.raises(FoxscopeError, match=message) as caught,
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec,
    ):
        call(rec)
    assert "\n" not in str(caught.value)
    assert nothing_left(tmp_path)


TENSORS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "complex": (lambda torch, q: q + 0j, "q is no array of real numbers but of complex64"),
    "truth": (lambda torch, q: q > 0, "q is no array of real numbers but of bool"),
    "float8": (lambda torch, q: q.to(torch.float8_e4m3fn), "q is of float8_e4m3fn: pass the numbers that it stands for"),
    "quantized": (lambda torch, q: torch.quantize_per_tensor(q, 0.1, 0, torch.qint8), "q is of qint8: pass the numbers"),
    "sparse": (lambda torch, q: q.to_sparse(), r"q is of layout torch.sparse_coo: pass q.to_dense\(\)"),
    "nested": (lambda torch, q: torch.nested.nested_tensor([q, q[:, :9]]), r"q is a nested tensor: pass one sequence of it"),
    "jagged": (
        lambda torch, q: torch.nested.nested_tensor([q[0], q[1]], layout=torch.jagged),
        r"q is a nested tensor: pass one sequence of it, as q\[0\]",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_attention_does_not_read_as_they_stand(case: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    make, message = TENSORS[case]
    with (
        pytest.raises(FoxscopeError, match=f"^layer 2: {message}") as caught,
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec,
    ):
        rec.attention(2, make(torch, torch.tensor(Q)), torch.tensor(K))
    assert "\n" not in str(caught.value)
    assert nothing_left(tmp_path)


def test_a_sequence_of_tensors_that_have_one(tmp_path: Path) -> None:
    """Gates may be one for all sequences; what belongs to a text may not."""
    for given, part in (((Q, K, V), "q"), ((Q[None], K, V), "q"), (([Q] * 4, [K] * 4, V), "v")):
        with (
            pytest.raises(FoxscopeError, match=f"layer 0: {part}: has one sequence, and sequence=3 was asked for: leave"),
            record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), sequence=3) as rec,
        ):
            rec.attention(0, *given)
        assert nothing_left(tmp_path)
    with (
        pytest.raises(FoxscopeError, match=r"rec\.logits: logits: has one sequence, and sequence=3"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), sequence=3) as rec,
    ):
        rec.logits(np.zeros((LENGTH, 90)))
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), sequence=1) as rec:
        rec.attention(0, [Q + 1, Q], [K + 1, K], [V + 1, V], log_forget=LOG_F, output=[OUT + 1, OUT])
    assert np.array_equal(arrays_of(tmp_path / "run.h5")["models/model/layers/00/query"], Q)


def test_gates_that_rounding_put_above_1_and_closed_ones(tmp_path: Path) -> None:
    """The file has 0 and -1000 of them, as the page says."""
    log_f = spoiled(spoiled(LOG_F, (2, 0), 1e-7), (2, 1), -np.inf)
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec:
        rec.attention(0, Q, K, log_forget=log_f)
    c = arrays_of(tmp_path / "run.h5")["models/model/layers/00/cumulative_log_gate"][2, :2]
    assert c.tolist() == [0, -1000]


def test_layers_of_a_file_have_one_cap(tmp_path: Path) -> None:
    with (
        pytest.raises(FoxscopeError, match=r"layer 1: caps logits at 5, and layers before at 0"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec,
    ):
        rec.attention(0, Q, K)
        rec.attention(1, Q, K, softcap=5)
    with (
        pytest.raises(FoxscopeError, match=r"layer 1: multiplies logits by 0.7.*pass dtype='float32'"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), dtype="bfloat16") as rec,
    ):
        rec.attention(0, Q, K)
        rec.attention(1, Q, K, scale=0.7)
    assert nothing_left(tmp_path)


OPERATORS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "scale": ({"scale": 0.5}, OUT, "the scale, which is 1/sqrt.d.: pass scale=0.353553"),
    "scale in the queries": (
        {},
        dense_attention(Q.astype(float), K.astype(float), LOG_F, 1.0) @ np.repeat(V, 2, 0),
        "pass scale=1",
    ),
    "another scale": (
        {},
        dense_attention(Q.astype(float), K.astype(float), LOG_F, 0.21) @ np.repeat(V, 2, 0),
        "pass scale=0.21",
    ),
    "gates with the logits": (
        {},
        dense_attention(Q.astype(float), K.astype(float), LOG_F * 8**-0.5) @ np.repeat(V, 2, 0),
        "the gates, which the model multiplies by the scale",
    ),
    "no gates": (
        {},
        dense_attention(Q.astype(float), K.astype(float)) @ np.repeat(V, 2, 0),
        "the gates, which the model does not apply",
    ),
    "shifted gates": ({"log_forget": np.roll(LOG_F, 1, axis=1)}, OUT, "position before"),
    "not normalised": (
        {},
        dense_attention(*(p / np.linalg.norm(p, axis=2, keepdims=True).astype(float) for p in (Q, K)), LOG_F)
        @ np.repeat(V, 2, 0),
        "q and k, which the model normalises",
    ),
    "softcap": ({"softcap": 1.0}, OUT, "softcap, which the model does not apply"),
    "window": ({"window": 20}, OUT, "window, which the model does not apply"),
    "late window": (
        {"log_forget": None},
        dense_attention(Q.astype(float), K.astype(float), window=66) @ np.repeat(V, 2, 0),
        "the last 4 rows .* the window, which the model has: pass window=66",
    ),
    "sinks": ({"sinks": np.ones(4)}, OUT, "sinks, which the model does not apply"),
    "rotary": (
        {},
        (dense_attention(Q.astype(float)[:, :, ::-1], K.astype(float), LOG_F) @ np.repeat(V, 2, 0)),
        "rotary embedding, a norm",
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_another_operator_is_found_with_its_cause(case: str, tmp_path: Path) -> None:
    """A wrong picture must not look right."""
    options, output, cause = OPERATORS[case]
    given = {"log_forget": LOG_F, **options}
    with (
        pytest.raises(FoxscopeError, match=rf"layer 5 .*{cause}"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec,
    ):
        rec.attention(5, Q, K, V, output=output, **given)
    assert nothing_left(tmp_path)
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), check=False) as rec:
        rec.attention(0, Q, K, V, output=output, **given)
    assert "not checked" in rec.summary()


def forgetting_with_sums_in(c: Any, length: int) -> tuple[dict[str, Any], Any]:
    """FoX in float32 with D = c_i - c_j of sums that are held in a format: arguments of rec.attention, gates."""
    random = np.random.default_rng(length)
    q, k, v = random.standard_normal((3, 2, length, 8), dtype=np.float32)
    log_f = -np.logaddexp(0, 2 - random.standard_normal((2, length))).astype(np.float32)
    sums = c(log_f.cumsum(axis=1, dtype=np.float64)).astype(np.float32)
    logits = q @ k.swapaxes(1, 2) * np.float32(8**-0.5) + sums[:, :, None] - sums[:, None]
    logits[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return {"q": q, "k": k, "v": v, "output": weights / weights.sum(axis=2, keepdims=True) @ v}, log_f


@pytest.mark.parametrize("length", [1000, 2048])
def test_sums_in_float32_pass_and_are_named(length: int, tmp_path: Path) -> None:
    given, log_f = forgetting_with_sums_in(np.float32, length)
    with record(tmp_path / "run.h5", input_ids=list(range(length))) as rec:
        rec.attention(0, **given, log_forget=log_f)
    assert "68 rows checked" in rec.summary() and rec.summary().endswith("which c in float32 explains")


def test_sums_in_float16_are_refused_and_named(tmp_path: Path) -> None:
    given, log_f = forgetting_with_sums_in(np.float16, 1000)
    with (
        pytest.raises(FoxscopeError, match=r"likely cause: c, which the model holds in float16: sum log f in float32"),
        record(tmp_path / "run.h5", input_ids=list(range(1000))) as rec,
    ):
        rec.attention(0, **given, log_forget=log_f)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("wrong", ["scaled", "shifted", "late", "window"])
def test_large_sums_hide_no_wrong_gates(wrong: str, tmp_path: Path) -> None:
    """Gates that are off by a thousandth, those of another position, and those of the last rows alone."""
    given, log_f = forgetting_with_sums_in(np.float32, 2048)
    late = log_f.copy()
    late[:, -2:] *= 1.1
    gates = {"scaled": log_f * 1.001, "shifted": np.roll(log_f, 1, axis=1), "late": late, "window": log_f}[wrong]
    with (
        pytest.raises(FoxscopeError, match="the last 4 rows" if wrong == "late" else "the first 64 rows"),
        record(tmp_path / "run.h5", input_ids=list(range(2048))) as rec,
    ):
        rec.attention(0, **given, log_forget=gates, window=3 if wrong == "window" else None)
    assert nothing_left(tmp_path)


def test_the_delta_rule_in_float32_may_round_its_products(tmp_path: Path) -> None:
    """Errors of 5e-6 are rounding, and errors of 2e-5 are not."""
    random = np.random.default_rng(0)
    q, k, v = random.standard_normal((3, 1, LENGTH, 8))
    k /= np.linalg.norm(k, axis=2, keepdims=True)
    beta, noise = random.random((1, LENGTH)), random.standard_normal((1, LENGTH, 8))
    out = (mixing_of(q[0], k[0], None, beta[0], True) @ v[0])[None]
    given = {"q": q, "k": k, "v": v, "beta": beta}
    with record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec:
        rec.mixer(0, "delta_rule", **given, output=out + 5e-6 * np.std(out) * noise)
    assert "64 rows checked" in rec.summary()
    with (
        pytest.raises(FoxscopeError, match=r"the first 64 rows of head 0 differ by 2e-05"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), overwrite=True) as rec,
    ):
        rec.mixer(0, "delta_rule", **given, output=out + 2e-5 * np.std(out) * noise)


def test_another_linear_mixer_is_found(tmp_path: Path) -> None:
    beta = np.full((2, LENGTH), 0.5)
    q, k = (part[:2] / 3 for part in (Q, K))
    right = np.array([mixing_of(q[h].astype(float), k[h].astype(float), None, beta[h], True) @ V[h] for h in range(2)])
    for output, given, cause in (
        (np.ones((2, LENGTH, 8)), {}, "another mixer than delta_rule"),
        (right, {"scale": 0.5}, "the scale"),
        (right, {"beta": beta / 2}, "beta, which the model doubles"),
        (right, {"log_decay": LOG_F[:2]}, "the gates, which the model does not apply"),
    ):
        with pytest.raises(FoxscopeError, match=cause), record(tmp_path / "run.h5", input_ids=list(range(LENGTH))) as rec:
            rec.mixer(0, "delta_rule", q, k, V, **{"beta": beta, **given}, output=output)
    assert nothing_left(tmp_path)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "my model"}, "name 'my model': use letters, digits"),
    "keep": ({"keep": "gates,rows"}, "keep: 'rows' is not known: use loss, gates, qk, values, logits"),
    "dtype": ({"dtype": "float16"}, "dtype: expected 'float32' or 'bfloat16', got 'float16'"),
    "heads": ({"heads": []}, "heads: expected numbers of heads"),
    "a number as name": ({"name": 3}, "name 3: use letters, digits"),
    "a number as keep": ({"keep": 3}, "keep: expected words of loss, gates, qk, values, logits, got 3"),
    "one layer": ({"layers": 3}, r"layers: expected a list of numbers, as \[0, 3\], got 3"),
    "layers as a word": ({"layers": "0"}, r"layers: expected a list of numbers, as \[0, 3\], got '0'"),
    "half a head": ({"heads": [1.5]}, r"heads: expected a whole number, got 1\.5"),
    "sequence of words": ({"sequence": "a"}, "sequence: expected a whole number, got 'a'"),
    "negative sequence": ({"sequence": -1}, "sequence: expected a number from 0 on, got -1"),
    "tokenizer": ({"tokenizer": 3, "text": "a b"}, "tokenizer: expected one of transformers or of tokenizers, got int"),
    "ids of floats": ({"input_ids": [0.5, 1.5]}, "input_ids: expected whole numbers, got float64"),
    "negative ids": ({"input_ids": [3, -100]}, "input_ids: expected token ids from 0 to 2147483647, got -100 to 3"),
    "huge ids": ({"input_ids": [2**31]}, "input_ids: expected token ids from 0 to 2147483647, got 2147483648 to 2147483648"),
    "ids of three axes": ({"input_ids": np.zeros((1, 2, 3), int)}, r"input_ids: expected \[L\] or \[B, L\], got \[1, 2, 3\]"),
    "sequence": ({"input_ids": [[1, 2], [3, 4]], "sequence": 2}, "a batch of 2 has no sequence 2"),
    "text alone": ({"text": "a b"}, "text: pass tokenizer= or offsets= too"),
    "offsets": ({"text": "a b", "offsets": [(0, 1)]}, r"offsets: expected \[3, 2\].*got \[1, 2\]"),
    "offsets beyond": ({"text": "a b", "offsets": [(0, 1), (1, 3), (3, 4)]}, "offsets: expected places in the 3 characters"),
    "NUL": ({"text": "a\0b", "offsets": [(0, 1)] * 3}, "text: holds a NUL character"),
    "surrogate": ({"text": "a\ud800b", "offsets": [(0, 1)] * 3}, "text: holds half a character"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_do_not_fit(case: str, tmp_path: Path) -> None:
    options, message = OPTIONS[case]
    with pytest.raises(FoxscopeError, match=message), record(tmp_path / "run.h5", **{"input_ids": [1, 2, 3], **options}):
        pass
    assert nothing_left(tmp_path)


def test_heads_that_are_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(FoxscopeError, match=r"layer 0: heads: there is no head 7, it has 4"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), heads=[0, 7]) as rec,
    ):
        rec.attention(0, Q, K)
    with (
        pytest.raises(FoxscopeError, match=r"layers: none of \[9\] was seen, but \[0, 2\]: name some of these"),
        record(tmp_path / "run.h5", input_ids=list(range(LENGTH)), layers=[9]) as rec,
    ):
        rec.attention(2, Q, K)
        rec.attention(0, Q, K)
    assert nothing_left(tmp_path)


def test_places_to_write_to(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_text("mine")
    for target, message in (
        (path, "run.h5: exists already: pass overwrite=True to replace it"),
        (tmp_path, "is a folder: name a file to write"),
        (str(tmp_path / "\ud800.h5"), r"record: no path has half a character \(a surrogate\), and .*ud800.h5' has one"),
        (tmp_path / "no" / "run.h5", "the folder .*no does not exist: create it"),
    ):
        with pytest.raises(FoxscopeError, match=message), record(target, input_ids=[1, 2, 3]):
            pass
    assert path.read_text() == "mine" and os.listdir(tmp_path) == ["run.h5"]


def test_the_last_layer_that_a_file_holds(tmp_path: Path) -> None:
    """The mixers of all layers before it fit into the attribute that names them."""
    path = tmp_path / "run.h5"
    with record(path, input_ids=list(range(LENGTH)), layers=[3999], check=False) as rec:
        rec.attention(3999, Q, K)
    with h5py.File(path) as file:
        assert list(file["models/model"].attrs["mixers"]) == ["none"] * 3999 + ["attention"]
    for layer in (-1, 4000, 10**9):
        with pytest.raises(FoxscopeError, match=f"^layers: layer {layer}: expected a number from 0 to 3999"):
            record(path, input_ids=[0], layers=[0, layer])


def test_the_most_heads_that_a_file_names(tmp_path: Path) -> None:
    q = np.ones((8001, 1, 1), np.float32)
    with record(tmp_path / "run.h5", input_ids=[0], heads=range(8000), check=False) as rec:
        rec.attention(0, q, q)
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["models/model/layers/00"].attrs["recorded_heads"].tolist() == list(range(8000))
    with pytest.raises(FoxscopeError, match=r"^heads: expected at most 8000 numbers, got 8001"):
        record(tmp_path / "more.h5", input_ids=[0], heads=range(8001))


@pytest.mark.parametrize("by", ["name", "link"])
def test_what_is_no_regular_file_is_not_replaced(by: str, tmp_path: Path) -> None:
    """As on the command line. A pipe stands for devices, which only root makes."""
    path = tmp_path / "run.h5"
    os.mkfifo(tmp_path / "pipe" if by == "link" else path)
    if by == "link":
        path.symlink_to("pipe")
    before = os.stat(path)
    for overwrite in (False, True):
        with (
            pytest.raises(FoxscopeError, match=r"run.h5: is not a regular file and cannot be replaced: write to another name"),
            record(path, input_ids=[0] * LENGTH, overwrite=overwrite) as rec,
        ):
            rec.attention(0, Q, K)
    assert os.stat(path) == before


def test_an_existing_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_text("mine")
    path.chmod(0o640)
    with pytest.raises(ZeroDivisionError), record(path, input_ids=list(range(LENGTH)), overwrite=True) as rec:
        rec.attention(0, Q, K)
        raise ZeroDivisionError
    assert path.read_text() == "mine"
    with record(path, input_ids=list(range(LENGTH)), overwrite=True) as rec:
        rec.attention(0, Q, K)
        assert path.read_text() == "mine" and os.listdir(tmp_path) == ["run.h5"]
    check_file(path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with (
        pytest.raises(FoxscopeError, match=r"was made by another program meanwhile"),
        record(path, input_ids=list(range(LENGTH))) as rec,
    ):
        rec.attention(0, Q, K)
        path.write_text("theirs")
    assert path.read_text() == "theirs" and os.listdir(tmp_path) == ["run.h5"]


def test_file_systems_that_know_no_files_without_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a hidden name stands beside the file until it is whole, also where there are no hard links."""
    own = os.open

    def without(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no such files")
        return own(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", without)
    path = tmp_path / "run.h5"
    for n in range(3):
        with record(path, input_ids=list(range(LENGTH)), overwrite=n == 1) as rec:
            rec.attention(0, Q, K)
            assert any(name.startswith(".run.h5.") for name in os.listdir(tmp_path))
        assert os.listdir(tmp_path) == ["run.h5"]
        check_file(path)
        if n == 1:
            path.unlink()
            monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EPERM, "no links")))
    with pytest.raises(ZeroDivisionError), record(path, input_ids=list(range(LENGTH)), overwrite=True) as rec:
        rec.attention(0, Q, K)
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["run.h5"]


def test_calls_outside_of_the_block(tmp_path: Path) -> None:
    rec = record(tmp_path / "run.h5", input_ids=list(range(LENGTH)))
    with pytest.raises(FoxscopeError, match=r"is not open: use it as `with foxscope.record"):
        rec.attention(0, Q, K)
    with rec:
        rec.attention(0, Q, K)
    with pytest.raises(FoxscopeError, match=r"a recording is used once"), rec:
        pass
    with pytest.raises(FoxscopeError, match=r"the recording is closed"):
        rec.attention(1, Q, K)


SCRIPT = """
import os, resource, signal, sys, time, numpy
from foxscope.errors import FoxscopeError
from foxscope.recording import record
q, k = numpy.ones((2, 4, 2000, 32), numpy.float32)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """Of the file, and of what a continuation puts beside it."""
    for kind, rows in (("whole", 2000), ("continued", 1000)):
        code = SCRIPT + (
            f"limit = {1_500_000 if kind == 'whole' else 2_400_000}\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
            "try:\n"
            f"    with record(sys.argv[1], input_ids=[0] * 2000) as rec:\n"
            f"        rec.attention(0, q[:, :{rows}], k[:, :{rows}])\n"
            f"        rec.attention(1, q[:, :{rows}], k[:, :{rows}])\n"
            f"        for layer in range(2 if {rows} < 2000 else 0):\n"
            f"            rec.attention(layer, q[:, {rows}:], k)\n"
            "except FoxscopeError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, tmp_path / "run.h5"], capture_output=True, text=True, check=True)
        assert "run.h5: could not be written (File too large): make room" in done.stdout, done.stderr
        assert done.stdout.count("\n") == 1 and not done.stderr
        assert nothing_left(tmp_path)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process(by: signal.Signals, tmp_path: Path) -> None:
    code = SCRIPT + (
        "with record(sys.argv[1], input_ids=[0] * 2000) as rec:\n"
        "    rec.attention(0, q, k)\n"
        "    print('here', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "run.h5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None and process.stdout.readline() == b"here\n"
    process.send_signal(by)
    process.wait()
    process.stdout.close()
    assert process.returncode != 0
    assert nothing_left(tmp_path)


def test_tensors_on_several_devices_and_on_none(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    from foxscope.recording.call import Call, checked

    class Elsewhere(torch.Tensor):  # type: ignore[misc,name-defined]
        device = torch.device("cuda:1")

    q, k = torch.tensor(Q), torch.tensor(K)
    with pytest.raises(
        FoxscopeError, match=r"layer 0: the tensors of a layer lie on several devices \(q on cpu, k on cuda:1\)"
    ):
        checked(Call("attention", q, k.as_subclass(Elsewhere)), "layer 0")
    with pytest.raises(FoxscopeError, match=r"layer 0: q has no numbers"), record(tmp_path / "run.h5", input_ids=[1]) as rec:
        rec.attention(0, torch.empty(1, 1, 4, device="meta"), torch.ones(1, 1, 4))
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("end", ["os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("names", ["none", "hidden"])
def test_a_process_that_is_forked_within_the_block(end: str, names: str, tmp_path: Path) -> None:
    """It records nothing and leaves the block; the file is its parent's, as without it, continuations included."""
    code = SCRIPT + (
        "import foxscope.atomic_file as files\n"
        f"if {names == 'hidden'}: files.hasattr = lambda *_: False\n"
        "q, k = numpy.random.default_rng(0).standard_normal((2, *q.shape))\n"
        "for path, forks in zip(sys.argv[1:], (False, True)):\n"
        "    child = None\n"
        "    with record(path, input_ids=[0] * 2000) as rec:\n"
        "        rec.attention(0, q[:, :900], k[:, :900])\n"
        "        rec.attention(1, q[:, :900], k[:, :900])\n"
        "        rec.attention(0, q[:, 900:1300], k[:, :1300])\n"
        "        child = os.fork() if forks else None\n"
        "        rec.attention(1, q[:, 900:1300] * (1 + (child == 0)), k[:, :1300])\n"
        "        if child == 0:\n"
        "            rec.attention(7, q, k)\n"
        "            rec.logits(numpy.zeros((2000, 5)))\n"
        "            assert rec.summary().count('900 positions') == 1\n"
        "        elif child is not None:\n"
        "            assert os.waitpid(child, 0)[1] == 0 and not os.path.exists(path)\n"
        "        for layer in range(2 * (child != 0)):\n"
        "            rec.attention(layer, q[:, 1300:], k)\n"
        "    if child == 0:\n"
        f"        {end}\n"
    )
    paths = [tmp_path / "alone.h5", tmp_path / "forked.h5"]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    alone, forked = map(arrays_of, paths)
    assert alone.keys() == forked.keys()
    assert all(np.array_equal(alone[name], forked[name]) for name in alone)
    assert sorted(os.listdir(tmp_path)) == ["alone.h5", "forked.h5"]


@pytest.mark.parametrize("imports", ["numpy", "torch"])
def test_a_recording_that_nobody_closes(imports: str, tmp_path: Path) -> None:
    """One line says that there is no file, also where a forked process ends first."""
    if imports == "torch":
        pytest.importorskip("torch", exc_type=ImportError)
    code = SCRIPT + (
        f"import {imports}\n"
        "rec = record(sys.argv[1], input_ids=[0] * 2000)\n"
        "rec.__enter__()\n"
        "rec.attention(0, q, k)\n"
        "if child := os.fork():\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run.h5"], capture_output=True, text=True, check=True)
    line = f"{tmp_path / 'run.h5'}: the recording was never closed, and nothing is written: use it as `with foxscope.record"
    assert done.stderr.count(line) == 1 and "rror" not in done.stderr
    assert nothing_left(tmp_path)
