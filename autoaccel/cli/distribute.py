"""`autoaccel distribute`: a script, and the files of its project that it imports, for any number of processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import sources
from autoaccel.cli import inputs
from autoaccel.cli.inputs import STDIN
from autoaccel.cli.options import FilledPath, configuration_options, output_options, settled
from autoaccel.cli.rewrite import DONE, FAILED, Mode, Run, common_base, rewrite_files
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration, known_rules
from autoaccel.jobs import conversion

if TYPE_CHECKING:
    from autoaccel.analysis import Script

_COMMAND = "distribute"
NOTHING = "no model that it trains is in sight"


@click.command(short_help="Let any number of processes train the same.")
@click.argument("script", metavar="SCRIPT", type=FilledPath())
@click.option("--diff", is_flag=True, help="Print the changes as a patch, change nothing; exit 1 if there are any.")
@click.option("--shard", is_flag=True, help="Spread the parameters over the processes, too.")
@settled(configuration_options, output_options)
def distribute(
    script: Path, diff: bool, shard: bool, configure: Callable[..., Configuration], speaker: Terminal
) -> int:
    """Rewrite SCRIPT so that any number of processes train the same model, started by torchrun.

    With it the files of its project that it imports are rewritten, as far as they write files or choose devices. No
    code is executed. Under one process the script stays what it was; under several it is
    `torchrun --nproc-per-node=8 SCRIPT`. Where it cannot be distributed nothing changes, and the exit status is 2.
    """
    if script == STDIN or not script.is_file():
        raise click.ClickException(f"{script}: no such file; a script on disk is needed")
    inputs.refuse_notebook(script)
    configuration = configured(configure, script, shard=shard)
    scripts = with_imports(script)
    files = [each.path for each in scripts if each.path is not None] or [script]
    run = Run(Mode(diff), configuration, speaker, None, common_base(files))
    outcomes = conversion.rewrite_files(files, configuration, texts=False)
    status = rewrite_files(outcomes, run)
    results = [each.result for each in outcomes if isinstance(each, conversion.Rewritten)]
    if status != DONE or any(each.changed for each in results) or any(map(is_distributed, scripts)):
        return status
    reason = "for the reasons above" if any(each.skipped for each in results) else NOTHING
    speaker.fail(f"{script}: not distributed: {reason}")
    return FAILED


def configured(configure: Callable[..., Configuration], script: Path, *, shard: bool = False) -> Configuration:
    """The rules of this command alone, or those of `--shard`. Raises `click.UsageError` and `ConfigError`."""
    command = f"{_COMMAND} --shard" if shard else _COMMAND
    rules = tuple(rule.code for rule in known_rules() if rule.command == command)
    return configure([script], overrides={"select": rules, "tier": "numerics"})


def is_distributed(script: Script) -> bool:
    """Whether a script says so already."""
    return any(True for _ in script.runtime_calls(_COMMAND))


def with_imports(path: Path) -> list[Script]:
    """The script and the files of its project that it imports, over any number of imports; none if it is unreadable."""
    from autoaccel.analysis import Project, load

    try:
        found = [load(sources.read(path).text, path, Project([path]))]
    except (SyntaxError, sources.SourceError):
        return []  # which is said where it is rewritten
    for each in found:  # grows while it is walked
        for definition in each.reaching_definitions.imports:
            target = each.project.imported(each, definition.target or "", definition.level)
            if target is not None and target[0] not in found:
                found.append(target[0])
    return found
