"""Settings from files and the command line, and the rules they choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.config import EXCLUDE, ConfigError, Settings, nearest, read, rule_named, select_rules, settings
from autoaccel.rewriting.finding import Tier
from autoaccel.rewriting.rule import Rule

RULES = [
    Rule("AA101", "create-on-device", Tier.EXACT, ()),
    Rule("AA102", "as-tensor", Tier.EXACT, ()),
    Rule("AA201", "loader-workers", Tier.EQUIVALENT, ()),
    Rule("AA605", "early-stopping", Tier.OPT_IN, ()),
]


def codes(**chosen: tuple[str, ...]) -> list[str]:
    return [rule.code for rule in select_rules(RULES, Settings(**chosen))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({}, ["AA101", "AA102", "AA201"], id="all but opt-in"),
        pytest.param({"select": ("AA1",)}, ["AA101", "AA102"], id="prefix"),
        pytest.param({"select": ("aa101",)}, ["AA101"], id="any case"),
        pytest.param({"select": ("loader-workers",)}, ["AA201"], id="name"),
        pytest.param({"select": ("loader_workers",)}, ["AA201"], id="module name"),
        pytest.param({"ignore": ("AA1",)}, ["AA201"], id="ignored prefix"),
        pytest.param({"select": ("AA1",), "ignore": ("AA101",)}, ["AA102"], id="ignore is more specific"),
        pytest.param({"select": ("AA101",), "ignore": ("AA1",)}, ["AA101"], id="select is more specific"),
        pytest.param({"select": ("AA101",), "ignore": ("AA101",)}, [], id="ignore wins a draw"),
        pytest.param({"select": ("AA6",)}, [], id="a prefix does not opt in"),
        pytest.param({"select": ("ALL",)}, ["AA101", "AA102", "AA201"], id="ALL does not opt in"),
        pytest.param({"select": ("AA605",)}, ["AA605"], id="opt-in by code"),
        pytest.param({"extend_select": ("early-stopping",)}, ["AA101", "AA102", "AA201", "AA605"], id="opt-in by name"),
        pytest.param({"select": ("AA2",), "extend_select": ("AA102",)}, ["AA102", "AA201"], id="extended"),
    ],
)
def test_selection(chosen: dict[str, tuple[str, ...]], expected: list[str]) -> None:
    assert codes(**chosen) == expected


@pytest.mark.parametrize(
    ("word", "hint"),
    [("AA111", "did you mean 'AA101'?"), ("as-tensors", "did you mean 'as-tensor'?"), ("zzz", "'zzz'")],
)
def test_unknown_selector(word: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=r"no rule matches") as caught:
        codes(ignore=(word,))
    assert hint in str(caught.value)


def test_one_rule_by_name() -> None:
    assert rule_named(RULES, "Early-Stopping").code == "AA605"
    with pytest.raises(ConfigError, match="no rule is called 'AA1'"):
        rule_named(RULES, "AA1")


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[tool.autoaccel]\nselect = ["AA1"]\nextend-select = ["AA201"]\ntier = "exact"\nextend-exclude = ["old/"]\n'
        "respect-gitignore = false\n"
    )
    found = settings(tmp_path)
    assert found == Settings(
        select=("AA1",), extend_select=("AA201",), tier="exact", extend_exclude=("old/",), respect_gitignore=False
    )
    assert found.origin == path
    assert found.excluded == (*EXCLUDE, "old/")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        pytest.param('selct = ["AA1"]', "unknown key 'selct'; did you mean 'select'?", id="misspelt"),
        pytest.param('extend_select = ["AA1"]', "did you mean 'extend-select'?", id="snake case"),
        pytest.param("frobnicate = 1", "unknown key 'frobnicate'", id="unknown"),
        pytest.param('select = "AA1"', "select must be a list of strings, not 'AA1'", id="string for list"),
        pytest.param("ignore = [1]", "ignore must be a list of strings", id="numbers"),
        pytest.param('tier = "exacct"', "tier must be one of exact, equivalent, numerics", id="tier"),
        pytest.param("respect-gitignore = 1", "respect-gitignore must be true or false, not 1", id="bool"),
        pytest.param("select = [", "not valid TOML", id="broken"),
    ],
)
def test_bad_file(tmp_path: Path, toml: str, message: str) -> None:
    path = tmp_path / "autoaccel.toml"
    path.write_text(toml)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_missing_named_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration: No such file"):
        settings(tmp_path, config=tmp_path / "none.toml")


def test_nearest_file_that_speaks_of_autoaccel(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.autoaccel]\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert nearest(inner) == tmp_path / "pyproject.toml"
    (inner / "autoaccel.toml").write_text("")
    assert nearest(inner) == inner / "autoaccel.toml"
    assert nearest(inner / "train.py") == inner / "autoaccel.toml"


def test_isolated_looks_at_no_file(tmp_path: Path) -> None:
    (tmp_path / "autoaccel.toml").write_text("selct = 1")
    assert settings(tmp_path, isolated=True) == Settings()


def test_command_line_over_file(tmp_path: Path) -> None:
    (tmp_path / "autoaccel.toml").write_text(
        'select = ["AA1"]\nignore = ["AA102"]\nextend-select = ["AA2"]\ntier = "exact"\nextend-exclude = ["old/"]\n'
    )
    given = {"tier": "numerics", "extend_select": ("AA605",), "extend_exclude": ("new/",), "ignore": (), "exclude": ()}
    found = settings(tmp_path, overrides=given)
    assert found.tier == "numerics"
    assert found.select == ("AA1",)
    assert found.extend_select == ("AA2", "AA605")
    assert found.extend_exclude == ("old/", "new/")
    assert found.exclude == EXCLUDE


def test_choosing_on_the_command_line_replaces_what_the_file_chooses(tmp_path: Path) -> None:
    (tmp_path / "autoaccel.toml").write_text('ignore = ["AA101"]\nextend-select = ["AA2"]\n')
    found = settings(tmp_path, overrides={"select": ("AA101",)})
    assert (found.select, found.ignore, found.extend_select) == (("AA101",), (), ())
