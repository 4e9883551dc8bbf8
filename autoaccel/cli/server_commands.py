"""`autoaccel server` and `autoaccel mcp`: findings in an editor, and the commands as tools of an agent."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import click

from autoaccel.cli import tuned
from autoaccel.cli.options import configuration_options, output_options, rule_options, settled
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration


@click.command(short_help="Show findings in an editor, as a language server.")
@settled(rule_options, configuration_options, output_options)
def server(configure: Callable[..., Configuration], speaker: Terminal) -> int:
    """Speak the Language Server Protocol on stdin and stdout, for an editor, which starts this command.

    Scripts are looked at while they are edited. Nothing is written but what the editor is asked to change.
    """
    needed("pygls", extra="editor")
    configure([Path(Path.cwd().anchor)]).rules  # noqa: B018 - what is wrong with the options is said before anything else
    from autoaccel.servers import language_server

    if sys.stdin.isatty():
        speaker.say("An editor starts this, and talks to it over stdin and stdout: see docs/editors.md.")
    logging.basicConfig(level=logging.INFO if speaker.verbose else logging.CRITICAL)
    heeds = tuned.is_heeded(click.get_current_context().params)

    def configure_rewrite(path: Path) -> Configuration:
        configuration = configure([path])
        return tuned.heeding([path], configuration, speaker) if heeds else configuration

    language_server.serve(lambda path: configure([path]), configure_rewrite)
    return 0


@click.command(short_help="Offer the commands to an agent, as an MCP server.")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--allow-run", is_flag=True, help="Allow `verify` and `bench`, which run scripts.")
@click.option("--allow-write", is_flag=True, help="Allow `rewrite` to change files.")
def mcp(folder: Path, allow_run: bool, allow_write: bool) -> int:
    """Speak the Model Context Protocol on stdin and stdout, for an agent, which starts this command.

    Its tools are lint, rewrite, verify, bench and rule. They look at what is in FOLDER, by default the working
    directory; without leave they change nothing and run no script.
    """
    needed("mcp", extra="mcp")
    from autoaccel.servers import agent_tools

    if sys.stdin.isatty():
        click.echo("An agent starts this, and talks to it over stdin and stdout: see docs/mcp.md.", err=True)
    agent_tools.serve(agent_tools.Leave(folder.resolve(), write=allow_write, run=allow_run))
    return 0


def needed(library: str, *, extra: str) -> None:
    """Raises `click.ClickException` where a library is not installed, which comes with an extra."""
    if importlib.util.find_spec(library) is None:
        raise click.ClickException(f"this command needs {library}: pip install 'autoaccel[{extra}]'")
