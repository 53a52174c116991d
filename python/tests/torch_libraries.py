"""Lets torch be imported where the libraries of CUDA are missing that its wheel is linked with (requirements.txt).

They have 2.5 GB, and the CPU needs none of their functions. An empty library of each one's name takes its place: a function
is looked up when it is called for the first time, if torch loads its libraries with RTLD_LAZY.
"""

import atexit
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path


def supply_torch_libraries() -> None:
    """Makes what is missing, for this process and those that it starts; does nothing where torch is whole or absent."""
    torch = importlib.util.find_spec("torch")
    if torch is None or not torch.submodule_search_locations:
        return
    library = Path(torch.submodule_search_locations[0]) / "lib" / "libtorch_python.so"
    needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=False).stdout
    missing = sorted(set(re.findall(r"^\s*(\S+) => not found", needed, re.MULTILINE)))
    if not missing:
        return
    folder = tempfile.mkdtemp(prefix="foxscope-torch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in missing:
        words = ["cc", "-shared", f"-Wl,-soname,{name}", "-o", f"{folder}/{name}", "-x", "c", os.devnull]
        subprocess.run(words, check=True)
        ctypes.CDLL(f"{folder}/{name}")
    places = [folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ.update(LD_LIBRARY_PATH=":".join(places), TORCH_USE_RTLD_GLOBAL="1")
