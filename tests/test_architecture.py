"""What the page on the architecture claims: layers, tests and terms are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.test_layers import BESIDE, LAYERS, modules

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Names of modules that occur twice and mean one thing: a rule and its verb, a feature in two layers, of each rule, of
# `verify` and of `bench`.
SHARED = {"autocast", "compile", "distribute", "in_memory", "baseline", "rules", "blockers", "procedure", "report"}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def rows(section: str) -> list[list[str]]:
    """The cells of the table in a section, without its heading."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_layers_are_those_that_are_tested() -> None:
    told = [tuple(re.findall(r"`(\w+)`", row[0])) for row in rows("Layers")]
    assert told == [*reversed(LAYERS), BESIDE]


def test_each_question_is_answered_in_few_files_that_exist() -> None:
    for question, files in rows("Where to look"):
        named = re.findall(r"`([\w/]+/[\w.]+|\w+\.md)`", files)
        assert len(named) <= 3, question
        assert all((ROOT / each).is_file() for each in named), question


def test_a_name_of_a_module_means_one_thing() -> None:
    names = [name.rpartition(".")[2] for name in modules()]
    assert {name for name in names if names.count(name) > 1} == SHARED | {"__main__"}


def test_every_bound_is_in_one_module() -> None:
    """No depth is a number where it is counted."""
    own = [
        f"{path.relative_to(ROOT)}:{number}"
        for room in ("autoaccel/analysis", "autoaccel/dataflow", "autoaccel/pytorch", "codemods")
        for path in sorted((ROOT / room).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\b(depth|nesting)\b(: int)? *(=|>|>=|<|<=) *[1-9]", line) and path.name != "bounds.py"
    ]
    assert own == []


def test_lines_of_scripts_are_counted_as_python_counts_them() -> None:
    """`str.splitlines` ends lines at form feeds, too, and every number after one would be wrong."""
    own = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ("analysis", "dataflow", "pytorch", "rewriting", "../codemods")
        for path in sorted((ROOT / "autoaccel" / room).rglob("*.py"))
        if ".splitlines" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines" and ast.unparse(node.value).endswith("text")
    ]
    assert own == []


def test_every_contract_has_a_page_and_a_test() -> None:
    for contract, page, test in rows("Contracts"):
        assert page == "this line" or re.match(r"\[\w+\]\([\w/.]+\)", page), contract
        assert "`tests/" in test or test.startswith("missing: "), contract


@pytest.mark.parametrize(("path", "function"), NAMED)
def test_every_test_that_is_named_exists(path: str, function: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert not function or function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_terms_are_used() -> None:
    """In the code or in what it says, as a word of its own or as a part of a name."""
    terms = [row[0] for row in rows("Glossary")]
    assert terms == sorted(terms)
    assert 10 < len(terms) <= 30
    sources = [*(ROOT / "autoaccel").rglob("*.py"), *(ROOT / "codemods").rglob("*.py")]
    words = "\n".join(path.read_text(encoding="utf-8") for path in sources).lower().replace("_", " ")
    unused = [term for term in terms if not re.search(rf"\b{term}s?\b|\b{term.replace(' ', '')}s?\b", words)]
    assert unused == []


def test_it_is_short() -> None:
    assert len(PAGE.splitlines()) <= 250
