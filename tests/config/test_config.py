"""Settings from files and the command line, and the rules they choose."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from autoaccel import __version__
from autoaccel.config import ConfigError, Configuration, configure
from autoaccel.config.selection import Given, Selection, rule_named, selected
from autoaccel.config.settings import PerFile, Settings, read
from autoaccel.discovery import EXCLUDE
from autoaccel.edits import Tier
from autoaccel.patterns import Patterns
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule, Setting

RULES = [
    Rule("AA101", "create-on-device", Tier.EXACT, ()),
    Rule("AA102", "as-tensor", Tier.EXACT, ()),
    Rule("AA201", "loader-workers", Tier.EQUIVALENT, ()),
    Rule("AA403", "captured-step", Tier.EXACT, (), on_request=True),
    Rule(
        "AA605",
        "early-stopping",
        Tier.OPT_IN,
        (),
        settings=(Setting("patience", default=5, least=2), Setting("direction", choices=("min", "max"))),
    ),
]


def codes(*layers: dict[str, tuple[str, ...]]) -> list[str]:
    return [rule.code for rule in selected(RULES, [Selection(**layer) for layer in layers])]  # type: ignore[arg-type]


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
        pytest.param({"select": ("AA4",)}, [], id="a prefix requests nothing"),
        pytest.param({"select": ("AA403",)}, ["AA403"], id="requested by code"),
        pytest.param({"extend_select": ("captured-step",)}, ["AA101", "AA102", "AA201", "AA403"], id="by name"),
        pytest.param({"select": ("AA605",)}, ["AA605"], id="opt-in by code"),
        pytest.param({"extend_select": ("early-stopping",)}, ["AA101", "AA102", "AA201", "AA605"], id="opt-in by name"),
        pytest.param({"select": ("AA2",), "extend_select": ("AA102",)}, ["AA102", "AA201"], id="extended"),
    ],
)
def test_selection(chosen: dict[str, tuple[str, ...]], expected: list[str]) -> None:
    assert codes(chosen) == expected


@pytest.mark.parametrize(
    ("file", "command_line", "expected"),
    [
        pytest.param({"select": ("AA101",)}, {"ignore": ("AA1",)}, [], id="ignored, however it was selected"),
        pytest.param({"ignore": ("AA1",)}, {"ignore": ("AA2",)}, [], id="ignored, too"),
        pytest.param({"ignore": ("AA102",)}, {"extend_select": ("AA102",)}, ["AA101", "AA102", "AA201"], id="added"),
        pytest.param(
            {"ignore": ("AA101",), "extend_select": ("AA605",)}, {"select": ("AA1",)}, ["AA101", "AA102"], id="anew"
        ),
        pytest.param({"select": ()}, {}, [], id="nothing"),
        pytest.param({"select": ()}, {"extend_select": ("AA2",)}, ["AA201"], id="nothing but"),
        pytest.param({"ignore": ("ALL",)}, {}, [], id="ignored altogether"),
    ],
)
def test_the_command_line_is_laid_over_the_file(
    file: dict[str, tuple[str, ...]], command_line: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    assert codes(file, command_line) == expected


@pytest.mark.parametrize(
    ("word", "hint"),
    [("AA111", "did you mean 'AA101'?"), ("as-tensors", "did you mean 'as-tensor'?"), ("zzz", "'zzz'")],
)
def test_unknown_selector(word: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=r"no rule matches") as caught:
        codes({"ignore": (word,)})
    assert hint in str(caught.value)


def test_one_rule_by_name() -> None:
    assert rule_named(RULES, "Early-Stopping").code == "AA605"
    with pytest.raises(ConfigError, match="no rule is called 'AA1'"):
        rule_named(RULES, "AA1")


def here(folder: Path, *lines: str) -> Patterns:
    return Patterns(lines, str(folder))


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[tool.autoaccel]\nselect = ["AA1"]\nextend-select = ["AA201"]\ntier = "exact"\nextend-exclude = ["old/"]\n'
        'respect-gitignore = false\nforce-exclude = true\noutput-format = "concise"\ncache-dir = "out/cache"\n'
        'per-file-ignores = { "tests/" = ["AA1"] }\nrequired-version = ">=0.0.1"\n'
        "[tool.autoaccel.set]\npatience = 3\naccumulate = 4\n"
    )
    found = configure(tmp_path).settings
    assert found == Settings(
        selections=(Selection(("AA1",), (), ("AA201",)),),
        tier="exact",
        extend_exclude=(here(tmp_path, "old/"),),
        respect_gitignore=False,
        force_exclude=True,
        output_format="concise",
        cache_dir=tmp_path / "out/cache",
        per_file_ignores=(PerFile(here(tmp_path, "tests/"), False, ("AA1",)),),
        required_version=">=0.0.1",
        given=(Given("accumulate", 4), Given("patience", 3)),
    )
    assert found.origin == path
    assert Configuration(found).scope_of(str(tmp_path)).exclude == (here(tmp_path, *EXCLUDE), here(tmp_path, "old/"))


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b'\xef\xbb\xbf[tool.autoaccel]\r\ntier = "exact"\r\n')
    assert configure(tmp_path).settings.tier == "exact"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        pytest.param('selct = ["AA1"]', "unknown key 'selct'; did you mean 'select'?", id="misspelt"),
        pytest.param('extend_select = ["AA1"]', "did you mean 'extend-select'?", id="snake case"),
        pytest.param("frobnicate = 1", "unknown key 'frobnicate'", id="unknown"),
        pytest.param('select = "AA1"', "select must be a list of strings, not 'AA1'", id="string for list"),
        pytest.param("ignore = [1]", "ignore must be a list of strings", id="numbers"),
        pytest.param("per_file_ignores = {}", "did you mean 'per-file-ignores'?", id="snake case table"),
        pytest.param('per-file-ignores = ["a"]', "per-file-ignores must be a table of patterns", id="list for table"),
        pytest.param(
            'per-file-ignores = {"a" = "AA1"}', "per-file-ignores: 'a' must be a list of strings, not 'AA1'", id="deep"
        ),
        pytest.param('per-file-ignores = {"!" = ["AA1"]}', "per-file-ignores: ", id="no pattern"),
        pytest.param('exclude = ["a", "!"]', "exclude: ", id="no pattern to exclude"),
        pytest.param(
            f'exclude = [\n  "a",\n  "{"{a,b}" * 20}",\n]', "line 3: exclude: '{a,b}{a,b}", id="absurd alternatives"
        ),
        pytest.param(f'per-file-ignores = {{"{"*a" * 2000}" = []}}', "line 1: per-file-ignores: '*a*a", id="absurd"),
        pytest.param('output-format = "jsn"', "output-format must be one of", id="format"),
        pytest.param("cache-dir = 1", "cache-dir must be a string, not 1", id="number for string"),
        pytest.param('required-version = "latest"', "required-version must be a version or a specifier", id="version"),
        pytest.param('required-version = ">=99"', f"autoaccel >=99 is required, this is {__version__}", id="newer"),
        pytest.param('required-version = "99"\nnew-key = 1', "autoaccel 99 is required", id="newer file"),
        pytest.param("set = 4", "set must be a table of names with whole numbers or words, not 4", id="no table"),
        pytest.param(
            "set = {patience = true}", "set must be a table of names with whole numbers", id="true is no number"
        ),
        pytest.param("set = {early-stopping.patience = 3}", "set must be a table of names with", id="deep settings"),
        pytest.param('extend = "none.toml"', "extend: no such file: ", id="nothing to extend"),
        pytest.param('extend = "autoaccel.toml"', "circular extend", id="circle"),
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
        configure(tmp_path, config=tmp_path / "none.toml")


def test_nearest_file_that_speaks_of_autoaccel(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.autoaccel]\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert configure(inner).settings.origin == tmp_path / "pyproject.toml"
    (inner / "autoaccel.toml").write_text("")
    assert configure(inner).settings.origin == inner / "autoaccel.toml"


def test_broken_files_that_do_not_speak_of_autoaccel_are_not_our_concern(tmp_path: Path) -> None:
    """Trees hold fixtures of other tools."""
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.black\n\xe9")
    assert configure(tmp_path).settings == Settings()
    with pytest.raises(ConfigError, match="not valid TOML"):
        configure(tmp_path, config=tmp_path / "pyproject.toml")
    (tmp_path / "pyproject.toml").write_text("[tool.autoaccel\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        configure(tmp_path)


@pytest.mark.parametrize("toml", ["[tool]\nautoaccel = 1\n", '[tool]\nautoaccel = ["AA1"]\n'])
def test_what_is_no_table(tmp_path: Path, toml: str) -> None:
    (tmp_path / "pyproject.toml").write_text(toml)
    with pytest.raises(ConfigError, match=r"tool\.autoaccel must be a table"):
        configure(tmp_path)


def test_isolated_looks_at_no_file(tmp_path: Path) -> None:
    (tmp_path / "autoaccel.toml").write_text("selct = 1")
    assert configure(tmp_path, isolated=True).settings == Settings()


def test_command_line_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "autoaccel.toml").write_text('select = ["AA1"]\ntier = "exact"\nextend-exclude = ["old/"]\n')
    given = {"tier": "numerics", "extend_select": ("AA605",), "extend_exclude": ("new/",), "ignore": (), "exclude": ()}
    found = configure(tmp_path, overrides=given).settings
    assert found.tier == "numerics"
    assert found.selections == (Selection(("AA1",)), Selection(None, (), ("AA605",)))
    assert found.extend_exclude == (here(tmp_path, "old/"), here(Path.cwd(), "new/"))
    assert found.exclude is None


def test_inline_settings_are_between_the_file_and_the_options(tmp_path: Path) -> None:
    (tmp_path / "autoaccel.toml").write_text('tier = "exact"\nforce-exclude = true\n')
    inline = ['tier = "equivalent"', 'select = ["AA1"]\nforce-exclude = false']
    found = configure(tmp_path, inline=inline, overrides={"tier": "numerics"}).settings
    assert (found.tier, found.force_exclude, found.selections) == ("numerics", False, (Selection(("AA1",)),))
    with pytest.raises(ConfigError, match=r"^--config: unknown key 'teir'; did you mean 'tier'\?"):
        configure(tmp_path, inline=['teir = "exact"'])
    with pytest.raises(ConfigError, match=r"^--config: 'tier=exact' is neither a file nor valid TOML"):
        configure(tmp_path, inline=["tier=exact"])


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"tests/": ["AA1"]}, {"tests/a.py": "AA1", "tests/deep/b.py": "AA1"}, id="folder"),
        pytest.param({"tests/**": ["AA1"]}, {"tests/a.py": "AA1", "tests/deep/b.py": "AA1"}, id="as in ruff"),
        pytest.param({"train.py": ["AA1", "AA201"]}, {"train.py": "AA1 AA201", "src/train.py": "AA1 AA201"}, id="name"),
        pytest.param({"/train.py": ["AA1"]}, {"train.py": "AA1"}, id="place"),
        pytest.param({"{src,tests}/*.py": ["AA1"]}, {"tests/a.py": "AA1", "src/train.py": "AA1"}, id="braces"),
        pytest.param({"!tests/": ["AA1"]}, {"train.py": "AA1", "src/train.py": "AA1"}, id="everywhere else"),
        pytest.param({"src/": ["AA1"], "*.py": ["AA2"]}, {
            "train.py": "AA2", "src/train.py": "AA1 AA2", "tests/a.py": "AA2", "tests/deep/b.py": "AA2",
        }, id="several"),
    ],
)  # fmt: skip
def test_per_file_ignores(tmp_path: Path, patterns: dict[str, list[str]], expected: dict[str, str]) -> None:
    table = ", ".join(f"{key!r} = {value!r}" for key, value in patterns.items())
    (tmp_path / "autoaccel.toml").write_text(f"per-file-ignores = {{{table}}}\n")
    chosen = configure(tmp_path)
    files = ("train.py", "src/train.py", "tests/a.py", "tests/deep/b.py")
    without = {name: " ".join(chosen.choice_for(tmp_path / name).without) for name in files}
    assert {name: words for name, words in without.items() if words} == expected


def test_per_file_ignores_of_the_command_line_hold_for_files_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    chosen = configure(tmp_path, inline=['per-file-ignores = {"tests/" = ["AA1"], "/top/" = ["AA2"]}'])
    assert chosen.choice_for(tmp_path / "src/tests/a.py").without == ("AA1",)
    assert chosen.choice_for(tmp_path / "tests/deep/a.py").without == ("AA1",)
    assert chosen.choice_for(tmp_path / "top/a.py").without == ()
    assert chosen.choice_for(Path("top/a.py")).without == ("AA2",)


def test_rules_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: tuple(RULES))
    path = tmp_path / "autoaccel.toml"
    path.write_text('per-file-ignores = {"a.py" = ["AA1"]}\nextend-per-file-ignores = {"a.py" = ["loader-workers"]}\n')
    chosen = configure(tmp_path, overrides={"extend_select": ("AA605",)})
    assert [rule.code for rule in chosen.rules] == ["AA101", "AA102", "AA201", "AA605"]
    assert [rule.code for rule in chosen.rules_for(tmp_path / "a.py")] == ["AA605"]
    assert chosen.rules_for(tmp_path / "b.py") == chosen.rules
    again = pickle.loads(pickle.dumps(chosen))
    assert again.choice_for(tmp_path / "a.py") == chosen.choice_for(tmp_path / "a.py")


def test_settings_of_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name by name, the later word wins; caches and other processes know of them by the choice."""
    monkeypatch.setattr(registry, "rules", lambda: tuple(RULES))
    (tmp_path / "base.toml").write_text("set = {patience = 3}")
    (tmp_path / "autoaccel.toml").write_text('extend = "base.toml"\nselect = ["AA605"]\nset = {direction = "max"}')
    asked = [{}, {"set": {"patience": "7"}}, {"set": {"patience": "7", "direction": "min"}}]
    chosen = [configure(tmp_path, overrides=each) for each in asked]
    assert [each.rules[0].values for each in chosen] == [
        {"patience": 3, "direction": "max"},
        {"patience": 7, "direction": "max"},
        {"patience": 7, "direction": "min"},
    ]
    choices = [each.choice_for(tmp_path / "a.py") for each in chosen]
    assert len({repr(each) for each in choices}) == len(set(choices)) == 3
    again = pickle.loads(pickle.dumps(chosen[1]))
    assert again.choice_for(tmp_path / "a.py") == choices[1]
    assert RULES[-1].values == {"patience": 5, "direction": None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"patince": "3"}, "no rule has a setting 'patince'; did you mean 'patience'?"),
        ({"frobnicate": "3"}, "no rule has a setting 'frobnicate'"),
        ({"patience": "1"}, "patience must be a whole number of at least 2, not '1'"),
        ({"patience": "-3"}, "patience must be a whole number of at least 2, not '-3'"),
        ({"patience": "3.0"}, "patience must be a whole number of at least 2, not '3.0'"),
        ({"patience": "\u0663"}, "patience must be a whole number of at least 2, not '\u0663'"),
        ({"patience": "many"}, "patience must be a whole number of at least 2, not 'many'"),
        ({"direction": "up"}, "direction must be min or max, not 'up'"),
        ({"direction": 1}, "direction must be min or max, not 1"),
    ],
)
def test_settings_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], message: str
) -> None:
    """Whether or not the rule is selected."""
    monkeypatch.setattr(registry, "rules", lambda: tuple(RULES))
    with pytest.raises(ConfigError) as caught:
        configure(tmp_path, overrides={"set": given}).rules_for(tmp_path / "a.py")
    assert str(caught.value) == message


def test_unknown_rule_in_per_file_ignores_is_said_of_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "rules", lambda: tuple(RULES))
    path = tmp_path / "autoaccel.toml"
    path.write_text('per-file-ignores = {"a.py" = ["AA111"]}\n')
    with pytest.raises(ConfigError) as caught:
        configure(tmp_path).rules_for(tmp_path / "b.py")
    assert str(caught.value) == f"no rule matches 'AA111' (per-file-ignores of {path}); did you mean 'AA101'?"


def test_each_file_has_the_nearest_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.autoaccel]\ntier = "exact"\nignore = ["AA1"]\n')
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.autoaccel]\ntier = "equivalent"\n')
    (tmp_path / "c" / "pyproject.toml").write_text("[tool.ruff]\n")
    chosen = configure(tmp_path, overrides={"ignore": ("AA2",)})
    assert chosen.settings.tier == "exact"
    said = {name: chosen.choice_for(tmp_path / name) for name in ("x.py", "a/b/x.py", "c/x.py")}
    assert {name: choice.tier for name, choice in said.items()} == {
        "x.py": "exact",
        "a/b/x.py": "equivalent",
        "c/x.py": "exact",
    }
    assert [layer.ignore for layer in said["a/b/x.py"].layers] == [("AA2",)]
    assert [layer.ignore for layer in said["x.py"].layers] == [("AA1",), ("AA2",)]
    assert configure(tmp_path, config=tmp_path / "pyproject.toml").choice_for(tmp_path / "a/x.py").tier == "exact"
    assert configure(tmp_path, isolated=True).choice_for(tmp_path / "a/x.py").tier == "numerics"


def test_extend(tmp_path: Path) -> None:
    """What is said again replaces, what extends adds; patterns keep their folder, unless it is not above."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "shared/rules.toml").write_text('tier = "exact"\nignore = ["AA1"]\nextend-exclude = ["/old/"]\n')
    (tmp_path / "pyproject.toml").write_text(
        '[tool.autoaccel]\nextend = "shared/rules.toml"\nexclude = ["/app/gen/"]\n'
        'per-file-ignores = {"/app/x.py" = ["AA2"]}\n'
    )
    (tmp_path / "app/pyproject.toml").write_text(
        '[tool.autoaccel]\nextend = "../pyproject.toml"\ntier = "equivalent"\nextend-select = ["AA605"]\n'
        'extend-exclude = ["/tmp/"]\nextend-per-file-ignores = {"/y.py" = ["AA3"]}\n'
    )
    found = configure(tmp_path / "app").settings
    assert found.tier == "equivalent"
    assert found.selections == (Selection(None, ("AA1",)), Selection(None, (), ("AA605",)))
    assert found.exclude == here(tmp_path, "/app/gen/")
    assert found.extend_exclude == (here(tmp_path, "/old/"), here(tmp_path / "app", "/tmp/"))
    assert found.origins == (
        tmp_path / "app/pyproject.toml", tmp_path / "pyproject.toml", tmp_path / "shared/rules.toml",
    )  # fmt: skip
    chosen = Configuration(found)
    assert chosen.choice_for(tmp_path / "app/x.py").without == ("AA2",)
    assert chosen.choice_for(tmp_path / "app/y.py").without == ("AA3",)


def test_rules_that_are_left_out_of_a_file(tmp_path: Path) -> None:
    """In other processes as well."""
    plain = configure(tmp_path, isolated=True)
    here = plain.leaving_out({str(tmp_path / "a.py"): ("AA301", "AA401")})
    for configuration in (here, pickle.loads(pickle.dumps(here))):
        codes = {each.code for each in configuration.rules_for(tmp_path / "a.py")}
        assert codes == {each.code for each in plain.rules} - {"AA301", "AA401"}
        assert [each.code for each in configuration.rules_for(tmp_path / "b.py")] == [each.code for each in plain.rules]
