"""`autoaccel rule` and `autoaccel rules`: what the tool knows to do, and why."""

from __future__ import annotations

import click

from autoaccel.cli.options import Choice
from autoaccel.config import known_rules, rule_named
from autoaccel.config.refusals import refusal

FORMATS = Choice(["text", "json", "markdown"])


@click.command(short_help="Explain one rule.")
@click.argument("name", metavar="CODE|NAME")
@click.option("--output-format", type=FORMATS, default="text", show_default=True)
def rule(name: str, output_format: str) -> int:
    """Explain one rule: what it does, why that is faster, when it leaves code alone; or why something is none."""
    from autoaccel.reports import rules as reports

    if (refused := refusal(name)) is not None:
        click.echo(reports.refusal(refused, output_format), nl=False)
        return 0
    chosen = rule_named(known_rules(), name)
    report = {
        "text": reports.explanation_text,
        "json": reports.explanation_json,
        "markdown": reports.explanation_markdown,
    }[output_format]
    click.echo(report(chosen), nl=False)
    return 0


@click.command()
@click.option("--output-format", type=FORMATS, default="text", show_default=True)
def rules(output_format: str) -> int:
    """List all rules."""
    from autoaccel.reports import rules as reports

    report = {"text": reports.table_text, "json": reports.table_json, "markdown": reports.table_markdown}[output_format]
    click.echo(report(sorted(known_rules(), key=lambda rule: rule.code)), nl=False)
    return 0
