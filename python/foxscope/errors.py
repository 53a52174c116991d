"""The exception of this package."""


class FoxscopeError(Exception):
    """Something that a person can act on: one line that says what is wrong, with which object, and what to do."""
