"""Whether errors of samples are handled, which workers hand on as others."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_calls import iterations, loader_calls
from autoaccel_codemods.loader_workers.handled_errors import handles_errors

HEAD = """
from torch.utils.data import DataLoader, Dataset

class Odd(Exception):
    pass

class Rows(Dataset):
    def __len__(self):
        return 9
    def __getitem__(self, i):
        RAISES
        return i

loader = DataLoader(Rows())
"""
RUN = "def run():\n    for row in loader:\n        pass\n"
LOOP = "for row in loader:\n    print(row)\n"


def tried(handler: str, body: str = LOOP) -> str:
    return "try:\n" + "".join(f"    {line}\n" for line in body.splitlines()) + handler


@pytest.mark.parametrize(
    ("raises", "text", "expected"),
    [
        ("pass", LOOP, False),
        ("pass", tried("except KeyboardInterrupt:\n    pass"), False),
        ("pass", tried("except (KeyboardInterrupt, SystemExit):\n    pass"), False),
        ("pass", tried("except Exception:\n    raise"), False),
        ("pass", tried("except Exception:\n    sys.exit(1)"), False),
        ("pass", tried("finally:\n    print('end')"), False),
        ("pass", tried("except Exception as error:\n    print(error)"), True),
        ("pass", tried("except:\n    pass"), True),
        ("pass", tried("except (KeyboardInterrupt, OSError):\n    pass"), True),
        (
            "pass",
            "for row in loader:\n    try:\n        print(row)\n    except OSError:\n        pass",
            False,
        ),  # of the step
        ("pass", RUN + tried("except OSError:\n    pass", "run()"), False),
        ("raise OSError(i)", RUN + tried("except OSError:\n    pass", "run()"), True),
        ("raise OSError(i)", LOOP + tried("except OSError:\n    pass", "open('a')"), False),
        ("raise Odd(i)", LOOP, False),
        ("raise Odd(i)", "def other():\n    try:\n        pass\n    except Odd:\n        pass\n" + LOOP, True),
        ("raise Odd", "import lib\nlib.on(lambda: 1)\n" + tried("except Odd as e:\n    print(e)"), True),
    ],
)
def test_handles_errors(raises: str, text: str, expected: bool) -> None:
    script = load(HEAD.replace("RAISES", raises) + text, None)
    (made,) = loader_calls(script)
    draws = [(each.script, each.node) for each in iterations(script, made.call)]
    assert draws and handles_errors(script, made, draws) is expected
