"""The scripts that the benchmark times are taken by the rules that it is about."""

from __future__ import annotations

import pytest

from benchmarks.divided_loading.__main__ import HEAD, SAMPLES, SCRIPTS, TAIL, rewritten


@pytest.mark.parametrize(("code", "text"), SCRIPTS.items())
@pytest.mark.parametrize("settings", [settings for _, settings, _ in SAMPLES])
def test_each_script_gets_workers(code: str, text: str, settings: str) -> None:
    plain = HEAD + settings + text + TAIL
    after = rewritten(plain, code)
    assert "num_workers=accel.num_workers()" in after
    assert after.endswith(TAIL)
    assert rewritten(after, code) == after
