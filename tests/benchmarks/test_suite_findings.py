"""Which rules change the scripts of the suite: recall that is lost shows here, not as a figure that fell."""

from __future__ import annotations

import pytest

from benchmarks.suite.candidates import rewritten
from benchmarks.suite.catalogue import SCRIPTS

CODES = {
    "cifar": "AA103 AA201 AA202 AA301 AA401 AA403 AA603 AA701 AA702",
    "dcgan": "AA103 AA105 AA201 AA202 AA301 AA401 AA403 AA602 AA606 AA701 AA702",
    "evaluate": "AA103 AA201 AA202 AA301 AA401 AA501 AA701 AA703",
    "gpt": "AA103 AA201 AA202 AA301 AA305 AA401 AA403 AA602",
    "imagenet": "AA103 AA105 AA201 AA202 AA301 AA401 AA403 AA701 AA702 AA703",
    "lstm": "AA301 AA603",
    "mnist": "AA103 AA201 AA202 AA301 AA401 AA403 AA603 AA701 AA702",
    "mutating": "AA103 AA201 AA301 AA401 AA403 AA602",
    "rl": "AA101 AA301 AA401 AA403 AA602",
    "seq2seq": "AA101 AA103 AA201 AA202 AA301 AA602",
    "short": "AA103 AA201 AA202 AA301 AA401 AA403 AA602 AA701 AA702",
    "tabular": "AA103 AA201 AA202 AA301 AA401 AA403 AA602 AA603",
    "tuned": "AA202 AA703",
    "unet": "AA103 AA201 AA202 AA301 AA401 AA403 AA602 AA701 AA702 AA703",
    "vae": "AA103 AA201 AA202 AA301 AA306 AA401 AA403 AA602",
    "waiting": "AA103 AA201 AA202 AA301 AA401 AA403 AA602 AA603",
}


def test_every_script_is_told() -> None:
    assert sorted(path.name for path in SCRIPTS.iterdir() if path.is_dir()) == sorted(CODES)


@pytest.mark.parametrize("name", CODES)
def test_rules_that_change_a_script(name: str) -> None:
    result = rewritten((SCRIPTS / name / "original.py").resolve())
    assert sorted({each.code for each in result.applied}) == CODES[name].split()
