"""JUnit's XML: valid by the schema of Jenkins, whatever characters names and messages hold."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.reports import junit
from autoaccel.rewriting.record import Failure, Report
from tests.reports import sample

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).with_name("schemas") / "junit-10.xsd"))


def parsed(reports: list[Report]) -> ElementTree.Element:
    text = junit.render(reports, sample.context(problems=()))
    SCHEMA.validate(text)
    return ElementTree.fromstring(text.encode())


def test_sample() -> None:
    root = parsed(list(sample.REPORTS))
    assert root.attrib == {"name": "autoaccel", "tests": "4", "failures": "2", "errors": "1"}
    cases = {case.get("name"): [element.tag for element in case] for case in root.iter("testcase")}
    assert cases == {
        "src/broken.py": ["error"],
        "src/clean.py": [],
        "src/déjà vu, 1:2.py": ["failure"],
        "src/train.py": ["failure", "failure"],
    }
    failure = next(root.iter("failure"))
    assert failure.get("message") == sample.CREATED.message
    assert (failure.text or "").endswith(f"fix: {sample.CREATED.fix[0]}")


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_any_characters(name: str, message: str) -> None:
    root = parsed([Report(f"x{name}", failures=(Failure(f"y{message}"),))])
    (error,) = root.iter("error")
    speakable = "".join(each for each in message if each.isprintable() and not "\ud800" <= each <= "\udfff")
    assert set(speakable) <= set(error.get("message") or "")
