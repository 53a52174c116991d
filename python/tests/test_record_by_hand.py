"""rec.attention and rec.mixer on numpy arrays, without torch."""

import re
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recording_support import DATA, PROGRAM, Array, assert_maps, check_file, dense_attention, map_of, mixing_of, program

import foxscope
from foxscope.errors import FoxscopeError
from foxscope.recording import record

LENGTH = 90
IDS = list(range(LENGTH))


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def log_gates(*shape: int) -> Array:
    return -np.logaddexp(0, -np.random.default_rng(5).normal(3, 1, shape))


def test_attention_with_everything_that_a_run_file_holds(tmp_path: Path) -> None:
    q, k, v = arrays((4, LENGTH, 8), (2, LENGTH, 8), (2, LENGTH, 8))
    log_f, sinks = log_gates(4, LENGTH), np.array([0.5, -1.0, 2.0, 0.0])
    options: dict[str, Any] = {"scale": 0.6, "window": 30, "softcap": 2.5, "sinks": sinks}
    expected = dense_attention(q.astype(float), k.astype(float), log_f, **options)
    output = expected @ np.repeat(v, 2, axis=0)
    with record(tmp_path / "run.h5", input_ids=IDS) as rec:
        rec.attention(0, q, k, v, log_f, output=output, **options)
        rec.attention(1, q, k, v, log_f, output=output, **options)
    assert rec.summary().count("68 rows checked") == 2
    check_file(tmp_path / "run.h5")
    assert_maps(tmp_path / "run.h5", 1, expected)


def test_layers_with_scales_windows_and_widths_of_their_own(tmp_path: Path) -> None:
    """Queries take the difference of scales; values that are wider than keys widen keys with zeros."""
    kinds = [(8, 8, 0.3, 0), (8, 8, 0.7, 40), (4, 10, 0.5, 0), (8, 6, 0.3, 0)]
    expected = []
    with record(tmp_path / "run.h5", input_ids=IDS) as rec:
        for n, (d, d_v, scale, window) in enumerate(kinds):
            q, k, v = arrays((2, LENGTH, d), (2, LENGTH, d), (2, LENGTH, d_v), seed=n)
            expected.append(dense_attention(q.astype(float), k.astype(float), scale=scale, window=window))
            rec.attention(n, q, k, v, scale=scale, window=window or None, output=expected[-1] @ v)
    check_file(tmp_path / "run.h5")
    for n, maps in enumerate(expected):
        assert_maps(tmp_path / "run.h5", n, maps)
    lines = rec.summary().splitlines()
    assert "2 heads of 8, 90 positions" in lines[0]
    assert "2 heads of 4 with values of 10, queries and keys padded to 10, 90 positions" in lines[2]
    assert "2 heads of 8 with values of 6, values padded to 8, 90 positions" in lines[3]
    with foxscope.open(tmp_path / "run.h5") as run:
        wide, narrow = run[0].head(2, 0), run[0].head(3, 0)
        assert wide.query.shape == wide.key.shape == (LENGTH, 10) and wide.query[:, :4].all()
        assert not wide.query[:, 4:].any() and not wide.key[:, 4:].any()
        assert narrow.value.shape == (LENGTH, 8) and narrow.value[:, :6].all() and not narrow.value[:, 6:].any()


@pytest.mark.parametrize("mixer", ["mamba2", "gated_linear_attention", "delta_rule", "kimi"])
def test_linear_mixers(mixer: str, tmp_path: Path) -> None:
    """Two heads of values to one of queries and keys, as the kernels have them."""
    key_heads = 2 if mixer in ("gated_linear_attention", "kimi") else 1
    q, k, v = arrays((key_heads, LENGTH, 6), (key_heads, LENGTH, 6), (2, LENGTH, 5))
    k /= np.linalg.norm(k, axis=2, keepdims=True)
    channels = (6,) if key_heads == 2 else ()
    decay = log_gates(2, LENGTH, *channels)
    beta = (
        None if mixer == "gated_linear_attention" else np.random.default_rng(1).uniform(0.1, 1, (2, LENGTH)).astype(np.float32)
    )
    erases = mixer in ("delta_rule", "kimi")
    expected = np.array(
        [
            mixing_of(
                0.5 * q[h % key_heads].astype(float),
                k[h % key_heads].astype(float),
                decay[h],
                None if beta is None else beta[h],
                erases,
            )
            for h in range(2)
        ]
    )
    name = "delta_rule" if mixer == "kimi" else mixer
    with record(tmp_path / "run.h5", input_ids=IDS) as rec:
        rec.mixer(0, name, q, k, v, decay, beta, scale=0.5, output=expected @ v)
    assert "64 rows checked" in rec.summary()
    check_file(tmp_path / "run.h5")
    assert_maps(tmp_path / "run.h5", 0, expected, "mixing")


def test_mamba_and_diagonal_plus_low_rank(tmp_path: Path) -> None:
    """S_t = (Diag(a_t) + b_t e_t^T) S_(t-1) + k_t v_t^T of RWKV-7, and channels that decay by rates of Mamba."""
    q, k, v, e, b = arrays((1, LENGTH, 4), (1, LENGTH, 4), (1, LENGTH, 3), (1, LENGTH, 4), (1, LENGTH, 4))
    e, b, decay = 0.2 * e, 0.2 * b, log_gates(1, LENGTH, 4)
    state, low_rank = np.zeros((4, 3)), np.zeros((1, LENGTH, 3))
    for t in range(LENGTH):
        state = np.exp(decay[0, t])[:, None] * state + np.outer(b[0, t], e[0, t] @ state) + np.outer(k[0, t], v[0, t])
        low_rank[0, t] = q[0, t] @ state
    rates, steps = np.array([[0.5, 1.5, 0.8, 1.2]]), log_gates(1, LENGTH)
    dt = np.random.default_rng(2).uniform(0.1, 1, (1, LENGTH)).astype(np.float32)
    mamba = mixing_of(q[0].astype(float), k[0].astype(float), steps[0][:, None] * rates, dt[0], False)
    with record(tmp_path / "run.h5", input_ids=IDS) as rec:
        rec.mixer(0, "diagonal_plus_low_rank", q, k, v, decay, erase_read=e, erase_write=b, output=low_rank)
        rec.mixer(1, "mamba", q, k, v, steps, dt, decay_rate=rates, output=(mamba @ v[0])[None])
    check_file(tmp_path / "run.h5")
    rows = map_of(tmp_path / "run.h5", 0, 0, "mixing")
    assert np.abs(rows @ v[0] - low_rank[0]).max() < 1e-4
    assert_maps(tmp_path / "run.h5", 1, mamba[None], "mixing")


def test_delta_product(tmp_path: Path) -> None:
    """Each step of a position is a head, and y is the sum over steps of M v."""
    q, k, v = arrays((1, LENGTH, 4), (2, LENGTH, 4), (2, LENGTH, 3))
    k /= np.linalg.norm(k, axis=2, keepdims=True)
    beta, decay = np.full((2, LENGTH), 0.7, np.float32), np.repeat(log_gates(1, LENGTH), 2, axis=0)
    state, output = np.zeros((4, 3)), np.zeros((1, LENGTH, 3))
    for t in range(LENGTH):
        state = np.exp(decay[0, t]) * state
        for step in range(2):
            state = state + 0.7 * np.outer(k[step, t], v[step, t] - k[step, t] @ state)
        output[0, t] = q[0, t] @ state
    with record(tmp_path / "run.h5", input_ids=IDS) as rec:
        rec.mixer(0, "delta_product", q, k, v, decay, beta, output=output)
    check_file(tmp_path / "run.h5")
    found = sum(map_of(tmp_path / "run.h5", 0, step, "mixing") @ v[step] for step in range(2))
    assert np.abs(found - output[0]).max() < 1e-4


def test_layers_and_heads_that_are_kept(tmp_path: Path) -> None:
    """Heads 3 and 0 of four, of layer 2 alone; head 3 reads key head 1. The others stay layers of the model."""
    with record(tmp_path / "run.h5", input_ids=IDS, layers=[2], heads=[3, 0]) as rec:
        for n in range(4):
            q, k, v = arrays((4, LENGTH, 8), (2, LENGTH, 8), (2, LENGTH, 8), seed=n)
            log_f = log_gates(4, LENGTH)
            maps = dense_attention(q.astype(float), k.astype(float), log_f)
            rec.attention(n, q, k, v, log_f, output=maps @ np.repeat(v, 2, axis=0))
            expected = maps[[3, 0]] if n == 2 else expected if n > 2 else None  # noqa: F821
    check_file(tmp_path / "run.h5")
    assert_maps(tmp_path / "run.h5", 2, expected)
    with h5py.File(tmp_path / "run.h5") as file:
        assert list(file["models/model"].attrs["mixers"]) == ["none", "none", "attention", "none"]
        assert list(file["models/model/layers/02"].attrs["recorded_heads"]) == [3, 0]
    said = program("info", tmp_path / "run.h5")
    assert "layers 0-1 not recorded, 2 forgetting attention, 3 not recorded" in said and "gate       forget gate\n" in said


@pytest.mark.parametrize("keep", ["gates", "loss,gates", "qk", ["gates", "qk"], "gates,qk,values,logits"])
def test_words_of_keep(keep: Any, tmp_path: Path) -> None:
    q, k, v, logits = arrays((2, LENGTH, 8), (2, LENGTH, 8), (2, LENGTH, 8), (LENGTH, 100))
    with record(tmp_path / "run.h5", input_ids=IDS, keep=keep) as rec:
        rec.attention(0, q, k, v, log_gates(2, LENGTH))
        rec.mixer(1, "delta_rule", q, k, v, None, np.ones((2, LENGTH)))
        rec.logits(logits)
    with h5py.File(tmp_path / "run.h5") as file:
        found = set(file["models/model/layers/00"])
        assert ("loss" in file["models/model"]) == ("loss" in keep)
        assert ("logits" in file["models/model"]) == ("logits" in keep)
    names = {"gates": {"cumulative_log_gate"}, "qk": {"query", "key"}, "values": {"value"}}
    assert found == set().union(*(arrays for word, arrays in names.items() if word in keep))
    check_file(tmp_path / "run.h5")


def test_bfloat16_as_bits(tmp_path: Path) -> None:
    """Queries of bfloat16 that numpy holds in float32 are rounded to the nearest, ties to even."""
    q, k = arrays((2, LENGTH, 8), (2, LENGTH, 8))
    q[0, 0, :4] = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-8)]
    with record(tmp_path / "run.h5", input_ids=IDS, dtype="bfloat16") as rec:
        rec.attention(0, q, k)
    check_file(tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file:
        stored = file["models/model/layers/00/query"]
        assert stored.id.get_type().get_size() == 2
        assert list(stored[0, 0, :4]) == [1, 1 + 2**-6, 1 + 2**-7, -1]
        assert np.abs(stored[:] / q - 1).max() <= 2**-8


def test_values_of_several_formats(tmp_path: Path) -> None:
    """float16 and float64 become float32; a gate of 0, whose logarithm is minus infinity, cuts the past."""
    q, k = arrays((1, LENGTH, 8), (1, LENGTH, 8))
    log_f = log_gates(1, LENGTH)
    log_f[0, 50] = -np.inf
    with record(tmp_path / "run.h5", input_ids=np.array([IDS])) as rec:
        rec.attention(0, q.astype(np.float16)[None], k.astype(np.float64)[None], log_forget=log_f[None])
    check_file(tmp_path / "run.h5")
    entries = map_of(tmp_path / "run.h5", 0, 0)
    assert np.all(entries[50:, :50] == 0)
    assert np.abs(entries.sum(1) - 1).max() < 1e-4


def test_memory_is_that_of_a_layer(tmp_path: Path) -> None:
    """Eight layers go through less memory than the arrays of one take."""
    length = 3000
    q, k, v = arrays((4, length, 64), (4, length, 64), (4, length, 64))
    log_f = log_gates(4, length)
    with record(tmp_path / "run.h5", input_ids=[0] * length) as rec:
        tracemalloc.start()
        for n in range(8):
            rec.attention(n, q, k, v, log_f)
        rec.logits(np.zeros((length, 4), np.float32))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < q.nbytes + k.nbytes + v.nbytes
    assert (tmp_path / "run.h5").stat().st_size > 8 * q.nbytes


TEXT = "Zwei Füchse 🦊 laufen über das Feld, und niemand sieht es."


def tokenized() -> tuple[list[int], list[tuple[int, int]]]:
    """A token a word, with the blank before it; the fox is two tokens of half a character each."""
    ids, places, at = [1], [(0, 0)], 0
    for n, word in enumerate(TEXT.split(" ")):
        end = at + len(word) + (at > 0)
        double = "🦊" in word
        ids += [n + 2] * (2 if double else 1)
        places += [(at, end)] * (2 if double else 1)
        at = end
    return ids, places


def test_places_of_tokens_in_bytes(tmp_path: Path) -> None:
    ids, places = tokenized()
    count = 8
    with record(tmp_path / "run.h5", input_ids=ids[:count], text=TEXT, offsets=places[:count]) as rec:
        q, k = arrays((1, count, 4), (1, count, 4))
        rec.attention(0, q, k)
    assert "note" not in program("check", tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file:
        tokens = file["models/model/tokens"]
        content = file["text/content"].asstr()[()]
        strings = [bytes(text).decode() for text in tokens["string"][:]]
        starts, ends = tokens["byte_start"][:], tokens["byte_end"][:]
        assert file["text/content"].attrs["unread_bytes"] == len(TEXT.encode()) - len(content.encode())
        assert list(tokens["input_id"][:]) == ids[:count] and list(tokens["id"][:]) == [*ids[1:count], -1]
    assert strings[:5] == ["Zwei", " Füchse", "\ufffd", "\ufffd", " laufen"]
    whole = content.encode()
    assert [whole[a:b].decode() for a, b in zip(starts[:2], ends[:2], strict=True)] == ["Zwei", " Füchse"]
    assert whole[starts[2] : ends[3]].decode() == " 🦊"


def test_a_text_without_bos_begins_behind_the_first_token(tmp_path: Path) -> None:
    ids, places = tokenized()
    with record(tmp_path / "run.h5", input_ids=ids[1:], text=TEXT, offsets=places[1:]) as rec:
        q, k = arrays((1, len(ids) - 1, 4), (1, len(ids) - 1, 4))
        rec.attention(0, q, k)
    check_file(tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["text/content"].asstr()[()] == TEXT.removeprefix("Zwei")
    assert first_token(tmp_path / "run.h5") == ("0 Zwei", "Zwei")


def first_token(path: Path) -> tuple[str, str]:
    """What the command line and Python say that position 0 reads."""
    table = path.with_suffix(".csv")
    program("map", path, "--head", "0:0", "--quantity", "logits", "-o", table)
    with foxscope.open(path) as run:
        return table.read_text().split(",")[1], run[0].tokens.read_strings[0]


class Words:
    """A tokenizer of words, as transformers has them, that may have a BOS."""

    def __init__(self, bos: int | None) -> None:
        self.bos_token_id = bos

    def decode(self, ids: list[int]) -> str:
        return f"word{ids[0]}"


def test_what_position_0_reads(tmp_path: Path) -> None:
    """BOS is what the tokenizer says, and nothing else."""
    cases = [(Words(5), "⟨BOS⟩"), (Words(6), "word5"), (Words(None), "word5"), (None, "⟨5⟩")]
    for n, (tokenizer, expected) in enumerate(cases):
        path = tmp_path / f"{n}.h5"
        with record(path, input_ids=[5, 6, 7], tokenizer=tokenizer, check=False) as rec:
            rec.attention(0, *arrays((1, 3, 4), (1, 3, 4)))
        check_file(path)
        assert first_token(path) == (f"0 {expected}", expected)


def test_what_could_not_be_checked_is_said(tmp_path: Path) -> None:
    q, k = arrays((1, 3, 4), (1, 3, 4))
    warning = "layer 0 and 1 more could not be checked, as its output was not given: pass v= and output="
    with pytest.warns(UserWarning, match=warning), record(tmp_path / "run.h5", input_ids=[1, 2, 3]) as rec:
        rec.attention(0, q, k)
        rec.attention(1, q, k)
    assert rec.summary().count("not checked, as its output was not given") == 2
    with warnings.catch_warnings(action="error"), record(tmp_path / "off.h5", input_ids=[1, 2, 3], check=False) as rec:
        rec.attention(0, q, k)
    assert "not checked, as check=False says" in rec.summary()


def test_nothing_needs_torch(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; from foxscope.recording import record\n"
        f"with record({str(tmp_path / 'run.h5')!r}, input_ids=[1, 2, 3]) as rec:\n"
        "    rec.attention(0, *numpy.ones((2, 1, 3, 4), numpy.float32))\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    check_file(tmp_path / "run.h5")


def refused(*words: object) -> str:
    """The last line of a command that fails."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=False, text=True)
    assert done.returncode != 0, done.stdout
    return done.stderr.splitlines()[-1]


def record_ids(path: Path, ids: list[int], name: str = "mine", keep: str = "loss,gates,qk,values") -> None:
    q, k = arrays((2, len(ids) - 1, 8), (2, len(ids) - 1, 8))
    with record(path, name=name, input_ids=ids, keep=keep, check=False) as rec:
        rec.attention(0, q, k, log_forget=log_gates(2, len(ids) - 1))
        rec.logits(np.zeros((len(ids) - 1, 100), np.float32))


def test_a_recording_without_bos_beside_a_run_of_the_program(tmp_path: Path) -> None:
    ids = [7, 8, 9, 3, 5, 4, 6, 2, 1, 9, 9, 4]
    (tmp_path / "ids.json").write_text(str(ids))
    fox, mine, right = (tmp_path / f"{name}.h5" for name in ("fox", "mine", "right"))
    program("run", "--model", f"fox={DATA / 'fox-pro'}", "--ids", tmp_path / "ids.json", "-o", fox)
    record_ids(mine, ids)
    with foxscope.open(fox) as run:
        read = [*run["fox"].tokens.input_ids.tolist(), int(run["fox"].tokens.ids[-1])]
        record_ids(right, read)
        with (
            foxscope.open(mine) as other,
            pytest.raises(FoxscopeError, match=f"'fox' begins with token {read[0]}, as BOS") as error,
        ):
            run["fox"].head(0, 0).attention - other["mine"].head(0, 0).attention
        assert "record on the tokens that the other read (docs/python-recording.md" in str(error.value)
    heads = ["--heads", "fox:0:0,mine:0:0"]
    for words in (["compare"], ["figure", "maps", *heads], ["figure", "compare"], ["figure", "comparison"]):
        output = [] if words == ["compare"] else ["-o", tmp_path / "x.svg", "--force"]
        said = refused(*words, fox, mine, *output)
        assert re.search(rf"'?fox'? begins with BOS \(token {read[0]}\), which '?mine'? does not read", said), said
        assert re.search(r"record '?mine'? again on the tokens that '?fox'? read \(docs/python-recording.md", said), said
        program(*words, fox, right, *output)
    assert "record both with the same input_ids" in refused("compare", f"a={mine}", f"b={right}")


def test_what_a_recording_cannot_do_is_not_advised(tmp_path: Path) -> None:
    path, whole = tmp_path / "run.h5", tmp_path / "logits.h5"
    record_ids(path, [7, 8, 9, 3, 5, 4, 6, 2], keep="loss,gates")
    record_ids(whole, [7, 8, 9, 3, 5, 4, 6, 2], keep="loss,gates,qk,values,logits")
    output = ["-o", tmp_path / "x.svg"]
    gradients = "a recorded run has no model here: take the gradients in Python (docs/python-recording.md, Saliency)"
    said = {
        gradients: (
            ["figure", "saliency", path, *output], ["heads", path, "--saliency"],
            ["heads", path, "--sort", "saliency_scale"],
        ),
        "record it again with 'logits' in keep=, and call rec.logits(...)": (["info", path, "--predictions", 5],),
        "record it again with 'qk' in keep=": (
            ["heads", path, "--split"], ["map", path, "--head", "0:0", "--quantity", "attention", *output],
        ),
    }  # fmt: skip
    for remedy, commands in said.items():
        for words in commands:
            line = refused(*words)
            assert remedy in line and "--keep" not in line, line
    assert "position  5" in program("info", whole, "--predictions", 5)
    without = tmp_path / "without.h5"
    record_ids(without, [7, 8, 9, 3], keep="qk")
    with foxscope.open(without) as run:
        with pytest.raises(FoxscopeError, match=r"losses were not kept: record it again, and call rec\.logits"):
            _ = run.losses
        with pytest.raises(FoxscopeError, match=r"gates of layer 0 were not kept: record it again with 'gates' in keep="):
            _ = run[0].head(0, 0).cumulative_log_gate
