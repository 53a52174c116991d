"""try_wheel.py WHEEL: installs a wheel into an empty environment, and tries what it promises, without this one's variables."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from program_tree import SYSTEM

MOST_BYTES = 100_000_000
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
# A run as any program writes one (docs/files.md), its first map, and where its numbers come from.
READ = """
import h5py, json, numpy as np, foxscope
from foxscope.program import find_program
random = np.random.default_rng(0)
with h5py.File("run.h5", "w") as file:
    run = file.create_group("models/theirs")
    run.attrs["dtype"], run.attrs["softmax_scale"] = "float32", 0.25
    ids = random.integers(0, 1000, 201).astype(np.int32)
    run["tokens/input_id"], run["tokens/id"] = ids[:-1], ids[1:]
    layer = run.create_group("layers/00")
    layer["query"], layer["key"] = random.standard_normal((2, 2, 200, 16)).astype(np.float32)
    layer["cumulative_log_gate"] = np.cumsum(-np.log1p(np.exp(-random.normal(4, 1, (2, 200)))), axis=1)
with foxscope.open("run.h5") as run:
    sums = np.nansum(run[0].head(0, 1).attention[:, :], axis=1)
print(json.dumps({"program": find_program(), "rows": float(abs(sums - 1).max())}))
"""


def run(folder: Path, *words: object, fails: bool = False, **variables: str) -> str:
    environment = {**ENVIRONMENT, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), **variables}
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if fails == (done.returncode == 0):
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


def require(holds: bool, problem: str) -> None:
    if not holds:
        sys.exit(problem)


def try_contents(wheel: Path) -> None:
    """Its size, and that the list in it names every file of the program with its size."""
    require(wheel.stat().st_size <= MOST_BYTES, f"{wheel}: {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
    with zipfile.ZipFile(wheel) as archive:
        root = "foxscope/_program/"
        held = {
            item.filename.removeprefix(root): item.file_size for item in archive.infolist() if item.filename.startswith(root)
        }
        text = archive.read(root + "CONTENTS.md").decode()
        plot = re.search(r"^\| lib/libQCustomPlot\S+ \| [\d,]+ \| libqcustomplot\S* \S+ \| GPL-3\+ \|$", text, re.MULTILINE)
        require(plot is not None and "whoever passes this folder on does so\nunder the GPL" in text, "QCustomPlot: no GPL said")
        require(b"GNU GENERAL PUBLIC LICENSE" in archive.read(root + "licences/common-licenses/GPL-3"), "no text of the GPL")
        require("foxscope/_checkout.txt" not in archive.namelist(), f"{wheel}: names the checkout that it was made in")
    listed = {name: int(size.replace(",", "")) for name, size in re.findall(r"^\| (\S+) \| ([\d,]+) \|", text, re.MULTILINE)}
    files = {name: size for name, size in held.items() if name != "CONTENTS.md" and not name.startswith("licences/")}
    wrong = sorted(listed.items() ^ files.items())
    require(not wrong, f"{wheel}: CONTENTS.md lists other files than there are: {wrong[:4]}")


def try_libraries(program: Path) -> None:
    """All libraries lie in the wheel, but for those of every system and LibTorch."""
    tree = program.parents[1]
    for binary in [program, *tree.rglob("*.so*")]:
        said = subprocess.run(["ldd", binary], capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
        for line in said.splitlines():
            name, _, place = line.strip().partition(" => ")
            if not place or SYSTEM.search(name):  # the kernel's, the loader, "statically linked"
                continue
            if "not found" in place and binary.name == "libfoxscope_forward.so":
                continue
            path = Path(place.split(" (")[0]).resolve()
            require(path.is_relative_to(tree.resolve()), f"{binary}: takes {name} from {path}")


def try_window(folder: Path, foxscope: Path) -> list[str]:
    """Pictures of the window on each platform that there is here."""
    tried = ["offscreen"]
    opened = [foxscope, "open", "run.h5", "--size", "1200x800", "--screenshot"]
    run(folder, *opened, "offscreen.png", QT_QPA_PLATFORM="offscreen")
    if shutil.which("xvfb-run"):
        tried.append("xcb")
        run(folder, "xvfb-run", "-a", "-s", "-screen 0 1600x1000x24", *opened, "xcb.png", QT_QPA_PLATFORM="xcb")
    if weston := shutil.which("weston"):
        tried.append("wayland")
        environment = {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(folder)}
        words = [weston, "--backend=headless-backend.so", "--socket=foxscope", "--idle-time=0"]
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            next((line for line in server.stderr if "launching" in line), None)
            run(folder, *opened, "wayland.png", QT_QPA_PLATFORM="wayland", WAYLAND_DISPLAY="foxscope")
            server.terminate()
    for platform in tried:
        require((folder / f"{platform}.png").stat().st_size > 20_000, f"the window on {platform} is empty")
    return tried


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    try_contents(wheel)
    with tempfile.TemporaryDirectory(prefix="foxscope-wheel-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        python, foxscope = folder / "env/bin/python", folder / "env/bin/foxscope"
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel], check=True)
        require("foxscope" in run(folder, foxscope, "--version"), "foxscope --version says nothing")
        read = json.loads(run(folder, python, "-c", READ))
        program = Path(read["program"])
        require(program.is_relative_to(folder / "env"), f"the program of the wheel is not used, but {program}")
        require(read["rows"] < 1e-4, f"rows of attention sum to 1 within {read['rows']}")
        run(folder, foxscope, "map", "run.h5", "--head", "0:1", "--quantity", "attention", "-o", "map.png")
        model = program.parents[1] / "share/foxscope/models/fox-pro-12m"
        words = [foxscope, "run", "--model", model, "--text", model / "config.json", "-o", "new.h5"]
        refused = run(folder, *words, fails=True)
        require("pip install 'foxscope[torch]'" in refused, f"without torch a model is refused: {refused}")
        try_libraries(program)
        tried = try_window(folder, foxscope)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; maps, and the window on {', '.join(tried)}")


if __name__ == "__main__":
    main()
