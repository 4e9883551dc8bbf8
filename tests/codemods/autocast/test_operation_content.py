"""What operations of torch give."""

from __future__ import annotations

import pytest

from autoaccel_codemods.autocast.tensor_content import Content
from tests.codemods.autocast.test_float_tensors import content_of


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("out.detach().cpu()", Content.FLOATING),
        ("torch.stack(rows)", Content.FLOATING),
        ("torch.cat([out, out])", Content.FLOATING),
        ("tags.float()", Content.FLOATING),
        ("out.topk(2)[0]", Content.FLOATING),
        ("net.blocks[0](out)", Content.FLOATING),
        ("Normal(out, 1).sample()", Content.FLOATING),
        ("tags.unique().cpu()", Content.WHOLE),
        ("(out > 0).sum(1)", Content.WHOLE),
        ("out.sort(1)[1]", Content.WHOLE),
        ("out.topk(2).indices", Content.WHOLE),
        ("Categorical(logits=out).sample()", Content.WHOLE),
        ("out.long()", Content.WHOLE),
        ("torch.where(out)", Content.WHOLE),
        ("out.max(1)", Content.STRUCTURE),
        ("torch.where(out > 0, out, 0)", Content.FLOATING),
        ("out.to(torch.int64)", Content.UNKNOWN),
        ("torch.arange(3)", Content.UNKNOWN),
        ("torch.max(out, tags)", Content.FLOATING),
        ("torch.zeros(3, dtype=kind)", Content.UNKNOWN),
        ("torch.utils.checkpoint.checkpoint(net.fc, out)", Content.UNKNOWN),
        ("nn.LSTM(3, 3)(out)", Content.STRUCTURE),
        ("nn.Identity()(tags)", Content.WHOLE),
        ("out.chunk(2)", Content.STRUCTURE),
        ("out.chunk(2)[0]", Content.FLOATING),
    ],
)
def test_content(expression: str, expected: Content) -> None:
    assert content_of(expression) is expected
