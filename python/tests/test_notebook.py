"""The notebooks run, and show what they say."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib.image
import nbformat
import numpy as np
import pytest
from conftest import MODELS, SOURCE, foxscope_command
from nbclient import NotebookClient

import foxscope

NOTEBOOKS = sorted((SOURCE / "python" / "notebooks").glob("*.ipynb"))


def executed(path: Path, folder: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: Any, kind: str) -> list[str]:
    """What its cells show of a kind."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type != "stream" and kind in output.data:
                found.append(output.data[kind])
    return found


def printed(notebook: Any, name: str = "stdout") -> list[str]:
    """What its cells print, on standard output or error."""
    streams = (output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "stream")
    return [stream.text for stream in streams if stream.name == name]


def test_the_notebook_of_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND")  # the kernel shows figures itself
    notebook = executed(SOURCE / "python" / "notebooks" / "heads.ipynb", tmp_path)
    assert printed(notebook, "stderr") == []
    pictures = outputs(notebook, "image/png")
    assert len(pictures) == 4
    for picture in pictures:
        pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(picture)), format="png")
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20
    (figure,) = outputs(notebook, "image/svg+xml")
    assert figure.startswith(("<?xml", "<svg"))
    tables = outputs(notebook, "text/html")
    assert any("fox minus transformer" in table for table in tables)
    assert any("rate_decay_time" in table for table in tables)


def test_the_notebook_of_a_recorded_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the demo's own gates a model in PyTorch, recorded, has the losses and attention that the program computes."""
    pytest.importorskip("torch")
    monkeypatch.delenv("MPLBACKEND")
    for name in ("slow.h5", "same.h5"):
        (tmp_path / name).write_bytes(b"of the last time")
    notebook = executed(SOURCE / "python" / "notebooks" / "recording.ipynb", tmp_path)
    assert printed(notebook, "stderr") == []
    said = "".join(printed(notebook))
    assert said.count("4 heads of 64, 512 positions") == 8
    found = dict(re.findall(r"(losses|attention): (\S+)", said))
    assert float(found["losses"]) < 1e-4
    assert float(found["attention"]) < 1e-5
    assert len(outputs(notebook, "image/png")) == 1
    assert len(outputs(notebook, "image/svg+xml")) == 1


def test_the_notebook_of_an_atlas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND")
    text = (SOURCE / "resources" / "texts" / "black-beauty-1-3.txt").read_text()
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"doc-{n}", "text": text[n * 5000 :][:5000]}) + "\n" for n in range(5)))
    models = [word for name in ("fox", "transformer") for word in ("--model", f"{name}={MODELS / name}-pro-12m")]
    sizes = ["--length", "256", "--windows", "10", "--passages", "6"]
    foxscope_command("eval", "atlas", *models, "--corpus", corpus, *sizes, "-o", tmp_path / "atlas.h5")
    notebook = executed(SOURCE / "python" / "notebooks" / "atlas.ipynb", tmp_path)
    assert printed(notebook, "stderr") == []
    with foxscope.open(tmp_path / "atlas.h5", kind="atlas") as atlas:
        numbers = atlas["fox"].numbers
        head = numbers["resets"].idxmax()
        tokens = atlas["fox"].tokens(head)
        first = tokens[tokens["few"] == 0].sort_values("mean_log_gate").iloc[0]
    tables = outputs(notebook, "text/plain")
    assert any("rate_decay_time" in table and f"{numbers['rate_decay_time'].max():.6f}" in table for table in tables)
    assert any("mean_log_gate" in table and f"{first['mean_log_gate']:.6f}" in table for table in tables)
    assert any("sentence_end" in table and "chance_spread" in table for table in tables)
    assert len(outputs(notebook, "image/png")) == 2
    (figure,) = outputs(notebook, "image/svg+xml")
    assert figure.startswith(("<?xml", "<svg"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_what_they_showed(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
