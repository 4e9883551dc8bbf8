"""The `autoaccel` command: finds the subcommand, and turns every way a run can end into the documented exit status.

0 nothing to report or everything done, 1 findings remain or a change is pending, 2 the job could not be done,
130 interrupted.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from autoaccel import __version__
from autoaccel.cli.terminal import terminal
from autoaccel.config import ConfigError
from autoaccel.defects import describe
from autoaccel.reports.context import shown
from autoaccel.sources import SourceError

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

# Subcommands are imported when they are asked for: starting must stay cheap.
COMMANDS = {
    "rewrite": "autoaccel.cli.rewrite:rewrite",
    "lint": "autoaccel.cli.lint:lint",
    "run": "autoaccel.cli.run:run",
    "verify": "autoaccel.cli.verify:verify",
    "bench": "autoaccel.cli.bench:bench",
    "tune": "autoaccel.cli.tune:tune",
    "doctor": "autoaccel.cli.doctor:doctor",
    "distribute": "autoaccel.cli.distribute:distribute",
    "undo": "autoaccel.cli.undo:undo",
    "server": "autoaccel.cli.server_commands:server",
    "mcp": "autoaccel.cli.server_commands:mcp",
    "rule": "autoaccel.cli.rules:rule",
    "rules": "autoaccel.cli.rules:rules",
    "env": "autoaccel.cli.env:env",
}

FAILED = 2
BROKEN_PIPE = 141
INTERRUPTED = 130


class Commands(click.Group):
    """A group whose commands return their exit status and are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from autoaccel.config import did_you_mean

            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        try:
            status = super().invoke(ctx)
            if not sys.stdout.closed:  # as a server leaves it
                sys.stdout.flush()
        except BrokenPipeError:
            # The reader of our output left (`| head`): nothing to say, and nothing more can be said on this stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except (ConfigError, SourceError) as error:
            raise click.ClickException(shown(str(error))) from error
        except (click.ClickException, click.Abort, click.exceptions.Exit, KeyboardInterrupt):
            raise
        except Exception as error:
            verbose = ctx.meta.get("autoaccel.verbose")
            if verbose:
                import traceback

                click.echo(traceback.format_exc(), err=True, nl=False)
            hint = " (-v shows the traceback)" if verbose is False else ""
            raise click.ClickException(f"internal error: {describe(error)}{hint}") from error
        return int(status or 0)

    def main(  # type: ignore[override]  # this command always ends the process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        _open_closed_streams()
        try:
            status = super().main(args, prog_name or "autoaccel", **extra)
        except click.Abort:
            click.echo("autoaccel: interrupted; no file is half written", err=True)
            status = INTERRUPTED
        except click.UsageError as error:
            error.show()
            status = FAILED
        except click.ClickException as error:
            terminal("auto").fail(error.format_message(), lines=True)
            status = FAILED
        sys.exit(int(status or 0))


def _open_closed_streams() -> None:
    """Streams that the caller closed (`>&-`) lead nowhere: else the next file that is opened would get their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - a stream of the process, open to its end


@click.group("autoaccel", cls=Commands, context_settings=CONTEXT, invoke_without_command=False)
@click.version_option(__version__, prog_name="autoaccel", message="%(prog)s %(version)s")
def cli() -> None:
    """Rewrite plain PyTorch training scripts so that they train faster and still train the same."""


def main() -> NoReturn:
    """The command in a process of its own."""
    try:
        cli.main()
    except SystemExit as ending:
        if sys.argv[1:2] == ["lint"]:
            _leave_at_once(ending)
        raise


def _leave_at_once(ending: SystemExit) -> None:
    """End the process without taking to pieces what was analysed, which takes longer than to forget it."""
    atexit._run_exitfuncs()  # noqa: SLF001 - as at any other end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # Python has its own ways to say so
    os._exit(int(ending.code or 0))
