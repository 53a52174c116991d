"""The one exception of this package."""


class FoxscopeError(Exception):
    """What went wrong, where, and what to do about it, in one line."""
