"""Tables, which need pandas."""

from typing import Any

from foxscope.errors import FoxscopeError

__all__ = ["import_pandas"]


def import_pandas() -> Any:
    """pandas, which tables alone need."""
    try:
        import pandas
    except ImportError:
        raise FoxscopeError("tables need pandas: pip install 'foxscope[notebook]'") from None
    return pandas
