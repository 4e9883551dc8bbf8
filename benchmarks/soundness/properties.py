"""The properties: what is said of a project with other bounds, in another order, of files alone, by another process."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.files import Files
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Finding, RemoveStatement, Tier
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.rule import Rule
from autoaccel.summaries import Summary, summary

ROOT = Path(__file__).resolve().parent.parent.parent
Texts = dict[Path, str]
Said = frozenset[str]
BESIDE = frozenset({"beside", "file"})
"""The bounds of how files beside a project are read."""
_BESIDES = " besides"
_IN_VAIN = re.compile(r"too few|too short to gain|hold no tensors|changes from step to step|waits for the device")
"""What is said of a finding that is right and gains nothing, after all else that speaks against it was asked."""


def fixtures(root: Path = ROOT) -> Iterator[Texts]:
    """The inputs of all fixtures, and the scripts among them; each with the files of its project."""
    for folder in sorted(each for each in (root / "fixtures").iterdir() if each.is_dir()):
        for path in sorted(folder.glob("*.py")):
            yield _read([path])
        for inner in sorted(each for each in folder.iterdir() if each.is_dir() and each.name != "__pycache__"):
            yield _read(each for each in sorted(inner.rglob("*.py")) if "expected" not in each.relative_to(inner).parts)


def smaller_repository(root: Path, chosen: Iterable[Texts]) -> list[Texts]:
    """Some fixtures, in a repository of their own: all files around a fixture are searched for what imports it."""
    (root / ".git").mkdir(parents=True)
    for texts in chosen:
        for path, text in texts.items():
            copied = root / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_text(text, encoding="utf-8")
    return list(fixtures(root))


def alone(texts: Texts) -> Texts:
    """The same fixture where nothing lies beside it: the index of a folder of fixtures takes longer than what is asked
    of it."""
    return {Path("/alone", path.relative_to(ROOT)): text for path, text in texts.items()}


def repositories(folders: Iterable[Path]) -> Iterator[Texts]:
    """Each folder as one project."""
    for folder in folders:
        yield _read(sorted(folder.rglob("*.py")))


def _read(paths: Iterable[Path]) -> Texts:
    found: Texts = {}
    for path in paths:
        try:
            found[path] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    return found


def _project(texts: Texts, order: Iterable[Path] | None = None, bounds: Bounds | None = None) -> Project:
    """A project of its own; only what lies beside the files, and does not change, is summed up once for all of them."""
    return Project(Files(texts if order is None else order, texts, bounds, known=_summed_up), bounds=bounds)


@cache
def _summed_up(path: Path) -> Summary | None:
    return summary(path.read_bytes()) if path.is_file() else None


def variants(bounds: Bounds | None = None) -> Iterator[tuple[str, Bounds]]:
    """Every bound lowered in turn: to nothing, and to little."""
    full = bounds or Bounds()
    for field in dataclasses.fields(full):
        for value in (0, 1, 10):
            if value < getattr(full, field.name):
                yield f"{field.name}={value}", dataclasses.replace(full, **{field.name: value})


def said(texts: Texts, bounds: Bounds | None = None, only: Iterable[Path] | None = None) -> dict[Path, Said]:
    """The findings in each file, suppressed ones too; and the places that a rule speaks of besides: those of findings
    that wait for others, of those that would gain nothing, and of calls in statements that a finding removes."""
    project = _project(texts, bounds=bounds)
    found: dict[Path, Said] = {}
    for path in texts if only is None else only:
        try:
            analysis = engine.analyse(texts[path], path, registry.rules(), project=project)
        except engine.RewriteError:
            found[path] = frozenset()
            continue
        findings = (*analysis.findings, *(each for each, _ in analysis.suppressed))
        besides = [(each.rule, each.node) for each in analysis.waiting]
        besides += [(each.rule, each.node) for each in analysis.skipped if _IN_VAIN.search(each.reason)]
        besides += [(each.rule, call) for each in findings for call in _removed_calls(each)]
        places = (f"{rule.code}@{_place(node)}{_BESIDES}" for rule, node in besides)
        found[path] = frozenset((*map(_spelled, findings), *places))
    return found


def gained(texts: Texts, bounds: Bounds, full: dict[Path, Said]) -> list[str]:
    """The findings that are there only with lower bounds, or more exact: there are none, or a silence was taken for
    a No. That one is less exact is right, or kept from float16, and that AA303 stands where AA301 has gone: it is for
    steps that this leaves alone, for whichever reason, and leans on none of its answers."""
    lower = said(texts, bounds, full)
    allowed = {
        path: {_without_tier(each): _tier(each) for each in found if not each.endswith(_BESIDES)}
        for path, found in full.items()
    }
    return [
        f"{path}: {each}"
        for path in full
        for each in sorted(lower[path] - full[path])
        if not each.endswith(_BESIDES)
        and f"{each.partition(' ')[0]}{_BESIDES}" not in full[path]
        and all(_tier(each) < allowed[path].get(kind, Tier.OPT_IN + 1) for kind in _as_careful(each))
        and not (_is_of("AA303", each) and any(_is_of("AA301", lost) for lost in full[path] - lower[path]))
    ]


def _as_careful(said: str) -> tuple[str, ...]:
    """A finding, and the same one without its reason against float16."""
    finding = _without_tier(said)
    return finding, finding.partition("; no float16: ")[0]


def _is_of(code: str, said: str) -> bool:
    return said.startswith(f"{code}@")


def _without_tier(said: str) -> str:
    place, _, rest = said.partition(" ")
    return f"{place} {rest.partition(' ')[2]}"


def _tier(said: str) -> Tier:
    return next(each for each in Tier if each.label == said.split(" ")[1])


def in_another_order(texts: Texts, seed: int) -> dict[Path, Said]:
    """The same when files, rules and questions come in another order: some of everything is asked first."""
    chosen = random.Random(seed)
    project = _project(texts, chosen.sample(sorted(texts), len(texts)))
    rules = chosen.sample(list(registry.rules()), len(registry.rules()))
    found: dict[Path, Said] = {}
    for path in chosen.sample(sorted(texts), len(texts)):
        try:
            script = load(texts[path], path, project)
        except (SyntaxError, ValueError):
            found[path] = frozenset()
            continue
        _ask_anything(script, chosen)
        found[path] = frozenset(_findings(script, rules))
    return found


def in_order(texts: Texts, rules: Sequence[Rule] | None = None) -> dict[Path, Said]:
    """What the rules (by default all) say of each file, before findings are settled among one another."""
    project = _project(texts)
    found: dict[Path, Said] = {}
    for path, text in texts.items():
        try:
            found[path] = frozenset(_findings(load(text, path, project), registry.rules() if rules is None else rules))
        except (SyntaxError, ValueError):
            found[path] = frozenset()
    return found


def _ask_anything(script: Script, chosen: random.Random) -> None:
    expressions = [each for each in ast.walk(script.tree) if isinstance(each, ast.expr)]
    functions = list(script.find(ast.FunctionDef))
    try:
        for expression in chosen.sample(expressions, min(len(expressions), 300)):
            script.values(expression)
        for function in chosen.sample(functions, len(functions)):
            script.callers(function)
    except Incomplete:
        return


def _findings(script: Script, rules: Sequence[Rule]) -> Iterator[str]:
    for rule in rules:
        try:
            yield from [_spelled(each) for each in rule.run(script) if isinstance(each, Finding)]
        except Incomplete:
            continue


def _spelled(finding: Finding) -> str:
    return f"{finding.rule.code}@{_place(finding.node)} {finding.tier.label} {finding.message}"


def _removed_calls(finding: Finding) -> Iterator[ast.Call]:
    removed = (edit.statement for edit in finding.edits if isinstance(edit, RemoveStatement))
    return (node for statement in removed for node in ast.walk(statement) if isinstance(node, ast.Call))


def _place(node: ast.AST) -> str:
    return f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"


def in_a_repository(texts: Texts, folder: Path) -> Texts:
    """The same files in a repository of their own."""
    (folder / ".git").mkdir(parents=True)
    common = Path(os.path.commonpath([path.parent for path in texts]))
    copied = {folder / path.relative_to(common): text for path, text in texts.items()}
    for path, text in copied.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return copied


def named_alone(texts: Texts) -> list[str]:
    """What is said of a file that is named alone, and not where all files of its repository are, or the other way."""
    whole = Files(texts)
    found: list[str] = []
    for path, text in texts.items():
        try:
            both = [
                frozenset(map(_spelled, engine.analyse(text, path, registry.rules(), project=Project(files)).findings))
                for files in (whole, Files([path]))
            ]
        except engine.RewriteError:
            continue
        found += (f"{path}: {each}" for each in sorted(both[0] ^ both[1]))
    return found


def digest(projects: Iterable[Texts]) -> str:
    """All bytes of all rewrites."""
    total = hashlib.sha256()
    for texts in projects:
        project = _project(texts)
        for path, text in texts.items():
            result = engine.rewrite(text, path, registry.rules(), project=project)
            reasons = [[each.code, each.line, each.message] for each in result.skipped]
            total.update(json.dumps([str(path), result.after, reasons]).encode())
    return total.hexdigest()


def digest_elsewhere(seed: int, *arguments: str) -> subprocess.Popen[str]:
    """The digest, by another process with its own hash seed."""
    command = [sys.executable, "-m", "benchmarks.soundness", "--digest", *arguments]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "codemods")))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
