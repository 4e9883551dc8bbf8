"""The texts that a path may be."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.path_texts import ANYTHING, PathText, inside, path_texts, whole

SCRIPT = """\
import glob, os
from pathlib import Path

class Files:
    def __init__(self, root, mode="train", unused=None):
        self.root = root
        self.folder = Path(root) / mode
        self.files = sorted(glob.glob(os.path.join(root, mode) + "/*.png"))
        self.more = []
        self.more.extend(glob.glob("more/*.jpg"))
        self.more += ["last.jpg"]
        self.rest = self.files[10:] if unused else self.files
    def name(self, index):
        return f"{{index:04d}}.txt"
    def get(self, index, other):
        for name in os.listdir("d"):
            LOOK({expression})

Files({given}).get(1, unknown)
"""


def texts(expression: str, given: str = "'data'") -> set[PathText]:
    script = load(SCRIPT.format(expression=expression, given=given))
    (look,) = (call for call in script.find(ast.Call) if getattr(call.func, "id", "") == "LOOK")
    return {*path_texts(script, look.args[0])}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("'a/b.txt'", whole("a/b.txt")),
        ("self.root", whole("data")),
        ("self.root + '/b'", whole("data/b")),
        ("self.folder / 'b' / other", PathText("data/train/b/", "")),
        ("os.path.join(self.root, str(index), 'x.npy')", PathText("data/", "/x.npy")),
        ("os.path.join(self.root, '/tmp/x')", whole("/tmp/x")),
        ("Path(self.root, 'x').resolve()", whole("data/x")),
        ("self.folder.joinpath('x')", whole("data/train/x")),
        ("f'{self.root}/{index}.png'", PathText("data/", ".png")),
        ("'%s/%05d_%s.png' % (self.root, index, 'b')", PathText("data/", "_b.png")),
        ("'%(a)s.png' % other", PathText("", ".png")),
        ("'100%%/%d' % index", PathText("100%/", "")),
        ("'{}/{}.png'.format(self.root, index)", PathText("data/", ".png")),
        ("'{0}/x'.format(self.root)", PathText("", "/x")),
        ("self.files[index]", PathText("data/train/", ".png")),
        ("self.rest[index]", PathText("data/train/", ".png")),
        ("os.path.join('d', name)", PathText("d/", "")),
        ("self.name(index)", PathText("", ".txt")),
        ("open(os.path.join(self.root, 'x'))", whole("data/x")),
        ("other", ANYTHING),
        ("other.path", ANYTHING),
        ("'a/{'.format(index)", ANYTHING),
        ("os.path.join(*other)", ANYTHING),
        ("os.path.dirname(self.root)", ANYTHING),
    ],
)
def test_a_text(expression: str, found: PathText) -> None:
    assert texts(expression) == {found}


def test_one_of_several() -> None:
    assert texts("'a' if index else 'b'") == {whole("a"), whole("b")}
    assert texts("self.more[index]") == {PathText("more/", ".jpg"), whole("last.jpg")}
    assert texts("self.root", "'a' if unknown else 'b'") == {whole("a"), whole("b")}


def test_what_is_handed_over_out_of_sight() -> None:
    assert texts("self.root", "unknown") == {ANYTHING}
    assert texts("self.files[index]", "unknown") == {PathText("", ".png")}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (whole("a/b"), whole("./a//b"), True),
        (whole("a/b"), whole("a/c"), False),
        (whole("a/c/../b"), whole("a/b"), True),
        (PathText("a/", ".png"), whole("a/x.png"), True),
        (PathText("a/", ".png"), whole("b/x.png"), False),
        (PathText("a/", ".png"), whole("a/x.npy"), False),
        (PathText("a/", ".png"), PathText("a/b/", ""), True),
        (PathText("a/", ""), PathText("b/", ""), False),
        (PathText("a/b", ""), whole("a/"), False),
        (PathText("./a/", ""), PathText("a/", ""), True),
        (PathText("../a/", ""), PathText("a/", ""), False),
        (PathText("x/../a/", ""), PathText("a/", ""), True),
        (PathText("/data/", ".png"), whole("x.png"), True),
        (PathText("/data/", ".png"), whole("x.npy"), False),
        (PathText("", "/x.png"), whole("x.png"), True),
        (PathText("", "/x.png"), whole("y/x.png"), True),
        (PathText("", "/x.png"), whole("y.png"), False),
        (PathText("", "/../x.png"), whole("x.png"), True),
        (PathText("a/", "/../x.png"), whole("b/x.png"), True),
        (PathText("a/", "/.."), whole("b"), True),
        (PathText("", "/../x.png"), whole("y.png"), False),
        (whole("/data/x.png"), whole("x.png"), True),
        (whole("/data/x.png"), whole("../data/x.png"), True),
        (whole("/data/x.png"), whole("../x.npy"), False),
        (whole("/data"), whole("."), True),
        (inside(whole("a")), whole("a/x"), True),
        (inside(whole("a")), whole("ab/x"), False),
        (ANYTHING, whole("x"), True),
    ],
)
def test_may_be_one_file(one: PathText, other: PathText, same: bool) -> None:
    assert one.may_be(other) is same
    assert other.may_be(one) is same
