"""Spell mixed precision anew.

`torch.cuda.amp` and `torch.cpu.amp` only pass their arguments on to `torch.amp`, with a warning each time. The new
spelling takes the device type first, and the data type before `enabled`. Where some code around a region may have set
another precision, the one that the old spelling meant is written out.

Left alone:
- both arms of a switch between versions of torch, however it is spelled;
- names that a fallback (`try: … except ImportError:`) may bind to something else;
- functions that are passed on or subclassed instead of called, calls with `*arguments`;
- functions that the script, or a file around it, replaces by its own;
- scalers whose class is asked for (`isinstance`, an allow-list of `torch.load`): the old class is one of its own;
- imported names that may be looked up while the program runs: `globals()[name]`, `getattr(module, name)`.

Before:
    with torch.cuda.amp.autocast(use_amp):

After:
    with torch.amp.autocast("cuda", enabled=use_amp):
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.imported_names import imported_elsewhere
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import (
    AddImport,
    Code,
    Edit,
    Finding,
    InsertBefore,
    RemoveStatement,
    Replace,
    Skipped,
    Tier,
)
from autoaccel.pytorch.introspection import name_looked_up, names_a_type
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.deprecated_amp.amp_uses import CUSTOM, MOVED, Use, by_import, is_tested, old_uses
from autoaccel_codemods.deprecated_amp.new_calls import call_edits, device_argument
from autoaccel_codemods.deprecated_amp.surroundings import defaults_around, problem_around
from autoaccel_codemods.deprecated_amp.version_switches import for_other_versions

RULE = Rule(
    code="AA302",
    name="deprecated-amp",
    tier=Tier.EXACT,
    needles=(b"cuda.amp", b"cpu.amp", b"torch.cuda import", b"torch.cpu import"),
    references=("https://docs.pytorch.org/docs/stable/amp.html",),
    order=10,
)
_OTHER_USE = "it is used other than by a call"


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """Each import of old names changes with everything that is made of them, each other use alone; decided here.

    What is asked on the way:
        amp_uses          where the old functions are mentioned, and the new ones
        version_switches  whether a use is one arm of a switch between versions of torch
        surroundings      whether the files around replace the functions, ask for their classes, or set a precision
        new_calls         how a call is spelled anew
    """
    statements: list[ast.Import | ast.ImportFrom] = [*script.find(ast.ImportFrom), *script.find(ast.Import)]
    for statement in statements:
        yield from _import(script, statement)
    for use in old_uses(script):
        if not by_import(script, use):
            edits = _edits(script, use, None)
            if isinstance(edits, str):
                yield RULE.skip(use.node, edits)
            else:
                yield RULE.finding(use.node, f"torch.{use.device}.amp.{use.name} is deprecated", *edits)


def _import(script: Script, statement: ast.Import | ast.ImportFrom) -> Iterator[Finding | Skipped]:
    """An import of old names with everything that is made of them, name by name."""
    moved: list[ast.alias] = []
    edits: list[Edit] = []
    for alias in statement.names:
        if _old_module(statement, alias) is None:
            continue
        local = alias.asname or alias.name
        own = [
            use
            for use in old_uses(script)
            if any(each.node is statement for each in script.definitions(use.root)) and use.root.id == local
        ]
        problem = _problem(script, statement, local, own)
        found: list[Edit] = []
        for use in own:
            made = _edits(script, use, ast.unparse(use.node))
            if isinstance(made, str):
                problem = problem or made
            else:
                found.extend(made)
        if problem is not None:
            yield RULE.skip(statement, problem)
        else:
            moved.append(alias)
            edits.extend(found)
    if moved:
        message = f"{_old_module(statement, moved[0])} is deprecated"
        yield RULE.finding(statement, message, *_new_import(statement, moved), *edits)


def _old_module(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str | None:
    """`torch.cuda.amp` when the alias binds that module, or one of the functions that moved."""
    if isinstance(statement, ast.Import):
        return alias.name if alias.name in ("torch.cuda.amp", "torch.cpu.amp") and alias.asname else None
    module = statement.module or ""
    if statement.level:
        return None
    if module in ("torch.cuda", "torch.cpu") and alias.name == "amp":
        return f"{module}.amp"
    old = ".".join(module.split(".")[:3])
    return old if old in ("torch.cuda.amp", "torch.cpu.amp") and alias.name in MOVED else None


def _problem(script: Script, statement: ast.Import | ast.ImportFrom, local: str, uses: list[Use]) -> str | None:
    """Why an imported name cannot mean the new function."""
    known = {use.root for use in uses}
    for name in script.find(ast.Name):
        definitions = script.definitions(name) if name.id == local else ()
        if any(each.node is statement for each in definitions):
            if len(definitions) > 1:
                return "its name may come from elsewhere"
            if name not in known:
                return _OTHER_USE
    scope = script.function(statement)
    if scope is None and any(each.node is not statement for each in script.module_scope.definitions.get(local, [])):
        return "its name may come from elsewhere"
    if script.enclosing_class(statement) is not None and scope is None:
        return "it is an attribute of a class"
    try:
        if (problem := name_looked_up(script, local, public=scope is None)) is not None:
            return problem
        return "other files import it from here" if scope is None and imported_elsewhere(script, local) else None
    except Incomplete as incomplete:
        return str(incomplete)


def _new_import(statement: ast.Import | ast.ImportFrom, moved: list[ast.alias]) -> tuple[InsertBefore, RemoveStatement]:
    kept = [alias for alias in statement.names if alias not in moved]
    lines: list[str] = []
    if isinstance(statement, ast.Import):
        lines.append("import " + ", ".join(ast.unparse(alias) for alias in kept) if kept else "")
        lines.extend(f"import torch.amp as {alias.asname}" for alias in moved)
    else:
        lines.append(f"from {statement.module} import " + ", ".join(map(ast.unparse, kept)) if kept else "")
        module = "torch" if moved[0].name == "amp" else "torch.amp"
        lines.append(f"from {module} import " + ", ".join(map(ast.unparse, moved)))
    return InsertBefore(statement, Code("\n".join(filter(None, lines)))), RemoveStatement(statement)


def _edits(script: Script, use: Use, spelling: str | None) -> tuple[Edit, ...] | str:
    """What turns one use into the new spelling, or why it cannot be. `spelling` is how to write the new function."""
    if for_other_versions(script, use):
        return "it stands in for another version of torch"
    problem = problem_around(script, use.device, use.name)
    if problem is not None:
        return problem
    imports: tuple[AddImport, ...] = ()
    if spelling is None:
        spelling, imports = script.spell(f"torch.amp.{use.name}")
    parent = script.parent(use.node)
    if isinstance(parent, ast.Call) and parent.func is use.node:
        defaults = defaults_around(script, use.device) if use.name == "autocast" else ()
        code = call_edits(script, parent, use, spelling, defaults)
        return code if isinstance(code, str) else (*code, *imports)
    if use.name in CUSTOM and isinstance(parent, ast.FunctionDef) and use.node in parent.decorator_list:
        return Replace(use.node, Code(f"{spelling}({device_argument(script, use)})")), *imports
    if use.name == "GradScaler" and (names_a_type(script, use.node) or is_tested(script, use.node)):
        return (Replace(use.node, Code(spelling)), *imports) if spelling != script.source(use.node) else ()
    return _OTHER_USE
