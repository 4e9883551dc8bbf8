"""What DataLoader calls set, and where their loaders are iterated."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.keyword_arguments import mapping_items, mapping_keys
from autoaccel.pytorch.execution_order import runs_within
from autoaccel.pytorch.loader_calls import (
    advances,
    in_daemon,
    iterations,
    loader_calls,
    loader_made,
    loaders_made,
    loops_over_unknown,
    repeats,
    unwrapped,
)
from autoaccel.pytorch.loader_loops import loader_loops

IMPORTS = "from torch.utils.data import DataLoader\n"


def test_positional_arguments_have_names() -> None:
    (made,) = loader_calls(
        load(IMPORTS + "DataLoader(data, 8, True, None, None, 4, None, True, persistent_workers=True)\n")
    )
    names = "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory persistent_workers"
    assert list(made.settings) == names.split()
    assert made.problem is None


@pytest.mark.parametrize(
    ("before", "unpacked", "keys"),
    [
        ("", "{'a': 1, 'b': 2}", {"a", "b"}),
        ("", "dict(a=1, **{'b': 2})", {"a", "b"}),
        ("", "{'a': 1} if cuda else {}", {"a"}),
        ("kw = {'a': 1}\nif cuda:\n    more = {'b': 1}\n    kw.update(more)\n", "kw", {"a", "b"}),
        ("kw = {}\nkw['a'] = 1\n", "kw", {"a"}),
        ("kw = {'a': 1}\nkw.update(b=2)\n", "kw", {"a", "b"}),
        ("a = {'a': 1}\nb = {'b': 1}\n", "a | b", {"a", "b"}),
        ("kw = {'a': 1}\nfill(kw)\n", "kw", None),
        ("kw = {}\nkw[name] = 1\n", "kw", None),
        ("kw = read()\n", "kw", None),
        ("", "{**other}", None),
        ("", "{name: 1}", None),
    ],
)
def test_keys_of_an_unpacked_mapping(before: str, unpacked: str, keys: set[str] | None) -> None:
    script = load(f"{before}f(**({unpacked}))\n")
    call = next(node for node in script.find(ast.Call) if getattr(node.func, "id", "") == "f")
    found = mapping_keys(script, call.keywords[0].value)
    assert found == keys if keys is None else found == frozenset(keys)


@pytest.mark.parametrize(
    ("body", "how", "again"),
    [
        ("for x in loader:\n    pass\n", ["for"], False),
        ("for epoch in range(3):\n    for x in tqdm(loader):\n        pass\n", ["for"], True),
        ("for epoch in range(3):\n    xs = [x for x in loader]\n", ["for"], True),
        ("for step in range(3):\n    x = next(iter(loader))\n", ["next"], True),
        ("it = iter(loader)\nfor step in range(3):\n    next(it)\n", ["iter"], False),
        ("def run():\n    for x in loader:\n        pass\nfor epoch in range(3):\n    run()\n", ["for"], True),
        ("def run(data):\n    for x in data:\n        pass\nrun(loader)\n", ["for"], False),
    ],
)
def test_iterations(body: str, how: list[str], again: bool) -> None:
    script = load(IMPORTS + "from tqdm import tqdm\nloader = DataLoader([1])\n" + body)
    (made,) = loader_calls(script)
    found = iterations(script, made.call)
    assert [each.how for each in found] == how
    assert any(repeats(each.script, each.node, script, made.call) for each in found) is again


def test_a_loader_made_for_every_pass_is_not_iterated_again() -> None:
    script = load(
        IMPORTS + "for epoch in range(3):\n    loader = DataLoader([1])\n    for x in loader:\n        pass\n"
    )
    (made,) = loader_calls(script)
    (use,) = iterations(script, made.call)
    assert not repeats(script, use.node, script, made.call)


def test_runs_within_follows_calls() -> None:
    script = load(
        IMPORTS
        + "loader = DataLoader([1])\ndef look():\n    for y in loader:\n        pass\nfor x in loader:\n    look()\n"
    )
    inner, outer = sorted((loop.node for loop in loader_loops(script)), key=lambda node: node.lineno)
    assert runs_within(script, inner, script, outer)
    assert not runs_within(script, outer, script, inner)


@pytest.mark.parametrize(
    ("start", "daemon"),
    [
        ("Process(target=work, daemon=True).start()", True),
        ("Process(target=work).start()", False),
        ("p = Process(target=work)\np.daemon = True", True),
        ("Pool(2).map(work, [1])", True),
    ],
)
def test_in_daemon(start: str, daemon: bool) -> None:
    script = load(
        IMPORTS + f"from multiprocessing import Pool, Process\ndef work(rank):\n    DataLoader([1])\n{start}\n"
    )
    (made,) = loader_calls(script)
    assert in_daemon(script, made.call) is daemon


@pytest.mark.parametrize(
    ("before", "unpacked", "items"),
    [
        ("", "{'a': 1, 'b': 2}", {"a": "1", "b": "2"}),
        ("kw = dict(a=1)\n", "kw", {"a": "1"}),
        ("kw = {'a': 1}\nprint(kw['a'])\n", "kw", {"a": "1"}),
        ("kw = {'a': 1}\nkw['b'] = 2\n", "kw", None),
        ("kw = {'a': 1}\nkw.pop('a')\n", "kw", None),
        ("kw = {'a': 1}\nif cuda:\n    kw = {}\n", "kw", None),
        ("kw = {'a': 1} if cuda else {}\n", "kw", None),
        ("", "{name: 1}", None),
    ],
)
def test_values_that_a_mapping_surely_has(before: str, unpacked: str, items: dict[str, str] | None) -> None:
    script = load(f"{before}f(**({unpacked}))\n")
    call = next(node for node in script.find(ast.Call) if getattr(node.func, "id", "") == "f")
    found = mapping_items(script, call.keywords[0].value)
    assert (None if found is None else {key: script.source(value) for key, value in found.items()}) == items


def test_keys_that_callers_pass_on() -> None:
    made_by = "def make(n, **kw):\n    return DataLoader([1], n, **kw)\n"
    text = f"{made_by}make(1, shuffle=True)\nmake(2, **{{'drop_last': True}})\n"
    (made,) = loader_calls(load(IMPORTS + text))
    assert made.possible == {"shuffle", "drop_last"}
    assert made.problem is None


def test_keys_of_a_function_that_nobody_calls_are_not_known() -> None:
    (made,) = loader_calls(load(IMPORTS + "def make(n, **kw):\n    return DataLoader([1], n, **kw)\n"))
    assert made.problem is not None


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("DataLoader([1], shuffle=True)", True),
        ("DataLoader([1], 2, True)", True),
        ("DataLoader([1], **{'shuffle': True})", False),
        ("DataLoader([1])", False),
    ],
)
def test_whether_the_call_itself_sets_it(call: str, written: bool) -> None:
    (made,) = loader_calls(load(IMPORTS + call + "\n"))
    assert made.writes("shuffle") is written


@pytest.mark.parametrize("call", ["DataLoader(*parts)", "DataLoader([1], **read())", "DataLoader([1], *more)"])
def test_arguments_that_are_not_seen(call: str) -> None:
    (made,) = loader_calls(load(IMPORTS + call + "\n"))
    assert made.problem is not None


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("for x in loader:\n    pass\n", []),
        ("def f(train_loader):\n    for x in train_loader:\n        pass\n", [4]),
        ("def f(train_loader):\n    for x in train_loader:\n        pass\nf(loader)\n", []),
    ],
    ids=["made in sight", "nobody says where it was made", "made by the caller"],
)
def test_loops_over_unknown(body: str, lines: list[int]) -> None:
    script = load(IMPORTS + "loader = DataLoader([1])\n" + body)
    found = [getattr(node, "lineno", 0) for _, node in loops_over_unknown(script)]
    assert found == lines


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("enumerate(loader)", "loader"),
        ("tqdm(enumerate(loader, 1))", "loader"),
        ("zip(loader, other)", "zip(loader, other)"),
        ("mine(loader)", "mine(loader)"),
        ("loader", "loader"),
    ],
)
def test_unwrapped(expression: str, expected: str) -> None:
    script = load(IMPORTS + f"from tqdm import tqdm\nloader = DataLoader([1])\nseen({expression})\n")
    (call,) = (each for each in script.find(ast.Call) if script.source(each.func) == "seen")
    assert script.source(unwrapped(script, call.args[0])) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("it = iter(loader)\nnext(it)\n", True),
        ("it = iter(loader)\ndef f():\n    next(it)\n", True),
        ("it = iter(other)\nnext(it)\n", False),
        ("it = iter([1])\nnext(it)\n", False),
    ],
)
def test_advances(body: str, expected: bool) -> None:
    script = load(IMPORTS + "loader = DataLoader([1])\nother = DataLoader([2])\n" + body)
    made = next(loader_calls(script))
    taken = [each for each in script.find(ast.Call) if script.source(each.func) == "next"]
    assert [advances(script, each, made.call) for each in taken] == [expected]


SUBCLASSES = {
    "nothing of its own": ("    pass", "dataset batch_size"),
    "a method of its own": ("    def describe(self):\n        return len(self)", "dataset batch_size"),
    "hands all on": (
        "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n        self.name = 'x'",
        "dataset batch_size",
    ),
    "sets the collate function": (
        (
            "    def __init__(self, *args, **kwargs):\n"
            "        super(Mine, self).__init__(*args, **kwargs)\n"
            "        self.collate_fn = pad"
        ),
        "dataset batch_size collate_fn",
    ),
    "sets something else of torch's": (
        "    def __init__(self, *a, **kw):\n        super().__init__(*a, **kw)\n        self.sampler = pad",
        None,
    ),
    "sets it first": (
        "    def __init__(self, *a, **kw):\n        self.collate_fn = pad\n        super().__init__(*a, **kw)",
        None,
    ),
    "makes its data set": (
        (
            "    def __init__(self, *args, batch_size=2):\n"
            "        self.sampler = self.data = list(range(8))\n"
            "        super().__init__(self.data, batch_size, collate_fn=pad)\n"
            "        self.n = 8"
        ),
        "dataset batch_size collate_fn",
    ),
    "sets something of torch's later": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        super().__init__(data, batch_size)\n"
            "        self.collate_fn = pad"
        ),
        None,
    ),
    "sets something of torch's elsewhere": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        super().__init__(data, batch_size)\n"
            "    def pad(self):\n"
            "        self.collate_fn = pad"
        ),
        None,
    ),
    "sets what it is told": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        super().__init__(data, batch_size)\n"
            "        self.__dict__.update(collate_fn=pad)"
        ),
        None,
    ),
    "calls the constructor by its class": (
        "    def __init__(self, data, batch_size):\n        DataLoader.__init__(self, data, batch_size)",
        None,
    ),
    "hands on one of two": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        super().__init__(data, batch_size)\n"
            "        super().__init__(data, 2 * batch_size)"
        ),
        None,
    ),
    "hands on what it gathers": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        given = [data, batch_size]\n"
            "        super().__init__(*given)"
        ),
        None,
    ),
    "hands on what it keeps": (
        (
            "    def __init__(self, data, batch_size):\n"
            "        self.kept = {'batch_size': batch_size}\n"
            "        super().__init__(data, **self.kept)"
        ),
        "dataset batch_size",
    ),
    "hands on what it keeps of others": (
        (
            "    def __init__(self, data, **kept):\n"
            "        self.kept = {**kept}\n"
            "        super().__init__(data, **self.kept)"
        ),
        "dataset",
    ),
    "hands on under a condition what it names": (
        "    def __init__(self, data, batch_size):\n        if data:\n            super().__init__(data)",
        None,
    ),
    "changes what it hands on": (
        (
            "    def __init__(self, *args, **kwargs):\n"
            "        kwargs['collate_fn'] = pad\n"
            "        super().__init__(*args, **kwargs)"
        ),
        None,
    ),
    "hands a part on": (
        "    def __init__(self, dataset, **kwargs):\n        super().__init__(dataset, **kwargs)",
        "dataset",
    ),
    "hands on under a condition": (
        "    def __init__(self, *args, **kwargs):\n        if args:\n            super().__init__(*args, **kwargs)",
        None,
    ),
    "iterates": ("    def __iter__(self):\n        return map(pad, super().__iter__())", None),
    "makes iterators": ("    def _get_iterator(self):\n        return iter([])", None),
    "collates": ("    def collate_fn(self, samples):\n        return samples", None),
    "an attribute": ("    sampler = []", None),
    "looks attributes up": ("    def __getattr__(self, name):\n        return pad", None),
}


@pytest.mark.parametrize("case", SUBCLASSES)
def test_loader_made_by_a_class_of_the_project(case: str) -> None:
    body, expected = SUBCLASSES[case]
    head = "from torch.utils.data import DataLoader\n\ndef pad(samples):\n    return samples\n\n"
    script = load(f"{head}class Mine(DataLoader):\n{body}\n\nMine(range(8), batch_size=2)\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each.func) == "Mine"]
    made = loader_made(script, call)
    assert (None if made is None else sorted(made.settings)) == (None if expected is None else sorted(expected.split()))


BASE = """\
from torch.utils.data import DataLoader

class Base(DataLoader):
    def __init__(self, data, size, collate):
        super().__init__(data, size, collate_fn=collate)

class Mine(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

class Digits(Base):
    def __init__(self, folder):
        super().__init__(read(folder), 8, pad)
"""


@pytest.mark.parametrize(
    ("call", "classes"),
    [("Mine([1], 8, pad)", 1), ("Digits('data')", 1), ("(Mine if deep else Digits)([1], 8, pad)", 2)],
)
def test_loader_made_by_a_class_that_derives_from_another(call: str, classes: int) -> None:
    script = load(f"{BASE}\n{call}\n")
    (node,) = (each.value for each in script.tree.body if isinstance(each, ast.Expr))
    assert isinstance(node, ast.Call)
    found = loaders_made(script, node)
    assert [sorted(each.settings) for each in found] == [["batch_size", "collate_fn", "dataset"]] * classes
    assert (loader_made(script, node) is None) is (classes > 1)


def test_loader_made_by_what_is_not_seen_is_not_known() -> None:
    script = load(f"{BASE}\n(Mine if deep else make)([1], 8, pad)\n")
    (node,) = (each.value for each in script.tree.body if isinstance(each, ast.Expr))
    assert isinstance(node, ast.Call)
    assert loaders_made(script, node) == ()


def test_loader_made_by_a_decorated_class_is_not_known() -> None:
    script = load(
        "from torch.utils.data import DataLoader\n\n@register\nclass Mine(DataLoader):\n    pass\n\nMine([1])\n"
    )
    [call] = script.find(ast.Call)
    assert loader_made(script, call) is None
