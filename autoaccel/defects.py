"""What is said of errors that nobody expected."""

from __future__ import annotations


def describe(error: BaseException) -> str:
    """One line about an unexpected error."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
