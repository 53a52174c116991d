"""python_reading.py [TOKENS]: how long the package of Python takes to read maps and entries of a long text.

The run file is made up: one layer of two heads with gates of a decay time of 400 tokens, queries and keys of 64 channels.
Times are of the whole call in Python, the program's own share included; F and logits take it the least.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import foxscope  # noqa: E402


def write_run(path, length, heads=2, channels=64):
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        run = file.create_group("models/made-up")
        run.attrs["dtype"], run.attrs["softmax_scale"] = "float32", channels**-0.5
        ids = random.integers(0, 1000, length + 1).astype(np.int32)
        run["tokens/input_id"], run["tokens/id"] = ids[:-1], ids[1:]
        layer = run.create_group("layers/00")
        layer["query"], layer["key"] = random.standard_normal((2, heads, length, channels)).astype(np.float32)
        layer["cumulative_log_gate"] = np.cumsum(-np.log1p(np.exp(-random.normal(6, 1, (heads, length)))), axis=1)


def milliseconds(action, times):
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - begun))
    return f"{min(taken):.2f} ms, median {statistics.median(taken):.2f} ms of {times}"


def main():
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 65536
    with tempfile.TemporaryDirectory(prefix="foxscope-bench-") as folder:
        path = Path(folder) / "run.h5"
        write_run(path, length)
        with foxscope.open(path) as run:
            head = run[0].head(0, 1)
            middle = length // 2
            rows, keys = slice(middle, middle + 200), slice(middle - 100, middle + 100)
            print("F on 1024 x 1024 pixels:", milliseconds(lambda: head.forget.pooled(1024), 50))
            print("200 x 200 entries of F:", milliseconds(lambda: head.forget[rows, keys], 200))
            print("200 x 200 entries of logits:", milliseconds(lambda: head.logits[rows, keys], 200))
            begun = time.perf_counter()
            head.attention[rows, keys]
            print(f"normalisers of both heads, once: {time.perf_counter() - begun:.1f} s")
            print("200 x 200 entries of A:", milliseconds(lambda: head.attention[rows, keys], 200))
            print("A on 1024 x 1024 pixels:", milliseconds(lambda: head.attention.pooled(1024), 5))


main()
