"""Numbers, indices and counts that leave a loop for NumPy, for Python, or for other tensors."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import kept, routed


def leave(builder: Builder, to: Additions, key: str) -> None:
    """Numbers leave for NumPy or Python."""
    what = builder.pick(
        f"leaving.{key}", "nothing", "out", "out[:, 0]", "(out[:, 1] - out[:, 0])", "torch.softmax(out, 1)", "out.max(1)[0]", "out.mean(0)",
        "loss", "out.norm(dim=1)", "(out.sigmoid() * 2)", "torch.stack([out, out])", "F.relu(out)", "(out @ out.t())", "torch.exp(out)",
        "out.float()", "torch.cat([out, x.flatten(1).float()], 1)", "out.detach()", "out.clone().view(-1)", "out[0]", "(out > 0)", "out.exp().sum(1, keepdim=True)",
    )  # fmt: skip
    if what == "nothing":
        return
    how = builder.pick(
        f"exit.{key}",
        ".detach().cpu().numpy()",
        ".data.numpy()",
        ".cpu().data.numpy()",
        ".detach().numpy()",
        ".detach().cpu().tolist()",
        "array",
        ".detach().cpu().numpy().copy()",
        "later",
        "helper",
    )
    sink = builder.pick(f"sink.{key}", "list", "print", "dictionary", "sum", "keep", "helper", "format")
    value = f"np.asarray({what}.detach())" if how == "array" else f"{what}{how}"
    names = f"left_{key}"
    if how == "later":
        place = kept(builder, f"later_{key}")
        to.loss.append(place.store(f"{what}.detach()"))
        to.end.append(f"print([float(np.asarray(each.cpu().numpy()).sum()) for each in {place.load}][-2:])")
        return
    if how == "helper":
        builder.program.define("to_numpy", "def to_numpy(tensor):\n    return tensor.detach().cpu().numpy()")
        value = f"{routed(builder, 'to_numpy', 'to_numpy', ('tensor',))}({what})"
    match sink:
        case "print":
            to.loss.append(f"print(np.asarray({value}).dtype, float(np.asarray({value}).sum()))")
        case "dictionary":
            to.start.append(f"{names} = {{}}")
            to.loss += [f'{names}["last"] = {value}']
            to.end.append(f'print(float(np.sum({names}["last"])))')
        case "sum":
            to.start.append(f"{names} = [0.0]")
            to.loss.append(f"{names}[0] += float(np.sum({value}))")
            to.end.append(f"print({names})")
        case "keep":
            place = kept(builder, f"numbers_{key}")
            to.loss.append(place.store(value))
            to.end.append(f"print([float(np.sum(each)) for each in {place.load}][-2:])")
        case "helper":
            builder.program.define(
                "summary",
                "def summary(array):\n    array = np.asarray(array)\n    return array.shape, float(array.sum())",
            )
            to.loss.append(f"print({routed(builder, 'summary', 'summary', ('array',))}({value}))")
        case "format":
            to.loss.append(f'print("{{}}".format(np.sum({value})))')
        case _:
            to.start.append(f"{names} = []")
            to.loss.append(f"{names}.append({value})")
            to.end.append(f"print(len({names}), float(np.sum([np.sum(each) for each in {names}])))")


def into_buffers(builder: Builder, to: Additions, key: str) -> None:
    """Numbers are written into a tensor that was made before."""
    how = builder.pick(f"buffer.{key}", "nothing", *_WRITES)
    if how == "nothing":
        return
    to.start.append(f"buffer_{key} = torch.zeros(2).to($device)")
    to.loss.append(f"place_{key} = torch.arange(2).to($device)")
    to.loss.append(f"buffer_{key}{_WRITES[how].format(place=f'place_{key}', value='out.detach().flatten()[:2]')}")
    to.end.append(f"print(buffer_{key}.sum().item())")


_WRITES = {
    "copied": ".copy_({value})",
    "added": ".add_({value})",
    "put": ".put_({place}, {value})",
    "index": "[{place}] = {value}",
    "index copied": ".index_copy_(0, {place}, {value})",
    "index added": ".index_add_(0, {place}, {value})",
    "scattered": ".scatter_add_(0, {place}, {value})",
    "masked": ".masked_scatter_({place} >= 0, {value})",
    "averaged": ".lerp_({value}, 0.5)",
    "like it": ".copy_(torch.where({value}.isclose(torch.zeros(2).to($device)), 0.0, 1.0))",
}


def whole_numbers(builder: Builder, to: Additions, key: str, targets: str) -> None:
    """Indices and counts."""
    what = builder.pick(
        f"index.{key}",
        "nothing",
        "out.argmax(1)",
        "out.max(1)[1]",
        "torch.max(out, 1)[1]",
        "out.topk(1)[1][:, 0]",
        "out.sort(1)[1][:, 0]",
        "torch.argmax(out.softmax(1), dim=1)",
        "torch.multinomial(out.detach().float().softmax(1).nan_to_num(1.0), 1)[:, 0]",
        "(out > 0).sum(1).clamp(max=2)",
        "unpacked",
        "out.round().long().clamp(0, 2)[:, 0]",
        "tags of helper",
    )
    if what == "nothing":
        return
    name = f"picked_{key}"
    if what == "unpacked":
        to.loss.append(f"_, {name} = torch.max(out.data, 1)")
    elif what == "tags of helper":
        builder.program.define("decide", "def decide(out):\n    return out.sum(), out.max(1)[1]")
        to.loss.append(f"score, {name} = {routed(builder, 'decide', 'decide', ('out',))}(out)")
    else:
        to.loss.append(f"{name} = {what}")
    use = builder.pick(
        f"indexed.{key}",
        "count",
        "table",
        "names",
        "bincount",
        "one hot",
        "embedding",
        "list",
        "confusion",
        "numpy index",
        "range",
        "slices",
    )
    match use:
        case "table":
            to.start.append(f"table_{key} = np.zeros(9)")
            to.loss.append(f"table_{key}[{name}.cpu().numpy()] += 1")
            to.end.append(f"print(table_{key})")
        case "names":
            to.loss.append(f'print([["a", "b", "c"][index] for index in {name}.tolist()])')
        case "bincount":
            to.loss.append(f"print(np.bincount({name}.cpu().numpy(), minlength=3))")
        case "one hot":
            to.loss.append(f"print(F.one_hot({name}, 3).sum(0).tolist())")
        case "embedding":
            to.loss.append(f"print(torch.eye(3)[{name}.cpu()].sum(0).tolist())")
        case "list":
            to.start.append(f"list_{key} = []")
            to.loss.append(f"list_{key}.extend({name}.cpu().numpy())")
            to.end.append(f"print(list_{key}, sum([10, 20, 30][index] for index in list_{key}))")
        case "confusion":
            to.start.append(f"confusion_{key} = torch.zeros(3, 3)")
            to.loss += [f"for guess in {name}.view(-1):", f"    confusion_{key}[guess.long(), guess] += 1"]
            to.end.append(f"print(confusion_{key}.tolist())")
        case "numpy index":
            to.loss.append(f"print(np.arange(3)[{name}.detach().cpu().numpy()].tolist())")
        case "range":
            to.loss.append(f"print([index for index in range({name}[0])])")
        case "slices":
            to.loss.append(f"print([1, 2, 3, 4][: {name}[0].item() + 1])")
        case _ if targets == "class":
            to.start.append(f"hits_{key} = [0, 0]")
            to.loss += [f"hits_{key}[0] += ({name} == y).sum().item()", f"hits_{key}[1] += y.size(0)"]
            to.end.append(f"print(hits_{key})")
        case _:
            to.loss.append(f"print({name}.sum().item())")
