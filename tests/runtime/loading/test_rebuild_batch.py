"""Rebuilding batches of every make."""

from __future__ import annotations

import array
import dataclasses
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from autoaccel.runtime.loading.rebuild_batch import rebuild

X, Y = torch.zeros(2), torch.zeros(3)


def marked(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 1


def is_marked(value: Any) -> bool:
    return bool((value == 1).all())


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    x: torch.Tensor
    name: str
    derived: int = dataclasses.field(init=False, default=3)


class Encoding(UserDict[str, Any]):
    """As tokenizers return: a mapping with attributes beside it."""

    def __init__(self, data: dict[str, Any], encodings: list[str]) -> None:
        super().__init__(data)
        self.encodings = encodings


Pair = namedtuple("Pair", ["x", "y"])


class OwnTuple(tuple[Any, ...]):
    def __new__(cls, first: Any, second: Any) -> OwnTuple:
        return super().__new__(cls, (first, second))


class OneAndMore(tuple[Any, ...]):
    def __new__(cls, first: Any, second: Any = None) -> OneAndMore:
        return super().__new__(cls, (first, second))


class Labelled(tuple[Any, ...]):
    label = "none"


class Columns(Mapping[str, Any]):
    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y
        self.first = x[0]

    def __getitem__(self, key: str) -> Any:
        return {"x": self.x, "y": self.y}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("x", "y"))

    def __len__(self) -> int:
        return 2


class Defaults(Columns):
    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y


def labelled() -> Labelled:
    value = Labelled((X, Y))
    value.label = "some"
    return value


def test_tensors_in_every_container() -> None:
    assert is_marked(rebuild(X, marked))
    got = rebuild([X, (Y, "a", 1, None)], marked)
    assert isinstance(got, list)
    assert isinstance(got[1], tuple)
    assert is_marked(got[0])
    assert is_marked(got[1][0])
    assert got[1][1:] == ("a", 1, None)
    pair = rebuild(Pair(X, {"k": Y}), marked)
    assert type(pair) is Pair
    assert is_marked(pair.y["k"])
    assert is_marked(rebuild(deque([X]), marked)[0])
    assert is_marked(rebuild(MappingProxyType({"k": X}), marked)["k"])


def test_mappings_keep_type_order_and_attributes() -> None:
    encoding = rebuild(Encoding({"ids": X, "text": "t"}, ["e"]), marked)
    assert type(encoding) is Encoding
    assert encoding.encodings == ["e"]
    assert is_marked(encoding["ids"])
    default = rebuild(defaultdict(list, k=X), marked)
    assert default["missing"] == []
    assert list(rebuild(OrderedDict(b=X, a=Y), marked)) == ["b", "a"]


def test_the_original_is_not_touched() -> None:
    batch: dict[str, Any] = {"x": X, "list": [Y]}
    rebuild(batch, marked)
    assert batch["x"] is X
    assert batch["list"][0] is Y


def test_tensors_are_parts_of_the_batch_themselves() -> None:
    batch = rebuild({"x": X, "boxes": (boxes := [Y])}, marked, "tensors")
    assert is_marked(batch["x"])
    assert batch["boxes"] is boxes
    assert is_marked(rebuild(X, marked, "tensors"))
    assert is_marked(rebuild([X, [Y]], marked, "tensors")[0])


def test_containers_of_exactly_these_types() -> None:
    nested: list[Any] = [X, {"k": [Y], "t": (Y,), "o": OrderedDict(y=Y)}, Sample(Y, "n")]
    got = rebuild(nested, marked, (dict, list))
    assert is_marked(got[0])
    assert is_marked(got[1]["k"][0])
    assert got[1]["t"] is nested[1]["t"]
    assert got[1]["o"] is nested[1]["o"]
    assert got[2] is nested[2]
    assert rebuild(pair := Pair(X, Y), marked, (dict, list, tuple)) is pair
    assert is_marked(rebuild(X, marked, (dict,)))


def test_containers_within_the_parts_that_are_named() -> None:
    batch = (X, [Y], {"k": Y}, [X])
    got = rebuild(batch, marked, (0, 1, 2, dict))
    assert is_marked(got[0])
    assert got[1] is batch[1]
    assert is_marked(got[2]["k"])
    assert got[3] is batch[3]
    got = rebuild(batch, marked, (0, 1, torch.Tensor))
    assert is_marked(got[0])
    assert got[1] is batch[1]
    assert rebuild([X], marked, (torch.Tensor,))[0] is X


def test_dataclasses_frozen_and_slotted() -> None:
    got = rebuild(Sample(X, "n"), marked)
    assert is_marked(got.x)
    assert (got.name, got.derived) == ("n", 3)


def test_registered_pytrees() -> None:
    class Graph:
        def __init__(self, nodes: torch.Tensor) -> None:
            self.nodes = nodes

    assert rebuild(graph := Graph(X), marked) is graph  # unknown: the loop moves it
    torch.utils._pytree.register_pytree_node(Graph, lambda g: ([g.nodes], None), lambda parts, _: Graph(*parts))
    assert is_marked(rebuild(Graph(X), marked).nodes)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        bytearray(b"abc"),
        array.array("d", [1.5]),
        3,
        None,
        np.zeros(3),
        range(3),
        [1, "a", (2,)],
        {"k": ["s"]},
        torch.Size([2, 3]),
        pack_sequence([torch.zeros(2)]),
        {1, 2},
        OwnTuple(1, 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_nothing_to_replace_is_the_very_same(value: Any) -> None:
    assert rebuild(value, marked) is value


@pytest.mark.parametrize(
    "own",
    [OwnTuple(X, Y), OneAndMore(X), labelled(), Columns(X, Y), Defaults(X, Y)],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_rebuilt_is_left(own: Any) -> None:
    assert rebuild(own, marked) is own
    assert rebuild({"k": own}, marked)["k"] is own


def test_aliases_stay_aliases() -> None:
    shared = [X]
    got = rebuild((X, X, shared, shared), marked)
    assert got[0] is got[1] is got[2][0]
    assert got[2] is got[3]
    got = rebuild((X, X, Y), marked, (0, 1))
    assert got[0] is got[1]
    assert got[2] is Y


def test_a_batch_that_contains_itself() -> None:
    batch: list[Any] = [X]
    batch.append(batch)
    assert is_marked(rebuild(batch, marked)[0])


@pytest.mark.parametrize(
    ("move", "expected"),
    [((), ""), ((0,), "0"), ((1,), "1"), ((0, 1), "01"), ([-1], "1"), ((5,), ""), (("k",), ""), (((1, "k"),), "1")],
)
def test_move_names_positions(move: Any, expected: str) -> None:
    batch = (X, {"k": Y, "n": "text"})
    got = rebuild(batch, marked, move)
    assert (got[0] is not X) is ("0" in expected)
    assert (got[1]["k"] is not Y) is ("1" in expected)


def test_move_names_keys_and_fields() -> None:
    got = rebuild({"ids": X, "lengths": Y, "meta": {"mask": X}}, marked, ("ids", ("meta", "mask"), "absent"))
    assert is_marked(got["ids"])
    assert got["lengths"] is Y
    assert is_marked(got["meta"]["mask"])
    assert is_marked(rebuild(Sample(X, "n"), marked, ("x",)).x)
    assert rebuild(X, marked, (0,)) is X
