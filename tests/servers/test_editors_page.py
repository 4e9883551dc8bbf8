"""What the pages on editors and agents give to copy can be read, and the problem matcher matches what `lint` prints."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from autoaccel.cli.main import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_every_editor_starts_the_server() -> None:
    settings = json.loads(blocks("editors.md", "json")[0])
    assert settings["glspc.server.command"] == "autoaccel"
    assert settings["glspc.server.commandArguments"] == ["server"]
    (helix,) = map(tomllib.loads, blocks("editors.md", "toml"))
    assert helix["language-server"]["autoaccel"] == {"command": "autoaccel", "args": ["server"]}
    assert '"autoaccel", "server"' in blocks("editors.md", "lua")[0]
    assert all('("autoaccel" "server")' in each for each in blocks("editors.md", "elisp"))


def test_the_server_of_an_agent_starts() -> None:
    (settings,) = map(json.loads, blocks("mcp.md", "json"))
    assert settings["mcpServers"]["autoaccel"]["args"][0] == "mcp"


def test_the_problem_matcher_matches_what_lint_prints(tmp_path: Path, monkeypatch: Any) -> None:
    (task,) = json.loads(blocks("editors.md", "json")[1])["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "train.py").write_text("import torch\nx = torch.zeros(3).to('cuda')\n")
    (tmp_path / "clean.py").write_text("x = 1\n")
    result = CliRunner().invoke(cli, [*task["args"], "--no-cache"])
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    matched = re.match(pattern["regexp"], line)
    assert matched is not None
    found = {name: matched[pattern[name]] for name in ("file", "line", "column", "code")}
    assert found == {"file": "a b/train.py", "line": "2", "column": "5", "code": "AA101"}
    assert matched[pattern["message"]].startswith("create-on-device: ")
