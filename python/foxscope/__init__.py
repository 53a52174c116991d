"""Foxscope from Python: what each head of a Forgetting Transformer forgets, and when.

`open` reads a run file as numpy arrays, exact maps and tables, `run` makes one of a checkpoint and a text, and `record`
makes one of any PyTorch model. The program foxscope computes every number (docs/python.md).
"""

import importlib
from typing import TYPE_CHECKING, Any

from foxscope.errors import FoxscopeError
from foxscope.program import VERSION

if TYPE_CHECKING:
    from foxscope.atlases import Atlas as Atlas
    from foxscope.atlases import AtlasModel as AtlasModel
    from foxscope.comparison import Comparison as Comparison
    from foxscope.entries import Entries as Entries
    from foxscope.figures import Figure as Figure
    from foxscope.maps import Map as Map
    from foxscope.program import demo as demo
    from foxscope.recording import record as record
    from foxscope.running import compare as compare
    from foxscope.running import run as run
    from foxscope.runs import Head as Head
    from foxscope.runs import Model as Model
    from foxscope.runs import Run as Run
    from foxscope.runs import open as open

__version__ = VERSION

# Imported when they are used: the command foxscope needs none of them, nor numpy.
_PLACES = {
    "Atlas": "atlases",
    "AtlasModel": "atlases",
    "Comparison": "comparison",
    "Entries": "entries",
    "Figure": "figures",
    "Head": "runs",
    "Map": "maps",
    "Model": "runs",
    "Run": "runs",
    "compare": "running",
    "demo": "program",
    "open": "runs",
    "record": "recording",
    "run": "running",
}

__all__ = ["FoxscopeError", "__version__", *_PLACES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'foxscope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"foxscope.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
