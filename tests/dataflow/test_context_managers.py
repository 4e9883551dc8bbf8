"""Which `with` blocks may swallow an exception, so that what follows is reached from halfway through."""

from __future__ import annotations

import ast

import pytest

from autoaccel.dataflow.context_managers import may_swallow
from autoaccel.dataflow.syntax_index import SyntaxIndex

CLASS = "class A:\n    def __enter__(self): return self\n    def __exit__(self, kind, value, trace):\n        {}\n"
FUNCTION = "@contextlib.contextmanager\ndef a():\n    {}\n"


@pytest.mark.parametrize(
    ("above", "manager", "expected"),
    [
        ("", "suppress(E)", True),
        ("", "contextlib.suppress(E)", True),
        ("", "pytest.raises(E)", True),
        ("", "contextlib.ExitStack()", True),
        ("from lib import a\n", "a()", True),
        ("def f(a):\n    pass\n", "a", True),
        ("", "stack[0]", True),
        ("", "torch.no_grad()", False),
        ("", "open('log')", False),
        ("from torch.profiler import profile\n", "profile()", False),
        ("import torch.cuda as cuda\n", "cuda.stream(s)", False),
        ("from timing import profile\n", "profile()", True),
        ("from .timing import profile\n", "profile()", True),
        ("from timing import measure as profile\n", "profile()", True),
        ("import timing\n", "timing.profile()", True),
        ("import tools.timing\n", "tools.timing.profile()", True),
        ("from timing import *\n", "profile()", True),
        ("try:\n    from torch import no_grad\nexcept E:\n    from ours import no_grad\n", "no_grad()", True),
        ("", "model.no_sync()", False),
        (CLASS.format("return True"), "A()", True),
        (CLASS.format("return kind is E"), "A()", True),
        (CLASS.format("if kind is E: return 1"), "A()", True),
        (CLASS.format("print(value)"), "A()", False),
        (CLASS.format("return"), "A()", False),
        (CLASS.format("return False"), "A()", False),
        (CLASS.format("return None"), "A()", False),
        (CLASS.format("return True").replace("def __exit__", "async def __aexit__"), "A()", True),
        ("class A(Base):\n    pass\n", "A()", True),
        (CLASS.format("return True").replace("A", "no_grad"), "no_grad()", True),
        (CLASS.format("return True") + "made = A()\n", "made", True),
        (CLASS.format("return False") + "made = A()\n", "made", False),
        (CLASS.format("return True") + "def make():\n    return A()\n", "make()", True),
        (CLASS.format("return False") + "def make():\n    return A()\n", "make()", False),
        ("self.amp = autocast('cuda')\n", "self.amp", False),
        ("amp = nullcontext() if cpu else autocast('cuda')\n", "amp", False),
        ("amp = nullcontext() if cpu else suppress(E)\n", "amp", True),
        ("amp = nullcontext()\namp = guard(amp)\n", "amp", True),
        (FUNCTION.format("try: yield\n    except E: pass"), "a()", True),
        (FUNCTION.format("try: yield\n    except E:\n        if f(): return\n        raise"), "a()", True),
        (FUNCTION.format("try: yield\n    finally: return"), "a()", True),
        (FUNCTION.format("with suppress(E): yield"), "a()", True),
        (FUNCTION.format("try: yield\n    finally: close()"), "a()", False),
        (FUNCTION.format("try: yield\n    except E:\n        print()\n        raise"), "a()", False),
        (FUNCTION.format("try: f()\n    except E: pass\n    yield"), "a()", False),
        (FUNCTION.format("with no_grad(): yield"), "a()", False),
        ("@guarded\ndef a():\n    return nullcontext()\n", "a()", True),
    ],
)
def test_may_swallow(above: str, manager: str, expected: bool) -> None:
    index = SyntaxIndex(f"{above}with {manager}:\n    pass\n")
    block = next(each for each in index.find(ast.With) if ast.unparse(each.items[0].context_expr) == manager)
    assert may_swallow(index, block.items[0].context_expr) is expected
