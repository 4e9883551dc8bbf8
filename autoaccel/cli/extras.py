"""Libraries that only some commands need, and that are installed with an extra."""

from __future__ import annotations

import importlib.util

import click


def needed(library: str, *, extra: str) -> None:
    """Raises `click.ClickException` where a library is not installed."""
    if importlib.util.find_spec(library) is None:
        raise click.ClickException(f"this command needs {library}: pip install 'autoaccel[{extra}]'")
