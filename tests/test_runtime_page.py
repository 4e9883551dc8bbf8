"""The page on the runtime names its verbs, the variables that it reads, and the features that can be switched off."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from autoaccel import runtime
from autoaccel.runtime.environment import FEATURES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `AUTOACCEL_(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))


def test_every_variable_is_explained() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "autoaccel" / "runtime").rglob("*.py"))
    asked = re.compile(r'(?:setting|whole_number|Question|BackendSetting)\((?:"[a-z ]+", )?"([A-Z_]+)"')
    read = {name for text in sources for name in asked.findall(text)}
    assert set(ROWS) == read


def test_every_feature_is_named() -> None:
    assert set(re.findall(r"`(\w+)`", ROWS["DISABLE"])) == FEATURES | {"all"}


def test_every_verb_is_there_with_its_arguments() -> None:
    """Rewritten scripts call these, long after they were rewritten: a change here breaks them."""
    verbs = {name: inspect.signature(getattr(runtime, name)) for name in runtime.__all__}
    found = {name: _without_types(signature) for name, signature in verbs.items()}
    assert dict(re.findall(r"`accel\.(\w+)(\(.*?\))`", PAGE.partition("## When")[0])) == found


def _without_types(signature: inspect.Signature) -> str:
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
