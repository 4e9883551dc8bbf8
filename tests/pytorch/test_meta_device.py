"""Whether a text may make tensors without data."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.meta_device import makes_tensors_without_data


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("x = torch.zeros(2, device='meta')", True),
        ("device = torch.device('meta')", True),
        ("x = y.to('meta')", True),
        ("with torch.device('meta'):\n    net = Net()", True),
        ("torch.set_default_device('meta')", True),
        ("DEVICE = 'meta'", True),
        ("DEVICE = 'meta'\nprint(DEVICE)", True),
        ("KIND = 'meta'", True),
        ("def f():\n    kind = 'meta'\n    return torch.zeros(2, device=kind)", True),
        ("class A:\n    device = 'meta'", True),
        ("class A:\n    def __init__(self):\n        self.device = 'meta'", True),
        ("def f(device='meta'):\n    pass", True),
        ("def f():\n    return 'meta'", True),
        ("build('meta')", True),
        ("build(kind='meta')", True),
        ("torch.zeros(2, **{'device': 'meta'})", True),
        ("for device in ('cpu', 'meta'):\n    torch.zeros(2, device=device)", True),
        ("[torch.zeros(2, device=d) for d in ['cpu', 'meta']]", True),
        ("x = torch.zeros(2, device='meta' if dry else 'cpu')", True),
        ("parser.add_argument('--device', default='meta')", True),
        ("options.setdefault('device', 'meta')", True),
        ("setattr(options, 'device', 'meta')", True),
        ("if x.device.type == 'meta':\n    pass", True),
        ("match device:\n    case 'meta':\n        pass", True),
        ("with init_empty_weights():\n    net = Net()", True),
        ("print(checkpoint['meta'], checkpoint.get('meta'), {'meta': 1})", False),
        ("def f(row):\n    'meta'\n    return row[f'meta']", False),
        ("if args.mode == 'meta':\n    pass", False),
        ("if 'meta' in checkpoint:\n    pass", False),
        ("parser.add_argument('--split', choices=['train', 'meta'], default='meta')", False),
        ("group = file.create_group('meta')", False),
        ("path = os.path.join(root, 'meta')", False),
        ("path = root / 'meta'", False),
        ("frame = frame[['label', 'meta']]", False),
        ("options = {'kind': 'meta'}", False),
        ("meta = 1", False),
    ],
)
def test_makes_tensors_without_data(text: str, asks: bool) -> None:
    assert makes_tensors_without_data(load("import torch\n" + text)) is asks
