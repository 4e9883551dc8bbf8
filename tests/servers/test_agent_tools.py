"""The tools as an agent meets them, over stdin and stdout: what they give, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from autoaccel import __version__

SLOW = "import torch\nx = torch.zeros(3).to('cuda')\n"
FAST = "import torch\nx = torch.zeros(3, device='cuda')\n"

Call = Callable[..., Awaitable[tuple[bool, list[str]]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project, with something beside it that is none of an agent's business."""
    (tmp_path / "secret.py").write_text(SLOW)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SLOW)
    (folder / "-.py").write_text(SLOW)
    # Neither is what lies there code of ours, though Python would look for it there first.
    (folder / "click.py").write_text("raise SystemExit('somebody else')\n")
    return folder


def talk(folder: Path, says: Callable[[Client, Call], Awaitable[None]], *options: str) -> None:
    """Start the server for a folder and let an agent use its tools; each gives whether it failed, and what it said."""

    async def session() -> None:
        command = ["-m", "autoaccel", "mcp", str(folder), *options]
        environment = {"XDG_STATE_HOME": str(folder.parent / "state"), "PYTHONPATH": ":".join(filter(None, sys.path))}
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=folder.parent)
        async with Client(stdio_client(parameters)) as client:

            async def call(tool: str, /, **arguments: object) -> tuple[bool, list[str]]:
                result = await client.call_tool(tool, arguments)
                return bool(result.is_error), [each.text for each in result.content if each.type == "text"]

            await says(client, call)

    anyio.run(session)


def test_what_it_offers_changes_nothing(folder: Path) -> None:
    async def says(client: Client, call: Call) -> None:
        assert client.server_info and (client.server_info.name, client.server_info.version) == (
            "autoaccel",
            __version__,
        )
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["lint", "rewrite", "verify", "bench", "rule"]
        reading = [name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint]
        assert reading == ["lint", "rewrite", "rule"]
        assert all(tool.description for tool in tools.values())

        failed, (found, summary) = await call("lint", paths=["train.py"])
        assert not failed
        assert found.startswith("train.py:2:5: AA101 create-on-device: ") and found.count("\n") == 1
        assert summary.startswith("Found 1 finding in 1 file")
        failed, (found, _) = await call("lint")
        assert not failed and [line.partition(":")[0] for line in found.splitlines()] == ["-.py", "train.py"]
        failed, (found, _) = await call("lint", paths=["-.py"], select="AA101", tier="exact")
        assert not failed and "-.py:2:5: AA101" in found

        failed, (patch, said) = await call("rewrite", paths=["train.py"])
        assert not failed
        assert patch.startswith("--- a/train.py\n+++ b/train.py\n") and "+x = torch.zeros(3, device='cuda')\n" in patch
        assert "1 file would be rewritten" in said

        failed, (page,) = await call("rule", name="prefetch")
        assert not failed and page.startswith("# AA202 prefetch\n")

    talk(folder, says)
    assert sorted(each.name for each in folder.iterdir()) == ["-.py", "click.py", "train.py"]
    assert (folder / "train.py").read_text() == SLOW


def test_what_it_refuses_it_refuses_in_a_line(folder: Path) -> None:
    (folder / "link.py").symlink_to(folder.parent / "secret.py")

    async def says(client: Client, call: Call) -> None:
        for name in ("../secret.py", str(folder.parent), "link.py", "sub/../../secret.py", "/etc"):
            for tool in ("lint", "rewrite"):
                failed, (said,) = await call(tool, paths=["train.py", name])
                assert failed and said.endswith(f"{name}: refused, it is not in {folder}"), said
        failed, (said,) = await call("lint", paths=["a\0\nb"])
        assert failed and "\n" not in said and "\0" not in said
        for tool in ("verify", "bench"):
            failed, (said,) = await call(tool, script="train.py")
            assert failed and said.endswith("refused, it would run the script: start `autoaccel mcp` with --allow-run")
        failed, (said,) = await call("rewrite", paths=["train.py"], write=True)
        assert failed and said.endswith("refused, it would change files: start `autoaccel mcp` with --allow-write")
        failed, (said,) = await call("rule", name="prefetsh")
        assert failed and "did you mean 'prefetch'?" in said and "\n" not in said
        failed, (said,) = await call("lint", paths=["missing.py"])
        assert failed and "error: missing.py: no such file or folder" in said

    talk(folder, says)
    assert (folder / "train.py").read_text() == SLOW


def test_with_leave_it_writes(folder: Path) -> None:
    async def says(client: Client, call: Call) -> None:
        failed, (said,) = await call("rewrite", paths=["train.py"], write=True)
        assert not failed and "1 file rewritten" in said and "autoaccel undo" in said
        failed, (said,) = await call("rewrite", paths=["../secret.py"], write=True)
        assert failed and "refused" in said

    talk(folder, says, "--allow-write")
    assert (folder / "train.py").read_text() == FAST
    assert (folder.parent / "secret.py").read_text() == SLOW


def test_with_leave_it_runs_scripts(folder: Path) -> None:
    """This one trains nothing, which only its run can tell."""
    (folder / "args.py").write_text("import sys\nassert sys.argv[1:] == ['--help', '-o']\n")

    async def says(client: Client, call: Call) -> None:
        failed, (said,) = await call("verify", script="args.py", arguments=["--help", "-o"])
        assert failed and "args.py: it trains nothing" in said
        failed, (said,) = await call("bench", script="args.py")
        assert failed and "AssertionError" in said
        failed, (said,) = await call("verify", script="../secret.py")
        assert failed and "refused, it is not in" in said

    talk(folder, says, "--allow-run")


def test_it_ends_with_the_agent(folder: Path) -> None:
    command = [sys.executable, "-m", "autoaccel", "mcp"]
    done = subprocess.run(command, input=b"", capture_output=True, cwd=folder.parent, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
