"""What an atlas holds, against h5py."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import MODELS, SOURCE, foxscope_command

import foxscope
from foxscope import Atlas, FoxscopeError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atlas")
    text = (SOURCE / "resources" / "texts" / "black-beauty-1-3.txt").read_text()
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"doc-{n}", "text": text[n * 5000 :][:5000]}) + "\n" for n in range(5)))
    models = [word for name in ("fox", "transformer") for word in ("--model", f"{name}={MODELS / name}-pro-12m")]
    atlas = folder / "atlas.h5"
    sizes = ["--length", "96", "--windows", "8", "--passages", "4"]
    foxscope_command("eval", "atlas", *models, "--corpus", corpus, *sizes, "-o", atlas)
    return atlas


@pytest.fixture(scope="module")
def atlas(path: Path) -> Iterator[Atlas]:
    with foxscope.open(path, kind="atlas") as opened:
        yield opened


def test_models_and_documents(atlas: Atlas, path: Path) -> None:
    assert isinstance(foxscope.open(path), Atlas)
    assert atlas.names == ["fox", "transformer"]
    assert atlas["fox"] is atlas[0]
    assert "fox" in atlas
    assert len(atlas) == 2
    assert [model.name for model in atlas] == atlas.names
    assert atlas["fox"].forgets
    assert not atlas["transformer"].forgets
    with h5py.File(path) as file:
        assert list(atlas.documents["name"]) == [name.decode() for name in file["documents/name"]]
        counts = np.bincount(file["windows/document"][()])
        assert list(atlas.documents["windows"]) == counts.tolist()
        assert atlas["fox"].info["positions"] == file["models/fox"].attrs["positions"]
    assert {"heads", "tokens", "passages"} <= set(atlas.tables)


def test_numbers_are_those_of_the_file(atlas: Atlas, path: Path) -> None:
    numbers = atlas["fox"].numbers
    with h5py.File(path) as file:
        group = file["models/fox/numbers"]
        for name in group:
            column = name.replace("_errors", "_error").replace("_row_errors", "_row_error")
            assert column not in numbers or np.array_equal(numbers[column], group[name][()].ravel(), equal_nan=True), name
        assert {"rate_decay_time", "rate_decay_time_error", "gate_median"} <= set(numbers.columns)
    assert numbers.index.names == ["layer", "head"]
    assert numbers.loc[(6, 1), "rate_decay_time"] > 0
    assert "d50" in atlas["transformer"].numbers.dropna(axis=1, how="all")


def test_tokens_of_a_head(atlas: Atlas, path: Path) -> None:
    tokens = atlas["fox"].tokens((5, 2))
    with h5py.File(path) as file:
        group = file["models/fox/tokens"]
        assert np.array_equal(tokens.index, group["id"])
        assert tokens.index.name == "id"
        assert list(tokens["string"]) == [string.decode() for string in group["string"]]
        assert np.array_equal(tokens["count"], group["count"])
        for name in ("mean_log_gate", "share_below_half", "received"):
            assert np.array_equal(tokens[name].astype(np.float32), group[name][5, 2])
    assert tokens["count"].dtype == np.int64
    assert tokens["mean_log_gate"].dtype == np.float64
    assert atlas["fox"].tokens((np.int64(5), np.int64(2))).equals(tokens)
    assert atlas["fox"].tokens("5:2").equals(tokens)
    for wrong in ("5", "5:2:1", "a:b", (5,), 5):
        with pytest.raises(FoxscopeError, match=r'take a layer and a head, as in \(6, 1\) or "6:1"'):
            atlas["fox"].tokens(wrong)  # type: ignore[arg-type]


def test_resets_and_classes(atlas: Atlas, path: Path) -> None:
    resets = atlas["fox"].resets
    with h5py.File(path) as file:
        group = file["models/fox/resets"]
        names = [name.decode() for name in group["token_class"]]
        for name in ("share", "chance", "p_value", "discovered"):
            table = resets.pivot_table(index=["layer", "head"], columns="token_class", values=name, dropna=False)[names]
            assert np.array_equal(table.to_numpy().reshape(8, 4, -1), group[name][()], equal_nan=True)
    assert "sentence_end" in set(atlas["fox"].classes["token_class"])


def test_passages(atlas: Atlas, path: Path) -> None:
    passages = atlas["fox"].passages()
    own = atlas["fox"].passages((3, 1))
    assert own.equals(passages.loc[[(3, 1)]])
    with h5py.File(path) as file:
        group = file["models/fox/passages"]
        assert set(own["kind"]) == set(group)
        for kind in group:
            rows = own[own["kind"] == kind]
            wanted = group[kind]["window"][3, 1]
            assert np.array_equal(rows["window"], wanted[wanted >= 0])
            assert np.array_equal(rows["position"], group[kind]["position"][3, 1][wanted >= 0])


def test_similarity(atlas: Atlas, path: Path) -> None:
    similarity = atlas["fox"].similarity
    with h5py.File(path) as file:
        group = file["models/fox/similarity"]
        order = group["order"][()]
        wanted = group["log_gate"][()][np.ix_(order, order)]
    assert list(similarity.index) == [(head // 4, head % 4) for head in order]
    assert list(similarity.columns) == list(similarity.index)
    assert np.array_equal(similarity.to_numpy().astype(np.float32), wanted)
    attention = atlas["transformer"].attention_similarity
    with h5py.File(path) as file:
        group = file["models/transformer/similarity"]
        order = group["order"][()]
        wanted = group["attention"][()][np.ix_(order, order)]
    assert np.array_equal(attention.to_numpy().astype(np.float32), wanted)
    with pytest.raises(FoxscopeError, match="'transformer' has no gates that could be alike: take attention_similarity"):
        _ = atlas["transformer"].similarity


def test_an_atlas_without_attention_says_so(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"text": "The fox ran over the hill. " * 40}) + "\n")
    sizes = ["--length", "48", "--windows", "2", "--rows", "0"]
    model = MODELS / "fox-pro-12m"
    path = tmp_path / "atlas.h5"
    foxscope_command("eval", "atlas", "--model", model, "--corpus", tmp_path / "corpus.jsonl", *sizes, "-o", path)
    with foxscope.open(path, kind="atlas") as atlas:
        assert not atlas[0].similarity.isna().to_numpy().all()
        with pytest.raises(FoxscopeError, match="the atlas holds no attention: make it again without --rows 0"):
            _ = atlas[0].attention_similarity


def test_what_is_no_atlas(tmp_path: Path, run_path: Path) -> None:
    for path, words in (
        (run_path, "holds no atlas of heads"),
        (tmp_path / "none.h5", r"none\.h5: cannot be opened"),
        (tmp_path, "is not a file|holds no atlas of heads"),
    ):
        with pytest.raises(FoxscopeError, match=words):
            foxscope.open(path, kind="atlas")


def test_figures_and_notebooks(atlas: Atlas) -> None:
    figure = atlas.figure("tokens", head=(5, 2), count=5)
    assert figure.data.startswith((b"<?xml", b"<svg"))
    assert "--head=5:2" in figure.command
    chosen = atlas.figure("tokens")
    assert any("--model chooses another" in note for note in chosen.notes)
    assert any("--head chooses another" in note for note in chosen.notes)
    assert atlas["fox"].figure("similarity", format="png").data.startswith(b"\x89PNG")
    assert "fox" in atlas._repr_html_()
    assert "rate_decay_time" in atlas["fox"]._repr_html_()
    assert repr(atlas).endswith("atlas.h5: fox, transformer>")
    assert repr(atlas["fox"]).startswith("<fox, 8 layers of 4 heads, 760 positions")


def test_texts_stay_texts(atlas: Atlas) -> None:
    """A token that looks like a number, or like nothing at all."""
    from foxscope.atlases import _table

    rows = b'fox,0,0,NA,3,\nfox,0,1,12,4,-inf\nfox,1,0,"\n",5,1e-3\n'
    table = _table("tokens", b"model,layer,head,string,count,mean\n" + rows)
    assert list(table["string"]) == ["NA", "12", "\n"]
    assert table["count"].dtype == np.int64
    assert np.array_equal(table["mean"], [np.nan, -np.inf, 1e-3], equal_nan=True)
    assert isinstance(table, pd.DataFrame)
    first = _table("first_similarity", b"model,layer,head,first,first_layer,correlation\nb,0,0,12,1,\n")
    assert list(first["first"]) == ["12"]


def test_a_column_has_the_type_of_what_it_is(atlas: Atlas, path: Path) -> None:
    """That of the program's JSON, where whole numbers are written without a point, whatever the values of a head are."""
    kinds = {int: "i", float: "f", type(None): "f", str: "text"}
    for name, model in [(name, model) for name in atlas.tables for model in atlas]:
        rows = json.loads(foxscope_command("info", path, "--table", name, "--json", "--model", model.name))
        for table in (model.table(name), model.table(name, (0, 0)), model.table(name, (6, 1))):
            for column in table:
                said = {kinds[type(row[column])] for row in rows}
                found = table[column].dtype.kind
                assert said <= {found if found in "if" else "text"}, (name, column)
    assert atlas["fox"].tokens((6, 1))["share_below_half"].dtype == np.float64
    empty = atlas["transformer"].table("gaps")
    assert len(empty) == 0 and empty["count"].dtype == np.int64


def test_what_is_wrong(atlas: Atlas, path: Path, run_path: Path, tmp_path: Path) -> None:
    with pytest.raises(FoxscopeError, match="has no model 'fix': it has fox, transformer"):
        atlas["fix"]
    with pytest.raises(FoxscopeError, match="has no model 2"):
        atlas[2]
    with pytest.raises(FoxscopeError, match="--head 9:0: there is no such head"):
        atlas["fox"].tokens((9, 0))
    with pytest.raises(FoxscopeError, match="is no table of an atlas"):
        atlas["fox"].table("words")
    with pytest.raises(FoxscopeError, match="format 'gif'"):
        atlas.figure("gates", format="gif")
    with pytest.raises(FoxscopeError, match=r"run\.h5"):
        foxscope.open(run_path, kind="atlas")
    with pytest.raises(FoxscopeError, match="use 'run' or 'atlas'"):
        foxscope.open(path, kind="map")  # type: ignore[call-overload]
    with pytest.raises(FoxscopeError, match="missing"):
        foxscope.open(tmp_path / "missing.h5")
    with foxscope.open(path, kind="atlas") as other:
        for name in (5, None, ["heads"]):
            with pytest.raises(FoxscopeError, match=f"^table {re.escape(str(name))}: take one of heads, "):
                other["fox"].table(name)  # type: ignore[arg-type]
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    with foxscope.open(copy, kind="atlas") as other:
        copy.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(FoxscopeError, match="has changed since it was opened"):
            _ = other["fox"].numbers
    with pytest.raises(FoxscopeError, match="is closed"):
        _ = other["fox"].numbers
