"""Edited statements laid out as the formatter of the file would: each text here is what Black and ruff make of it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.black_style import Formatter, tokens_of
from autoaccel.rewriting.line_breaks import formatter_of, laid_out
from autoaccel.rewriting.places import LineLayout, Places

STATEMENTS = """
x = f(a, b)
---
optimizer_of_the_model = accel.optimizer(
    torch.optim.Adam(model.parameters(), lr=1e-3)
)
---
loader = DataLoader(
    dataset,
    batch_size=64,
    num_workers=accel.num_workers(),
    persistent_workers=True,
)
---
for index, (one, (another, _)) in enumerate(
    zip(
        accel.prefetch(loader, device, move=(0,)),
        accel.prefetch(others, device),
    )
):
---
data, target = (
    data.to(device, non_blocking=True),
    target.to(device, non_blocking=True),
)
---
g_loss = 0.5 * (
    adversarial_loss(validity, valid)
    + auxiliary_loss(pred_label, gen_labels)
)
---
total_loss = (
    loss_of_generator + opt.lambda_cycle * loss_cycle + loss_id
)
---
d_real_loss = (
    adversarial_loss(real_pred, valid) + auxiliary(real, labels)
) / 2
---
images = images.type(Tensor, non_blocking=True).expand(
    images.size(0), 3, size, size
)
---
transform = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]
)
---
layers = [
    nn.Linear(first_features, hidden_features),
    nn.Linear(hidden_features, last_features),
]
---
kept = f(
    a,
    b,
)
---
single = (x,)
---
names = {name for name, parameter in model.named_parameters()}
---
values = {
    key: value
    for key, value in model.state_dict().items()
    if value is not None
}
---
result = (
    session.query(models.Customer.id)
    .filter(models.Customer.account_id == 10000)
    .count()
)
---
loss = criterion(
    logits_lm.transpose(1, 2), masked_tokens
)  # of the masked ones
---
multi30k.URL["train"] = (
    "https://example.org/a/very/long/address/of/an/archive.tar.gz"
)
---
if (
    the_first_condition_is_met_by_all
    and not another_one_that_is_longer
):
---
def train_step(
    images_of_the_batch, labels_of_the_batch, weights_of_them
):
---
choice = first_of_the_two if a_condition_is_met else the_other_one
---
scores = torch.matmul(queries, keys.transpose(-1, -2)) / np.sqrt(
    size_of_a_key
)
""".strip("\n").split("\n---\n")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_broken(statement: str) -> None:
    parsed = tokens_of(statement)
    assert parsed is not None
    line, comment = parsed
    assert Formatter(66).broken(line, 0, comment) == statement.split("\n")


@pytest.mark.parametrize(
    "statement", ["x = f(  # why\n    a,\n)", 'x = f("""\ntext""")', "x = a + \\\n    b", "x = f(\n    # why\n    a)"]
)
def test_not_touched(statement: str) -> None:
    assert tokens_of(statement) is None


FORMATTED = """
model = nn.Sequential(
    nn.Linear(first_features, hidden_features), nn.ReLU(), nn.Linear(hidden_features, 2)
)
"""
BY_HAND = """
model = nn.Sequential(nn.Linear(first_features, hidden_features), nn.ReLU(),
                      nn.Linear(hidden_features, 2))
"""
BEFORE = "optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(b1, b2))\n"
WRAPPED = "optimizer = accel.optimizer(torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(b1, b2)))\n"
BROKEN = """optimizer = accel.optimizer(
    torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(b1, b2))
)
"""


def places(text: str, layout: LineLayout | None = None) -> Places:
    return Places(text, ast.parse(text), None, lambda: layout or LineLayout())


@pytest.mark.parametrize(
    ("around", "layout", "expected"),
    [
        (FORMATTED, None, BROKEN),
        (BY_HAND, None, WRAPPED),
        ("", None, WRAPPED),
        ("", LineLayout(88, True), BROKEN),
        ("", LineLayout(120, True), WRAPPED),
        (FORMATTED, LineLayout(100), WRAPPED),  # which would have put it on one line
        (FORMATTED + "if x:\n\tpass\n", None, WRAPPED),
    ],
)
def test_as_the_file_is(around: str, layout: LineLayout | None, expected: str) -> None:
    assert laid_out(places(around + BEFORE, layout), around + WRAPPED) == around + expected
    assert laid_out(places(around + BEFORE, layout), around + BEFORE) == around + BEFORE


def test_lines_that_a_comment_makes_too_long_stay() -> None:
    before = f"loss = loss / steps  # {'why ' * 15}it is\n"
    after = f"if x:\n    {before}"
    broken = f"if x:\n    loss = (\n        loss / steps\n    )  # {'why ' * 15}it is\n"
    assert laid_out(places(FORMATTED + before), FORMATTED + after) == FORMATTED + after
    assert laid_out(places(before, LineLayout(88, True)), after) == broken  # the project has it formatted
    long = WRAPPED.replace("\n", "  # wrapped\n")
    kept = BROKEN.rstrip() + "  # wrapped\n"
    assert laid_out(places(FORMATTED + BEFORE), FORMATTED + long) == FORMATTED + kept


def test_what_no_edit_has_changed_stays() -> None:
    odd = "x = f(a, b, an_argument_that_is_too_long, another_argument_that_is_too_long, and_a_third_one_as_well)\n"
    assert laid_out(places(odd + BEFORE, LineLayout(88, True)), odd + WRAPPED) == odd + BROKEN


def test_line_ends_stay() -> None:
    before, after = ((FORMATTED + each).replace("\n", "\r\n") for each in (BEFORE, WRAPPED))
    assert laid_out(places(before), after) == (FORMATTED + BROKEN).replace("\n", "\r\n")


def test_a_file_that_is_formatted_but_for_one_statement() -> None:
    assert formatter_of(places(FORMATTED * 9 + BY_HAND)) == Formatter(88)
    assert formatter_of(places(FORMATTED * 8 + BY_HAND)) is None


def test_blank_lines_around_new_functions() -> None:
    before = "import a\n\nx = 1\n# the loop\nfor y in x:\n    pass\n"
    after = "import a\n\nx = 1\n\n@step\ndef f():\n    pass\n\n# the loop\nfor y in x:\n    f()\n"
    expected = "import a\n\nx = 1\n\n\n@step\ndef f():\n    pass\n\n\n# the loop\nfor y in x:\n    f()\n"
    assert laid_out(places(before), after) == expected
    outer, inner = (f"def g():\n{textwrap.indent(each, '    ')}" for each in (before, after))
    assert laid_out(places(outer), inner) == inner


@pytest.mark.parametrize(("gap", "kept"), [(20, 10), (12, 2), (11, 2), (8, 2), (2, 2), (1, 1)])
def test_comments_keep_their_columns_or_two_blanks(gap: int, kept: int) -> None:
    before, after = "optimizer = Adam(p)", "optimizer = opt.wrap(Adam(p))"
    text = f"{before}{' ' * gap}# the optimizer\n"
    expected = f"{after}{' ' * kept}# the optimizer\n"
    assert laid_out(places(text), text.replace(before, after)) == expected


def test_calls_beside_one_another_get_a_line_for_each_argument() -> None:
    before = "fit(model, DataLoader(first_of_the_data_sets), DataLoader(second_of_the_data_sets))\n"
    after = """fit(model, DataLoader(first_of_the_data_sets,
                      workers=4), DataLoader(second_of_the_data_sets,
        workers=4, pinned=True, and_another_argument=1))
"""
    expected = """fit(
    model,
    DataLoader(first_of_the_data_sets, workers=4),
    DataLoader(second_of_the_data_sets, workers=4, pinned=True, and_another_argument=1),
)
"""
    assert laid_out(places(before), after) == expected


def test_a_call_around_a_broken_one_nests_it() -> None:
    call = "Adam(\n    chain(first.parameters(), second.parameters()), lr=learning_rate, betas=(b1, b2)\n)"
    before, hugged = f"optimizer = {call}\n", f"optimizer = wrap({call})\n"
    inner = "Adam(chain(first.parameters(), second.parameters()), lr=learning_rate, betas=(b1, b2))"
    nested = f"optimizer = wrap(\n    {inner}\n)\n"
    by_hand = "x = f(a,\n      b)\n"  # which no formatter leaves
    assert laid_out(places(by_hand + before), by_hand + hugged) == by_hand + nested
    own = by_hand + "y = f(g(\n    a\n))\n"
    assert laid_out(places(own + before), own + hugged) == own + hugged


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"print('{'x' * 92}')\n", f"with no_grad():\n    print('{'x' * 92}')\n", id="only moved"),
        pytest.param(
            "x = torch.tensor([ids[s] for s in str], dtype=torch.long)[None, ...].to(the_device_of_the_trainer)\n",
            "x = torch.tensor([ids[s] for s in line], dtype=torch.long, device=the_device_of_the_trainer)[None, ...]\n",
            id="in a subscript",
        ),
    ],
)
def test_long_lines_that_breaking_makes_no_better(before: str, after: str) -> None:
    assert laid_out(places(before), after) == after


def test_no_line_gets_longer_than_those_of_the_file() -> None:
    header = "for index, (images, labels) in enumerate(zip(loader_of_the_pictures, loader_of_the_labels)):\n"
    body = "    pass\n"
    after = header.replace("loader_of_the_pictures", "accel.prefetch(loader_of_the_pictures, device, move=(0,))")
    expected = """for index, (images, labels) in enumerate(
    zip(accel.prefetch(loader_of_the_pictures, device, move=(0,)), loader_of_the_labels)
):
"""
    assert laid_out(places(header + body), after + body) == expected + body
    wide = f"x = {'1 + ' * 40}1\n"
    assert laid_out(places(wide + header + body), wide + after + body) == wide + expected + body
    assert laid_out(places(3 * wide + header + body), 3 * wide + after + body) == 3 * wide + after + body


# By case: a statement, what an edit makes of it, and how the lines below its first are to stand.
ALIGNED = {
    "what is wrapped": (
        "opt = Adam(net.parameters(),\n           lr=0.1)\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n           lr=0.1))\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n                           lr=0.1))\n",
    ),
    "several brackets": (
        "opt = Adam(chain(a.parameters(),\n                 b.parameters()),\n           lr=0.1)\n",
        "opt = my.Adam(chain(a.parameters(),\n                 b.parameters()),\n           lr=0.1)\n",
        "opt = my.Adam(chain(a.parameters(),\n                    b.parameters()),\n              lr=0.1)\n",
    ),
    "a header": (
        "for x in zip(loader,\n             others):\n    f(x)\n",
        "for x in zip(accel.prefetch(loader),\n             others):\n    f(x)\n",
        "for x in zip(accel.prefetch(loader),\n             others):\n    f(x)\n",
    ),
    "indented by a fixed width": (
        "opt = Adam(net.parameters(),\n    lr=0.1)\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n    lr=0.1))\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n    lr=0.1))\n",
    ),
    "a column beside it": (
        "opt = Adam(net.parameters(),\n            lr=0.1)\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n            lr=0.1))\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n                            lr=0.1))\n",
    ),
    "two columns beside it": (
        "opt = Adam(net.parameters(),\n             lr=0.1)\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n             lr=0.1))\n",
        "opt = accel.optimizer(Adam(net.parameters(),\n             lr=0.1))\n",
    ),
    "a column beside a bracket that ends its line": (
        "if f(\n    a,\n    b):\n    pass\n",
        "if not f(\n    a,\n    b):\n    pass\n",
        "if not f(\n    a,\n    b):\n    pass\n",
    ),
    "within a text": (
        'x = f("""a(\n      b""",\n      c)\n',
        'x = g.f("""a(\n      b""",\n      c)\n',
        'x = g.f("""a(\n      b""",\n        c)\n',
    ),
}


@pytest.mark.parametrize("case", ALIGNED)
def test_lines_stay_aligned_with_their_bracket(case: str) -> None:
    before, after, expected = ALIGNED[case]
    assert laid_out(places(before), after) == expected


def test_lines_that_backslashes_end_get_brackets_where_they_are_too_long() -> None:
    before = """the_pictures, the_labels = the_pictures.to(device), the_labels.to(device), \\
                           the_weights.to(device)
"""
    after = before.replace("(device)", "(device, non_blocking=True)")
    wide = f"x = {'1 + ' * 30}1\n"
    expected = """the_pictures, the_labels = (
    the_pictures.to(device, non_blocking=True),
    the_labels.to(device, non_blocking=True),
    the_weights.to(device, non_blocking=True),
)
"""
    assert laid_out(places(before), after) == expected
    assert laid_out(places(3 * wide + before), 3 * wide + after) == 3 * wide + after
    assert laid_out(places(wide + before, LineLayout(88, True)), wide + after) == wide + after
    header = "with open(the_first_of_the_files) as first, \\\n     open(the_second_of_the_files) as second:\n    pass\n"
    longer = header.replace("open", "the_module_of_the_files_to_be_read.open")
    assert laid_out(places(header), longer) == longer


def test_breaks_of_the_author_stay_where_nobody_says_how_wide_lines_are() -> None:
    before = """self.vgg = nn.ModuleList([nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)])
"""
    after = before.replace("nn.MaxPool2d", "accel.MaxPool2d")
    assert laid_out(places(before), after) == after
    assert laid_out(places(before, LineLayout(100, False)), after).count("\n") > 2
    assert laid_out(places(before), after.replace("accel", "the_package_of_all_these_layers")).count("\n") > 2


def test_what_goes_on_below_a_wide_line_is_no_reason_to_break_it() -> None:
    wide = f"loader = DataLoader(dataset, {', '.join(f'option_{each}={each}' for each in range(12))})\n"
    before = f"{wide}x = 1\n"
    after = before.replace(")\n", ",\n                    pin_memory=True)\n", 1)
    assert laid_out(places(before), after) == after
    wider = before.replace("dataset, ", "dataset, another=1, ").replace(")\n", ",\n    pin_memory=True)\n", 1)
    assert laid_out(places(before), wider).count("\n") > 10


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_loader_in_the_header_of_a_loop_gets_lines_of_its_own(quote: str) -> None:
    text = f"""import torch
from torch.utils.data import DataLoader, TensorDataset


def test(xt, yt, net):
    for image, label in DataLoader(TensorDataset(xt, yt), batch_size=64):
        image, label = image.to({quote}cuda{quote}), label.to({quote}cuda{quote})
        print(net(image, label))
"""
    rules = [each for each in registry.rules() if each.code in ("AA201", "AA202")]
    after = engine.rewrite(text, None, rules).after
    assert "DataLoader(TensorDataset(xt, yt), batch_size=64, pin_memory=accel.pin_memory())" in after
