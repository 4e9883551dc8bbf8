"""What all kinds of programs are built with: names that depend on where code lives, and functions made of code."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass, field

from benchmarks.wrong_rewrites.features import Features
from benchmarks.wrong_rewrites.programs import Program, indent

_TOKEN = re.compile(r"\$(\w+)")

# In the order in which a program makes them.
SHARED = ("device", "model", "teacher", "criterion", "optimizer", "scheduler", "scaler", "dataset", "sampler", "loader")


@dataclass(slots=True)
class Builder:
    """One program on its way. In fragments of code, `$model` is the model wherever the code will live."""

    features: Features
    program: Program = field(default_factory=Program)
    home: str = "flat"
    """Where training lives: flat, main, function, globals or class."""
    methods: list[str] = field(default_factory=list)
    """Of the class, where that is where it lives."""
    setup: dict[str, str] = field(default_factory=dict)
    """What makes each shared object."""

    def pick(self, name: str, *options: str) -> str:
        return self.features.pick(name, *options)

    def has(self, name: str) -> bool:
        return self.features.has(name)

    def vector_of(self, name: str) -> str:
        """What was picked before."""
        return self.features.vector[name]

    def spelled(self, fragment: str, inside: bool = True) -> str:
        """The fragment with its shared names; `inside` the class where there is one."""
        form = r"self.\1" if self.home == "class" and inside else r"\1"
        return _TOKEN.sub(form, fragment)

    def extract(self, name: str, fragment: str, scope: frozenset[str], outputs: tuple[str, ...], part: str) -> str:
        """Make a function (or a method) of a fragment; returns the statement that calls it. `scope` are the local names
        of the place where it was."""
        tokens = list(dict.fromkeys(_TOKEN.findall(fragment)))
        code = _TOKEN.sub(r"\1", fragment)
        own = read_first(code) & scope
        inputs = sorted(own - set(tokens))
        result = f"\nreturn {', '.join(outputs)}" if outputs else ""
        target = f"{', '.join(outputs)} = " if outputs else ""
        if self.home == "class":
            parameters = ", ".join(["self", *inputs])
            self.methods.append(f"def {name}({parameters}):\n{indent(self.spelled(fragment) + result)}")
            return f"{target}self.{name}({', '.join(inputs)})"
        if self.home == "globals":
            inputs = [each for each in inputs if each not in SHARED]
            self.program.define(name, f"def {name}({', '.join(inputs)}):\n{indent(code + result)}", "pinned")
            return f"{target}{name}({', '.join(inputs)})"
        everything = [*tokens, *inputs]
        self.program.define(name, f"def {name}({', '.join(everything)}):\n{indent(code + result)}", part)
        given = [f"${each}" for each in tokens] + inputs
        return f"{target}{name}({', '.join(given)})"


def assigned(code: str) -> frozenset[str]:
    """The names that a fragment binds."""
    tree = ast.parse(_TOKEN.sub(r"\1", code))
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)})


def read(code: str) -> frozenset[str]:
    """The names that a fragment reads."""
    tree = ast.parse(_TOKEN.sub(r"\1", code))
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    changed = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return frozenset((found | changed) - set(dir(builtins)))


def read_first(code: str) -> frozenset[str]:
    """The names that a fragment reads before it binds them."""
    wanted: set[str] = set()
    _follow(ast.parse(_TOKEN.sub(r"\1", code)).body, set(), wanted)
    return frozenset(wanted - set(dir(builtins)))


def _follow(statements: list[ast.stmt], known: set[str], wanted: set[str]) -> None:
    for statement in statements:
        match statement:
            case ast.For():
                _look(statement.iter, known, wanted)
                known |= _bound(statement.target)
                _follow(statement.body, known, wanted)
            case ast.If() | ast.While():
                _look(statement.test, known, wanted)
                _follow([*statement.body, *statement.orelse], known, wanted)
            case ast.With():
                for item in statement.items:
                    _look(item.context_expr, known, wanted)
                _follow(statement.body, known, wanted)
            case ast.Try():
                inner = [each for handler in statement.handlers for each in handler.body]
                _follow([*statement.body, *inner, *statement.finalbody], known, wanted)
            case _:
                _look(statement, known, wanted)
                known |= _bound(statement)


def _look(node: ast.AST, known: set[str], wanted: set[str]) -> None:
    own = {name for each in ast.walk(node) if isinstance(each, ast.comprehension) for name in _bound(each.target)} | {
        each.arg for each in ast.walk(node) if isinstance(each, ast.arg)
    }
    reads = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign):
        reads |= _bound(node.target)
    wanted |= reads - known - own


def _bound(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
