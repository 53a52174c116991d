"""The scripts of docs/python-recording.md, one behind the other as a reader runs them."""

import re
from pathlib import Path

import h5py
import pytest
from recording_support import SOURCE, check_file, program

import foxscope
from foxscope.recording import record

pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("transformers", exc_type=ImportError)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (SOURCE / "docs" / "python-recording.md").read_text()
    scripts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(scripts) == 5
    (tmp_path / "resources").symlink_to(SOURCE / "resources")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(foxscope, "record", record, raising=False)
    names: dict[str, object] = {}
    for script in scripts:
        exec(script, names)
    assert capsys.readouterr().out.count("rows checked") == 4
    for name in ("mine.h5", "beside.h5", "variant.h5", "answer.h5"):
        check_file(tmp_path / name)
    commands = re.findall(r"^foxscope (\w+ .*beside\.h5.*?)(?: +#.*)?$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        program(*command.split())
    program("figure", "saliency", "variant.h5", "-o", "owed.svg")
    assert "the gradient of mean square of the output by log f" in program("heads", "variant.h5", "--saliency")
    assert "over 161 tokens" in program("compare", "fox.h5", "beside.h5")
    assert (tmp_path / "both.svg").stat().st_size > 10_000
    assert "gate       none" in program("info", tmp_path / "mine.h5")
    assert "gate       none" not in program("info", tmp_path / "variant.h5")
    with h5py.File("mine.h5") as file:
        words = [bytes(word).decode() for word in file["models/mine/tokens/string"][:]]
        content = file["text/content"].asstr()[()]
    assert "".join(words) == content
    assert len(content) > 500 and str(names["text"]).endswith(content)
