"""Programs that train, in the shapes of real ones: from a vector of features to the texts of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.wrong_rewrites.features import Asked, Features
from benchmarks.wrong_rewrites.grammar import adversarial, agents, language, supervised
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.programs import laid_out

_TASKS: Mapping[str, Callable[[Builder], None]] = {
    "supervised": supervised.build,
    "agent": agents.build,
    "adversarial": adversarial.build,
    "language": language.build,
}
# As often as they are listed.
_WEIGHTED = (*["supervised"] * 6, *["agent"] * 2, "adversarial", "language")

_LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "one file": {},
    "helpers": {"helpers": "helpers.py"},
    "models": {"model": "models.py"},
    "three files": {"model": "models.py", "helpers": "helpers.py", "data": "data.py"},
    "package": {"model": "lib/models.py", "helpers": "lib/tools.py", "data": "lib/data.py", "engine": "lib/engine.py"},
    "all away": {"model": "library.py", "helpers": "library.py", "data": "library.py", "engine": "library.py"},
}


def generate(asked: Asked, fixed: Mapping[str, str] | None = None) -> tuple[dict[str, str], Features]:
    """The texts of a program and its features."""
    features = Features(asked, fixed)
    task = features.pick("*task", *_WEIGHTED)
    builder = Builder(features)
    _TASKS[task](builder)
    layout = features.pick("layout", *_LAYOUTS)
    spelling = features.pick("imports", "from", "module", "star") if layout != "one file" else "from"
    guard = features.has("guard")
    texts = laid_out(builder.program, dict(_LAYOUTS[layout]), spelling, guard)
    if layout != "one file" and features.has("importers"):
        texts |= _importers(texts)
    return texts, features


def _importers(texts: Mapping[str, str]) -> dict[str, str]:
    """Many files that only look at what functions of the program give them, before the one that learns from it."""
    for name in ("predict", "ask", "probe", "run_model"):
        for path, text in texts.items():
            if path != "main.py" and f"def {name}(" in text:
                module = path.removesuffix(".py").replace("/", ".")
                code = (
                    f"from {module} import {name}\n\n\ndef show(model, x):\n    print({name}(model, x).sum().item())\n"
                )
                return {f"a{number:02}.py": code for number in range(27)}
    return {}
