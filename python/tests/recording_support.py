"""What the tests of recording share: the program's maps of a recorded file, and attention made another way."""

import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FOXSCOPE") or str(SOURCE / "build" / "foxscope")
DATA = SOURCE / "tests" / "data"
Array = NDArray[np.float64]

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")


def program(*words: object) -> str:
    """Runs the program; returns its standard output."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_file(path: Path) -> str:
    """What `foxscope check` says of a file that keeps the schema, without any note."""
    said = program("check", path)
    assert "note:" not in said, said
    return said


def map_of(path: Path, layer: int, head: int, quantity: str = "attention") -> Array:
    """All entries of a head, [L, L], 0 where there are none."""
    out = path.with_suffix(".npy")
    program("map", path, "--head", f"{layer}:{head}", "--quantity", quantity, "-o", out, "--force")
    return np.nan_to_num(np.load(out)).astype(np.float64)


def assert_maps(path: Path, layer: int, expected: Array, quantity: str = "attention", rows: slice = slice(None)) -> None:
    """Holds the last rows of each head's map against [H, rows, L], within 1e-4."""
    for head, entries in enumerate(expected):
        found = map_of(path, layer, head, quantity)
        largest = float(np.abs(found[-len(entries) :] - entries).max())
        assert largest < 1e-4, f"layer {layer}, head {head}: {largest:.2g}"


def dense_attention(
    q: Array,
    k: Array,
    log_forget: Array | None = None,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0,
    sinks: Array | None = None,
) -> Array:
    """A of every head, [H, L, L], entry by entry as the definition has it."""
    heads, length, channels = q.shape
    k = np.repeat(k, heads // len(k), axis=0)
    out = np.zeros((heads, length, length))
    for h in range(heads):
        for i in range(length):
            first = max(0, i - window + 1) if window else 0
            logits = k[h, first : i + 1] @ q[h, i] * (channels**-0.5 if scale is None else scale)
            if softcap:
                logits = softcap * np.tanh(logits / softcap)
            if log_forget is not None:
                logits = logits + np.array([log_forget[h, j + 1 : i + 1].sum() for j in range(first, i + 1)])
            extra = [] if sinks is None else [sinks[h]]
            weights = np.exp(np.append(logits, extra))
            out[h, i, first : i + 1] = weights[: i + 1 - first] / weights.sum()
    return out


def mixing_of(q: Array, k: Array, log_decay: Array | None, beta: Array | None, erases: bool) -> Array:
    """M of one head, y = M v, from what the recurrence gives for values that are 1 in one position: [L, L].

    q has its scale; log_decay is [L] or [L, d].
    """
    length, channels = q.shape
    out = np.zeros((length, length))
    state = np.zeros((channels, length))
    for t in range(length):
        if log_decay is not None:
            state = np.exp(log_decay[t]).reshape(-1, 1) * state
        write = np.eye(length)[t]
        if erases:
            write = write - state.T @ k[t]
        state = state + np.outer(k[t], write) * (1 if beta is None else beta[t])
        out[t] = q[t] @ state
    return out


def arrays_of(path: Path) -> dict[str, NDArray[np.generic]]:
    """Every dataset of a file by its path."""
    found: dict[str, NDArray[np.generic]] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def nothing_left(folder: Path) -> bool:
    """Whether a folder holds nothing, hidden files included."""
    return not list(folder.iterdir())
