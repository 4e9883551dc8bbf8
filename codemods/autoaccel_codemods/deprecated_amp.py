"""Spell mixed precision the way torch does since 2.4.

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
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autoaccel.analysis import Script
from autoaccel.analysis.imported_names import imported_elsewhere
from autoaccel.dataflow.call_arguments import given_values, unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import breadth_first, last_name
from autoaccel.edits import (
    AddArguments,
    AddImport,
    Code,
    Edit,
    Finding,
    InsertBefore,
    RemoveStatement,
    Replace,
    Skipped,
    Tier,
    literal,
)
from autoaccel.library_models.library_values import FRAMEWORKS
from autoaccel.pytorch.introspection import class_inspected, name_looked_up, names_a_type, object_inspected
from autoaccel.pytorch.monkeypatching import monkeypatched
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA302",
    name="deprecated-amp",
    tier=Tier.EXACT,
    needles=(b"cuda.amp", b"cpu.amp", b"torch.cuda import", b"torch.cpu import"),
    references=("https://docs.pytorch.org/docs/stable/amp.html",),
    order=10,
)
_CUSTOM = ("custom_fwd", "custom_bwd")
# The positional parameters of the old functions; those of GradScaler have kept their order.
_PARAMETERS = {"autocast": ("enabled", "dtype", "cache_enabled")}
_MOVED = ("autocast", "GradScaler", *_CUSTOM)
_VERSION = re.compile(r"version|hasattr|getattr|find_spec|inspect|torch_?\d", re.IGNORECASE)
_OTHER_USE = "it is used other than by a call"
_DEFAULTS = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}
_SETS_PRECISION = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype", "_enter_autocast")
_SETS_CACHE = ("cache_enabled", "set_autocast_cache_enabled")
# They run what they are given in regions of their own.
_FRAMEWORKS = tuple(name.rpartition(".")[2] for name in FRAMEWORKS)


@dataclass(frozen=True, slots=True)
class Use:
    """A mention of an old function: `name` on `device`, by way of the imported name `root`."""

    node: ast.Name | ast.Attribute
    root: ast.Name
    device: str
    name: str


class Around:
    """What the files around say of the old functions; looked for once for each of them."""

    def __init__(self, script: Script, uses: list[Use]) -> None:
        self.script = script
        self.uses = uses
        self._problems: dict[tuple[str, str], str | None] = {}
        self._defaults: dict[str, tuple[tuple[str, str], ...]] = {}

    def problem(self, use: Use) -> str | None:
        """Why the old function cannot be told from the new one by its calls alone."""
        key = use.device, use.name
        if key not in self._problems:
            try:
                self._problems[key] = self._find_problem(use.device, use.name)
            except Incomplete as incomplete:
                self._problems[key] = str(incomplete)
        return self._problems[key]

    def _find_problem(self, device: str, name: str) -> str | None:
        names = (f"torch.{device}.amp.{name}", f"torch.amp.{name}")
        problem = monkeypatched(self.script, names)
        if problem is None and name not in _CUSTOM:
            problem = class_inspected(
                self.script, names, beside=self._tested_together(name), handed=name == "GradScaler"
            )
        if problem is None and name == "GradScaler":
            problem = object_inspected(self.script, {"scaler", *self._variables()})
        return problem

    def _tested_together(self, name: str) -> list[ast.AST]:
        """`isinstance(scaler, GradScaler)` where all scalers of the project are made by that same imported name."""
        own = [use for use in self.uses if use.name == name]
        origins = {id(each.node) for use in own for each in self.script.definitions(use.root)}
        if len(origins) != 1 or not all(_by_import(self.script, use) for use in own) or _has_new(self.script, name):
            return []
        if self.script.project.paths_with_word(self.script, name):
            return []
        return [use.node for use in own if _is_tested(self.script, use.node)]

    def _variables(self) -> Iterator[str]:
        """The last names under which scalers are kept."""
        for use in self.uses:
            parent = self.script.parent(use.node)
            outer = self.script.parent(parent) if parent is not None else None
            targets: list[ast.expr] = []
            if isinstance(outer, ast.Assign):
                targets = outer.targets
            elif isinstance(outer, ast.AnnAssign | ast.NamedExpr):
                targets = [outer.target]
            for target in targets if use.name == "GradScaler" else ():
                if name := last_name(target):
                    yield name

    def defaults(self, device: str) -> tuple[tuple[str, str], ...]:
        """The old function's defaults that the new one takes from the region around it, where that may be another."""
        if device not in self._defaults:
            found = [("dtype", _DEFAULTS[device])] if self._may_have(lambda: self._sets_precision(device)) else []
            if self._may_have(lambda: any(map(self._has_word, _SETS_CACHE))):
                found.append(("cache_enabled", "True"))
            self._defaults[device] = tuple(found)
        return self._defaults[device]

    def _may_have(self, question: Callable[[], bool]) -> bool:
        try:
            return question()
        except Incomplete:
            return True

    def _has_word(self, word: str) -> bool:
        return word in self.script.text or bool(self.script.project.paths_with_word(self.script, word))

    def _sets_precision(self, device: str) -> bool:
        project, script = self.script.project, self.script
        return (
            any(map(self._has_word, _SETS_PRECISION))
            or any(other.frameworks for word in _FRAMEWORKS for other in project.with_word(script, word))
            or any(_opens_region(other, device) for other in project.with_word(script, "autocast"))
        )


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
            if not of_object and not names_a_type(script, node) and not _is_tested(script, node):
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


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    uses = list(_uses(script))
    around = Around(script, uses)
    statements: list[ast.Import | ast.ImportFrom] = [*script.find(ast.ImportFrom), *script.find(ast.Import)]
    for statement in statements:
        yield from _import(script, statement, uses, around)
    for use in uses:
        if not _by_import(script, use):
            edits = _edits(script, use, None, around)
            if isinstance(edits, str):
                yield RULE.skip(use.node, edits)
            else:
                yield RULE.finding(use.node, _message(use), *edits)


def _message(use: Use) -> str:
    return f"torch.{use.device}.amp.{use.name} is deprecated"


def _uses(script: Script) -> Iterator[Use]:
    nodes: list[ast.Name | ast.Attribute] = [*script.find(ast.Attribute), *script.find(ast.Name)]
    for node in nodes:
        parts = (script.qualname(node) or "").split(".")
        if len(parts) == 4 and parts[0] == "torch" and parts[1] in ("cuda", "cpu") and parts[2] == "amp":
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if parts[3] in _MOVED and isinstance(root, ast.Name):
                yield Use(node, root, parts[1], parts[3])


def _by_import(script: Script, use: Use) -> bool:
    """Whether the name that is used is bound to the old function or module itself, so that its import must change."""
    return any((each.target or "").startswith(f"torch.{use.device}.amp") for each in script.definitions(use.root))


def _import(
    script: Script, statement: ast.Import | ast.ImportFrom, uses: list[Use], around: Around
) -> Iterator[Finding | Skipped]:
    """An import of old names with everything that is made of them, name by name."""
    moved: list[ast.alias] = []
    edits: list[Edit] = []
    for alias in statement.names:
        module = _old_module(statement, alias)
        if module is None:
            continue
        local = alias.asname or alias.name
        own = [
            use
            for use in uses
            if any(each.node is statement for each in script.definitions(use.root)) and use.root.id == local
        ]
        problem = _problem(script, statement, local, own)
        found: list[Edit] = []
        for use in own:
            made = _edits(script, use, ast.unparse(use.node), around)
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
    return old if old in ("torch.cuda.amp", "torch.cpu.amp") and alias.name in _MOVED else None


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
        if scope is None and imported_elsewhere(script, local):
            return "other files import it from here"
        return name_looked_up(script, local, public=scope is None)
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


def _edits(script: Script, use: Use, spelling: str | None, around: Around) -> tuple[Edit, ...] | str:
    """What turns one use into the new spelling, or why it cannot be. `spelling` is how to write the new function."""
    if _for_other_versions(script, use):
        return "it stands in for another version of torch"
    problem = around.problem(use)
    if problem is not None:
        return problem
    imports: tuple[AddImport, ...] = ()
    if spelling is None:
        spelling, imports = script.spell(f"torch.amp.{use.name}")
    parent = script.parent(use.node)
    if isinstance(parent, ast.Call) and parent.func is use.node:
        defaults = around.defaults(use.device) if use.name == "autocast" else ()
        if defaults and any(each.arg is None for each in parent.keywords):
            return "its precision may be among **kwargs"
        written = {each.arg for each in parent.keywords} | {*_PARAMETERS.get(use.name, ())[: len(parent.args)]}
        spelled = [(name, *_default(script, value)) for name, value in defaults if name not in written]
        imports = (*imports, *(each for _, _, added in spelled for each in added))
        if not parent.args and parent.keywords and parent.end_lineno != parent.lineno:
            parameter = "device" if use.name == "GradScaler" else "device_type"
            first = (parameter, Code(_quoted(script, use)))
            added = AddArguments(parent, (first, *((name, Code(text)) for name, text, _ in spelled)))
            return Replace(use.node, Code(spelling)), added, *imports
        code = _call(script, parent, use, spelling, "".join(f", {name}={text}" for name, text, _ in spelled))
        return code if isinstance(code, str) else (Replace(parent, code), *imports)
    if use.name in _CUSTOM and isinstance(parent, ast.FunctionDef) and use.node in parent.decorator_list:
        return Replace(use.node, Code(f"{spelling}({_device(script, use)})")), *imports
    if use.name == "GradScaler" and (names_a_type(script, use.node) or _is_tested(script, use.node)):
        return (Replace(use.node, Code(spelling)), *imports) if spelling != script.source(use.node) else ()
    return _OTHER_USE


def _for_other_versions(script: Script, use: Use) -> bool:
    """Whether a use is one arm of a switch between versions of torch."""
    return _asks_for_version(script, use.node) or (
        _has_new(script, use.name) and any(_is_chosen(script, each) for each in (use.node, *_new(script, use.name)))
    )


def _asks_for_version(script: Script, node: ast.AST) -> bool:
    """In a branch that is there for the case that the new functions do not exist, or after one that leaves."""
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.ExceptHandler):
            return True
        if isinstance(ancestor, ast.If | ast.IfExp | ast.While) and child is not ancestor.test:
            if _is_of_version(script, ancestor.test):
                return True
        if isinstance(ancestor, ast.BoolOp | ast.Match) and _is_of_version(script, ancestor):
            return True
        if isinstance(ancestor, ast.Try) and any(_catches_absence(each) for each in ancestor.handlers):
            return True
        if isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef | ast.ClassDef):
            block = script.block(child)
            before = block[: block.index(child)]
            if any(isinstance(each, ast.If) and _is_of_version(script, each.test) and _leaves(each) for each in before):
                return True
        child = ancestor
    return False


def _is_of_version(script: Script, test: ast.AST) -> bool:
    """Whether a condition is about what torch has: a version, `hasattr`, or a name that stands for one."""
    for part in breadth_first(test):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) if _VERSION.search(name):
                return True
            case ast.Constant(value=str() as text) if _VERSION.search(text):
                return True
            case ast.Name() if any(
                each.how == "assign" and each.value is not None and _VERSION.search(script.source(each.value))
                for each in script.definitions(part)
            ):
                return True
    return False


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    return any(name in caught for name in ("ImportError", "ModuleNotFoundError", "AttributeError"))


def _leaves(choice: ast.If) -> bool:
    return isinstance(choice.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _new(script: Script, name: str) -> Iterator[ast.Name | ast.Attribute]:
    """Mentions of the new function, or of its module on its own."""
    nodes: list[ast.Name | ast.Attribute] = [*script.find(ast.Attribute), *script.find(ast.Name)]
    for node in nodes:
        if script.qualname(node) in (f"torch.amp.{name}", "torch.amp") and isinstance(node.ctx, ast.Load):
            yield node


def _has_new(script: Script, name: str) -> bool:
    statements = (
        alias.name for each in script.find(ast.ImportFrom) if each.module == "torch.amp" for alias in each.names
    )
    return name in statements or any(True for _ in _new(script, name))


def _is_chosen(script: Script, node: ast.AST) -> bool:
    """Whether an expression is one of several, of which a condition, an index or an exception chooses."""
    return any(
        isinstance(each, ast.If | ast.IfExp | ast.BoolOp | ast.Match | ast.Try | ast.Dict | ast.Subscript | ast.Lambda)
        for each in script.ancestors(node)
    )


def _is_tested(script: Script, node: ast.expr) -> bool:
    """In an isinstance test: the old scaler is a subclass of the new one."""
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "isinstance"
        for each in script.ancestors(node)
    )


def _default(script: Script, value: str) -> tuple[str, tuple[AddImport, ...]]:
    return script.spell(value) if "." in value else (value, ())


def _device(script: Script, use: Use) -> str:
    return f"device_type={_quoted(script, use)}" if use.name in _CUSTOM else _quoted(script, use)


def _quoted(script: Script, use: Use) -> str:
    return f"{script.quote}{use.device}{script.quote}"


def _call(script: Script, call: ast.Call, use: Use, spelling: str, defaults: str) -> Code | str:
    """The call in the new spelling, with `defaults` written out; its layout and comments are taken over as text, with
    its arguments in the holes."""
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return "it has arguments that are not spelled out"
    names = _PARAMETERS.get(use.name, ("",) * len(call.args))
    if len(call.args) > len(names):
        return "it has more arguments than the function takes"
    device = _device(script, use) + defaults
    text = script.source(call).encode()
    opening = text.index(b"(", _offset(text, call, call.func, end=True)) + 1
    values = given_values(call)
    if not values:
        return Code(f"{spelling}({device}{literal(text[opening:].decode())}")
    # A function that is handed to `custom_fwd` must stay its first argument.
    last = use.name in _CUSTOM and bool(call.args)
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    start = min(_offset(text, call, each) for each in every)
    pieces = [spelling, "(", literal(text[opening:start].decode()), "" if last else f"{device}, "]
    for index, value in enumerate(values):
        pieces.append(literal(text[start : _offset(text, call, value)].decode()))
        pieces.append(f"{names[index]}=" if index < len(call.args) and names[index] else "")
        pieces.append(f"{{{index}}}")
        start = _offset(text, call, value, end=True)
    pieces.extend([f", {device}" if last else "", literal(text[start:].decode())])
    # New code is indented like the block in which it comes to stand.
    return Code("".join(pieces).replace("\n" + " " * script.statement(call).col_offset, "\n"), tuple(values))


def _offset(text: bytes, call: ast.Call, node: ast.expr | ast.keyword, *, end: bool = False) -> int:
    """Where `node` begins or ends in the source text of the call, in bytes."""
    line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
    assert line is not None
    assert column is not None
    if line == call.lineno:
        return column - call.col_offset
    return sum(len(each) + 1 for each in text.split(b"\n")[: line - call.lineno]) + column
