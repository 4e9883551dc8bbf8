"""The page as people see it: in headless Chromium, wide and narrow, light and dark, cut off from the network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoaccel.measure.benching.report import BenchReport
from autoaccel.reports.benchmark.page import page

from .sample import REPORTS

pytestmark = pytest.mark.browser

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MEASURING = (Path(__file__).parent / "measuring.js").read_text("utf-8")


class Window:
    """One browser for all pages."""

    def __init__(self, browser: str, driver: str, profile: Path) -> None:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service

        options = ChromeOptions()
        options.binary_location = browser
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for argument in (
            *("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-dev-shm-usage"),
            *("disable-background-networking", "disable-component-update", "disable-sync"),
            f"user-data-dir={profile}",
        ):
            options.add_argument(f"--{argument}")
        self.driver = Chrome(options=options, service=Service(executable_path=driver))

    def show(self, path: Path, *, width: int = 1280, scheme: str = "light") -> None:
        self.log("browser"), self.log("performance")  # reading them empties them
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(path.as_uri())

    def log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        events = (json.loads(each["message"])["message"] for each in self.log("performance"))
        return [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    browser = next((found for each in _BROWSERS if (found := shutil.which(each))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("Chromium and its chromedriver are not installed")
    opened = Window(browser, driver, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, report in REPORTS.items():
        _write(folder / f"{name}.html", report)
    return {name: folder / f"{name}.html" for name in REPORTS}


def _write(path: Path, report: BenchReport) -> None:
    path.write_text(page(report), encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_cut_off_too_small_or_written_over(window: Window, pages: dict[str, Path], name: str) -> None:
    for width in (1280, 400):
        window.show(pages[name], width=width)
        assert window.run(_MEASURING) == [], f"{width} pixels"
    assert window.log("browser") == []
    assert [url for url in window.requested() if url != pages[name].as_uri() and not url.startswith("data:")] == []


@pytest.mark.parametrize("name", ["rich", "slower", "few", "bare"])
def test_neither_is_it_in_the_dark_or_on_a_tablet(window: Window, pages: dict[str, Path], name: str) -> None:
    for width, scheme in ((1280, "dark"), (400, "dark"), (761, "light"), (760, "light"), (360, "light")):
        window.show(pages[name], width=width, scheme=scheme)
        assert window.run(_MEASURING) == [], f"{width} pixels, {scheme}"


def test_the_measuring_sees_what_is_wrong(window: Window, tmp_path: Path) -> None:
    """Or an empty list of complaints would say nothing."""
    path = tmp_path / "wrong.html"
    path.write_text(
        """<!DOCTYPE html><html><body style="background:#fff">
        <p style="color:#aaa">pale</p><p style="font-size:9px">small</p><p style="width:2000px">wide</p>
        <svg viewBox="0 0 800 100" width="400"><text x="10" y="50" font-size="16">shrunken</text>
        <text x="15" y="52" font-size="16">above</text><text x="790" y="90" font-size="30">outside</text></svg>
        </body></html>""",
        encoding="utf-8",
    )
    window.show(path)
    complaints = "\n".join(window.run(_MEASURING))
    for expected in (
        'p "pale" .null: contrast 2.32',
        'p "small" is 9px',
        'p "wide" leaves the window',
        "the page is",
        'text "shrunken" is 8px',
        'text "shrunken" lies on text "above"',
        'text "outside" is cut off',
    ):
        assert expected in complaints


def test_dark_is_dark_and_paper_is_white(window: Window, pages: dict[str, Path]) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    window.show(pages["rich"], scheme="light")
    assert window.run(background) == "rgb(255, 255, 255)"
    window.show(pages["rich"], scheme="dark")
    assert window.run(background) == "rgb(21, 24, 28)"
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    assert window.run(background) == "rgb(255, 255, 255)"
    assert window.run(_MEASURING) == []
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_command_is_copied_as_it_is(window: Window, pages: dict[str, Path]) -> None:
    window.show(pages["rich"], width=400)
    copied = window.run(
        "const all = document.querySelectorAll('pre'); getSelection().selectAllChildren(all[all.length - 1]);"
        "return getSelection().toString()"
    )
    assert copied.strip() == REPORTS["rich"].command
