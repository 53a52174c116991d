"""The package is typed and linted, as pyproject.toml says."""

import subprocess
import sys

import pytest
from conftest import SOURCE


@pytest.mark.parametrize(
    "words", [("mypy", "--strict"), ("ruff", "check", "--no-cache"), ("ruff", "format", "--check", "--no-cache")]
)
def test_the_package_is_clean(words: tuple[str, ...]) -> None:
    cache = ["--cache-dir", "/dev/null"] if words[0] == "mypy" else []
    done = subprocess.run(
        [sys.executable, "-m", *words, *cache], cwd=SOURCE / "python", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
