"""Random numbers that are drawn before the ranks join, which would be others on each of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.pytorch.forwards import is_module_method
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel_codemods.captured_step.problems import DeclinedError

_DRAWS: Final = re.compile(
    r"^(?:(torch)\.(?:rand\w*|normal|bernoulli|multinomial|poisson|utils\.data\.random_split)|(numpy)\.random\.\w+"
    r"|(random)\.\w+|sklearn\.\w+\.(?:train_test_split|make_\w+))$"
)
_SEEDS: Final = re.compile(r"^(?:(torch)(?:\.cuda|\.random)?\.manual_seed\w*|(numpy)\.random\.seed|(random)\.seed)$")
_MAKES: Final = re.compile(r"^numpy\.random\.(default_rng|RandomState)$|^random\.Random$")
_ANEW: Final = re.compile(r"^(torch|torch\.random)\.seed$|^random\.SystemRandom$|^secrets\.|^os\.urandom$")
_CLOCK: Final = re.compile(r"^(time\.|datetime\.|os\.getpid$|os\.urandom$|uuid\.)")


def refuse(script: Script) -> None:
    """Raises `DeclinedError` where a file of the program seeds a generator otherwise in each process."""
    for other in script.project.related(script):
        if (call := _seeded_anew(other)) is not None:
            raise DeclinedError(f"`{other.source(call)}` in line {call.lineno} is another seed in each process")


def first_draw(script: Script, join: ast.stmt) -> ast.Call | None:
    """The first call before a statement that draws random numbers, or leads there, from a generator without a seed.

    Args:
        script: The file in which the ranks join.
        join: The statement in which they do.
    """
    seeded: set[str] = set()
    for call in _calls_before(script, join):
        for other, inner in _with_callees(script, call, join):
            name = other.qualname(inner.func) or ""
            if (seeds := _SEEDS.search(name)) is not None:
                seeded.add(seeds[seeds.lastindex or 0])
            elif (draws := _DRAWS.search(name)) is not None and not _is_of_own_generator(name, inner):
                if (draws[draws.lastindex] if draws.lastindex else "numpy") not in seeded:
                    return call
    return None


def _calls_before(script: Script, join: ast.stmt) -> Iterator[ast.Call]:
    """The calls that run before the ranks join, in the module and in their function, as far as these are in sight."""
    scope = script.function(join)
    for each in (script.tree,) if scope is None else (script.tree, scope):
        inner = scope is None or each is scope
        yield from (call for call in script.in_scope(each, ast.Call) if not inner or call.lineno < join.lineno)


def _with_callees(script: Script, call: ast.Call, join: ast.stmt) -> Iterator[tuple[Script, ast.Call]]:
    """A call, and those of the functions that it enters: not of models, which run later, nor where the ranks join."""
    yield script, call
    for other, node in reachable_code(script, [call]):
        if isinstance(node, ast.FunctionDef) and not script.inside(join, node) and not is_module_method(other, node):
            yield from ((other, inner) for inner in other.within(node, ast.Call))


def _seeded_anew(script: Script) -> ast.Call | None:
    """A seed that is taken from the clock, the process or the operating system."""
    for call in script.find(ast.Call):
        name = script.qualname(call.func) or ""
        seeds = _SEEDS.search(name) or _MAKES.search(name)
        if _ANEW.search(name) or (seeds and not call.args and not call.keywords):
            return call
        if seeds and any(_CLOCK.search(script.qualname(each.func) or "") for each in script.within(call, ast.Call)):
            return call
    return None


def _is_of_own_generator(name: str, call: ast.Call) -> bool:
    """Whether a call draws from a generator that the program seeds for itself, or makes one."""
    own = ("generator", "random_state")
    return _MAKES.search(name) is not None or any(each.arg in own for each in call.keywords)
