"""What a run holds, against h5py and the commands of the program."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import MODELS, TEXT, foxscope_command
from numpy.typing import NDArray

import foxscope
from foxscope import FoxscopeError, Run


@pytest.fixture(scope="module")
def run(run_path: Path) -> Iterator[Run]:
    with foxscope.open(run_path) as opened:
        yield opened


def test_models_text_and_tokens(run: Run, run_path: Path) -> None:
    assert run.names == ["fox", "transformer"]
    assert run["fox"] is run[0]
    assert "fox" in run
    assert "mamba" not in run
    assert [model.name for model in run] == run.names
    assert run.text == TEXT
    with h5py.File(run_path) as file:
        group = file["models/fox/tokens"]
        tokens = run["fox"].tokens
        assert np.array_equal(tokens.ids, group["id"])
        assert np.array_equal(tokens.input_ids, group["input_id"])
        assert np.array_equal(tokens.byte_start, group["byte_start"])
        assert np.array_equal(tokens.byte_end, group["byte_end"])
        assert repr(tokens) == f"<{len(tokens.ids)} tokens: {str(tokens.strings[:4])[1:-1]}, ...>"
        assert tokens.strings == [string.decode() for string in group["string"]]
        assert run["fox"].config == json.loads(file["models/fox"].attrs["config"])
        assert run["fox"].config["architectures"] == ["ForgettingTransformerForCausalLM"]
        assert np.array_equal(run["fox"].loss, file["models/fox/loss/per_token_loss"])


def test_facts_of_a_model_are_values(run: Run, tmp_path: Path) -> None:
    """None is a place in a message, and a long config.json is beside them."""
    info = run["fox"].info
    assert (info["layers"], info["heads"], info["length"]) == (8, 4, run["fox"].length)
    assert not any(isinstance(value, dict) for value in info.values())
    assert "config" not in info
    path = tmp_path / "windows.h5"
    with h5py.File(path, "w") as file:
        file.attrs["foxscope_schema"] = 3
        group = file.create_group("models/windows")
        group.attrs["dtype"] = "float32"
        group["tokens/input_id"] = group["tokens/id"] = np.arange(20, dtype=np.int32)
        for layer, size in enumerate([7, 0]):
            group[f"layers/{layer:02}/cumulative_log_gate"] = np.zeros((1, 20))
            group[f"layers/{layer:02}"].attrs["window_size"] = size
    with foxscope.open(path) as windows:
        assert windows[0].info["window_sizes"].tolist() == [7, 0]


def test_losses_are_a_table(run: Run) -> None:
    table = run.losses
    assert list(table.columns) == ["token", "fox", "transformer"]
    assert table.index.name == "position"
    assert "".join(table["token"]) == TEXT
    assert np.array_equal(table["transformer"], run["transformer"].loss)
    assert list(run["fox"].losses.columns) == ["token", "loss"]


def test_every_array_of_the_file(run: Run, run_path: Path) -> None:
    """Also those that come through the agent: chunked ones here, all of them of a file on another machine."""
    with h5py.File(run_path) as file:
        for model in run:
            assert len(model.arrays) > 40
            for name in model.arrays:
                wanted = file[f"models/{model.name}/{name}"][()]
                found = model.array(name)
                assert found.dtype == wanted.dtype
                assert np.array_equal(found, wanted)
    query = run["fox"].array("layers/03/query")
    assert isinstance(query, np.memmap)
    assert not query.flags.writeable
    assert not isinstance(run["fox"].array("layers/03/cumulative_log_gate"), np.memmap)
    assert run["fox"].array("hidden_states/08").shape == (run["fox"].length, 256)


def test_heads_read_what_belongs_to_them(run: Run, run_path: Path) -> None:
    head = run["fox"].head(5, 2)
    with h5py.File(run_path) as file:
        layer = file["models/fox/layers/05"]
        for name in ("query", "key", "value"):
            assert np.array_equal(getattr(head, name), layer[name][2])
        sums = layer["cumulative_log_gate"][2]
    assert np.array_equal(head.cumulative_log_gate, sums)
    assert np.array_equal(head.log_forget, np.diff(sums, prepend=0.0))
    assert (head.log_forget <= 0).all()
    assert len(list(run["fox"])) == run["fox"].layers * run["fox"].heads_per_layer


def test_shared_keys(fixture_run: Callable[..., Path]) -> None:
    with foxscope.open(fixture_run("qwen3")) as run:
        model = run[0]
        heads, keys = model.info["heads"], model.info["key_heads"]
        assert heads > keys
        for head in range(heads):
            assert np.array_equal(model.head(0, head).key, model.array("layers/00/key")[head // (heads // keys)])


def bfloat16_dataset(group: h5py.Group, name: str, bits: NDArray[np.uint16]) -> None:
    """docs/files.md: an HDF5 float of 16 bits."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    dataset = h5py.h5d.create(group.id, name.encode(), kind, h5py.h5s.create_simple(bits.shape))
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, kind)


def test_bfloat16(tmp_path: Path) -> None:
    """Such queries and keys are read exactly; attention is that of what was read."""
    length, channels = 120, 16
    bits = np.random.default_rng(1).standard_normal((2, 1, length, channels)).astype(np.float32).view(np.uint32) >> 16
    query, key = bits.astype(np.uint16)
    path = tmp_path / "narrow.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("models/narrow")
        group.attrs["dtype"], group.attrs["softmax_scale"] = "bfloat16", 0.25
        group["tokens/input_id"] = group["tokens/id"] = np.arange(length, dtype=np.int32)
        layer = group.create_group("layers/00")
        bfloat16_dataset(layer, "query", query)
        bfloat16_dataset(layer, "key", key)
        layer["cumulative_log_gate"] = np.zeros((1, length))
    with foxscope.open(path) as run:
        head = run[0].head(0, 0)
        assert head.query.dtype == np.float32
        assert np.array_equal(head.query.view(np.uint32), query[0].astype(np.uint32) << 16)
        assert np.array_equal(run[0].array("layers/00/key")[0], head.key)
        logits = head.query.astype(float) @ head.key.T.astype(float) * 0.25
        wanted = np.tril(np.exp(logits))
        found = np.nan_to_num(np.asarray(head.attention))
        assert np.allclose(found, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"split": True, "by_class": True}, {"saliency": True}, {"match": "transformer"}])
def test_statistics_are_those_of_the_command(run: Run, run_path: Path, options: dict[str, bool | str]) -> None:
    words = {"split": ["--split"], "by_class": ["--by-class"], "saliency": ["--saliency"], "match": ["--match", "transformer"]}
    asked = [word for name in options for word in words[name]]
    output = foxscope_command("heads", run_path, "--model", "fox", "--csv", *asked)
    wanted = list(csv.DictReader(io.StringIO(output.decode())))
    table = run["fox"].heads(**options)  # type: ignore[arg-type]
    assert len(table) == len(wanted)
    for row in wanted:
        found = table.loc[(int(row.pop("layer")), int(row.pop("head")))]
        assert found.pop("labels") == row.pop("labels")
        assert list(found.index) == list(row)
        for name, value in row.items():
            assert found[name] == float(value) if value else np.isnan(found[name])


def test_a_heads_decay_time_is_that_of_the_table(run: Run) -> None:
    table = run["fox"].heads()
    for place in [(0, 0), (3, 1), (7, 2)]:
        assert run["fox"].head(*place).decay_time == table.loc[place, "rate_decay_time"]
    assert run["transformer"].head(0, 0).decay_time == np.inf
    table.loc[:, "entropy"] = 0  # a copy: the next one is as before
    assert run["fox"].heads()["entropy"].all()


def test_the_decay_of_softmax_attention_is_whether_it_forgets(run: Run, fixture_run: Callable[..., Path]) -> None:
    """Of files that say no decay of their layers, and as those of hybrids say it."""
    for name, decay in (("fox", "head"), ("transformer", "none")):
        assert {run[name].mixer(layer).decay for layer in range(8)} == {decay}
    path = fixture_run("qwen3_5")
    with foxscope.open(path) as hybrid, h5py.File(path) as file:
        layers = file["models/qwen3_5/layers"]
        said = [(layers[f"{n:02}"].attrs["mixer"], layers[f"{n:02}"].attrs["decay"]) for n in range(hybrid[0].layers)]
        assert said == [(hybrid[0].mixer(n).mixer, hybrid[0].mixer(n).decay) for n in range(hybrid[0].layers)]
    assert ("attention", "none") in said


def test_numbers_of_numpy_name_models_heads_and_pixels(run: Run) -> None:
    """As the index of a table has them."""
    model = run[np.int64(0)]
    assert model is run["fox"]
    layer, head = model.heads().index.to_frame().to_numpy()[13]
    assert isinstance(layer, np.int64)
    found, wanted = model.head(layer, head), model.head(3, 1)
    assert found.decay_time == wanted.decay_time
    assert model.mixer(layer) == model.mixer(3)
    assert np.array_equal(found.query, wanted.query)
    assert found.attention[np.int64(9), np.int64(2)] == wanted.attention[9, 2]
    assert np.array_equal(found.attention.row(np.int32(40)), wanted.attention.row(40), equal_nan=True)
    pooled = found.forget.pooled(np.int64(16), rows=(np.int64(8), np.uint8(200)))
    assert np.array_equal(pooled.values, wanted.forget.pooled(16, rows=(8, 200)).values, equal_nan=True)
    assert np.array_equal(found.forget.pooled([20, 10]).values, wanted.forget.pooled((20, 10)).values, equal_nan=True)  # type: ignore[arg-type]


def test_a_comparison_is_that_of_the_command(run: Run, run_path: Path) -> None:
    words = ["--model", "transformer", "--minus", "fox", "--rows", "20:300", "--json"]
    wanted = json.loads(foxscope_command("compare", run_path, *words))
    found = run.compare(run["transformer"], "fox", rows=(20, 300))
    assert found.difference == wanted["difference"]
    assert found.perplexity_ratio == wanted["perplexity_ratio"]
    assert found.better["token"].tolist() == [token["token"] for token in wanted["better"]]
    assert len(found.octaves) == len(wanted["octaves"])
    assert "transformer minus fox" in found._repr_html_()
    assert foxscope.compare(run).difference == run.compare().difference
    short = run.compare(rows=(2, 20))
    for table in (short.octaves, found.octaves):
        assert {table[name].dtype.kind for name in table if name != "rows"} == {"f"}, table.dtypes
    assert short.octaves["difference_error"].isna().all()


def test_a_model_is_run_on_a_text(tmp_path: Path) -> None:
    checkpoint = MODELS / "gated-deltanet-1m"
    with foxscope.run({"delta": checkpoint}, "The fox ran over the hill.") as run:
        made = Path(run.path)
        assert run.names == ["delta"]
        assert run.text == "The fox ran over the hill."
        entries = run["delta"].head(0, 0).mixing
        assert np.isfinite(entries[5, :6]).all()
    assert not made.exists()
    text = tmp_path / "text.txt"
    text.write_text("Nobody saw the fox, and nobody heard it either.")
    output = tmp_path / "run.h5"
    with foxscope.run(checkpoint, text, output, length=4, keep="loss,gates", intervene="*:*:one") as run:
        assert run[0].length == 4
        assert (run[0].head(0, 0).log_forget == 0).all()
        assert run.path == str(output)
    assert output.exists()
    with pytest.raises(FoxscopeError, match=r"run\.h5: .*--force"):
        foxscope.run(checkpoint, text, output)
    models = {"a": checkpoint, "b": checkpoint}
    assert foxscope.compare(models, text, length=6).difference == 0
    with pytest.raises(FoxscopeError, match=r"compare: .*run\.h5 is a file, .* `foxscope compare A\.h5 B\.h5`"):
        foxscope.compare([output, output], text)
    with pytest.warns(UserWarning, match=r"text\.txt' is read as the text itself; .*pathlib\.Path"):
        run = foxscope.run(checkpoint, str(text))
    with run:
        assert run.text == str(text)


def test_what_was_not_kept_is_said(fixture_run: Callable[..., Path]) -> None:
    path = fixture_run("fox-pro", "--keep", "gates")
    with foxscope.open(path) as run:
        model = run[0]
        for words, ask in [
            ("losses were not kept", lambda: run.losses),
            ("losses were not kept", lambda: model.losses),
            ("query of layer 0 was not kept.*--keep qk keeps it", lambda: model.head(0, 0).query),
            ("value of layer 0 was not kept.*--keep values keeps it", lambda: model.head(0, 0).value),
            (
                "cumulative_log_decay of layer 0 was not kept, or such a layer has none",
                lambda: model.head(0, 0).cumulative_log_decay,
            ),
            ("has no array 'layers/00/query'", lambda: model.array("layers/00/query")),
            ("has no array 'nothing'", lambda: model.array("nothing")),
            ("did not keep", lambda: model.head(0, 0).attention[3, 2]),
            ("has no model 'fix'", lambda: run["fix"]),
            ("layer 9", lambda: model.head(9, 0)),
            ("head -1", lambda: model.head(0, -1)),
            ("layer: take a whole number, not float", lambda: model.head(1.0, 0)),  # type: ignore[arg-type]
            ("layer: take a whole number, not str", lambda: model.head("3", 0)),  # type: ignore[arg-type]
            ("head: take a whole number, not slice", lambda: model.head(0, slice(1))),  # type: ignore[arg-type]
            ("layer 9", lambda: model.mixer(9)),
            ("has no model 1: it has models 0 to 0", lambda: run[1]),
            ("model: take a whole number, not float", lambda: run[0.0]),  # type: ignore[index]
        ]:
            with pytest.raises(FoxscopeError, match=words) as error:
                ask()
            assert "\n" not in str(error.value)
        assert np.isfinite(model.head(0, 0).forget[5, 2])
    with foxscope.open(fixture_run("fox-pro", "--keep", "loss,qk,values")) as run:
        with pytest.raises(FoxscopeError, match="gates of layer 1 were not kept: run again with --keep gates"):
            run[0].head(1, 0).log_forget  # noqa: B018
        assert run[0].head(1, 0).value.shape == (run[0].length, run[0].info["head_dim"])


def test_row_normalisers_that_a_run_lacks_are_computed(tmp_path: Path) -> None:
    """A run as any program writes it (docs/files.md)."""
    random = np.random.default_rng(0)
    length, channels = 200, 16
    query, key = random.standard_normal((2, 2, length, channels)).astype(np.float32)
    sums = np.cumsum(-np.log1p(np.exp(-random.normal(4, 1, (2, length)))), axis=1)
    ids = random.integers(0, 1000, length + 1).astype(np.int32)
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("models/theirs")
        group.attrs["dtype"], group.attrs["softmax_scale"] = "float32", channels**-0.5
        group["tokens/input_id"], group["tokens/id"] = ids[:-1], ids[1:]
        group["layers/00/query"], group["layers/00/key"], group["layers/00/cumulative_log_gate"] = query, key, sums
    logits = query[1].astype(float) @ key[1].T.astype(float) * channels**-0.5 + sums[1][:, None] - sums[1][None, :]
    wanted = np.tril(np.exp(logits))
    wanted /= wanted.sum(axis=1, keepdims=True)
    with foxscope.open(path) as run:
        assert run.text is None
        assert repr(run[0].tokens) == f"<200 tokens: {', '.join(map(str, ids[1:5]))}, ...>"
        assert run[0].config == {}
        found = np.asarray(run[0].head(0, 1).attention)
    assert np.allclose(np.nan_to_num(found), wanted, atol=1e-5)


def test_demo_models_and_texts_are_found() -> None:
    assert (
        Path(foxscope.demo("fox-pro-12m"), "config.json").read_bytes() == (MODELS / "fox-pro-12m" / "config.json").read_bytes()
    )
    assert Path(foxscope.demo("black-beauty-1-3.txt")).exists()
    with pytest.raises(FoxscopeError, match=r"there are black-beauty.*fox-pro-12m"):
        foxscope.demo("fox")


class _Bytes:
    def __fspath__(self) -> bytes:
        return b"run.h5"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b"run.h5", "expected a path, as a string or a pathlib.Path, got b'run.h5'"),
        (_Bytes(), "expected a path, as a string or a pathlib.Path, got <"),
        (None, "expected a path, as a string or a pathlib.Path, got None"),
        (3, "expected a path, as a string or a pathlib.Path, got 3"),
        ([], "expected a path, as a string or a pathlib.Path, got []"),
        ("", "expected a path, got an empty string"),
        ("a\0b", "no path has a byte of 0"),
        ("\ud800", "no path has half a character"),
        ("ssh://box/\ud800", "no path has half a character"),
    ],
)
def test_what_is_no_path(run: Run, path: Any, words: str) -> None:
    figure = run.figure("loss", format="csv")
    for name, work in (
        ("open", lambda: foxscope.open(path)),
        ("record", lambda: foxscope.record(path, input_ids=[0])),
        ("run", lambda: foxscope.run([path], "a text")),
        ("output", lambda: foxscope.run(foxscope.demo("fox-pro-12m"), "a text", path)),
        ("save", lambda: figure.save(path)),
        ("figure", lambda: run.figure("loss", others=[path])),
    ):
        if name == "output" and path is None:
            continue  # a file that goes away with the run
        with pytest.raises(FoxscopeError) as error:
            work()
        assert str(error.value).startswith(f"{name}: {words}"), name


def test_folders_texts_and_names_that_are_none(run: Run, tmp_path: Path) -> None:
    figure = run.figure("loss", format="csv")
    model = foxscope.demo("fox-pro-12m")
    for words, work in (
        ("is not a file", lambda: foxscope.open(tmp_path)),
        ("is a folder: name a file to write", lambda: foxscope.record(tmp_path, input_ids=[0]).__enter__()),
        ("is a folder", lambda: foxscope.run(model, "a text", tmp_path)),
        ("cannot be read \\(Is a directory\\)", lambda: foxscope.run(model, tmp_path)),
        ("text: expected a string, or a file as a pathlib.Path, got 3", lambda: foxscope.run(model, 3)),  # type: ignore[arg-type]
        ("text: holds half a character", lambda: foxscope.run(model, "a\ud800")),
        ("the figure is a .csv: give the file this ending, or ask for format='svg'", lambda: figure.save(tmp_path / "a.svg")),
        ("the folder .*none does not exist: create it", lambda: figure.save(tmp_path / "none" / "a.csv")),
        ("a recording is written on this machine", lambda: foxscope.record("ssh://gpu01/run.h5", input_ids=[0])),
        ("the name is too long", lambda: foxscope.record(tmp_path / ("a" * 300), input_ids=[0]).__enter__()),
    ):
        with pytest.raises(FoxscopeError, match=words):
            work()
    assert list(tmp_path.iterdir()) == []
