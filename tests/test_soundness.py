"""The analysis knows what it has not seen: a part of what `benchmarks/soundness` looks at, another for every bound."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from autoaccel.dataflow.bounds import Bounds
from autoaccel.rewriting import registry
from benchmarks.soundness import properties

PROJECTS = list(properties.fixtures())
ALONE = [*map(properties.alone, PROJECTS)]
# Of one file, of several, such that are asked whether gradients reach a backward pass, and such that need not train.
POOLS = (
    [each for each in ALONE if len(each) == 1],
    [each for each in ALONE if len(each) > 1],
    [each for each in ALONE if "no-grad-eval" in str(min(each))],
    [each for each in ALONE if "deprecated" in str(min(each)) and len(each) > 1],
)
LOWER = {
    bound: [lower for _, lower in variants]
    for bound, variants in itertools.groupby(properties.variants(), lambda variant: variant[0].partition("=")[0])
}
LOOKED_AT = 24
EVERY = len(PROJECTS) // LOOKED_AT
"""However many fixtures there are, each test takes about as many of them, from all rules."""
AMONG = 8
"""Of what lies beside one another, so many times as many as a test takes."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of some of the fixtures: there are others beside each, and few enough to be read for each."""
    return tmp_path_factory.mktemp("repository") / "root"


@pytest.fixture(scope="module")
def neighbours(root: Path) -> list[properties.Texts]:
    found = properties.smaller_repository(root, PROJECTS[:: EVERY // AMONG])
    assert len(found) // LOOKED_AT >= AMONG
    return found


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> list[properties.Texts]:
    """One file of each of some projects, whose other files are read from the disk."""
    several = [each for each in PROJECTS if len(each) > 1]
    chosen = several[:: len(several) // LOOKED_AT]
    found = properties.smaller_repository(tmp_path_factory.mktemp("projects") / "root", chosen)
    return [{path: texts[path]} for texts in found for path in [min(texts)]]


def sample(
    bound: str, number: int, neighbours: list[properties.Texts], read: list[properties.Texts]
) -> tuple[list[properties.Texts], list[properties.Texts]]:
    """Some fixtures, and more for where the bound is not felt in any of these."""
    if bound in ("file", "around"):
        return read, []
    if bound == "beside":
        return neighbours[number % AMONG :: AMONG], []
    steps = [(pool, max(1, len(pool) // 8)) for pool in POOLS]
    starts = [number % step for _, step in steps]
    some = [each for (pool, step), start in zip(steps, starts, strict=True) for each in pool[start::step]]
    more = [
        each for (pool, step), start in zip(steps, starts, strict=True) for each in pool[(start + 1) % step :: step]
    ]
    return some, more


@pytest.mark.parametrize(("number", "bound"), list(enumerate(LOWER)), ids=list(LOWER))
def test_lower_bounds_add_no_finding(
    number: int, bound: str, neighbours: list[properties.Texts], read: list[properties.Texts]
) -> None:
    findings = lost = 0
    some, more = sample(bound, number, neighbours, read)
    for count, texts in enumerate([*some, *more]):
        if count >= len(some) and lost:
            break
        full = properties.said(texts)
        findings += sum(map(len, full.values()))
        for lower in LOWER[bound]:
            assert properties.gained(texts, lower, full) == []
            lost += sum(len(full[path] - found) for path, found in properties.said(texts, lower).items())
    assert findings > 20, "there is little to lose"
    assert lost, "the bound is not felt"


@pytest.mark.parametrize("seed", range(1, 5))
def test_another_order_changes_nothing(seed: int, neighbours: list[properties.Texts]) -> None:
    for texts in neighbours[seed::AMONG] if seed == 1 else ALONE[seed::EVERY]:
        assert properties.in_another_order(texts, seed) == properties.in_order(texts)


def test_a_file_named_alone_is_told_what_it_is_told_among_all(tmp_path: Path) -> None:
    several = [texts for texts in PROJECTS if len(texts) > 1]
    for number, texts in enumerate(several[:: max(1, len(several) // LOOKED_AT)]):
        assert properties.named_alone(properties.in_a_repository(texts, tmp_path / str(number))) == []


def test_a_rule_alone_finds_what_it_finds_among_all() -> None:
    findings = 0
    for texts in ALONE[5::EVERY]:
        alone = [properties.in_order(texts, [rule]) for rule in registry.rules() if rule.function]
        together = {path: frozenset().union(*(each[path] for each in alone)) for path in texts}
        assert together == properties.in_order(texts)
        findings += sum(map(len, together.values()))
    assert findings > 20, "there is little to lose"


def test_every_hash_seed_gives_the_same_bytes(root: Path, neighbours: list[properties.Texts]) -> None:
    assert len(neighbours[::AMONG]) >= LOOKED_AT
    some = ("--root", str(root), "--every", str(AMONG))
    started = [properties.digest_elsewhere(seed, *some) for seed in range(3)]
    digests = {process.communicate()[0] for process in started}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_with_no_evaluation_at_all_there_is_hardly_a_finding_left() -> None:
    """That lower bounds are felt, or the tests above could not fail."""
    texts = ALONE[::EVERY]
    full = sum(len(found) for each in texts for found in properties.said(each).values())
    left = sum(len(found) for each in texts for found in properties.said(each, Bounds(evaluations=0)).values())
    assert left < full / 5
