"""`autoaccel server`: findings in an editor, which starts it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel.cli import tuned
from autoaccel.cli.extras import needed
from autoaccel.cli.options import configuration_options, output_options, rule_options, settled
from autoaccel.cli.terminal import Terminal

if TYPE_CHECKING:
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
