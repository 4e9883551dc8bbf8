"""No run changes a file outside of its copy that was there before, however it goes about it; what it creates goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoaccel.measure import scratch
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunFailure

REPOSITORY = Path(__file__).resolve().parents[3]

CHILD = """
import dataclasses, json, os, pathlib, sys
sys.path[0] = {repository!r}
from autoaccel.measure.observing import guarding
from autoaccel.measure.observing.exchange import Exchange, write_whole
from autoaccel.measure.observing.request import Request
exchange = Exchange(pathlib.Path(sys.argv[1]).parent)

def stop(failure):
    os.write(1, b"stopped\\n")
    write_whole(exchange.result, json.dumps(dataclasses.asdict(failure)))
    os._exit(1)

guarding.install(Request.from_json(exchange.request.read_text()), exchange, stop)
if "torch" in sys.argv[2:]:
    import torch
    guarding.guard_torch()
sys.modules["__main__"].__file__ = "train.py"
with open("train.py") as file:
    exec(compile(file.read(), os.path.abspath("train.py"), "exec"))
"""


@dataclass
class Run:
    output: list[str]
    errors: str
    failure: RunFailure | None
    exchange: Exchange


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a checkpoint, a log and a table."""
    project = tmp_path / "project"
    for name in ("model.pt", "log.txt", "results/best.pt", "results/old/1.csv", "empty.lock"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name.endswith(".lock") else f"precious {name}")
    (project / "bare").mkdir()
    (project / "link.txt").symlink_to("log.txt")
    monkeypatch.chdir(project)
    return project


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): "folder" if path.is_dir() else path.read_text(errors="replace")
        for path in folder.rglob("*")
        if "train.py" not in path.name and "__pycache__" not in str(path)
    }


def run(folder: Path, text: str, *options: str, alone: bool = True, place: Path | None = None) -> Run:
    place = place or folder
    (place / "train.py").write_text(textwrap.dedent(text))
    exchange = Exchange(folder.parent / "exchange")
    exchange.folder.mkdir()
    child = exchange.folder / "child.py"
    child.write_text(CHILD.format(repository=str(REPOSITORY)))
    asked = Request("train.py", root=str(folder), protected=(str(folder),), mode="record" if alone else "turns")
    exchange.request.write_text(asked.to_json())
    done = subprocess.run(
        [sys.executable, str(child), str(exchange.result), *options],
        cwd=place, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    told = next((path for path in (exchange.failure, exchange.result) if path.exists()), None)
    failure = RunFailure(**json.loads(told.read_text())) if told else None
    return Run(done.stdout.splitlines(), done.stderr, failure, exchange)


OUTSIDE = "which lies outside of the copy of the project that it runs in"

DAMAGES = [
    ("open('model.pt', 'w')", "overwrite model.pt"),
    ("open('log.txt', 'a')", "overwrite log.txt"),
    ("open('log.txt', 'r+')", "overwrite log.txt"),
    ("open(b'results/../log.txt', 'wb')", "overwrite log.txt"),
    ("open('link.txt', 'w')", "overwrite log.txt"),
    ("import pathlib; pathlib.Path('log.txt').write_text('x')", "overwrite log.txt"),
    ("os.open('log.txt', os.O_RDWR)", "overwrite log.txt"),
    ("os.truncate('log.txt', 0)", "overwrite log.txt"),
    ("import logging; logging.basicConfig(filename='log.txt')", "overwrite log.txt"),
    ("import shutil; shutil.copyfile('train.py', 'model.pt')", "overwrite model.pt"),
    ("os.remove('results/best.pt')", "remove results/best.pt"),
    ("os.unlink('link.txt')", "remove link.txt"),
    ("os.remove('best.pt', dir_fd=os.open('results', os.O_RDONLY))", "remove results/best.pt"),
    ("import shutil; shutil.rmtree('results/old')", "remove results/old/1.csv"),
    ("os.rename('log.txt', 'log.old')", "move log.txt"),
    ("os.rename('results', 'results.old')", "move results"),
    ("os.rmdir('bare')", "remove bare"),
    ("open('new', 'w').close(); os.replace('new', 'model.pt')", "overwrite model.pt"),
    ("import zipfile; zipfile.ZipFile('model.pt', 'w')", "overwrite model.pt"),
]


@pytest.mark.parametrize(("text", "said"), DAMAGES, ids=[said + " " + str(i) for i, (_, said) in enumerate(DAMAGES)])
def test_what_was_there_stays(folder: Path, text: str, said: str) -> None:
    before = content(folder)
    done = run(folder, f"import os\ntry:\n    {text}\nexcept BaseException:\n    pass\nfinally:\n    print('on')\n")
    assert done.failure is not None, done.errors
    assert done.failure.kind == "overwrites"
    verb, _, name = said.partition(" ")
    assert done.failure.message == f"would {verb} {folder / name}, {OUTSIDE}"
    assert done.failure.where == str(folder / "train.py:3")
    assert done.failure.traceback.splitlines()[-1].strip() == text
    assert done.output == ["stopped"]
    scratch.settle(done.exchange)
    assert content(folder) == before


def test_links_in_folders_that_are_not_watched_stay_links(folder: Path) -> None:
    free = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (free / "link").symlink_to(folder / "log.txt")
        done = run(folder, f"open({str(free / 'link')!r}, 'a')")
        assert done.failure is not None
        assert (free / "link").readlink() == folder / "log.txt"
    finally:
        shutil.rmtree(free)


HARMLESS = """
import os, shutil, sys, tempfile
for name in ("model.pt", "log.txt"):
    open(name).read()
print("x", file=open("/dev/null", "a"))
os.makedirs("results", exist_ok=True)
os.makedirs("runs/one/two", exist_ok=True)
for time in range(3):
    with open("runs/one/log", "a") as file:
        file.write("x")
    open("runs/one/two/new.pt", "w").close()
os.replace("runs/one/two/new.pt", "results/new.pt")
os.rename("runs/one", "runs/1")
open("runs/1/log", "a").close()
os.symlink("../log.txt", "results/log")
open("gone", "w").close()
os.remove("gone")
os.mkdir("away"); open("away/1", "w").close()
shutil.rmtree("away")
try:
    os.rmdir("results")
except OSError:
    pass
with tempfile.TemporaryDirectory() as place:
    open(os.path.join(place, "x"), "w").close()
os.mkfifo("pipe")
os.open("pipe", os.O_RDWR)
os.open("empty.lock", os.O_RDWR | os.O_CREAT)
open("helper.py", "w").close()
sys.path.append(".")
import helper
os.system("echo x > foreign; touch runs/foreign")
open("foreign", "w").close()
os.remove("pipe")
"""


def test_what_is_new_may_be_changed_and_is_removed_after_the_run(folder: Path) -> None:
    before = content(folder)
    done = run(folder, HARMLESS)
    assert (done.failure, done.errors) == (None, "")
    assert {"helper.py", "results/log", "results/new.pt", "runs/1/log"} <= content(folder).keys()
    scratch.settle(done.exchange)
    # Nobody saw who made it.
    assert content(folder) == before | {"foreign": ""}


def test_an_older_file_in_a_new_folder_is_not_removed(folder: Path) -> None:
    run(folder, "import os\nos.mkdir('new')\nos.system('mv log.txt new; touch new/other')")
    scratch.settle(Exchange(folder.parent / "exchange"))
    assert [path.name for path in (folder / "new").iterdir()] == ["log.txt"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_are_guarded_too(folder: Path, method: str) -> None:
    before = content(folder)
    text = f"""
    import multiprocessing, time
    def work():
        open("new.txt", "w").close()
        try:
            open("log.txt", "w")
        finally:
            print("on", flush=True)
    if __name__ == "__main__":
        process = multiprocessing.get_context({method!r}).Process(target=work)
        process.start()
        process.join()
        time.sleep(20)
    """
    done = run(folder, text)
    assert done.failure is not None and done.output == []
    assert done.failure.message == f"would overwrite {folder / 'log.txt'}, {OUTSIDE}"
    assert done.failure.where == str(folder / "train.py:6")
    scratch.settle(done.exchange)
    assert content(folder) == before


def test_what_a_worker_creates_is_not_older_than_the_run(folder: Path) -> None:
    text = """
    import os
    if os.fork() == 0:
        open("new.txt", "w").close()
        os._exit(0)
    os.wait()
    open("new.txt", "a").close()
    """
    done = run(folder, text)
    assert done.failure is None
    scratch.settle(done.exchange)
    assert not (folder / "new.txt").exists()


DATABASE = """
import sqlite3
connection = sqlite3.connect({name!r})
connection.execute("create table if not exists losses (value)")
connection.execute("create temp table more (value)")
connection.execute("insert into temp.more values (1)")
print(connection.execute("select count(*) from losses").fetchone(), flush=True)
connection.execute("insert into losses values (1)")
connection.commit()
"""


def test_a_database_may_be_read(folder: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    with sqlite3.connect("old.db") as connection:
        connection.execute("create table losses (value)")
    connection.close()
    before = Path("old.db").read_bytes()
    done = run(folder, DATABASE.format(name="old.db"))
    assert done.output == ["(0,)", "stopped"]
    assert done.failure is not None and done.failure.where == str(folder / "train.py:8")
    assert Path("old.db").read_bytes() == before


def test_a_new_database(folder: Path) -> None:
    done = run(folder, DATABASE.format(name="new.db"))
    assert (done.failure, done.output) == (None, ["(0,)"])
    scratch.settle(done.exchange)
    assert not Path("new.db").exists()


def test_what_torch_writes_without_python(folder: Path) -> None:
    text = """
    import torch
    torch.save({}, "new.pt")
    torch.jit.script(torch.nn.Linear(1, 1)).save("new.jit")
    torch.save({}, "new.pt")
    torch.load("new.pt")
    torch.save({}, "model.pt")
    """
    before = content(folder)
    done = run(folder, text, "torch")
    assert done.output == ["stopped"]
    assert done.failure is not None
    assert Path(done.failure.where).name == "train.py:7"
    assert done.failure.message.startswith(f"would overwrite {folder / 'model.pt'}, ")
    scratch.settle(done.exchange)
    assert content(folder) == before


def test_what_torch_maps_into_memory(folder: Path) -> None:
    text = """
    import torch
    torch.from_file("model.pt", shared=False, size=4, dtype=torch.uint8).fill_(0)
    torch.UntypedStorage.from_file("model.pt", False, 4)
    torch.UntypedStorage.from_file("new.pt", True, 4)
    print("on", flush=True)
    torch.from_file("model.pt", shared=True, size=4, dtype=torch.uint8)
    """
    before = content(folder)
    done = run(folder, text, "torch")
    assert done.output == ["on", "stopped"], done.errors
    assert done.failure is not None and done.failure.where == str(folder / "train.py:7")
    scratch.settle(done.exchange)
    assert content(folder) == before


def test_libraries_that_write_without_python(folder: Path) -> None:
    """A module of that name that opens nothing: it is told that it would have."""
    package = folder / "safetensors"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text("def save_file(tensors, filename): print('saved', filename, flush=True)\n")
    done = run(folder, "import sys; sys.path.insert(0, '.')\nfrom safetensors.torch import save_file\n"
                       "save_file({}, 'new')\nsave_file({}, filename='model.pt')\n")  # fmt: skip
    assert done.output == ["saved new", "stopped"]
    assert done.failure is not None and done.failure.where == str(folder / "train.py:4")


def test_what_is_downloaded_stays_for_the_next_run(folder: Path) -> None:
    package = folder / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "datasets.py").write_text(
        "import os\n"
        "def get(root):\n"
        "    os.makedirs(root + '/raw', exist_ok=True)\n"
        "    with open(root + '/raw/images', 'w') as file: file.write('digits')\n"
    )
    text = """
    import os, sys
    sys.path.append(".")
    from torchvision import datasets
    os.mkdir("data")
    datasets.get("data")
    open("data/notes", "w").close()
    """
    before = content(folder)
    done = run(folder, text)
    assert done.failure is None and (folder / "data" / "notes").exists()
    scratch.settle(done.exchange)
    assert content(folder) == before | {"data": "folder", "data/raw": "folder", "data/raw/images": "digits"}


@pytest.mark.parametrize("alone", [True, False])
def test_what_another_run_creates_at_the_same_time(folder: Path, alone: bool) -> None:
    """A program that the script starts cannot be told from another run."""
    text = "import os\nopen('own', 'w').close()\nos.system('echo x > other')\nopen('own', 'a')\nopen('other', 'a')"
    done = run(folder, text, alone=alone)
    if alone:
        assert done.failure is None
    else:
        assert done.failure is not None
        assert done.failure.message == f"would overwrite {folder / 'other'}, {OUTSIDE}"
