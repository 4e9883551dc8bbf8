"""What a script means: one analysis per file, shared by all rules, computed lazily."""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from autoaccel.analysis import call_sites, namespaces
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import methods
from autoaccel.analysis.project import Project
from autoaccel.analysis.value_inference import Inference
from autoaccel.dataflow.abstract_values import ANY, ClassRef, Kind, Value, Values
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.completeness import Answer, CallSite, Incomplete
from autoaccel.dataflow.definitions import Definition, Qualified, Scope
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.query import once
from autoaccel.dataflow.reaching_definitions import ReachingDefinitions
from autoaccel.edits import AddImport
from autoaccel.library_models.frameworks import FRAMEWORKS, UTILITIES
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.notebooks.cells import cells

_NAMING: dict[type[ast.AST], str] = {  # the fields that hold names
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), "name"),
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
    ast.Name: "id",
    ast.arg: "arg",
    ast.MatchMapping: "rest",
}
RUNTIME = ("autoaccel.runtime", "autoaccel_runtime")


class Script:
    """One file, seen through its project. Every question may be asked of any node of `tree`; unknown answers are None
    or empty."""

    def __init__(self, text: str, path: Path | None = None, project: Project | None = None) -> None:
        self.text = text
        self.path = Path(os.path.abspath(path)) if path is not None else None
        self.project = project if project is not None else Project()
        self._answers = self.project.queries.known
        self.parsed = self.project.disk.parse(text, self.path)
        self.syntax_index = self.parsed.tree
        self.tree = self.syntax_index.module
        # What the syntax index answers, it is asked itself: nothing is asked more often.
        self.find = self.syntax_index.find
        self.within = self.syntax_index.within
        self.in_scope = self.syntax_index.in_scope
        self.parent = self.syntax_index.parent
        self.call_of = self.syntax_index.call_of
        self.ancestors = self.syntax_index.ancestors
        self.inside = self.syntax_index.inside
        self.statement = self.syntax_index.statement
        self.block = self.syntax_index.block
        self.function = self.syntax_index.function
        self.enclosing_class = self.syntax_index.enclosing_class
        self.loops = self.syntax_index.loops
        self.source = self.syntax_index.source
        self.queries = self.project.queries
        self._qualnames: dict[ast.AST, str | None] = {}
        self._project_names: dict[ast.AST, bool] = {}
        self.inference = Inference(self)

    def __repr__(self) -> str:
        return f"Script({str(self.path) if self.path else '<text>'})"

    def release(self) -> None:
        """Let go of all that is known, of this script and of those loaded for its sake, once everything was asked.

        They hold one another in circles, in which they would stay until Python looks for garbage.
        """
        if self.project.disk.spares(self.project.characters):
            return
        self.project.release()
        vars(self).clear()

    # -- scopes and names

    @cached_property
    def reaching_definitions(self) -> ReachingDefinitions:
        return self.parsed.reaching_definitions

    @cached_property
    def module_scope(self) -> Scope:
        return self.reaching_definitions.scopes[self.tree]

    def definitions(self, name: ast.Name) -> tuple[Definition, ...]:
        """The bindings that a name may have where it stands; empty for builtins and for what is not known."""
        return self.reaching_definitions.definitions(name)

    def uses(self, definition: Definition) -> list[ast.Name]:
        """The reads that a binding may reach, in source order."""
        return self.reaching_definitions.uses(definition)

    def additions(self, definition: Definition) -> list[ast.Name]:
        """The targets of augmented assignments (`x += y`) that read a binding."""
        return self.reaching_definitions.additions(definition)

    def qualname(self, expression: ast.AST) -> str | None:
        """`torch.zeros` for whatever the script writes for it: through imports and aliases, in the canonical spelling.

        None when the root is not an import, is rebound, or comes by a star import that is not followed.
        """
        try:
            return self._qualnames[expression]  # most are asked for again and again
        except KeyError:
            known = self._qualnames[expression] = self._qualname(expression)
            return known

    def _qualname(self, expression: ast.AST) -> str | None:
        found = self.qualified(expression)
        if found is None or (self.replaced_names and self._is_replaced(expression)):
            return None
        if not self.package:
            return found.name
        known = self.project.library_name(self, found.target, found.level)
        return found.name if known is None else found.under(known)

    def qualified(self, expression: ast.AST) -> Qualified | None:
        """What an imported name, or an attribute of one, stands for, by itself or through a star import of a file of
        the project; None when it is rebound or none."""
        found = self.reaching_definitions.qualified(expression)
        if found is not None or not self.module_scope.stars:
            return found
        match expression:
            case ast.Name(id=name):
                return namespaces.starred_libraries(self).get(name)
            case ast.Attribute(value=value, attr=attr) if (base := self.qualified(value)) is not None:
                return Qualified(canonical(f"{base.name}.{attr}"), base.target, base.level, (*base.rest, attr))
            case _:
                return None

    @cached_property
    def qualified_names(self) -> tuple[tuple[ast.Name, str], ...]:
        """The names that stand for something imported, and its qualified name, in source order."""
        return tuple((each, name) for each in self.find(ast.Name) if (name := self.qualname(each)) is not None)

    @cached_property
    def qualified_attributes(self) -> tuple[tuple[ast.Attribute, str], ...]:
        """The attributes that do, each beside what it is an attribute of."""
        return tuple((each, name) for each in self.find(ast.Attribute) if (name := self.qualname(each)) is not None)

    def is_project_name(self, expression: ast.AST) -> bool:
        """Whether a qualified name leads into a file of the project, not into a library."""
        known = self._project_names.get(expression)
        if known is None:
            known = self._project_names[expression] = self._is_project_name(expression)
        return known

    def _is_project_name(self, expression: ast.AST) -> bool:
        found = self.qualified(expression)
        if found is None or (self.replaced_names and self._is_replaced(expression)):
            return False
        if self.package and self.project.library_name(self, found.target, found.level) is not None:
            return False
        if found.level or self.project.is_local(self, found.target, found.level):
            return True
        return found.target in self._dotted_imports and self.project.is_local(self, found.dotted, found.level)

    def in_folder(self, expression: ast.AST) -> tuple[Script, str | None] | None:
        """The file, and the name in it, that a name leads to through a folder that is no file itself: after
        `import models.resnet`, `models.resnet.ResNet` where `models` has no `__init__.py`. None for all others."""
        found = self.qualified(expression)
        if found is None or found.target not in self._dotted_imports or not found.rest:
            return None
        if self.project.is_local(self, found.target, found.level):
            return None
        return self.project.imported(self, found.dotted, found.level)

    @cached_property
    def _dotted_imports(self) -> frozenset[str]:
        """The first parts of the names that are imported with their dots: `models` for `import models.resnet`."""
        aliases = (alias for node in self.find(ast.Import) for alias in node.names if alias.asname is None)
        return frozenset(first for first, dot, _ in (each.name.partition(".") for each in aliases) if dot)

    @cached_property
    def replaced_names(self) -> frozenset[str]:
        """The names of the module that a file of the project gives another meaning by a star import further down."""
        return self.project.replaced_names(self) if self.module_scope.stars else frozenset()

    def _is_replaced(self, expression: ast.AST) -> bool:
        while isinstance(expression, ast.Attribute):
            expression = expression.value
        if not isinstance(expression, ast.Name) or expression.id not in self.replaced_names:
            return False
        return any(each.scope is self.module_scope for each in self.definitions(expression))

    @cached_property
    def package(self) -> tuple[str, ...]:
        """The packages down to this file if it belongs to a library whose names are known; else empty."""
        return self.project.package(self)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these qualified names, in source order."""
        known = self._calls_by_qualname
        found = [known[name] for name in dict.fromkeys(names) if name in known]
        if len(found) < 2:
            return iter(found[0] if found else ())
        return iter(self.syntax_index.in_order([call for calls in found for call in calls]))

    @cached_property
    def _calls_by_qualname(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        plain = not self.package and not self.module_scope.stars
        named = ((call, each.name) for call, each in self.reaching_definitions.named_calls)
        for call, name in named if plain else ((call, self.qualname(call.func)) for call in self.find(ast.Call)):
            if name is not None:
                found.setdefault(name, []).append(call)
        return found

    @once
    def import_aliases(self, names: tuple[str, ...]) -> frozenset[str]:
        """Local names under which `from … import name as alias` brings these names."""
        return frozenset(
            alias.asname
            for node in self.find(ast.ImportFrom)
            for alias in node.names
            if alias.asname and alias.name in names
        )

    @cached_property
    def plain_callees(self) -> frozenset[str]:
        """Names that are builtins or imports from libraries wherever they are called: never an instance of a project
        class."""
        verdicts: dict[str, bool] = {}
        for call in self.find(ast.Call):
            function = call.func
            if isinstance(function, ast.Name):
                definitions = self.definitions(function)
                plain = (
                    function.id in BUILTINS
                    if not definitions
                    else self.qualname(function) is not None and not self.is_project_name(function)
                )
                verdicts[function.id] = verdicts.get(function.id, True) and plain
            elif isinstance(function, ast.Attribute):
                qualified = self.qualname(function) is not None and not self.is_project_name(function)
                verdicts[function.attr] = verdicts.get(function.attr, True) and qualified
        return frozenset(name for name, plain in verdicts.items() if plain)

    @cached_property
    def is_notebook(self) -> bool:
        """Whether this is the program of a notebook: whoever works with it may look at any name of the module between
        cells, and run each of them again."""
        return cells(self.text) is not None

    @cached_property
    def used_names(self) -> frozenset[str]:
        """Every identifier that a new name could clash with: names, attributes of `self`, parameters, imports."""
        named = {getattr(node, field) for kind, field in _NAMING.items() for node in self.find(kind)}
        own = {
            node.attr
            for node in self.find(ast.Attribute)
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        }
        imported = {(each.asname or each.name).split(".")[0] for each in self.find(ast.alias)}
        return frozenset({*named, *own, *imported} - {None})

    def free_name(self, *candidates: str) -> str:
        """The first candidate that neither the file uses nor those that import all of its names; numbered when all are
        taken."""
        taken = self.used_names.union(*(each.used_names for each in self.project.starring(self)))
        for candidate in candidates:
            if candidate not in taken:
                return candidate
        number = 2
        while f"{candidates[0]}{number}" in taken:
            number += 1
        return f"{candidates[0]}{number}"

    @cached_property
    def quote(self) -> str:
        """The quote that most of the file's own one-line strings are written with."""
        single = double = 0
        for node in self.find(ast.Constant):
            if isinstance(node.value, str | bytes) and not isinstance(self.parent(node), ast.JoinedStr):
                text = self.source(node).lstrip("rRbBuU")
                single += text.startswith("'") and not text.startswith("'''")
                double += text.startswith('"') and not text.startswith('"""')
        return "'" if single > double else '"'

    @cached_property
    def accel(self) -> str:
        """The local name of the runtime: as the file imports it, else `accel` or a free name like it."""
        imported = self._runtime_import()
        return imported or self.free_name("accel", "autoaccel_runtime", "accel_runtime")

    @cached_property
    def import_runtime(self) -> tuple[AddImport, ...]:
        """The edit that makes `accel` available; empty when the file has it. Raises `Incomplete`."""
        if self._runtime_import():
            return ()
        if namespaces.listed(self) is not None:
            raise Incomplete("all of its names are listed while the program runs, and a new one would show")
        return (AddImport("autoaccel", "runtime", self.accel),)

    def _runtime_import(self) -> str | None:
        for name, definitions in self._imported_names():
            if all(each.target in RUNTIME for each in definitions):
                return name
        return None

    def _imported_names(self) -> Iterator[tuple[str, list[Definition]]]:
        """The names that the module surely has once its imports have run, and never gives to anything else."""
        deleted = {each.id for statement in self.find(ast.Delete) for each in self.within(statement, ast.Name)}
        for name, definitions in self.module_scope.definitions.items():
            if name in deleted or any(each.how != "import" for each in definitions):
                continue
            if definitions and all(isinstance(self.parent(each.node), ast.Module | ast.Try) for each in definitions):
                yield name, definitions

    def _library_names(self) -> Iterator[tuple[str, str]]:
        """Those of them that stand for one thing of a library, and its qualified name."""
        for name, definitions in self._imported_names():
            targets = {canonical(each.target) for each in definitions if each.target is not None}
            if len(targets) == 1 and not any(each.level for each in definitions):
                yield name, targets.pop()

    def runtime_name(self, expression: ast.AST) -> str | None:
        """`autocast` for `accel.autocast`: the runtime function that an expression names."""
        qualified = self.qualname(expression)
        if qualified is None:
            return None
        for module in RUNTIME:
            if qualified.startswith(module + "."):
                return qualified[len(module) + 1 :]
        return None

    def runtime_calls(self, verb: str) -> Iterator[ast.Call]:
        """The calls of a function of the runtime, in source order."""
        return self.calls(*(f"{module}.{verb}" for module in RUNTIME))

    def spell(self, qualified: str, beside: ast.expr | None = None) -> tuple[str, tuple[AddImport, ...]]:
        """How this file writes a qualified name, and the import that it takes (none when a module-level import serves).

        `beside` stands in the same place: `th.zeros` shows how to write `torch.ones`, wherever `th` was imported.
        """
        if isinstance(beside, ast.Attribute):
            module = self.qualname(beside.value)
            if module is not None and qualified.startswith(module + "."):
                return self.source(beside.value) + qualified[len(module) :], ()
        best: str | None = None
        starred = ((name, each.name) for name, each in namespaces.starred_libraries(self).items())
        for name, known in (*self._library_names(), *starred):
            if known == qualified:
                return name, ()
            spelled = name + qualified[len(known) :]
            if qualified.startswith(known + ".") and (best is None or len(spelled) < len(best)):
                best = spelled
        if best is not None:
            return best, ()
        root = qualified.split(".")[0]
        if root in self.used_names:
            module, _, last = qualified.rpartition(".")
            alias = self.free_name(last, f"{root}_{last}")
            return alias, (AddImport(module, last, None if alias == last else alias),)
        return qualified, (AddImport(root),)

    # -- values

    def values(self, expression: ast.expr) -> Values:
        """All values that an expression may have; `ANY` when nothing is known."""
        known = self._answers.get(expression)  # most are asked for again and again
        return (self.inference.possible(expression) if known is None else known) or ANY

    def kind(self, expression: ast.expr) -> Kind | None:
        """The kind of an expression when it is certain, else None."""
        return self.values(expression).kind

    def creations(self, expression: ast.expr) -> tuple[tuple[Script, ast.Call], ...]:
        """The constructor calls that a value may stem from, in whichever project file."""
        return tuple(
            (value.script, value.node)
            for value in self.values(expression)
            if isinstance(value.node, ast.Call) and value.script is not None
        )

    @once
    def class_ref(self, node: ast.ClassDef) -> ClassRef:
        return ClassRef(self, node)

    def is_device(self, expression: ast.expr) -> bool:
        """Whether an expression is surely a device: by value, or by the name `device` when nothing speaks against
        it."""
        if isinstance(expression, ast.Constant):
            number = isinstance(expression.value, int) and not isinstance(expression.value, bool)
            return number or _names_device(expression)
        values = self.values(expression)
        kinds = values.kinds
        if kinds and all(each.kind is Kind.DEVICE or _names_device(each.node) for each in values):
            return True
        allowed = {Kind.DEVICE, Kind.STRING, Kind.UNKNOWN}
        return _named_device(expression) and kinds <= (allowed if Kind.NONE not in kinds else set())

    # -- calls

    def callers(self, function: ast.AST) -> Answer[CallSite]:
        """Resolved call sites of a function in the project, and whether these are all."""
        return call_sites.callers(self, function)

    @once
    def callees(self, call: ast.Call) -> tuple[tuple[Script, ast.FunctionDef], ...]:
        """The project functions that a call may enter; for a module, its `forward`; for a class, its `__init__`."""
        found: list[tuple[Script, ast.FunctionDef]] = []
        for value in self.values(call.func):
            if value.kind is Kind.FUNCTION and isinstance(value.node, ast.FunctionDef) and value.script is not None:
                found.append((value.script, value.node))
            elif value.cls is not None:
                names = ("__init__",) if value.kind is Kind.CLASS else ("forward", "__call__")
                found.extend(itertools.islice(methods(value.cls, *names), 1))
        return tuple(found)

    def argument(
        self, call: ast.Call, function: ast.AST, parameter: str, owner: Script | None = None
    ) -> ast.expr | None:
        """The expression that a call in this file passes for a parameter of a project function (of `owner`, default
        this file)."""
        bound = is_bound(owner or self, function, self, call)
        return bind_argument(function, call, parameter, bound=bound)

    # -- the whole file

    @cached_property
    def frameworks(self) -> frozenset[str]:
        """Training frameworks that the file imports, by their common names."""
        targets = {each.target or "" for each in self.reaching_definitions.imports if not each.level}
        targets.update(module for module, level in self.module_scope.stars if not level)
        return frozenset(
            label
            for target in targets
            for name, label in FRAMEWORKS.items()
            if (target == name or target.startswith(name + ".")) and not target.startswith(UTILITIES)
        )


def _names_device(node: ast.AST | None) -> bool:
    """Whether a text is one that torch takes for a device: `"cuda:1"`."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and text.split(":")[0] in ("cuda", "cpu", "mps", "xpu")


def _named_device(expression: ast.expr) -> bool:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            lowered = name.lower().strip("_")
            return lowered in ("device", "dev") or lowered.endswith("_device") or lowered.startswith("device_id")
        case _:
            return False


def load(text: str, path: Path | None = None, project: Project | None = None) -> Script:
    """Parse and index one file, among the files of a project. Raises `SyntaxError` when it does not parse."""
    script = Script(text, path, Project() if project is None else project.fresh())
    script.project.add(script)
    return script


__all__ = ["Kind", "Script", "Value", "load"]
