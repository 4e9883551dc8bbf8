"""Options that several commands share, declared once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from autoaccel.cli import inputs
from autoaccel.cli.terminal import terminal
from autoaccel.config import TIERS

Command = TypeVar("Command", bound=Callable[..., Any])


class FilledPath(click.Path):
    """A path, but never nothing: `rewrite "$FILE"` with an empty variable must not mean the working directory.

    Whether it can be read is found out by reading it: one that cannot must not keep the others from being looked at.
    """

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=allow_dash, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of a file is empty", param, ctx)
        return super().convert(value, param, ctx)


class SourcePath(FilledPath):
    """A path, or `-` for stdin."""

    def __init__(self) -> None:
        super().__init__(allow_dash=True)


class Choice(click.Choice[str]):
    """One of several words; what was probably meant is said of others."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from autoaccel.config import did_you_mean

            return self.fail(error.message.removesuffix(".") + did_you_mean(str(value), self.choices), param, ctx)


def selectors(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """`--select AA101,AA2 --select prefetch` as one tuple."""
    parts = tuple(part.strip() for item in value for part in item.split(",") if part.strip())
    if value and not parts:
        # `--select "$RULES"` with an empty variable must not mean all rules.
        raise click.BadParameter("names nothing", ctx=ctx, param=parameter)
    return parts


def settings_of_rules(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str] | None:
    """`--set accumulate=4` as a table, the last one of a name; None where nothing is set."""
    given = {}
    for each in value:
        name, equals, setting = (part.strip() for part in each.partition("="))
        if not (name and equals and setting):
            raise click.BadParameter(f"{each!r} is not NAME=VALUE", ctx=ctx, param=parameter)
        given[name] = setting
    return given or None


def remember_verbose(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    # The group decides about tracebacks and has no parameters of its own.
    ctx.meta["autoaccel.verbose"] = value
    return value


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Options that commands share, as one decorator; `--help` shows them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


rule_options = together(
    click.option("--select", multiple=True, callback=selectors, metavar="RULES",
                 help="Apply only these: codes, prefixes (AA1) or names, comma-separated."),
    click.option("--ignore", multiple=True, callback=selectors, metavar="RULES", help="Leave these out."),
    click.option("--extend-select", multiple=True, callback=selectors, metavar="RULES",
                 help="Apply these too (opt-in rules by code or name)."),
    click.option("--tier", type=Choice(TIERS), help="How exact rewrites must be. Default: numerics."),
    click.option("--set", multiple=True, callback=settings_of_rules, metavar="NAME=VALUE",
                 help="A setting of a rule, such as accumulate=4; the page of the rule has them."),
)  # fmt: skip
"""Which rules are applied."""

file_options = together(
    click.option("--exclude", multiple=True, callback=selectors, metavar="PATTERNS",
                 help="Leave these paths out, instead of the default list (gitignore patterns)."),
    click.option("--extend-exclude", multiple=True, callback=selectors, metavar="PATTERNS",
                 help="Leave these paths out, too."),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None,
                 help="Whether files that git ignores are left out. Default: yes."),
    click.option("--force-exclude/--no-force-exclude", default=None,
                 help="Whether named files are left out, too, where a pattern matches. Default: no."),
    click.option("--stdin-filename", type=FilledPath(), metavar="FILE", help="The name of what comes on stdin."),
    click.option("--show-settings", is_flag=True, help="Show what governs the first file, and do nothing."),
)  # fmt: skip
"""Which files are looked at."""

configuration_options = together(
    click.option("--config", multiple=True, metavar="FILE|TOML",
                 help="Use this configuration file, or put a setting over the file's: 'tier = \"exact\"'."),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
)  # fmt: skip
"""Which configuration governs the files."""

output_options = together(
    click.option("--color", type=Choice(["auto", "always", "never"]), default="auto",
                 help="Default: NO_COLOR, FORCE_COLOR, then whether it is a terminal."),
    click.option("-q", "--quiet", is_flag=True, help="No summary."),
    click.option("-v", "--verbose", is_flag=True, callback=remember_verbose,
                 help="Say what `lint` left alone, and show tracebacks."),
)  # fmt: skip
"""How a run speaks."""

jobs_option = click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of worker processes (default: automatic)."
)
"""How many processes share the work."""

cache_options = together(
    click.option("--no-cache", is_flag=True, envvar="AUTOACCEL_NO_CACHE",
                 help="Neither use nor keep answers of earlier runs."),
    click.option("--cache-dir", type=FilledPath(), metavar="FOLDER",
                 help="Default: lint/ in AUTOACCEL_CACHE_DIR, else .autoaccel_cache in the project."),
)  # fmt: skip
"""Where answers of earlier runs are kept."""


_OVERRIDES = frozenset(
    "select ignore extend_select tier set exclude extend_exclude respect_gitignore force_exclude".split()
)
"""What stands over the settings of configuration files."""


def settled(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Options of a command, and those on configuration and output. In their place the command gets two things.

    `configure` makes a `Configuration` of paths and perhaps `stdin_filename`; `speaker` is the terminal.
    """

    def decorate(command: Command) -> Any:
        @functools.wraps(command)
        def called(*, config: Any, isolated: bool, color: str, quiet: bool, verbose: bool, **given: Any) -> Any:
            overrides = {name: given.pop(name) for name in _OVERRIDES & given.keys()}
            configure = functools.partial(inputs.configure, config=config, isolated=isolated, overrides=overrides)
            return command(configure=configure, speaker=terminal(color, quiet=quiet, verbose=verbose), **given)

        return together(*options)(called)

    return decorate
