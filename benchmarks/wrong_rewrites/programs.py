"""Programs of several files, put together from definitions: each file imports what it uses and does not define."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

_LIBRARIES = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "optim": "import torch.optim as optim",
    "np": "import numpy as np",
    "random": "import random",
    "math": "import math",
    "copy": "import copy",
    "io": "import io",
    "itertools": "import itertools",
    "functools": "import functools",
    "argparse": "import argparse",
    "deque": "from collections import deque",
    "namedtuple": "from collections import namedtuple",
    "defaultdict": "from collections import defaultdict",
    "Variable": "from torch.autograd import Variable",
    "Categorical": "from torch.distributions import Categorical",
    "Normal": "from torch.distributions import Normal",
    "DataLoader": "from torch.utils.data import DataLoader",
    "Dataset": "from torch.utils.data import Dataset",
    "TensorDataset": "from torch.utils.data import TensorDataset",
    "Sampler": "from torch.utils.data import Sampler",
    "WeightedRandomSampler": "from torch.utils.data import WeightedRandomSampler",
    "pack_padded_sequence": "from torch.nn.utils.rnn import pack_padded_sequence",
    "dataclass": "from dataclasses import dataclass",
    "contextmanager": "from contextlib import contextmanager",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement or more at module level that bind a name."""

    name: str
    code: str
    part: str
    """Which kind of thing it is: where kinds go is for the layout to say."""

    @property
    def needs(self) -> frozenset[str]:
        return _names(self.code)


@dataclass(slots=True)
class Program:
    """What is defined, and what the main file does."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    main: list[str] = field(default_factory=list)

    def define(self, name: str, code: str, part: str = "helpers") -> str:
        """Add a definition, once; returns its name."""
        self.definitions.setdefault(name, Definition(name, textwrap.dedent(code).strip("\n"), part))
        return name

    def do(self, code: str) -> None:
        """Add to what the main file does."""
        self.main.append(textwrap.dedent(code).strip("\n"))


def indent(code: str, levels: int = 1) -> str:
    return textwrap.indent(code, "    " * levels)


def block(lines: Iterable[str]) -> str:
    """Lines below a colon, of which there must be one."""
    text = "\n".join(each for each in lines if each)
    return indent(text or "pass")


def _names(code: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))


def laid_out(program: Program, files: dict[str, str], spelling: str = "from", guard: bool = False) -> dict[str, str]:
    """The texts by path. `files` says where the parts go that are not in `main.py`; what uses a name that only the main
    file has stays there. `spelling` is how files import one another: `from`, `module` or `star`."""
    main = "\n".join(program.main)
    assigned = {
        node.id for node in ast.walk(ast.parse(main)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    home = {each.name: files.get(each.part, "main.py") for each in program.definitions.values()}
    for _ in home:
        moved = {
            each.name: "main.py"
            for each in program.definitions.values()
            if home[each.name] != "main.py"
            and (each.needs & assigned or any(home.get(need) == "main.py" for need in each.needs - {each.name}))
        }
        if not moved:
            break
        home |= moved
    texts: dict[str, str] = {}
    for path in dict.fromkeys([*home.values(), "main.py"]):
        own = [each for each in program.definitions.values() if home[each.name] == path]
        used = frozenset[str]().union(*(each.needs for each in own))
        body = _ordered(own)
        if path == "main.py":
            used |= _names(main)
            body.append(f'if __name__ == "__main__":\n{indent(main)}' if guard else main)
        libraries = [line for name, line in _LIBRARIES.items() if name in used and name not in home]
        if "torch" not in used:
            libraries.insert(0, _LIBRARIES["torch"])
        here = {each.name for each in own}
        others = sorted(name for name in used - here if name in home and home[name] != path)
        text, renamed = _imports(path, others, home, spelling)
        joined = "\n\n\n".join(body)
        for name, module in renamed.items():
            joined = _qualified(joined, name, module)
        texts[path] = "\n".join([*dict.fromkeys(libraries), *text]) + "\n\n\n" + joined + "\n"
    for path in list(texts):
        if "/" in path:
            texts.setdefault(path.rsplit("/", 1)[0] + "/__init__.py", "")
    return texts


def _imports(path: str, names: list[str], home: dict[str, str], spelling: str) -> tuple[list[str], dict[str, str]]:
    lines: list[str] = []
    renamed: dict[str, str] = {}
    for file in dict.fromkeys(home[name] for name in names):
        module = file.removesuffix(".py").replace("/", ".")
        wanted = [name for name in names if home[name] == file]
        same_package = "/" in path and path.rsplit("/", 1)[0] == file.rsplit("/", 1)[0]
        source = "." + module.rsplit(".", 1)[-1] if same_package else module
        if spelling == "star":
            lines.append(f"from {source} import *")
        elif spelling == "module" and not same_package:
            lines.append(f"import {module} as {module.rsplit('.', 1)[-1]}_module")
            renamed |= {name: f"{module.rsplit('.', 1)[-1]}_module" for name in wanted}
        else:
            lines.append(f"from {source} import {', '.join(wanted)}")
    return lines, renamed


def _qualified(code: str, name: str, module: str) -> str:
    """The code with a name that is another module's."""
    lines = code.split("\n")
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and node.id == name]
    for node in sorted(found, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + module + "." + line[node.col_offset :]
    return "\n".join(lines)


def _ordered(definitions: list[Definition]) -> list[str]:
    """What others need when they are run comes first; functions may refer to what comes later."""
    left, done = list(definitions), list[Definition]()
    names = {each.name for each in definitions}
    while left:
        ready = {each.name for each in done}
        free = [each for each in left if not (_at_once(each.code) & names) - ready - {each.name}]
        chosen = free[0] if free else left[0]
        left.remove(chosen)
        done.append(chosen)
    return [each.code for each in done]


def _at_once(code: str) -> frozenset[str]:
    """The names that are read when the definition is run."""
    found: set[str] = set()
    stack: list[ast.AST] = list(ast.parse(code).body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            stack += [*node.decorator_list, *arguments.defaults, *(each for each in arguments.kw_defaults if each)]
        elif isinstance(node, ast.Lambda):
            continue
        else:
            stack += list(ast.iter_child_nodes(node))
    return frozenset(found)
