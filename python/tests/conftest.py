"""What the tests share: the program, and run files that it makes of the demo models and of fixtures."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from torch_libraries import supply_torch_libraries

supply_torch_libraries()

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FOXSCOPE") or str(SOURCE / "build" / "foxscope")
MODELS = SOURCE / "resources" / "models"
DATA = SOURCE / "tests" / "data"
TEXT = "The fox ran over the hill. The hill was green, and the fox was quick; nobody saw the fox.\n" * 12

# Computed on the CPU, the same on every machine, but where FOXSCOPE_TEST_DEVICE names another device.
os.environ.update(FOXSCOPE_PROGRAM=PROGRAM, OMP_NUM_THREADS="1", MPLBACKEND="agg")
if "FOXSCOPE_TEST_DEVICE" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def foxscope_command(*words: object) -> bytes:
    """Runs the program; returns its standard output."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FoX and a transformer of eight layers on one text, in float32."""
    folder = tmp_path_factory.mktemp("run")
    text = folder / "text.txt"
    text.write_text(TEXT)
    path = folder / "run.h5"
    models = [word for name in ("fox", "transformer") for word in ("--model", f"{name}={MODELS / name}-pro-12m")]
    foxscope_command("run", *models, "--text", text, "--keep", "loss,gates,rows,qk,values,hidden,saliency", "-o", path)
    return path


@pytest.fixture(scope="session")
def fixture_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a run file of a fixture of tests/data on token ids."""

    def make(name: str, *options: str) -> Path:
        folder = tmp_path_factory.mktemp(Path(name).name)
        ids = folder / "ids.json"
        ids.write_text(json.dumps([(7 * n * n + 3 * n) % 29 for n in range(97)]))
        foxscope_command("run", "--model", DATA / name, "--ids", ids, "-o", folder / "run.h5", *options)
        return folder / "run.h5"

    return make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in the log which test was skipped, and why (tests/skipped.py)."""
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
