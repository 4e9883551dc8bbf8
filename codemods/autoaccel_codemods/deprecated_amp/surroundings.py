"""What a script and the files around it say of the old functions, and of the precision around their regions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.frameworks import FRAMEWORKS
from autoaccel.pytorch.introspection import class_inspected, names_a_type, object_inspected
from autoaccel.pytorch.monkeypatching import monkeypatched
from autoaccel_codemods.deprecated_amp.amp_uses import CUSTOM, by_import, has_new, is_tested, old_uses

_DEFAULTS = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}
_SETS_PRECISION = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype", "_enter_autocast")
_SETS_CACHE = ("cache_enabled", "set_autocast_cache_enabled")
# They run what they are given in regions of their own.
_FRAMEWORKS = tuple(name.rpartition(".")[2] for name in FRAMEWORKS)


@once
def problem_around(script: Script, device: str, name: str) -> str | None:
    """Why an old function cannot be told from the new one by its calls alone."""
    names = (f"torch.{device}.amp.{name}", f"torch.amp.{name}")
    try:
        problem = monkeypatched(script, names)
        if problem is None and name not in CUSTOM:
            beside = _tested_together(script, name)
            problem = class_inspected(script, names, beside=beside, handed=name == "GradScaler")
        if problem is None and name == "GradScaler":
            problem = object_inspected(script, {"scaler", *_variables(script)})
    except Incomplete as incomplete:
        return str(incomplete)
    return problem


def _tested_together(script: Script, name: str) -> list[ast.AST]:
    """`isinstance(scaler, GradScaler)` where all scalers of the project are made by that same imported name."""
    own = [use for use in old_uses(script) if use.name == name]
    origins = {id(each.node) for use in own for each in script.definitions(use.root)}
    if len(origins) != 1 or not all(by_import(script, use) for use in own) or has_new(script, name):
        return []
    if script.project.paths_with_word(script, name):
        return []
    return [use.node for use in own if is_tested(script, use.node)]


def _variables(script: Script) -> Iterator[str]:
    """The last names under which scalers are kept."""
    for use in old_uses(script):
        parent = script.parent(use.node)
        outer = script.parent(parent) if parent is not None else None
        targets: list[ast.expr] = []
        if isinstance(outer, ast.Assign):
            targets = outer.targets
        elif isinstance(outer, ast.AnnAssign | ast.NamedExpr):
            targets = [outer.target]
        yield from filter(None, map(last_name, targets if use.name == "GradScaler" else ()))


@once
def defaults_around(script: Script, device: str) -> tuple[tuple[str, str], ...]:
    """The old function's defaults that the new one takes from the region around it, where that may be another."""
    found = [("dtype", _DEFAULTS[device])] if _may_set_precision(script, device) else []
    if any(_has_word(script, word) for word in _SETS_CACHE):
        found.append(("cache_enabled", "True"))
    return tuple(found)


def _has_word(script: Script, word: str) -> bool:
    """Whether a file around has a word, or may have it."""
    try:
        return word in script.text or bool(script.project.paths_with_word(script, word))
    except Incomplete:
        return True


def _may_set_precision(script: Script, device: str) -> bool:
    project = script.project
    try:
        return (
            any(_has_word(script, word) for word in _SETS_PRECISION)
            or any(other.frameworks for word in _FRAMEWORKS for other in project.with_word(script, word))
            or any(_opens_region(other, device) for other in project.with_word(script, "autocast"))
        )
    except Incomplete:
        return True


def _opens_region(script: Script, device: str) -> bool:
    """Whether a file has regions of another precision than the default, or may have."""
    aliases = sorted(script.import_aliases(("autocast",)))
    for node in script.syntax_index.mentions("autocast", *aliases):
        name = script.qualname(node)
        parent = script.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        known = name in ("torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
        if isinstance(parent, ast.Call) and called and (known or isinstance(node, ast.Name)):
            if _has_other_precision(script, parent, name, device):
                return True
        elif isinstance(node.ctx, ast.Load) and (known or called):
            of_object = isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls")
            if not of_object and not names_a_type(script, node) and not is_tested(script, node):
                return True
    return False


def _has_other_precision(script: Script, call: ast.Call, name: str | None, device: str) -> bool:
    if unpacks(call):
        return True
    given = {each.arg: each.value for each in call.keywords}
    dtype = call.args[1] if len(call.args) > 1 else given.get("dtype")
    if dtype is None or script.qualname(dtype) == _DEFAULTS[device]:
        return False
    if name == "torch.amp.autocast":
        kind = call.args[0] if call.args else given.get("device_type")
        return not isinstance(kind, ast.Constant) or str(kind.value).split(":")[0] == device
    return name is None or name == f"torch.{device}.amp.autocast"
