"""Where output goes and whether it is coloured: the product on stdout, everything said about it on stderr."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TextIO

import click

from autoaccel.reports.context import shown
from autoaccel.sources import SourceError


def wants_colour(choice: str, stream: TextIO) -> bool:
    """`--color`, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal that can."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True)
class Terminal:
    """Both streams of one run."""

    colour_out: bool
    colour_err: bool
    quiet: bool = False
    verbose: bool = False

    def product(self, data: bytes) -> None:
        """Write to stdout exactly these bytes: patches and scripts carry their own line endings and encoding.

        Raises `SourceError`, and `BrokenPipeError` when the reader has left.
        """
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SourceError(f"stdout: cannot write: {error.strerror or error}") from error

    def say(self, text: str = "", *, always: bool = False) -> None:
        """A line of summary or progress on stderr; `-q` silences it, unless it is needed `always`."""
        if always or not self.quiet:
            click.echo(text, err=True, color=self.colour_err)

    def warn(self, text: str) -> None:
        click.echo(click.style("warning: ", fg="yellow", bold=True) + shown(text), err=True, color=self.colour_err)

    def fail(self, text: str, *, lines: bool = False) -> None:
        """A line of error on stderr, or several; never silenced. Names in it may hold anything: nothing but text is
        shown, and a line breaks where we break it."""
        text = "\n".join(map(shown, text.split("\n"))) if lines else shown(text)
        click.echo(click.style("error: ", fg="red", bold=True) + text, err=True, color=self.colour_err)


def terminal(color: str, *, quiet: bool = False, verbose: bool = False) -> Terminal:
    return Terminal(wants_colour(color, sys.stdout), wants_colour(color, sys.stderr), quiet, verbose)


def colour_diff(diff: str) -> str:
    """A unified diff with terminal colours; carriage returns stay outside of the colours."""
    # Not splitlines: form feeds and other exotic line breaks are ordinary characters of a diff line.
    return "\n".join(_colour_line(line) for line in diff.split("\n"))


def _colour_line(line: str) -> str:
    body = line.removesuffix("\r")
    ending = line[len(body) :]
    if line.startswith(("+++", "---", "diff ")):
        return click.style(body, bold=True) + ending
    if line.startswith("@@"):
        return click.style(body, fg="cyan") + ending
    if line.startswith("+"):
        return click.style(body, fg="green") + ending
    if line.startswith("-"):
        return click.style(body, fg="red") + ending
    return line
