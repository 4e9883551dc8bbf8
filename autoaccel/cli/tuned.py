"""What `tune` found on this machine, for `rewrite`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration, known_rules


def is_heeded(options: Mapping[str, object]) -> bool:
    """Whether what was measured counts, with these options: they may say themselves which rules to apply."""
    return not (options["isolated"] or options["select"] or options["extend_select"])


def heeding(files: Sequence[Path], configuration: Configuration, speaker: Terminal) -> Configuration:
    """The configuration without the rules that did not pay in these files and those that were measured with them, on
    this machine; says so in a line."""
    from autoaccel.measure.rewriter import project_root

    roots: dict[Path, Path] = {}
    by_root: dict[Path, list[Path]] = {}
    for file in files:
        folder = Path(os.path.realpath(file)).parent
        if folder not in roots:
            roots[folder] = project_root(folder)
        by_root.setdefault(roots[folder], []).append(file)
    codes: dict[str, tuple[str, ...]] = {}
    for root, those in by_root.items():
        codes |= _of_project(root, those, speaker)
    return configuration.leaving_out(codes) if codes else configuration


def _of_project(root: Path, files: Sequence[Path], speaker: Terminal) -> dict[str, tuple[str, ...]]:
    """By the absolute and the real paths of files."""
    from autoaccel.measure.tuning import tune_record
    from autoaccel.measure.tuning.machine_facts import fingerprint, machine_facts

    if not (root / tune_record.PLACE).is_file():
        return {}
    try:
        records = tune_record.read(root)
    except tune_record.RecordError as error:
        speaker.warn(f"{error}: not heeded")
        return {}
    names = {os.path.realpath(root / name): name for each in records for name in each.files}
    mine = [file for file in files if os.path.realpath(file) in names]
    if not mine:
        return {}
    here, known = fingerprint(machine_facts()), {each.code for each in known_rules()}
    codes = {
        path: tuple(code for code in left_out if code in known)
        for path, name in names.items()
        if (left_out := tune_record.left_out(records, name, here)) is not None
    }
    codes |= {os.path.abspath(file): codes[real] for file in mine if (real := os.path.realpath(file)) in codes}
    what = mine[0].name if len(mine) == 1 else f"{len(mine)} files"
    hint = f"({os.path.relpath(root / tune_record.PLACE)}; --isolated ignores it)"
    if any(os.path.abspath(file) in codes for file in mine):
        said = ", ".join(sorted({code for file in mine for code in codes.get(os.path.abspath(file), ())}))
        speaker.say(f"{what}: as tuned on this machine, {said or 'nothing'} left out {hint}.")
    else:
        speaker.say(f"{what}: tuned on another machine, which does not count here {hint}.")
    return codes
