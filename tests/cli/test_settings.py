"""Configuration as the commands see it: per file, inline, shown, and for what comes on stdin."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.edits import Tier
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule

Run = Callable[..., Result]

SLOW = "import torch\nx = slow(1)\n"
FAST = "import torch\nx = fast(1)\n"
TIMID = "import torch\nx = timid(1)\n"


@pytest.fixture
def monorepo(folder: Path) -> Path:
    """Two projects under one roof, each with a word of its own."""
    for name, toml in {
        "pyproject.toml": '[tool.autoaccel]\nextend-exclude = ["/*/gen/"]\n',
        "a/pyproject.toml": "[tool.autoaccel]\nignore = ['fast-call']\n",
        "b/autoaccel.toml": "extend = '../pyproject.toml'\nextend-select = ['AA690']\nextend-exclude = ['/old/']\n",
        "c/pyproject.toml": "[tool.ruff]\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(toml)
    for project in "abc":
        for place in ("", "gen", "old"):
            (folder / project / place).mkdir(exist_ok=True)
            (folder / project / place / "train.py").write_text(SLOW + TIMID)
    return folder


def linted(run: Run, *arguments: str, status: int = 1) -> list[str]:
    result = run("lint", "--output-format", "concise", "-q", *arguments)
    assert result.exit_code == status, result.output
    return sorted(" ".join(line.replace(":", " ").split()[i] for i in (0, 3)) for line in result.stdout.splitlines())


def test_each_file_is_governed_by_its_own_project(run: Run, monorepo: Path) -> None:
    """`a` inherits nothing, so its `gen` is looked at; `c` has no word of its own."""
    expected = ["b/train.py AA190", "b/train.py AA690", "c/old/train.py AA190", "c/train.py AA190"]
    assert linted(run, ".") == expected
    assert linted(run, "a", "b", "c") == expected
    assert linted(run, "a/train.py", "b/train.py") == expected[:2]
    assert linted(run, "--isolated", "a/train.py", "b/train.py") == ["a/train.py AA190", "b/train.py AA190"]
    assert linted(run, "--ignore", "AA1", ".") == ["b/train.py AA690"]


def test_rewriting_is_governed_by_the_same(run: Run, monorepo: Path) -> None:
    assert run("rewrite", ".").exit_code == 0
    written = {path.relative_to(monorepo).as_posix(): path.read_text() for path in monorepo.rglob("*.py")}
    changed = {name: text for name, text in written.items() if text != SLOW + TIMID}
    assert changed == {
        "b/train.py": FAST + TIMID.replace("timid", "brave"),
        "c/train.py": FAST + TIMID,
        "c/old/train.py": FAST + TIMID,
    }


def test_a_mistake_in_any_project_ends_the_run_before_it_writes(run: Run, monorepo: Path) -> None:
    (monorepo / "c/pyproject.toml").write_text("[tool.autoaccel]\nselect = ['AA777']\n")
    for command in ("rewrite", "lint"):
        result = run(command, ".")
        assert (result.exit_code, result.stdout) == (2, "")
        place = monorepo / "c/pyproject.toml"
        assert result.stderr.splitlines()[-1] == f"error: no rule matches 'AA777' ({place})"
    assert (monorepo / "b/train.py").read_text() == SLOW + TIMID


def test_inline_settings(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(SLOW)
    (folder / "other.toml").write_text('ignore = ["AA1"]')
    assert linted(run, "train.py", "--config", 'per-file-ignores = {"train.py" = ["AA1"]}', status=0) == []
    assert linted(run, "train.py", "--config", "other.toml", status=0) == []
    assert linted(run, "train.py", "--config", "other.toml", "--config", 'select = ["ALL"]') == ["train.py AA190"]
    assert linted(run, "train.py", "--isolated", "--config", 'select = ["AA190"]') == ["train.py AA190"]
    for wrong, message in {
        ("--config", "a.toml", "--config", "b.toml"): "--config names two files: a.toml and b.toml",
        ("--config", "other.toml", "--isolated"): "but --config names other.toml",
        ("--config", 'teir = "exact"'): "--config: unknown key 'teir'; did you mean 'tier'?",
        ("--config", "tier = exact"): "--config: 'tier = exact' is neither a file nor valid TOML",
    }.items():
        result = run("lint", "train.py", *wrong)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr


def test_output_format_of_the_file(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(SLOW)
    (folder / "autoaccel.toml").write_text('output-format = "concise"\n')
    assert run("lint", "train.py").stdout.startswith("train.py:2:5: AA190")
    assert run("lint", "--output-format", "github", "train.py").stdout.startswith("::")


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        pytest.param("src/train.py", 1, FAST, id="governed"),
        pytest.param("tests/test_train.py", 0, SLOW, id="per-file-ignores"),
        pytest.param("gen/train.py", 1, FAST, id="excluded, but named"),
    ],
)
def test_stdin_is_governed_by_its_name(run: Run, folder: Path, name: str, status: int, text: str) -> None:
    """The file itself need not be there."""
    (folder / "autoaccel.toml").write_text('per-file-ignores = {"tests/" = ["AA1"]}\nexclude = ["gen/"]\n')
    assert run("lint", "-", "--stdin-filename", name, input=SLOW).exit_code == status
    assert run("rewrite", "-", "--stdin-filename", name, input=SLOW).stdout == text


@pytest.mark.parametrize("option", [(), ("--config", "force-exclude = true")])
def test_excluded_stdin_passes_through(run: Run, folder: Path, option: tuple[str, ...]) -> None:
    (folder / "autoaccel.toml").write_text('exclude = ["gen/"]\n')
    arguments = ["-", "--stdin-filename", "gen/train.py", *(option or ("--force-exclude",))]
    assert (run("lint", *arguments, input=SLOW).stdout, run("lint", *arguments, input=SLOW).exit_code) == ("", 0)
    rewritten = run("rewrite", *arguments, input="not ( python")
    assert (rewritten.stdout, rewritten.stderr, rewritten.exit_code) == ("not ( python", "", 0)
    assert run("rewrite", "--diff", *arguments, input=SLOW).stdout == ""


def test_named_files_can_be_forced_out(run: Run, folder: Path) -> None:
    """As pre-commit needs it, which names every file that changed."""
    (folder / "build").mkdir()
    for name in ("build/train.py", "train.py"):
        (folder / name).write_text(SLOW)
    assert linted(run, "build/train.py", "train.py") == ["build/train.py AA190", "train.py AA190"]
    assert linted(run, "--force-exclude", "build/train.py", "train.py") == ["train.py AA190"]
    assert run("rewrite", "--force-exclude", "build/train.py").exit_code == 0
    assert (folder / "build/train.py").read_text() == SLOW


@pytest.mark.parametrize("command", ["lint", "rewrite"])
def test_show_settings(run: Run, folder: Path, command: str) -> None:
    (folder / "base.toml").write_text('tier = "exact"\nper-file-ignores = {"!b.py" = ["AA6"]}\n')
    (folder / "autoaccel.toml").write_text('extend = "base.toml"\nextend-exclude = ["old\\"/"]\n')
    for name in ("a.py", "b.py"):
        (folder / name).write_text(SLOW)
    result = run(command, "--show-settings", ".", "--extend-select", "AA690", "--exclude", "new/")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[:3] == [
        "# settings for a.py",
        f"# from {folder / 'autoaccel.toml'}",
        f"# which extends {folder / 'base.toml'}",
    ]
    assert tomllib.loads(result.stdout) == {
        "select": ["AA190"],
        "tier": "exact",
        "exclude": ["new/"],
        "extend-exclude": ['old"/'],
        "respect-gitignore": True,
        "force-exclude": False,
        "per-file-ignores": {"!b.py": ["AA6"]},
    }
    assert tomllib.loads(run(command, "--show-settings", "b.py", "--extend-select", "AA690").stdout)["select"] == [
        "AA190",
        "AA690",
    ]
    assert (folder / "a.py").read_text() == SLOW


def test_shown_settings_without_a_file(run: Run, folder: Path) -> None:
    shown = run("lint", "--isolated", "--show-settings", "-", "--stdin-filename", "x.py").stdout
    assert shown.startswith("# settings for x.py\n# from the defaults, there is no configuration file\n")
    (folder / "autoaccel.toml").write_text(shown)
    again = run("lint", "--show-settings", "x.py").stdout
    assert tomllib.loads(again) == tomllib.loads(shown) | {"extend-exclude": []}


@pytest.mark.parametrize("command", [["lint"], ["rewrite", "--check"], ["lint", "--add-ignore"]], ids=" ".join)
@pytest.mark.parametrize(
    ("setting", "silent"),
    [
        pytest.param("select = []", True, id="an empty list"),
        pytest.param('ignore = ["all"]', True, id="all ignored"),
        pytest.param('per-file-ignores = {"*.py" = ["ALL"]}', True, id="all ignored in every file"),
        pytest.param('per-file-ignores = {"other.py" = ["ALL"]}', False, id="all ignored elsewhere"),
        pytest.param('select = []\nextend-select = ["AA190"]', False, id="an empty list that is extended"),
        pytest.param('ignore = ["ALL"]\nextend-select = ["AA190"]', False, id="all ignored but one"),
        pytest.param("", False, id="nothing said"),
    ],
)
def test_a_choice_of_no_rules_is_no_silence(
    run: Run, folder: Path, command: list[str], setting: str, silent: bool
) -> None:
    (folder / "train.py").write_text("x = slow(1)\n")
    (folder / "autoaccel.toml").write_text(setting)
    result = run(*command, "train.py")
    assert ("warning: no rule is selected, nothing is looked for\n" in result.stderr) == silent
    assert (result.exit_code == 0) == (silent or "--add-ignore" in command)


def test_settings_of_rules(run: Run, folder: Path) -> None:
    """The command line over the file, name by name; it is said where it would change nothing."""
    (folder / "train.py").write_text(TIMID)
    (folder / "autoaccel.toml").write_text('extend-select = ["AA690"]\nset = {courage = 5}\n')
    brave = TIMID.replace("timid", "brave")
    for options, expected in (
        ((), brave.replace("brave", "brave5")),
        (("--set", "courage=6"), brave.replace("brave", "brave6")),
        (("--set", "courage=6", "--set", "courage = 7"), brave.replace("brave", "brave7")),
        (("--isolated", "--select", "AA690"), brave),
    ):
        assert run("rewrite", "-", *options, input=TIMID).stdout == expected
        assert "brave" in run("lint", "train.py", *options).stdout
    assert tomllib.loads(run("lint", "--show-settings", "train.py", "--set", "courage=9").stdout)["set"] == {
        "courage": 9
    }
    shown = run("lint", "--show-settings", "train.py", "--isolated", "--select", "AA690").stdout
    assert tomllib.loads(shown)["set"] == {"courage": 4}
    vain = run("lint", "train.py", "--isolated", "--set", "courage=9")
    assert "warning: --set courage sets something of AA690 brave-call, which is not selected\n" in vain.stderr
    assert vain.exit_code == 0
    for wrong, message in {
        "courage": "'courage' is not NAME=VALUE",
        "=4": "'=4' is not NAME=VALUE",
        "courage=": "'courage=' is not NAME=VALUE",
        "courage=x": "error: courage must be a whole number of at least 2, not 'x'\n",
        "curage=4": "error: no rule has a setting 'curage'; did you mean 'courage'?\n",
    }.items():
        result = run("lint", "train.py", "--set", wrong)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    (folder / "autoaccel.toml").write_text("set = {courage = 1}\n")
    result = run("rewrite", "train.py")
    place = folder / "autoaccel.toml"
    assert result.stderr == f"error: courage must be a whole number of at least 2, not 1 ({place})\n"
    assert (folder / "train.py").read_text() == TIMID


INEXACT = "warning: no selected rule is as exact as tier exact (AA290 numerics); what is less exact is left alone\n"


@pytest.mark.parametrize("command", [["lint"], ["lint", "--statistics"], ["rewrite", "--check"], ["rewrite", "--diff"]])
@pytest.mark.parametrize("stdin", [False, True])
@pytest.mark.parametrize(
    ("arguments", "setting", "said"),
    [
        pytest.param("--select AA290 --tier exact", "", True, id="none is so exact"),
        pytest.param("--tier exact", 'select = ["AA290"]', True, id="none of the project's choice"),
        pytest.param("--select AA290", 'tier = "exact"', True, id="none, by the project's tier"),
        pytest.param("--select AA290,AA190 --tier exact", "", False, id="one is"),
        pytest.param("--select AA290,AA690 --tier exact", "", False, id="one is asked for whatever it does"),
        pytest.param("--select AA290 --tier numerics", "", False, id="all are"),
        pytest.param("--tier exact", "", False, id="nothing is selected"),
        pytest.param("", 'select = ["AA290"]\ntier = "exact"', False, id="the project's own choice"),
    ],
)
def test_a_tier_that_empties_the_choice_is_no_silence(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    stdin: bool,
    arguments: str,
    setting: str,
    said: bool,
) -> None:
    inexact = Rule("AA290", "inexact-call", Tier.NUMERICS, (b"slow(",))
    inexact.check(lambda script: (inexact.finding(call, "slow() is not exact") for call in script.find(ast.Call)))
    rules = (*registry.rules(), inexact)
    monkeypatch.setattr(registry, "rules", lambda: rules)
    (folder / "train.py").write_text("y = slow(1)\n")
    (folder / "autoaccel.toml").write_text(setting)
    if stdin:
        result = run(*command, *arguments.split(), "--stdin-filename", "train.py", "-", input="y = slow(1)\n")
    else:
        result = run(*command, *arguments.split(), "train.py")
    assert (INEXACT in result.stderr) == said
    assert "warning: " not in result.stderr.replace(INEXACT, "")
    if said:
        assert result.exit_code == 0
