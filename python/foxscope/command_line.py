"""The command foxscope of an installed package: it starts the program."""

import os
import sys
from typing import NoReturn

from foxscope.errors import FoxscopeError
from foxscope.program import find_program

__all__ = ["main"]


def main() -> NoReturn:
    """Becomes the program."""
    try:
        program = find_program()
    except FoxscopeError as error:
        sys.exit(f"foxscope: {error}")
    os.execv(program, ["foxscope", *sys.argv[1:]])
