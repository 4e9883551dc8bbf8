"""The commands as tools of agents, by the Model Context Protocol: https://modelcontextprotocol.io

Each tool is a run of the command, in a process of its own, and gives what that prints. Without leave nothing is written
and no script is run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from autoaccel import __version__
from autoaccel.reports.context import shown

_INSTRUCTIONS = "Finds what makes PyTorch training scripts slow, and rewrites them so that they train the same, faster."


@dataclass(frozen=True, slots=True)
class Leave:
    """What tools may do. `folder` holds all that they may look at; they may not write there, nor run scripts, unless
    they are allowed to."""

    folder: Path
    write: bool = False
    run: bool = False

    def path(self, name: str) -> str:
        """The name of a file or folder, as seen from `folder`. Raises `ToolError` for what lies outside."""
        try:
            path = Path(os.path.realpath(self.folder / name))
        except ValueError as error:  # a null byte
            raise ToolError(f"{shown(name)}: {error}") from error
        if not path.is_relative_to(os.path.realpath(self.folder)):
            raise ToolError(f"{shown(name)}: refused, it is not in {self.folder}")
        name = os.path.relpath(path, self.folder)
        return str(path) if name.startswith("-") else name  # not to be taken for an option

    def may_run(self) -> None:
        """Raises `ToolError`."""
        if not self.run:
            raise ToolError("refused, it would run the script: start `autoaccel mcp` with --allow-run")

    def may_write(self) -> None:
        """Raises `ToolError`."""
        if not self.write:
            raise ToolError("refused, it would change files: start `autoaccel mcp` with --allow-write")


def tools(leave: Leave) -> MCPServer:
    """A server with the tools."""
    server = MCPServer("autoaccel", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    runs = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
    writes = ToolAnnotations(read_only_hint=not leave.write, destructive_hint=False, open_world_hint=False)

    @server.tool(annotations=reads, structured_output=False)
    async def lint(paths: list[str] | None = None, select: str = "", tier: str = "") -> list[str]:
        """List slow patterns in Python files, notebooks and folders: a line for each, with rule, reason and tier.

        `paths` are by default all that there is, `select` names rules (`AA301`, `AA2`, `prefetch`, comma-separated),
        `tier` is exact, equivalent or numerics.
        """
        options = ["--no-cache", "--output-format", "concise", *_rules(select, tier)]
        return await _run(leave, "lint", *options, *map(leave.path, paths or ()))

    @server.tool(annotations=writes, structured_output=False)
    async def rewrite(paths: list[str], select: str = "", tier: str = "", write: bool = False) -> list[str]:
        """Give the patch that makes scripts train faster, and what was left alone and why. Files stay as they are,
        unless `write` is true and the server was started with leave to write; `autoaccel undo` takes that back."""
        if write:
            leave.may_write()
        options = [*([] if write else ["--diff"]), *_rules(select, tier)]
        return await _run(leave, "rewrite", *options, *map(leave.path, paths))

    @server.tool(annotations=runs, structured_output=False)
    async def verify(script: str, arguments: list[str] | None = None, steps: int | None = None) -> list[str]:
        """Run a script as it is and rewritten, with its own arguments, and say whether both train the same."""
        leave.may_run()
        options = [] if steps is None else ["--steps", str(steps)]
        return await _run(leave, "verify", *options, leave.path(script), "--", *(arguments or ()))

    @server.tool(annotations=runs, structured_output=False)
    async def bench(script: str, arguments: list[str] | None = None, ablate: bool = False) -> list[str]:
        """Time a script as it is and rewritten, with its own arguments; with `ablate` rule by rule."""
        leave.may_run()
        options = ["--ablate"] if ablate else []
        return await _run(leave, "bench", *options, leave.path(script), "--", *(arguments or ()))

    @server.tool(annotations=reads, structured_output=False)
    async def rule(name: str) -> list[str]:
        """Explain a rule by its code or name, as a page of Markdown."""
        return await _run(leave, "rule", "--output-format", "markdown", "--", name)

    return server


def _rules(select: str, tier: str) -> list[str]:
    return [*(["--select", select] if select else []), *(["--tier", tier] if tier else [])]


async def _run(leave: Leave, command: str, *arguments: str) -> list[str]:
    """What a command prints, and what it says about it. Raises `ToolError` where it could not do all of its work."""
    # -P: a module in the working folder is not ours to run.
    argv = [sys.executable, "-P", "-m", "autoaccel", command, *arguments]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8:backslashreplace"}
    done = await anyio.run_process(argv, stdin=subprocess.DEVNULL, check=False, cwd=leave.folder, env=environment)
    said = [text for stream in (done.stdout, done.stderr) if (text := stream.decode("utf-8", "replace"))]
    if done.returncode not in (0, 1):
        raise ToolError("\n".join(reversed(said)).strip() or f"{command} ended with exit status {done.returncode}")
    return said


def serve(leave: Leave) -> None:
    """Talk to an agent over stdin and stdout until it leaves."""
    tools(leave).run()
