"""Maps, lines and differences: those of `foxscope map`, to the last bit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MODELS, foxscope_command

import foxscope
from foxscope import FoxscopeError, Run


@pytest.fixture(scope="module")
def run(run_path: Path) -> Iterator[Run]:
    with foxscope.open(run_path) as opened:
        yield opened


def program_map(path: Path, head: str, quantity: str, folder: Path, *options: str) -> Any:
    """What `foxscope map` writes."""
    output = folder / "map.npy"
    foxscope_command("map", path, "--head", head, "--quantity", quantity, "-o", output, "--force", "-q", *options)
    return np.load(output)


def same_bits(found: Any, wanted: Any) -> bool:
    return found.dtype == wanted.dtype == np.float32 and np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


ALL = ["forget", "log_forget", "logits", "attention", "attention_without_gate", "gate_effect", "mixing"]


@pytest.mark.parametrize("quantity", ALL)
def test_exact_entries(run: Run, run_path: Path, tmp_path: Path, quantity: str) -> None:
    whole = program_map(run_path, "3:1", quantity, tmp_path, "--model", "fox")
    entries = run["fox"].head(3, 1).map(quantity)
    assert entries.shape == whole.shape
    assert same_bits(np.asarray(entries), whole)
    assert same_bits(entries[100:150, 90:160], np.ascontiguousarray(whole[100:150, 90:160]))
    assert same_bits(entries[-20:, 5], np.ascontiguousarray(whole[-20:, 5]))
    assert same_bits(entries[60], whole[60])
    assert entries[70, 30] == whole[70, 30]
    assert np.isnan(entries[30, 70])


def test_slices_are_those_of_numpy(run: Run) -> None:
    entries = run["fox"].head(2, 0).forget
    whole = np.asarray(entries)
    for index in [
        (slice(10, 90, 7), slice(None)), (slice(90, 10, -3), slice(5, 40)), (slice(-5, None), slice(None, None, 50)),
        (np.int64(40), slice(3, 9)), (slice(5, 5), slice(2, 9)), (slice(20, 4), 3), (slice(0, 10**9), 0),
    ]:  # fmt: skip
        found = entries[index]
        assert found.shape == whole[index].shape
        assert np.array_equal(found, whole[index], equal_nan=True)


@pytest.mark.parametrize("reduction", ["max", "mean", "min", "absmax"])
def test_pooled_maps(run: Run, run_path: Path, tmp_path: Path, reduction: str) -> None:
    options = ("--model", "fox", "--size", "31x17", "--rows", "40:200", "--cols", "10:180", "--reduce", reduction)
    wanted = program_map(run_path, "5:2", "attention", tmp_path, *options)
    pooled = run["fox"].head(5, 2).attention.pooled((31, 17), reduction, rows=(40, 200), columns=slice(10, 180))
    assert same_bits(pooled.values, wanted)
    exact = np.asarray(run["fox"].head(5, 2).attention)
    for row, column in [(0, 0), (13, 5), (30, 16), (20, 12)]:
        queries = slice(*pooled.query_edges[row : row + 2])
        pixel = exact[queries, slice(*pooled.key_edges[column : column + 2])]
        pixel = pixel[~np.isnan(pixel)]
        if reduction != "mean" and pixel.size:
            assert pooled.values[row, column] == {"max": np.max, "min": np.min, "absmax": np.max}[reduction](pixel)


@pytest.mark.parametrize("quantity", ALL)
def test_the_default_reduction_is_the_commands(run: Run, run_path: Path, tmp_path: Path, quantity: str) -> None:
    wanted = program_map(run_path, "1:3", quantity, tmp_path, "--model", "fox", "--size", "20x20")
    assert same_bits(run["fox"].head(1, 3).map(quantity).pooled(20).values, wanted)


def test_a_side_with_fewer_positions_than_pixels_has_one_for_each(run: Run) -> None:
    pooled = run["fox"].head(0, 0).forget.pooled(1024, rows=(30, 40), columns=(0, 40))
    assert pooled.shape == (10, 40)
    assert pooled.exact
    assert pooled.query_edges.tolist() == list(range(30, 41))


def test_differences_between_models(run: Run, run_path: Path, tmp_path: Path) -> None:
    options = ("--model", "fox", "--minus", "transformer:2:1")
    difference = run["fox"].head(3, 0).attention - run["transformer"].head(2, 1).attention
    assert same_bits(np.asarray(difference), program_map(run_path, "3:0", "attention", tmp_path, *options))
    wanted = program_map(run_path, "3:0", "attention", tmp_path, *options, "--size", "16x16")
    assert same_bits(difference.pooled(16).values, wanted)
    assert np.array_equal(difference.row(77), np.asarray(difference)[77], equal_nan=True)


def test_lines_are_rows_columns_and_diagonals_of_the_map(run: Run) -> None:
    for entries in [run["fox"].head(4, 1).attention, run["fox"].head(4, 1).map("gate_effect", without_first=True)]:
        whole = np.asarray(entries)
        assert np.allclose(entries.row(90), whole[90], rtol=1e-6, atol=1e-12, equal_nan=True)
        assert np.allclose(entries.column(17), whole[:, 17], rtol=1e-6, atol=1e-12, equal_nan=True)
        diagonal = np.concatenate([np.full(9, np.nan), np.diagonal(whole, -9)])
        assert np.allclose(entries.diagonal(9), diagonal, rtol=1e-6, atol=1e-12, equal_nan=True)


def test_key_0_can_be_left_out(run: Run, run_path: Path, tmp_path: Path) -> None:
    wanted = program_map(run_path, "2:2", "attention", tmp_path, "--model", "fox", "--without-first", "--size", "50x50")
    entries = run["fox"].head(2, 2).map("attention", without_first=True)
    assert same_bits(entries.pooled(50).values, wanted)
    assert np.isnan(entries[:, 0]).all()


def test_channels_of_linear_mixers(fixture_run: Callable[..., Path], tmp_path: Path) -> None:
    path = fixture_run("gla")
    with foxscope.open(path) as run:
        head = run[0].head(1, 0)
        wanted = program_map(path, "1:0", "forget", tmp_path, "--channel", "2")
        entries = head.map("forget", channel=2)
        assert same_bits(np.asarray(entries), wanted)
        assert np.array_equal(entries.row(50), wanted[50], equal_nan=True)
        assert np.array_equal(entries.column(50), wanted[:, 50], equal_nan=True)
        assert same_bits(np.asarray(head.forget), program_map(path, "1:0", "forget", tmp_path))
        assert same_bits(np.asarray(head.mixing), program_map(path, "1:0", "mixing", tmp_path))
        sums = head.cumulative_log_decay
        assert np.isclose(head.log_forget.sum(), sums[-1].mean(), rtol=1e-12)
        assert np.isclose(head.decay_time, -1 / head.log_forget[1:].mean(), rtol=1e-9)


def test_a_large_slice_comes_in_bands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = run["fox"].head(3, 2).attention
    whole = np.asarray(entries)
    monkeypatch.setattr("foxscope.entries._MOST_ENTRIES", 1000)
    assert np.array_equal(entries[50:160, 20:150], whole[50:160, 20:150], equal_nan=True)


@pytest.mark.parametrize("most", [1 << 24, 1000, 1])
@pytest.mark.parametrize("request_costs", [0, 4096])
def test_what_lies_between_far_positions_is_not_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, most: int, request_costs: int
) -> None:
    entries = run["fox"].head(3, 2).attention
    whole = np.asarray(entries)
    computed: list[int] = []
    asked = entries._pixels

    def pixels(rows: Any, columns: Any, size: tuple[int, int], out: Any) -> None:
        computed.append(size[0] * size[1])
        asked(rows, columns, size, out)

    monkeypatch.setattr(entries, "_pixels", pixels)
    monkeypatch.setattr("foxscope.entries._MOST_ENTRIES", most)
    monkeypatch.setattr("foxscope.entries._REQUEST", request_costs)
    every, length = slice(None), len(entries)
    for index, at_most in [
        ((slice(3, None, 70), every), 5 * length), ((every, slice(None, None, -70)), 5 * length),
        ((slice(None, None, 70), slice(5, None, 100)), 4 * length), ((slice(200, 100, -3), slice(20, 90, 2)), 98 * 69),
        ((slice(0, 9, 2), slice(0, 9, -1)), 0), ((slice(None, None, 10**6), 0), 1),
    ]:  # fmt: skip
        computed.clear()
        assert np.array_equal(entries[index], whole[index], equal_nan=True)
        if request_costs == 0:
            assert sum(computed) <= at_most
        assert all(count <= max(most, length) for count in computed)


def test_more_entries_than_memory_are_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = run["fox"].head(0, 0).forget
    monkeypatch.setattr(type(entries), "shape", (10**8, 10**8))
    for ask in [lambda: entries[:, :], lambda: entries.pooled(10**8)]:
        with pytest.raises(
            FoxscopeError, match=r"100000000 x 100000000 entries take 40000000\.0 GB.* no memory: take a smaller"
        ):
            ask()


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("use one of forget", lambda head: head.map("forgetting")),
        ("take a position or a slice", lambda head: head.forget[[1, 2]]),
        ("query: take a position, not slice", lambda head: head.forget.row(slice(3))),
        ("size: take a whole number, not float", lambda head: head.forget.pooled(16.0)),
        ("rows: take a whole number, not float", lambda head: head.forget.pooled(16, rows=(0, 9.5))),
        ("channel: take a whole number, not str", lambda head: head.map("forget", channel="x")),
        ("query: slice step cannot be zero", lambda head: head.forget[::0]),
        ("key: slice indices must be integers", lambda head: head.forget[3, 1.5:]),
        ("map takes positions one by one", lambda head: head.forget.pooled(8, rows=slice(0, 10, 2))),
        ("reduction", lambda head: head.forget.pooled(8, "median")),
        ("must be from 1x1", lambda head: head.forget.pooled(0)),
        ("must be from 1x1", lambda head: head.forget.pooled((-3, 5))),
        ("rows|queries", lambda head: head.forget.pooled(8, rows=(5, 2))),
        ("keys|columns", lambda head: head.forget.pooled(8, columns=(0, 10**7))),
        ("subtract maps of one quantity", lambda head: head.forget - head.attention),
        ("difference of differences", lambda head: (head.forget - head.forget) - head.forget),
        ("key 0 can be left out of attention only", lambda head: head.map("forget", without_first=True).pooled(8)),
        ("channel", lambda head: head.map("forget", channel=3)[5]),
        ("take rows or a slice", lambda head: head.map("forget", channel=3).diagonal(1)),
    ],
)
def test_bad_input_is_one_line(run: Run, words: str, make: Callable[[Any], Any]) -> None:
    with pytest.raises(FoxscopeError, match=words) as error:
        make(run["fox"].head(0, 0))
    assert "\n" not in str(error.value)


def test_positions_outside_are_an_index_error(run: Run) -> None:
    entries = run["fox"].head(0, 0).forget
    for index in [(len(entries), 0), (0, -len(entries) - 1), (0, 0, 0)]:
        with pytest.raises(IndexError):
            entries[index]
    with pytest.raises(IndexError):
        entries.row(10**6)


def test_a_whole_map_of_a_long_text_is_not_made_by_accident(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foxscope.entries._MOST_WHOLE", 100)
    with pytest.raises(FoxscopeError, match=r"take a slice, or \.pooled"):
        np.asarray(run["fox"].head(0, 0).forget)


def run_of(folder: Path, name: str, text: str, *options: str) -> Run:
    file = folder / f"{name}.txt"
    file.write_text(text)
    foxscope_command("run", "--model", MODELS / "fox-pro-12m", "--text", file, "-o", folder / f"{name}.h5", *options)
    return foxscope.open(folder / f"{name}.h5")


def test_differences_are_of_one_text(tmp_path: Path) -> None:
    fox = "The fox ran over the hill, and nobody saw the fox."
    with (
        run_of(tmp_path, "fox", fox) as first,
        run_of(tmp_path, "again", fox) as again,
        run_of(tmp_path, "hen", fox.replace("over", "under")) as other,
        run_of(tmp_path, "short", fox[:20]) as short,
        run_of(tmp_path, "bos", fox, "--bos", "7") as bos,
    ):
        entries = first[0].head(0, 0).attention
        same = np.asarray(entries - again[0].head(0, 0).attention)
        assert np.nanmax(np.abs(same)) == 0
        message = r"'fox-pro-12m' of .*fox.h5 and .* read different tokens \(the first that differs is at position \d+\)"
        with pytest.raises(FoxscopeError, match=message):
            entries - other[0].head(0, 0).attention
        with pytest.raises(FoxscopeError, match=r"read different tokens \(\d+ and \d+ positions\)"):
            entries - short[0].head(0, 0).attention
        with pytest.warns(UserWarning, match="read the same but for position 0, which is 0 and 7"):
            assert (entries - bos[0].head(0, 0).attention).shape == entries.shape
