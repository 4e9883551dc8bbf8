"""`autoaccel run`: a script runs as if it had been rewritten, and no file changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from autoaccel.cli import inputs
from autoaccel.cli.options import configuration_options, output_options, rule_options, settled
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration

# What follows the script is the script's own.
_PASS_ON = {"allow_interspersed_args": False}


@click.command(short_help="Run a script as if it had been rewritten.", context_settings=_PASS_ON)
@click.argument("script", metavar="SCRIPT", type=click.Path())
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as with `python -m`.")
@settled(rule_options, configuration_options, output_options)
def run(
    script: str, arguments: tuple[str, ...], is_module: bool, configure: Callable[..., Configuration], speaker: Terminal
) -> int:
    """Rewrite SCRIPT and the files of its project that it imports, in memory, and run it with its ARGUMENTS.

    Everything else is as with `python SCRIPT ARGUMENTS`; no file changes. Options of autoaccel stand before SCRIPT.

    Processes of `multiprocessing` are rewritten, too. Launchers start it themselves: `torchrun --no-python autoaccel
    run SCRIPT`.
    """
    from autoaccel.measure import program
    from autoaccel.measure.rewriter import Rewriter, project_root

    if script == "-":
        raise click.UsageError("`run` needs a script on disk; `-` is none")
    inputs.refuse_notebook(Path(script))
    wanted = program.Program(script, arguments, is_module)
    try:
        path = program.locate(wanted)
        configuration = configure([path])
        rewrite = InMemory(configuration, Path(os.path.abspath(path)), speaker)
        return program.run(wanted, path, Rewriter(project_root(path.parent), rewrite, rewrite.warn))
    except program.ProgramError as error:
        raise click.ClickException(str(error)) from error


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rewrites one file after the other as they are imported, and tells of each. New processes get a copy."""

    configuration: Configuration
    script: Path
    speaker: Terminal

    def __call__(self, path: Path, text: str) -> str:
        from autoaccel.analysis import Project
        from autoaccel.reports.counting import counted
        from autoaccel.rewriting import engine

        path = Path(os.path.abspath(path))
        rules, tier = self.configuration.rules_for(path), self.configuration.tier_for(path)
        result = engine.rewrite(text, path, rules, tier=tier, project=Project([self.script]))
        if result.errors:
            raise ValueError(result.errors[0])
        if result.changed:
            changes = counted(len(result.applied), "change")
            self.speaker.say(click.style(f"autoaccel: {path.name}: {changes} in memory", dim=True))
        return result.after

    def warn(self, message: str) -> None:
        self.speaker.warn(f"{message}; it runs as it is")
