"""`autoaccel mcp`: the commands as tools of an agent, which starts it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autoaccel.cli.extras import needed


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
