"""Functions and methods that are reached by a name which the program computes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.name_lookups import is_own_method, lookups, member_may_be, mentions, named_member, receiver

FUNCTION = "def train(x): ...\n"
ITEMS = "import inspect\nfor k, v in globals().items():\n    "
METHOD = "class Agent:\n    def train(self, x): ...\n"
CALLING = METHOD + "def call(agent, hook):\n    getattr(agent, hook)(1)\n"
ATTRGETTER = "from operator import attrgetter, methodcaller\n"

# By case: a file in which `train` is defined, and what may be a call of it; None where there is no more than is seen.
FUNCTIONS = {
    "nothing": (FUNCTION + "train(1)\n", None),
    "globals": (FUNCTION + "globals()[mode](1)\n", "globals()[mode]"),
    "globals, another name": (FUNCTION + "globals()['evaluate'](1)\n", None),
    "globals by get": (FUNCTION + "globals().get(mode)(1)\n", "globals().get(mode)"),
    "globals, that are only asked": (FUNCTION + "print('train' in globals())\n", None),
    "eval of a name": (FUNCTION + "eval(mode)(1)\n", "eval(mode)"),
    "exec of a file": (FUNCTION + "exec(open('configurator.py').read())\n", "exec(open('configurator.py').read())"),
    "eval of a call of it": (FUNCTION + "y = eval('train(1)')\n", "eval('train(1)')"),
    "eval of something else": (FUNCTION + "y = eval('(0.9, 0.999)')\n", None),
    "a method called eval": (FUNCTION + "import torch\nnet = torch.nn.ReLU()\nnet.eval()\n", None),
    "a member of a library": (FUNCTION + "import torch\ngetattr(torch.optim, mode)(1)\n", None),
    "globals, all that are classes": (FUNCTION + ITEMS + "if issubclass(v, Base):\n        v(1)\n", None),
    "globals, classes of a name": (FUNCTION + ITEMS + "if k == m and inspect.isclass(v):\n        found = v\n", None),
    "globals, all that are of a type": (FUNCTION + ITEMS + "if isinstance(v, type):\n        v(1)\n", None),
    "globals, all classes in a list": (
        FUNCTION + "x = [v(1) for k, v in globals().items() if isinstance(v, type)]",
        None,
    ),
    "globals, all that are of another type": (FUNCTION + ITEMS + "if isinstance(v, A):\n        v(1)\n", "globals"),
    "globals, those that are no classes": (
        FUNCTION + ITEMS + "if not isinstance(v, type):\n        v(1)\n",
        "globals",
    ),
    "globals, classes and others": (FUNCTION + ITEMS + "if m or isinstance(v, type):\n        v(1)\n", "globals"),
    "globals, before it is asked": (FUNCTION + ITEMS + "v(1)\n    assert isinstance(v, type)\n", "globals"),
    "globals, another one is asked": (FUNCTION + ITEMS + "if isinstance(w, type):\n        v(1)\n", "globals"),
    **{
        f"globals, {case}": (FUNCTION + text, "globals")
        for case, text in {
            "a test of its own": "def isinstance(v, t): return 1\n" + ITEMS + "if isinstance(v, type):\n        v(1)\n",
            "another type": "type = object\n" + ITEMS + "if isinstance(v, type):\n        v(1)\n",
            "read later": "f = []\n" + ITEMS + "if isinstance(v, type):\n        f.append(lambda: v(1))\nf[0]()\n",
            "read by a function": ITEMS
            + "if isinstance(v, type):\n        def f(): v(1)\nfor k, v in globals().items(): f()\n",
            "in pairs": "for pair in globals().items():\n    pair[1](1)\n",
            "pairs in a list": "[pair[1](1) for pair in globals().items()]\n",
        }.items()
    },
    "globals, pairs that are printed": (FUNCTION + "for pair in globals().items():\n    print(pair[1])\n", None),
    "a member of an object": (METHOD + FUNCTION + "getattr(Agent(), mode)(1)\n", None),
}
UNCALLED = "class Config:\n    def make(self, o, k):\n        getattr(o, k)(1)\n"
MEMBER_OF = "getattr(o, k)"
PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"
FROM_ARGS = """\
class Config:
    @classmethod
    def from_args(cls, args, options):
        args = args.parse_args()
        return cls({option: getattr(args, option) for option in options})
"""
METHODS = {
    "nothing": (METHOD + "Agent().train(1)\n", None),
    "any name": (METHOD + "getattr(Agent(), mode)(1)\n", "getattr(Agent(), mode)"),
    "of the same object": (METHOD + "    def run(self, m):\n        getattr(self, m)(1)\n", "getattr(self, m)"),
    "of an unknown object": (METHOD + "def run(agent, m):\n    getattr(agent, m)(1)\n", "getattr(agent, m)"),
    "of another class": (METHOD + "class Other: ...\ngetattr(Other(), mode)(1)\n", None),
    "of a class that derives": (METHOD + "class Other(Agent): ...\ngetattr(Other(), m)(1)\n", "getattr(Other(), m)"),
    "its own name": (METHOD + "getattr(Agent(), 'train')(1)\n", None),  # found as a call of it
    "its own name, kept": (METHOD + "run = getattr(Agent(), 'train')\nrun(1)\n", "getattr(Agent(), 'train')"),
    "another name": (METHOD + "getattr(Agent(), 'test')(1)\n", None),
    "a beginning": (METHOD + "getattr(Agent(), f'tr{m}')(1)\n", "getattr(Agent(), f'tr{m}')"),
    "another beginning": (METHOD + "getattr(Agent(), f'eval_{m}')(1)\n", None),
    "another end": (METHOD + "getattr(Agent(), m + '_step')(1)\n", None),
    "a template": (METHOD + "getattr(Agent(), 'on_%s' % m)(1)\n", None),
    "a template that fits": (METHOD + "getattr(Agent(), '{}'.format(m))(1)\n", "getattr(Agent(), '{}'.format(m))"),
    "one of two others": (METHOD + "getattr(Agent(), 'test' if m else 'save')(1)\n", None),
    "one of two": (METHOD + "m = 'train' if m else 'test'\ngetattr(Agent(), m)(1)\n", "getattr(Agent(), m)"),
    "one of some others": (METHOD + "for m in ('test', 'save'):\n    getattr(Agent(), m)(1)\n", None),
    "one of some": (METHOD + "for m in ('test', 'train'):\n    getattr(Agent(), m)(1)\n", "getattr(Agent(), m)"),
    "one of some that are computed": (METHOD + "for m in (a, b):\n    getattr(Agent(), m)(1)\n", "getattr(Agent(), m)"),
    "a name that becomes itself": (
        METHOD + "m = 'test'\nfor i in y:\n    m = m if i else 'save'\n    getattr(Agent(), m)(1)\n",
        None,
    ),
    "a name that becomes itself, or it": (
        METHOD + "m = 'test'\nfor i in y:\n    m = m if i else 'train'\n    getattr(Agent(), m)(1)\n",
        "getattr(Agent(), m)",
    ),
    "handed by every caller": (CALLING + "call(Agent(), 'test')\ncall(Agent(), hook='save')\n", None),
    "handed by a caller": (CALLING + "call(Agent(), 'test')\ncall(Agent(), 'train')\n", "getattr(agent, hook)"),
    "handed by a method of the same object": (
        METHOD + "    def call(self, m):\n        getattr(self, m)(1)\n    def fit(self):\n        self.call('test')\n",
        None,
    ),
    "handed on by a function whose name is handed": (
        METHOD + "    def call(self, m):\n        getattr(self, m)('train')\nAgent().call('call')\n",
        "getattr(self, m)",
    ),
    "made another by a caller": (CALLING + "call(Agent(), 'TRAIN'.lower())\n", "getattr(agent, hook)"),
    "put together by a caller": (CALLING + "call(Agent(), 'tr' + 'ain')\n", "getattr(agent, hook)"),
    "one of some of a caller": (
        CALLING + "for m in ('test', 'train'):\n    call(Agent(), m)\n",
        "getattr(agent, hook)",
    ),
    "formatted by a caller": (CALLING + "call(Agent(), f'tr{x}')\n", "getattr(agent, hook)"),
    "a part of what a caller hands": (
        METHOD
        + "def call(agent, hooks):\n    for m in hooks:\n        getattr(agent, m)(1)\ncall(Agent(), ['train'])\n",
        "getattr(agent, m)",
    ),
    "computed by a caller": (CALLING + "call(Agent(), 'test')\ncall(Agent(), mode)\n", "getattr(agent, hook)"),
    "handed through two functions": (
        CALLING + "def fire(hook):\n    call(Agent(), hook)\nfire('test')\n",
        None,
    ),
    "handed through two functions, computed": (
        CALLING + "def fire(hook):\n    call(Agent(), hook)\nfire(mode)\n",
        "getattr(agent, hook)",
    ),
    "unpacked by a caller": (CALLING + "call(Agent(), *hooks)\n", "getattr(agent, hook)"),
    "by a caller under another name": (
        CALLING + "call(Agent(), 'test')\nrun = call\nrun(x, m)\n",
        "getattr(agent, hook)",
    ),
    "by a caller that is not seen": (CALLING + "call(Agent(), 'test')\nsubmit(call)\n", "getattr(agent, hook)"),
    "bound anew": (
        METHOD + "def call(agent, m):\n    m = m or mode\n    getattr(agent, m)(1)\ncall(Agent(), 'test')\n",
        "getattr(agent, m)",
    ),
    "by default": (
        METHOD + "def call(agent, m='train'):\n    getattr(agent, m)(1)\ncall(Agent())\n",
        "getattr(agent, m)",
    ),
    "a number": (METHOD + "x = getattr(Agent(), m) + 1\n", None),
    "tested": (METHOD + "if getattr(Agent(), m):\n    pass\n", None),
    "printed": (METHOD + "print(getattr(Agent(), m))\n", None),
    "kept and printed": (METHOD + "x = getattr(Agent(), m)\nprint(x)\n", None),
    "handed on": (METHOD + "run(getattr(Agent(), m))\n", "getattr(Agent(), m)"),
    "handed to a layer": (METHOD + "from torch import nn\nnn.ReLU(getattr(Agent(), m))\n", None),
    "handed to a layer that calls it": (
        METHOD + "from torch import nn\nnn.TransformerEncoderLayer(8, 2, activation=getattr(Agent(), m))\n",
        "getattr(Agent(), m)",
    ),
    "handed to a schedule": (
        METHOD + "from torch.optim.lr_scheduler import LambdaLR\nLambdaLR(o, getattr(Agent(), m))\n",
        "getattr(Agent(), m)",
    ),
    "handed to numpy": (METHOD + "import numpy as np\nnp.asarray(getattr(Agent(), m))\n", None),
    "handed to numpy, which calls it": (
        METHOD + "import numpy as np\nnp.vectorize(getattr(Agent(), m))(x)\n",
        "getattr(Agent(), m)",
    ),
    **{
        f"handed to {function}": (
            f"{METHOD}{imports}\n{function}({before}getattr(Agent(), m))\n",
            "getattr(Agent(), m)",
        )
        for imports, function, before in (
            ("import torch", "torch.nn.modules.module.register_module_forward_hook", ""),
            ("import torch", "torch.nn.Module.apply", "net, "),
            ("import torch", "torch.nn.parallel.data_parallel", ""),
            ("import torch", "torch.nn.utils.parametrize.register_parametrization", "net, 'w', "),
            ("import torch", "torch.optim.SGD.step", "optimizer, "),
            ("import torch", "torch.optim.swa_utils.AveragedModel", "net, None, "),
            ("import numpy", "numpy.mask_indices", "3, "),
            ("import numpy", "numpy.testing.assert_raises", "ValueError, "),
            ("import inspect", "inspect.unwrap", ""),
        )
    },
    "asked for its signature": (METHOD + "import inspect\ninspect.signature(getattr(Agent(), m))\n", None),
    "returned": (METHOD + "def f(m):\n    return getattr(Agent(), m)\n", "getattr(Agent(), m)"),
    "by its namespace": (METHOD + "vars(Agent)[m](Agent(), 1)\n", "vars(Agent)[m]"),
    "by the namespace of a class": (METHOD + "Agent.__dict__[m](Agent(), 1)\n", "Agent.__dict__[m]"),
    "by attrgetter": (ATTRGETTER + METHOD + "attrgetter('train')(x)(1)\n", "attrgetter('train')"),
    "by attrgetter, of a part": (
        ATTRGETTER + METHOD + "attrgetter('agent.train')(x)(1)\n",
        "attrgetter('agent.train')",
    ),
    "by attrgetter, of several": (
        ATTRGETTER + METHOD + "attrgetter('a', 'train')(x)[1](1)\n",
        "attrgetter('a', 'train')",
    ),
    "by a special method": (METHOD + "Agent().__getattribute__('train')(1)\n", "Agent().__getattribute__('train')"),
    "by a special method, another": (METHOD + "Agent().__getattribute__('test')(1)\n", None),
    "by a special method of object": (
        METHOD + "object.__getattribute__(Agent(), m)(1)\n",
        "object.__getattribute__(Agent(), m)",
    ),
    "by methodcaller": (ATTRGETTER + METHOD + "methodcaller(m, 1)(x)\n", "methodcaller(m, 1)"),
    "by methodcaller, another": (ATTRGETTER + METHOD + "methodcaller('test')(x)\n", None),
    "in a method that nobody calls": (METHOD + UNCALLED, None),
    "in a method that is called": (METHOD + UNCALLED + "Config().make(x, m)\n", MEMBER_OF),
    "in a method that is handed on": (METHOD + UNCALLED + "submit(Config().make)\n", MEMBER_OF),
    "in a method that a text names": (METHOD + UNCALLED + "run(Config(), 'make')\n", MEMBER_OF),
    "in a method that is reached by a computed name": (METHOD + UNCALLED + "getattr(Config(), m)(x, y)\n", MEMBER_OF),
    "in a method that another class calls": (
        METHOD + UNCALLED + "class Other(Config):\n    def run(self):\n        super().make(x, m)\n",
        MEMBER_OF,
    ),
    "in a method of a class of a library's": (METHOD + UNCALLED.replace("Config", "Config(base.Callback)"), MEMBER_OF),
    "in a method that is decorated": (METHOD + UNCALLED.replace("    def", "    @command\n    def"), MEMBER_OF),
    "in a method, where a library calls any": ("import fire\n" + METHOD + UNCALLED, MEMBER_OF),
    **{
        f"in a method, where a library calls any: {each}": (f"{each}\n{METHOD}{UNCALLED}", MEMBER_OF)
        for each in ("import os, fire", "import os; import fire", "from fire import Fire")
    },
    "in a method that a class gives to a library": (
        METHOD + UNCALLED + "class Hook(Config, base.Callback):\n    pass\n",
        MEMBER_OF,
    ),
    "in a method of what pytest collects": (METHOD + UNCALLED.replace("Config", "TestConfig"), MEMBER_OF),
    "in a test": (METHOD + UNCALLED.replace("make", "test_make"), MEMBER_OF),
    "in a method of an object that a library gets": (METHOD + UNCALLED + "library.start(Config())\n", MEMBER_OF),
    "in a method of one in a list that a library gets": (
        METHOD + UNCALLED + "library.start(hooks=[Config()])\n",
        MEMBER_OF,
    ),
    "in a method of a class that a library gets": (METHOD + UNCALLED + "library.start(Config)\n", MEMBER_OF),
    "in a method of an object that who knows who gets": (METHOD + UNCALLED + "start()(Config())\n", MEMBER_OF),
    "in a method of a file that is printed to": (METHOD + UNCALLED + "print(1, file=Config())\n", MEMBER_OF),
    "in a method of a file that Python prints to": (
        "import sys\n" + METHOD + UNCALLED + "sys.stdout = Config()\n",
        MEMBER_OF,
    ),
    "in a method of an object that the project gets": (
        METHOD + UNCALLED + "def use(config):\n    print(config)\nuse(Config())\n",
        None,
    ),
    "in a function that nobody calls": (METHOD + "def make(o, m):\n    getattr(o, m)(1)\n", "getattr(o, m)"),
    "of options": (PARSER + METHOD + "getattr(parser.parse_args(), m)(1)\n", None),
    "of a parser of options": (PARSER + METHOD + "getattr(parser, m)(1)\n", None),
    "of an object that is given the options": (
        PARSER + METHOD + "getattr(parser.parse_args(namespace=agent), m)(1)\n",
        "getattr(parser.parse_args(namespace=agent), m)",
    ),
    "of what options and their parser are handed to": (
        PARSER + METHOD + FROM_ARGS + "Config.from_args(parser, options)\n",
        None,
    ),
    "of what somebody else is handed to as well": (
        PARSER + METHOD + FROM_ARGS + "Config.from_args(parser, options)\nConfig.from_args(x, options)\n",
        "getattr(args, option)",
    ),
}


def looked_up(text: str) -> str | None:
    script = load(text)
    *_, function = (each for each in script.find(ast.FunctionDef) if each.name == "train")
    part = next(lookups(script, script, function, ("train",)), None)
    return None if part is None else script.source(part)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions(case: str) -> None:
    text, expected = FUNCTIONS[case]
    assert looked_up(text) == expected


@pytest.mark.parametrize("case", METHODS)
def test_methods(case: str) -> None:
    text, expected = METHODS[case]
    assert looked_up(text) == expected


# By case: what stands in `metrics.py` and what more in the file with `train`, and whether `metrics` may have `train`.
MEMBERS = {
    "none of that name": ("def accuracy(x): ...\n", "", False),
    "brought by an import": ("from main import train\n", "", True),
    "brought by a star import": ("from main import *\n", "", True),
    "brought by a star import of another file": ("from empty import *\n", "", False),
    "perhaps brought by a star import": ("from elsewhere import *\n", "", True),
    "another of that name": ("def train(x): ...\n", "", False),
    "made when it is asked for": ("def __getattr__(name): ...\n", "", True),
    "put among its names": ("globals()[name] = value\n", "", True),
    "put into it": ("", "metrics.train = train\n", True),
    "perhaps put into it": ("", "setattr(metrics, name, train)\n", True),
    "put into something else": ("class Bag: ...\n", "setattr(metrics.Bag(), name, train)\n", False),
    "put into what may be it": ("", "setattr(options, name, train)\n", True),
    "put into its namespace": ("", "vars(metrics)[name] = train\n", True),
    "read from its namespace": ("", "print(vars(metrics))\n", False),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_members_of_a_module(case: str, tmp_path: Path) -> None:
    module, more, found = MEMBERS[case]
    (tmp_path / "metrics.py").write_text(module)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "main.py").write_text(f"import metrics\n{FUNCTION}{more}getattr(metrics, mode)(1)\n")
    script = Project([tmp_path / "main.py"]).script(tmp_path / "main.py")
    assert script is not None
    (function,) = script.find(ast.FunctionDef)
    assert any(True for _ in lookups(script, script, function, ("train",))) is found


@pytest.mark.parametrize(
    ("expression", "owner", "named"),
    [
        ("net.eval", "net", None),
        ("getattr(net, 'eval')", "net", "eval"),
        ("getattr(net, 'eval', None)", "net", "eval"),
        ("getattr(net, mode)", None, None),
        ("nets['eval']", None, None),
        ("run", None, None),
    ],
)
def test_receivers(expression: str, owner: str | None, named: str | None) -> None:
    script = load(expression)
    (statement,) = script.find(ast.Expr)
    found = receiver(statement.value)
    assert (None if found is None else script.source(found)) == owner
    member = named_member(statement.value)
    assert (None if member is None else member[1]) == named


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("getattr(x, 'detach')", True),
        ("getattr(x, 'de' + name)", True),
        ("getattr(x, f'{name}_')", False),
        ("getattr(x, 'cpu')", False),
        ("getattr(x, name)", False),  # nothing is told of it
        ("getattr(x)", False),
    ],
)
def test_members_that_are_told(expression: str, expected: bool) -> None:
    script = load(expression)
    assert member_may_be(script, next(script.find(ast.Call)), ("detach", "clone")) == expected


def test_mentions() -> None:
    script = load(
        "import torch\nimport numpy as np\nfrom torch import no_grad as ng\n"
        "torch.no_grad()\nng()\nx.no_grad\ngetattr(torch, 'no_' + what)\nnp.no_grad\nno_gradient()\n"
    )
    found = [script.source(each) for each in mentions(script, {"no_grad"})]
    assert found == ["torch.no_grad", "ng", "x.no_grad", "getattr(torch, 'no_' + what)"]


OWN = "class Runner:\n    def compile(self): ...\n"
MODEL = "from torch import nn\nclass Net(nn.Module):\n    def compile(self): ...\n"

# By case: a file, and whether its last `compile` surely is a method that the project defines.
OWN_METHODS = {
    "of an object": (OWN + "Runner().compile()\n", True),
    "of an object that a function gets": (OWN + "def f(r):\n    r.compile()\nf(Runner())\n", True),
    "of itself": (OWN + "    def run(self):\n        self.compile()\n", True),
    "of a base": (OWN + "class Fast(Runner): ...\nFast().compile()\n", True),
    "of an unknown object": (OWN + "def f(r):\n    r.compile()\n", False),
    "of a model": (MODEL + "Net().compile()\n", False),
    "of one of two": (OWN + MODEL + "r = Runner() if x else Net()\nr.compile()\n", False),
    "beside torch's": (
        "from torch import nn\n" + OWN + "class Net(nn.Module, Runner): ...\nNet().compile()\n",
        False,
    ),
    "of itself, which a model may be": (
        "from torch import nn\n"
        + OWN
        + "    def run(self):\n        self.compile()\nclass Net(nn.Module, Runner): ...\nNet().run()\n",
        False,
    ),
    "beside an unknown base": ("class Runner(base()):\n    def compile(self): ...\nRunner().compile()\n", False),
    "replaced": ("import torch\n" + OWN + "r = Runner()\nr.compile = torch.compile\nr.compile()\n", False),
    "not defined": ("class Runner: ...\nRunner().compile()\n", False),
    "a function": ("def compile(): ...\ncompile()\n", False),
}


@pytest.mark.parametrize("case", OWN_METHODS)
def test_methods_of_its_own(case: str) -> None:
    text, expected = OWN_METHODS[case]
    script = load(text)
    *_, call = (each for each in script.syntax_index.calls_named("compile"))
    assert is_own_method(script, call.func) is expected
    assert bool(mentions(script, {"compile"})) is not expected
