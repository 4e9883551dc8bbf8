"""A run in a scratch copy writes what it likes and leaves the original as it was."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.measure import fork_server, launching, scratch
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord

# Runs the script under guard alone.
CHILD = """
import os, pathlib, sys
from autoaccel.measure.observing import guarding
from autoaccel.measure.observing.exchange import Exchange, write_whole
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.observing.request import Request
exchange = Exchange(pathlib.Path(sys.argv[1]))
request = Request.from_json(exchange.request.read_text())
printed = []

def end(failure=None):
    ending = "failed" if failure else "finished"
    write_whole(exchange.result, RunRecord(ending, failure, printed=tuple(map(str, printed))).to_json())
    os._exit(0)

guarding.install(request, exchange, end)
with open(request.script) as file:
    text = request.texts.get(os.path.realpath(request.script)) or file.read()
exec(compile(text, os.path.abspath(request.script), "exec"))
end()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with data beside it."""
    project = tmp_path / "home" / "project"
    texts = {
        "sub/train.py": "",
        "sub/log.txt": "log",
        "common.py": "",
        "big.bin": "x" * 100,
        "big.py": "#" * 100,
        ".git/HEAD": "ref",
        "__pycache__/common.pyc": "",
        "venv/pyvenv.cfg": "",
        "images/1.png": "1",
        "../data/mnist": "digits",
    }
    for name, text in texts.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "latest").symlink_to("sub/log.txt")
    (project / "absolute").symlink_to(project / "images")
    (project / "outside").symlink_to(tmp_path / "home" / "data")
    os.mkfifo(project / "pipe")
    os.utime(project / "sub" / "log.txt", (1000, 1000))
    monkeypatch.setattr(scratch, "_LARGE", 50)
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(fork_server, "_CHILD", child)
    monkeypatch.setattr(fork_server, "_POSSIBLE", False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def copy(project: Path) -> Iterator[scratch.Scratch]:
    with scratch.copy(project / "sub", project) as copy:
        yield copy


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "project/venv" not in str(path)
    }


def test_what_is_copied_and_what_is_linked(copy: scratch.Scratch, project: Path) -> None:
    top = copy.folder.parent
    assert (copy.folder.name, top.name) == ("sub", "project")
    kinds = {
        path.name: "link" if path.is_symlink() else "folder" if path.is_dir() else "file" for path in top.iterdir()
    }
    assert kinds == {
        "sub": "folder",
        "common.py": "file",
        "big.bin": "link",
        "big.py": "file",
        ".git": "link",
        "__pycache__": "link",
        "venv": "link",
        "images": "folder",
        "latest": "link",
        "absolute": "link",
        "outside": "link",
    }
    assert (top / "big.bin").resolve() == project / "big.bin"
    assert (top / "latest").resolve() == copy.folder / "log.txt"
    assert (top / "absolute").resolve() == top / "images"
    assert (top / "outside" / "mnist").read_text() == "digits"
    assert (copy.folder / "log.txt").stat().st_mtime == 1000
    assert (copy.folder / ".." / ".." / "data" / "mnist").read_text() == "digits"
    assert (copy.folder.parents[2] / "home").is_dir()


def test_beyond_the_limits_everything_is_a_link(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = scratch._Budget
    monkeypatch.setattr(scratch, "_Budget", lambda: budget(files=0))
    with scratch.copy(project, project) as copy:
        assert (copy.folder / "sub" / "log.txt").is_symlink()
        assert not (copy.folder / "common.py").is_symlink()
    monkeypatch.setattr(scratch, "_Budget", lambda: budget(entries=0))
    with scratch.copy(project, project) as copy:
        assert (copy.folder / "images").is_symlink()
        assert not (copy.folder / "common.py").is_symlink()


def test_it_is_gone_at_the_end(project: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch.copy(project, project) as copy:
        (copy.folder / "new").mkdir()
        (copy.folder / "new" / "file").touch()
        raise KeyboardInterrupt
    assert list((project.parents[1] / "temporary").iterdir()) == []
    assert (project / "big.bin").exists()


def test_a_working_directory_outside_of_the_project(project: Path) -> None:
    with scratch.copy(project.parent / "data", project) as copy:
        assert copy.folder.name == "data"
        request = copy.request(Request(script=str(project / "sub/train.py"), root=str(project)))
        assert (request.script, request.root) == (str(project / "sub/train.py"), str(project))
        assert (copy.folder.parent / "project" / "common.py").exists()


def test_requests_and_records_are_translated(copy: scratch.Scratch, project: Path) -> None:
    top = copy.folder.parent
    request = copy.request(
        Request(
            script=str(project / "sub" / "train.py"),
            arguments=("--epochs", "3", f"--out={project}/out", str(project / "images"), "a=b", "/etc/x=/dev/null"),
            root=str(project),
            texts={str(project / "common.py"): "x"},
            protected=(str(project),),
        )
    )
    assert request.script == str(copy.folder / "train.py")
    assert request.arguments == (
        "--epochs", "3", f"--out={top}/out", str(top / "images"), "a=b", "/etc/x=/dev/null",
    )  # fmt: skip
    assert (request.root, request.origin, request.protected) == (str(top), str(project), (str(project),))
    assert Path(request.copy) in copy.folder.parents
    assert request.texts == {str(project / "common.py"): "x", str(top / "common.py"): "x"}
    assert copy.request(Request(script="train.py", root=str(project))).script == "train.py"
    said = copy.record(
        RunRecord(
            FAILED,
            RunFailure("ValueError", f"bad {copy.folder}/log.txt", f"{copy.folder}/train.py:3"),
            files=(f"{copy.folder}/train.py",),
            reached={f"{top}/common.py": (1, 2)},
        )
    )
    assert said.failure == RunFailure("ValueError", f"bad {project}/sub/log.txt", f"{project}/sub/train.py:3")
    assert said.files == (f"{project}/sub/train.py",)
    assert said.reached == {f"{project}/common.py": (1, 2)}


def run(project: Path, text: str) -> RunRecord:
    (project / "sub" / "train.py").write_text(textwrap.dedent(text))
    with scratch.copy(project / "sub", project) as copy:
        return run_in(copy, project)


def run_in(copy: scratch.Scratch, project: Path) -> RunRecord:
    # Temporary folders are free, and the tests are in one.
    protected = (*launching.protected(project / "sub", project), str(project.parent))
    request = Request(script="train.py", root=str(project), protected=protected)
    record = launching.observe(
        copy.request(request), python=sys.executable, environment={}, folder=copy.folder, timeout=30
    )
    return copy.record(record)


def test_a_run_that_writes_over_everything(project: Path) -> None:
    text = """
    import os, shutil
    def say(path):
        with open(path) as file:
            printed.append(file.read())
    for name in ("log.txt", "../big.bin", "../latest"):
        with open(name, "a") as file:
            file.write("more")
        say(name)
    open("../big.bin", "w").close()
    say("../big.bin")
    os.remove("../images/1.png")
    os.rename("../absolute", "../renamed")
    shutil.rmtree("../images")
    shutil.rmtree("../.git")
    os.makedirs("../images/new")
    os.replace("log.txt", "../big.py")
    with open("../../data/new", "w") as file:
        pass
    with open("../../data/mnist") as file:
        pass
    printed.append(os.getcwd())
    """
    before = content(project.parent)
    record = run(project, text)
    assert record == RunRecord(
        FINISHED, printed=("logmore", "x" * 100 + "more", "logmoremore", "", str(project / "sub"))
    ), record.failure
    assert content(project.parent) == before | {"project/sub/train.py": textwrap.dedent(text)}


def test_a_large_file_is_changed_in_place(project: Path) -> None:
    """Also one that something else touches meanwhile, which makes it younger than the run."""
    text = f"""
    import mmap, os
    os.system("touch {project / "big.bin"}")
    os.utime("../.git")
    with open("../big.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:4] = b"mine"
    with open("../big.bin") as file:
        printed.append(file.read(6))
    """
    record = run(project, text)
    assert (record.ending, record.printed) == (FINISHED, ("minexx",)), record.failure
    assert (project / "big.bin").read_text() == "x" * 100


def test_a_file_that_is_too_large_for_the_disk_is_not_changed_in_place(project: Path) -> None:
    with (project / "huge.bin").open("wb") as file:
        file.truncate(1 << 42)  # a file with a hole, which takes no room
    record = run(project, "open('../huge.bin', 'r+')")
    assert record.failure is not None
    assert (record.failure.kind, record.failure.where) == ("overwrites", str(project / "sub" / "train.py:1"))
    assert str(project / "huge.bin") in record.failure.message


def test_what_lies_outside_of_the_copy_is_protected(project: Path) -> None:
    record = run(project, "open('../../data/mnist', 'w')")
    assert record.failure is not None
    assert record.failure.kind == "overwrites"
    assert record.failure.where == str(project / "sub" / "train.py:1")
    assert (project.parent / "data" / "mnist").read_text() == "digits"


def described(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else "" if path.is_dir() else "file"
        for path in folder.rglob("*")
    } | content(folder)


def test_what_a_run_does_to_the_copy_is_undone(project: Path) -> None:
    text = """
    import os, shutil
    open("log.txt", "a").write("more")
    os.utime("log.txt", (1000, 1000))
    os.remove("../common.py")
    os.remove("../absolute")
    open("../absolute", "w").close()
    open("../big.bin", "a").write("more")
    shutil.rmtree("../images")
    shutil.rmtree("../.git")
    open("../images", "w").close()
    os.makedirs("new/folder")
    open("new/folder/file", "w").close()
    os.rename("../../data", "../../moved")
    open("../../beside", "w").close()
    """
    (project / "sub" / "train.py").write_text(textwrap.dedent(text))
    with scratch.copy(project / "sub", project) as copy:
        base = next(each for each in copy.folder.parents if each.name.startswith("autoaccel-scratch-"))
        before = described(base)
        record = run_in(copy, project)
        assert record.ending == FINISHED, record.failure
        assert described(base) != before
        copy.restore()
        assert described(base) == before


def test_restored_again_and_again_the_same_is_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that removes its files does not use up what the next ones may be given."""
    budget = scratch._Budget
    monkeypatch.setattr(scratch, "_Budget", lambda: budget(files=2))
    for name in ("a", "b", "c"):
        (project / name).write_text(name)
    with scratch.copy(project, project) as copy:
        for _ in range(3):
            assert [(copy.folder / name).is_symlink() for name in ("a", "b", "c")] == [False, False, True]
            for name in ("a", "b"):
                (copy.folder / name).unlink()
            copy.restore()


@pytest.mark.parametrize("place", ["images", "", "sub"])
def test_of_a_folder_with_too_many_entries_there_is_no_copy(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Inside of the project it is a link."""
    monkeypatch.setattr(scratch, "_MOST_ENTRIES", 30)
    for number in range(31):
        (project / place / f"{number}.png").touch()
    if place == "images":
        budget = scratch._Budget
        monkeypatch.setattr(scratch, "_Budget", lambda: budget(entries=30))
        with scratch.copy(project / "sub", project) as copy:
            assert (copy.folder.parent / "images").readlink() == project / "images"
            assert not copy.folder.is_symlink()
        return
    with (
        pytest.raises(scratch.ScratchError, match="which holds more than 30 entries; start it from"),
        scratch.copy(project / "sub", project),
    ):
        pass
    assert list((project.parents[1] / "temporary").iterdir()) == []


def test_the_working_directory_is_never_behind_a_link(project: Path) -> None:
    (project / "venv" / "site-packages" / "tool").mkdir(parents=True)
    with scratch.copy(project / "venv" / "site-packages" / "tool", project) as copy:
        assert copy.folder.resolve() == copy.folder


def test_what_lies_around_is_left_out_where_it_is_too_much(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_MOST_ENTRIES", 20)
    for number in range(21):
        (project.parent / f"{number}").touch()
    with scratch.copy(project, project) as copy:
        assert [path.name for path in copy.folder.parent.iterdir()] == ["project"]
        assert (copy.folder.parents[1] / "child.py").exists()


def test_what_is_downloaded_comes_home(project: Path) -> None:
    (project / "torchvision").mkdir()
    (project / "torchvision" / "__init__.py").write_text("")
    (project / "torchvision" / "datasets.py").write_text(
        "import os\n"
        "def get(root):\n"
        "    os.makedirs(root + '/raw', exist_ok=True)\n"
        "    with open(root + '/part', 'w') as file: file.write('digits')\n"
        "    os.rename(root + '/part', root + '/raw/images')\n"
    )
    text = """
    import os, sys
    sys.path.append("..")
    from torchvision import datasets
    for place in ("data", "../../beside"):
        if not os.path.exists(place):
            datasets.get(place)
            printed.append(place)
        with open(place + "/notes", "w") as file:
            pass
    """
    (project / "sub" / "train.py").write_text(textwrap.dedent(text))
    with scratch.copy(project / "sub", project) as copy:
        assert run_in(copy, project).printed == ("data", "../../beside")
        for place in (project / "sub" / "data", project.parent / "beside"):
            assert content(place) == {"raw/images": "digits"}
        copy.restore()
        assert run_in(copy, project).printed == ()


@pytest.mark.parametrize("broad", ["home", "data"])
def test_of_a_folder_that_holds_everything_folders_are_links(
    project: Path, monkeypatch: pytest.MonkeyPatch, broad: str
) -> None:
    monkeypatch.setenv("HOME", str(project.parents[1] / broad))
    with scratch.copy(project.parent, project.parent) as copy:
        assert (copy.folder / "project").is_symlink() == (broad == "home")


def test_of_a_home_that_is_a_repository_the_working_directory_is_copied(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    with scratch.copy(project / "sub", project.parent) as copy:
        assert not (copy.folder / "log.txt").is_symlink()
        assert copy.original == project / "sub"


def test_what_cannot_be_copied_is_a_link(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: Path) -> None:
        Path(target).touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    with scratch.copy(project, project) as copy:
        assert (copy.folder / "common.py").readlink() == project / "common.py"
