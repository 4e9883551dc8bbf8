"""Files, environment variables and printed lines that samples share with the loop that reads them."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.loader_changes import drawn_beside, loader_state
from autoaccel.pytorch.loader_loops import loader_loops

SCRIPT = """\
import csv, glob, gzip, json, logging, os, pickle, shutil, tarfile, torchaudio, zipfile
from os import environ, getenv
from pathlib import Path
import h5py
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import save_image

class Data(Dataset):
    def __init__(self, root):
        self.root = root
        self.memory = np.load("m.npy", mmap_mode="r")
        self.table = open("table.txt")
    def __len__(self):
        return 64
    def __getitem__(self, i):
        {sample}
        return torch.ones(3)

logger = logging.getLogger(__name__)
ENV = os.environ
log = open("log.txt", "w")
rows = csv.writer(log)
memory = np.load("m.npy", mmap_mode="r+")
{before}
data = Data("data")
loader = DataLoader(data, batch_size=8)
"""
_EPOCHS = "for epoch in range(2):\n    for step, x in enumerate(loader):\n        {body}\n    {after}\n"


def reason(
    sample: str, body: str = "pass", *, before: str = "", after: str = "pass", workers: bool = False
) -> str | None:
    text = SCRIPT.format(sample=sample, before=before) + _EPOCHS.format(body=body, after=after)
    script = load(text)
    (loop,) = loader_loops(script)
    if not workers:
        return drawn_beside(script, loop)
    (made,) = loader_calls(script)
    return loader_state(script, made).problem([(script, loop.node)], in_workers=True)


_JSON = "json.load(open(os.path.join(self.root, 's.json')))"


@pytest.mark.parametrize(
    ("sample", "body"),
    [
        (_JSON, "json.dump({}, open('data/s.json', 'w'))"),
        (_JSON, "json.dump({}, open(path, 'w'))"),
        (_JSON, "Path(data.root, 's.json').write_text('1')"),
        (_JSON, "os.replace('s.tmp', 'data/s.json')"),
        (_JSON, "os.remove(f'{data.root}/s.json')"),
        (_JSON, "shutil.copy(other, path)"),
        (_JSON, "os.system(command)"),
        (_JSON, "os.chdir('there')"),
        ("np.load(f'data/{i}.npy')", "np.save('data/3.npy', x)"),
        ("np.load(self.unknown)", "np.save(f'out/{step}.npy', x)"),
        ("torch.load('s.pt')", "torch.save(x, 's.pt')"),
        ("torch.load('s.pt')", "torch.save(x, open('s.pt', 'wb'))"),
        ("pickle.load(open('s.pkl', 'rb'))", "pickle.dump(x, open('s.pkl', 'wb'))"),
        ("Image.open(self.unknown)", "save_image(x, f'out/{step}.png')"),
        ("Image.open(open(self.unknown, 'rb'))", "save_image(x, f'out/{step}.png')"),
        ("Path('a.txt').read_text()", "Path('a.txt').write_text('1')"),
        ("np.load(f'data/{i}.npy')", "import mining; mining.harder('data')"),
        ("np.load(f'data/{i}.npy')", "from mining import Miner; miner = Miner('data'); miner.update(x)"),
        ("open('log.txt').read()", "log.write('x')"),
        ("open('log.txt').read()", "rows.writerow([1])"),
        ("open('log.txt').read()", "print(step, file=log)"),
        ("np.load('m.npy', mmap_mode='r')[i]", "memory[3] = 1"),
        ("self.memory[i]", "np.save('m.npy', x)"),
        ("self.table.readline()", "Path('table.txt').write_text('1')"),
        ("h5py.File('f.h5', 'r')['x']", "h5py.File('f.h5', 'w')['x'] = 1"),
        ("os.listdir(self.root)", "Path(f'data/{step}').touch()"),
        ("os.listdir(self.root)", "torch.save(x, 'data/a.pt')"),
        ("glob.glob('data/*.txt')", "Path(f'data/{step}.txt').touch()"),
        ("os.path.exists('data/go')", "os.makedirs('data/go')"),
        ("(Path(self.root) / 'go').exists()", "Path('data/go').touch()"),
        (_JSON, "Path('s.tmp').replace('data/s.json')"),
        (_JSON, "Path('data/s.json').rename('s.old')"),
        (_JSON, "import io; io.open('data/s.json', 'w').write('1')"),
        (_JSON, "import urllib.request; urllib.request.urlretrieve(url, 'data/s.json')"),
        (_JSON, "descriptor = os.open('data/s.json', os.O_WRONLY)"),
        ("json.load(open(os.path.join(unknown, 's.json')))", "json.dump({}, open('s.json', 'w'))"),
        ("gzip.open('s.gz', 'rt').read()", "gzip.open('s.gz', 'wt').write('1')"),
        ("gzip.open(self.unknown).read()", "gzip.open('s.gz', 'wb').write(x)"),
        ("zipfile.ZipFile('s.zip').read('x')", "zipfile.ZipFile('s.zip', 'w').write('x')"),
        ("tarfile.open('s.tar').getnames()", "tarfile.open('s.tar', 'w:gz').add('x')"),
        ("np.memmap(f'{self.root}/{i}.bin')", "x.numpy().tofile(f'data/{step}.bin')"),
        ("np.fromfile(self.unknown)", "x.numpy().tofile('m.bin')"),
        ("Image.open(f'{self.root}/{i}.png')", "Path(f'data/{step}.png').write_bytes(x)"),
        ("Image.open(f'{self.root}/{i}.png')", "open(f'data/{step}.png', 'wb').write(x)"),
        ("torchaudio.load(self.unknown)", "torchaudio.save('a.wav', x, 8000)"),
    ],
)
def test_a_file_that_samples_read_is_written(sample: str, body: str) -> None:
    assert "files" in (reason(sample, body) or "")
    assert "files" in (reason(sample, body, workers=True) or "")


@pytest.mark.parametrize(
    ("sample", "body"),
    [
        (_JSON, "json.dump({}, open('out/s.json', 'w'))"),
        (_JSON, "json.load(open('data/s.json'))"),
        (_JSON, "torch.save(x, path)"),
        (_JSON, "log.write('x')"),
        (_JSON, "os.makedirs('data', exist_ok=True)"),
        ("np.load(f'data/{i}.npy')", "np.save(f'out/{step}.npy', x)"),
        ("np.load(f'data/{i}.npy')", "np.save('data/3.npz', x)"),
        ("np.load(self.unknown)", "torch.save(x, path)"),
        ("Image.open(self.unknown)", "torch.save(x, path); open('log.txt', 'a').write('x')"),
        ("Image.open(open(self.unknown, 'rb'))", "torch.save(x, path)"),
        ("np.load(f'data/{i}.npy')", "import mining; mining.harder('out')"),
        ("np.load(f'data/{i}.npy')", "import mining; mining.harder(x)"),
        ("np.load(self.unknown)", "import mining; mining.harder('data')"),
        ("Image.open(f'{self.root}/{i}.png')", "import cv2; cv2.imread('data/1.png')"),
        ("self.memory[i]", "np.save('n.npy', x)"),
        ("self.root", "memory[3] = 1"),
        ("os.path.exists(self.unknown); Image.open(self.unknown)", "torch.save(x, path)"),
        ("os.listdir(self.root)", "torch.save(x, 'out/a.pt')"),
        ("os.path.exists('data/go.txt')", "torch.save(x, f'{path}.pt')"),
        (_JSON, "text = text.replace('data/s.json', ''); rows = rows.replace({1: 2})"),
        (_JSON, "gzip.open('data/s.json', 'rt').read()"),
        ("tarfile.open('s.tar', 'r:xz').getnames()", "tarfile.open('s.tar', 'r:xz').getnames()"),
        ("Image.open('data/a.png')", "from torch.utils.tensorboard import SummaryWriter; SummaryWriter(path)"),
    ],
)
def test_other_files_are_written(sample: str, body: str) -> None:
    assert reason(sample, body) is None
    assert reason(sample, body, workers=True) is None


def test_files_are_written_between_passes() -> None:
    assert reason(_JSON, after="json.dump({}, open('data/s.json', 'w'))") is None
    assert reason(_JSON, before="json.dump({}, open('data/s.json', 'w'))") is None


def test_a_function_writes() -> None:
    before = "def save(x):\n    np.save('data/3.npy', x)"
    assert reason("np.load(f'data/{i}.npy')", "save(x)", before=before) is not None
    assert reason("np.load(f'data/{i}.npy')", before=before, after="save(x)") is None


@pytest.mark.parametrize(
    ("sample", "body", "changed"),
    [
        ("os.environ['SCALE']", "os.environ['SCALE'] = '1'", True),
        ("os.environ.get('SCALE', '1')", "os.environ.update(SCALE='1')", True),
        ("getenv('SCALE')", "environ.update({'SCALE': '1'})", True),
        ("getenv(self.key)", "environ.setdefault('OTHER', '1')", True),
        ("'SCALE' in environ", "del environ['SCALE']", True),
        ("dict(os.environ)", "os.environ['OTHER'] = '1'", True),
        ("os.environ['SCALE']", "environ.pop(key)", True),
        ("os.environ['SCALE']", "variables = os.environ; variables['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "os.environ |= {'SCALE': '1'}", True),
        ("ENV['SCALE']", "os.environ['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "ENV.update(OTHER='1', SCALE='2')", True),
        ("os.path.expandvars(self.root)", "os.environ['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "import operator; operator.setitem(os.environ, 'SCALE', '1')", True),
        ("os.environ['SCALE']", "import lib; lib.change(os.environ)", True),
        ("os.environ['SCALE']", "unknown(ENV)", True),
        ("os.environ['SCALE']", "os.environ = {}", True),
        ("os.environ['SCALE']", "vars(os)['environ']['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "os.__dict__['environ'].update(SCALE='1')", True),
        ("os.environ['SCALE']", "getattr(os, 'environ')['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "import sys; sys.modules['os'].environ['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "names = vars(os); given = names['environ']; given['SCALE'] = '1'", True),
        ("vars(os)['environ']['SCALE']", "os.environ['SCALE'] = '1'", True),
        ("os.environ['SCALE']", "put = os.environ.update; put(SCALE='1')", True),
        ("os.environ['SCALE']", "list(map(os.environ.update, [{'SCALE': '1'}]))", True),
        ("os.environ['SCALE']", "from unittest import mock; mock.patch.dict(os.environ, SCALE='1').start()", True),
        ("os.environ['SCALE']", "from dotenv import load_dotenv; load_dotenv()", True),
        ("os.environ['SCALE']", "import settings; settings.apply()", True),
        ("os.environ['SCALE']", "from settings import Choice; choice = Choice(); choice.apply()", True),
        ("os.environ['SCALE']", "from settings import *; apply()", True),
        ("os.popen('echo $SCALE').read()", "os.environ['SCALE'] = '1'", True),
        ("os.popen('echo $SCALE').read()", "os.putenv('SCALE', '1')", True),
        ("os.environ['SCALE']", "import wandb; wandb.log({'loss': 1})", False),
        ("self.root", "import settings; settings.apply()", False),
        ("os.environ['SCALE']", "print(len(os.environ), dict(ENV))", False),
        ("os.path.join(self.root, 'a')", "os.environ['SCALE'] = '1'", False),
        ("os.environ['SCALE']", "print(os.environ['SCALE'])", False),
        ("self.root", "os.environ['SCALE'] = '1'", False),
    ],
)
def test_environment_variables(sample: str, body: str, changed: bool) -> None:
    assert (reason(sample, body) is not None) is changed
    assert (reason(sample, body, workers=True) is not None) is changed


def test_workers_that_stay_have_the_variables_of_when_they_began() -> None:
    text = SCRIPT.format(sample="os.environ['SCALE']", before="")
    script = load(text + _EPOCHS.format(body="pass", after="os.environ['SCALE'] = '1'"))
    (made,) = loader_calls(script)
    assert loader_state(script, made, in_workers=True).changed_after(script, made.call)
    assert loader_state(script, made).problem([], in_workers=True) is None


@pytest.mark.parametrize(
    ("sample", "body", "ahead", "in_workers"),
    [
        ("print(i)", "print(step)", True, True),
        ("print(i)", "logging.info(step)", True, True),
        ("print(i)", "pass", False, True),
        ("logging.getLogger('data').info(i)", "print(step)", True, True),
        ("logger.info(i)", "logger.info(step)", True, True),
        ("self.logger.info(i)", "print(step)", True, True),
        ("from elsewhere import log; log.warning(i)", "print(step)", True, True),
        ("self.log(i)", "print(step)", False, False),
        ("self.table.info(i)", "print(step)", False, False),
        ("open('seen.txt', 'a').write(str(i))", "pass", False, True),
        ("open('seen.txt', 'a').write(str(i))", "open('seen.txt').read()", True, True),
        ("x = math.log(i)", "print(step)", False, False),
        ("if i > 64: print(i); raise IndexError", "print(step)", False, False),
        ("assert i, print(i)", "pass", False, True),
    ],
)
def test_printed_lines(sample: str, body: str, ahead: bool, in_workers: bool) -> None:
    assert (reason(sample, body) is not None) is ahead
    assert (reason(sample, body, workers=True) is not None) is in_workers


def test_what_has_gone_wrong_is_printed() -> None:
    sample = "try: x = open('a')\n        except OSError: print(i)"
    assert reason(sample, "print(step)") is None
    assert reason(sample, "print(step)", workers=True) is None


def test_texts_that_are_run() -> None:
    assert reason("self.root", "exec(text)") is not None
    assert reason("self.root", "torch.nn.Linear(1, 1).eval()") is None
    assert reason("self.root", after="exec(text)") is None


def test_defaults_of_torch() -> None:
    assert reason("torch.zeros(3)", "torch.set_default_dtype(torch.float64)") is not None
    assert reason("torch.zeros(3)", after="torch.set_default_dtype(torch.float64)") is None
