"""`rewrite --verified --commits`: one commit for each rule."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import __version__, sources
from autoaccel.cli.terminal import Terminal
from autoaccel.cli.verified import Verified
from autoaccel.measure.changes import known_as

if TYPE_CHECKING:
    from autoaccel.jobs.conversion import Rewritten
    from autoaccel.measure.changes import Change

_LONGEST = 72  # characters of a subject


def check(files: Sequence[Path]) -> None:
    """Whether commits of these files would hold what is rewritten, and nothing else. Raises `click.ClickException`."""
    for file in files:
        where, name = file.resolve().parent, file.resolve().name
        if _git(where, "rev-parse", "--is-inside-work-tree").returncode:
            raise click.ClickException(f"{known_as(file)}: cannot commit: it is in no git repository")
        if _git(where, "ls-files", "--error-unmatch", "--", name).returncode:
            raise click.ClickException(f"{known_as(file)}: cannot commit: git does not track it")
        if _git(where, "status", "--porcelain", "--", name).stdout.strip():
            raise click.ClickException(f"{known_as(file)}: cannot commit: it has changes that are not committed")


def write(verified: Verified, speaker: Terminal) -> None:
    """Write what trains the same, a commit for each rule. Raises `click.ClickException`."""
    steps = [(changes, [each for each in outcomes if each.result.changed]) for changes, outcomes in verified.by_rule()]
    # What becomes of a file that only a later rule changes is known from the first step on.
    check(sorted({each.path.resolve() for _, outcomes in steps for each in outcomes}))
    before: dict[Path, bytes] = {}
    for number, (changes, outcomes) in enumerate(steps):
        as_it_is = [(each, before.get(each.path, each.source.data)) for each in outcomes]
        changed = [(each, data) for each, data in as_it_is if _encoded(each) != data]
        if not changed:
            continue
        try:
            for each, data in changed:
                sources.replace(each.path, dataclasses.replace(each.source, data=data), each.result.after)
                before[each.path] = _encoded(each)
            error = _commit([each.path for each, _ in changed], _message(changes, verified))
        except sources.SourceError as problem:
            error = str(problem)
        if error:
            for each, data in changed:
                if before.get(each.path) == each.path.read_bytes():
                    each.path.write_bytes(data)
            raise click.ClickException(
                f"{_subject(changes)}: cannot commit: {error}; {number} of {len(steps)} are made"
            )
        speaker.say(f"committed: {_subject(changes)}")


def _encoded(each: Rewritten) -> bytes:
    return each.source.encode(each.result.after)


def _subject(changes: Sequence[Change]) -> str:
    from autoaccel.config import known_rules

    code = changes[-1].record.code  # those before it are what it needs
    summary = next(each.summary for each in known_rules() if each.code == code).rstrip(".")
    return f"{summary[: _LONGEST - len(code) - 3]} ({code})"


def _message(changes: Sequence[Change], verified: Verified) -> str:
    return "\n".join([_subject(changes), "", *_body(changes, verified)])


def _body(changes: Sequence[Change], verified: Verified) -> Iterator[str]:
    proofs = dict(zip(verified.changes, verified.report.outcomes, strict=True))
    for each in changes:
        record = each.record
        yield f"- {known_as(each.path)}:{record.line}: {record.message} ({proofs[each].reason})"
    yield ""
    yield f"Rewritten by autoaccel {__version__}, and verified: with all its rules the script trains the same."


def _commit(files: Sequence[Path], message: str) -> str:
    """Commit these files and nothing else; what git has against it."""
    words = ("commit", "--quiet", "--only", "--file=-", "--", *map(os.path.realpath, files))
    done = _git(files[0].resolve().parent, *words, told=message)
    return (done.stderr.strip().splitlines() or ["git commit failed"])[-1] if done.returncode else ""


def _git(folder: Path, *arguments: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
    """Raises `click.ClickException` where there is no git."""
    environment: Mapping[str, str] = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", "--literal-pathspecs", "-C", str(folder), *arguments],
            input=told, capture_output=True, text=True, errors="replace", check=False, env=environment,
        )  # fmt: skip
    except OSError as error:
        raise click.ClickException("--commits needs git") from error
