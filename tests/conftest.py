"""Shared by all tests: no test reads the developer's environment or writes into the home folder."""

from __future__ import annotations

import compileall
import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.measure.forking import Forking, ForkingRanks

# Before anything imports torch: as many threads as there are cores wait for one another, spinning, where several
# processes share these.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, so that a change fails for what it changed; `--hypothesis-profile=default` draws
# others.
# How long an example takes is the machine's business.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


_NEEDED = 4 << 30  # bytes that are free
_MADE = 20_000  # objects between two looks for cycles


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "AUTOACCEL_DISABLE", "AUTOACCEL_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


def _keep_temporary_files_in_memory() -> None:
    """The tests make many small files, for each of which a disk takes longer than for all that a test does with it.
    A folder that was asked for stays that."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return
    status = os.statvfs(memory)
    if not status.f_flag & os.ST_NOEXEC and status.f_bavail * status.f_frsize >= _NEEDED:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the tool once for the hundreds of processes that run it, where they are told to write no bytecode."""
    _keep_temporary_files_in_memory()
    gc.disable()  # what is collected, and torch, is there to stay
    if not hasattr(config, "workerinput"):
        for name in ("autoaccel", "codemods"):
            compileall.compile_dir(Path(__file__).parent.parent / name, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped where there is no CUDA device; torch is imported only if there are any."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_collection_finish() -> None:
    """Look through none of that again: neither here, nor in forks, where each page that is looked at is copied.

    What is made from then on is looked through less often than by default: nearly all of it is syntax trees, which
    are let go of as a whole, and long before that were looked through again and again.
    """
    gc.freeze()
    gc.set_threshold(_MADE)
    gc.enable()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """pytest's own, without the link to the latest folder of each name, which outlives it: by the end there would be
    thousands beside one another, and copies of a project have links to all that lies beside it."""
    for link in tmp_path.parent.glob("*current"):
        link.unlink()
    return tmp_path


@pytest.fixture
def whatever_it_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are converted, compiled, and so on, however small they are: for tests that train what is rewritten."""
    from autoaccel_codemods import compile as compiling
    from autoaccel_codemods.autocast import literal_gain

    monkeypatch.setattr(literal_gain, "in_vain", lambda *_: None)
    monkeypatch.setattr(literal_gain, "small", lambda *_: None)
    monkeypatch.setattr(compiling, "in_vain", lambda *_: None)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> Iterator[None]:
    yield
    gc.collect(1)  # what is frozen would never be let go of: loaders have processes
    gc.freeze()  # commands that tests run in this process end by thawing everything


@pytest.fixture
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    """One process that has torch, for all tests that need more of them."""
    with Forking() as server:
        yield server


@pytest.fixture(scope="session")
def forking_ranks(forking: Forking) -> Iterator[ForkingRanks]:
    """As many as there are processes that train together."""
    with ForkingRanks(forking, 2) as servers:
        yield servers
