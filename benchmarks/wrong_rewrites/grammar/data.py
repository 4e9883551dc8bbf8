"""Datasets, samplers, loaders, loops over them, and moves of batches."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import routed

SAMPLES, BATCH = 12, 4

# A text, as from a command line: rules leave runs alone of which literals show that they are too short to gain.
_STEPS = 'for step in range(int("4")):'
INPUTS = {
    "vector": f"torch.randn({SAMPLES}, 6)",
    "image": f"torch.randn({SAMPLES}, 1, 6, 6)",
    "tokens": f"torch.randint(0, 9, ({SAMPLES}, 5))",
    "series": f"torch.randn({SAMPLES}, 5, 4)",
}
TARGETS = {
    "class": f"torch.arange({SAMPLES}) % 3",
    "number": f"torch.randn({SAMPLES}, 3)",
    "binary": f"(torch.arange({SAMPLES}) % 2).float().unsqueeze(1)",
}


@dataclass(frozen=True, slots=True)
class Loop:
    """How the program goes over its batches."""

    header: str
    unpack: list[str]
    """Up to `x` and `y`, not moved yet."""
    before: list[str]
    moves: list[str]
    after: list[str]
    batch: str
    """The name of the whole batch, if it has one."""


def build(builder: Builder, inputs: str, targets: str) -> None:
    """Define what makes `$dataset`, `$sampler` and `$loader`."""
    pick, define = builder.pick, builder.program.define
    form = pick("batch", "pair", "dict", "index")
    define(
        "make_arrays",
        f"def make_arrays():\n    torch.manual_seed(1)\n    return {INPUTS[inputs]}, {TARGETS[targets]}",
        "data",
    )
    kind = pick(
        "dataset", "tensors", "class", "arrays", "noisy torch", "noisy numpy", "noisy python", "own generator", "embedding",
        "moving", "mutable", "cached", "list", "in place", "frozen network", "detached network", "counting", "shared list",
        "changed rows", "swapping",
    )  # fmt: skip
    if form != "pair" and kind in ("tensors", "list"):
        kind = "class"
    builder.setup["dataset"] = _dataset(builder, kind, form, inputs)
    sampler = pick("sampler", "none", "shuffle", "weighted", "custom", "drawing", "updated", "batches", "generator")
    arguments = [f"batch_size={BATCH}"]
    if sampler == "shuffle":
        arguments.append("shuffle=True")
    elif sampler == "generator":
        arguments += ["shuffle=True", "generator=torch.Generator().manual_seed(3)"]
    elif sampler != "none":
        builder.setup["sampler"] = _sampler(builder, sampler)
        if sampler == "batches":
            arguments = ["batch_sampler=$sampler"]
        else:
            arguments.append("sampler=$sampler")
    collate = pick("collate", "none", "function", "random", "partial", "lambda", "class", "network")
    if collate != "none":
        arguments.append(f"collate_fn={_collate(builder, collate, form)}")
    workers = pick("workers", "unset", "zero", "pinned", "two", "variable")
    if workers == "two" and pick("really two", "no", "no ", "no  ", "yes") == "yes":
        arguments += ["num_workers=2", "pin_memory=True"]
    elif workers == "zero":
        arguments.append("num_workers=0")
    elif workers == "pinned":
        arguments.append("pin_memory=torch.cuda.is_available()")
    elif workers == "variable":
        define("WORKERS", "WORKERS = 0")
        arguments.append("num_workers=WORKERS")
    if builder.has("drop last") and sampler != "batches":
        arguments.append("drop_last=True")
    made = pick("loader", "call", "options", "function")
    if made == "options":
        define("OPTIONS", "OPTIONS = {}\nif torch.cuda.is_available():\n    OPTIONS.update(pin_memory=True)")
        arguments.append("**OPTIONS")
    if made == "function":
        needed = [name for name in ("dataset", "sampler") if f"${name}" in f"$dataset {' '.join(arguments)}"]
        body = f"return DataLoader(dataset, {', '.join(arguments)})".replace("$", "")
        define("make_loader", f"def make_loader({', '.join(needed)}):\n    {body}", "data")
        builder.setup["loader"] = f"make_loader({', '.join('$' + each for each in needed)})"
    else:
        builder.setup["loader"] = f"DataLoader($dataset, {', '.join(arguments)})"


def _dataset(builder: Builder, kind: str, form: str, inputs: str) -> str:
    define = builder.program.define
    if kind == "tensors":
        return "TensorDataset(*make_arrays())"
    if kind == "list":
        return "list(zip(*make_arrays()))"
    is_float = inputs != "tokens"
    result = {"pair": "x, y", "dict": '{"x": x, "y": y}', "index": "x, y, index"}[form]
    init = ["self.x, self.y = make_arrays()"]
    body = ["x, y = self.x[index], self.y[index]"]
    extra = ""
    match kind:
        case "arrays":
            init.append("self.x = self.x.numpy()")
            body.append("x = torch.tensor(x)" if builder.has("tensor call") else "x = torch.from_numpy(x)")
        case "in place":
            init.append("self.x = self.x.numpy()")
            body = ["x, y = torch.tensor(self.x[index]), self.y[index]"]
            if is_float:
                body.append("x /= 2.0")
        case "noisy torch" if is_float:
            body.append("x = x + 0.1 * torch.randn(x.shape)")
        case "noisy numpy" if is_float:
            body.append("x = x + 0.1 * torch.from_numpy(np.random.randn(*x.shape).astype(np.float32))")
        case "noisy python" if is_float:
            body += ["if random.random() < 0.5:", "    x = -x"]
        case "own generator" if is_float:
            init.append("self.draws = np.random.default_rng(0)")
            body.append("x = x + float(self.draws.normal())")
        case "embedding" | "frozen network" | "detached network" if is_float:
            init.append("self.inner = nn.Linear(self.x.shape[-1], self.x.shape[-1])")
            if kind == "embedding":
                init.append("PARAMETERS.extend(self.inner.parameters())")
                define("PARAMETERS", "PARAMETERS = []", "pinned")
                body.append("x = self.inner(x)")
            elif kind == "frozen network":
                body += ["with torch.no_grad():", "    x = self.inner(x)"]
            else:
                body.append("x = self.inner(x).detach()")
        case "moving":
            define(
                "place_tensor",
                "def place_tensor(tensor):\n    return tensor.cuda() if torch.cuda.is_available() else tensor",
                "helpers",
            )
            placed = routed(builder, "dataset move", "place_tensor", ("tensor",))
            body.append(f"x = {placed}(x)")
        case "mutable":
            init += ["self.scale = 1.0", "self.options = {'scale': 1.0}"]
            if is_float:
                body.append("x = x * self.scale * self.options['scale']")
        case "cached":
            init.append("self.cache = {}")
            body += [
                "if index not in self.cache:",
                "    self.cache[index] = x * 2 if x.is_floating_point() else x",
                "x = self.cache[index]",
            ]
        case "counting":
            init.append("self.count = 0")
            body += ["self.count += 1", "if x.is_floating_point():", "    x = x + 0.01 * self.count"]
        case "changed rows" if is_float:
            body.append("x *= 0.9")
        case "swapping" if is_float:
            init.append("self.scale, self.other = 1.0, 0.5")
            body += ["self.scale, self.other = self.other, self.scale", "x = x * self.scale"]
        case "shared list":
            define("SEEN", "SEEN = []", "pinned")
            body.append("SEEN.append(int(index))")
    lines = "\n        ".join(init)
    text = "\n        ".join([*body, f"return {result}"])
    code = f"""
class Samples(Dataset):
    def __init__(self):
        {lines}

    def __getitem__(self, index):
        {text}

    def __len__(self):
        return len(self.x)
{extra}"""
    define("Samples", code, "data")
    return "Samples()"


def _sampler(builder: Builder, kind: str) -> str:
    define = builder.program.define
    match kind:
        case "weighted":
            return "WeightedRandomSampler([1.0 + index for index in range(len($dataset))], len($dataset))"
        case "drawing":
            order = "for _ in range(len(self.source)):\n            yield int(np.random.randint(len(self.source)))"
        case "updated":
            order = "for position in range(len(self.source)):\n            yield int(torch.argmax(self.weights * (1 + position % 3)))"
        case "batches":
            order = f"order = torch.randperm(len(self.source)).tolist()\n        for start in range(0, len(order), {BATCH}):\n            yield order[start : start + {BATCH}]"
        case _:
            order = "yield from reversed(range(len(self.source)))"
    code = f"""
class Order(Sampler):
    def __init__(self, source):
        self.source = source
        self.weights = torch.ones(len(source))

    def __iter__(self):
        {order}

    def __len__(self):
        return {"(len(self.source) + 3) // 4" if kind == "batches" else "len(self.source)"}

    def update(self, step, value):
        self.weights[step % len(self.weights)] = value
        self.weights[(step * 5 + 1) % len(self.weights)] += abs(value)
"""
    define("Order", code, "data")
    return "Order($dataset)"


def _collate(builder: Builder, kind: str, form: str) -> str:
    define = builder.program.define
    if form == "dict":
        gather = 'return {name: torch.stack([each[name] for each in samples]) for name in ("x", "y")}'
        change = ""
    else:
        gather = "return tuple(torch.stack([torch.as_tensor(part) for part in parts]) for parts in zip(*samples))"
        change = "scale"
    define("gather", f"def gather(samples, scale=1.0):\n    {gather}", "data")
    match kind:
        case "random" if change:
            define(
                "gather_random",
                "def gather_random(samples):\n    if torch.rand(()) < 0.5:\n        samples = samples[::-1]\n    return gather(samples)",
                "data",
            )
            return "gather_random"
        case "partial":
            return "functools.partial(gather, scale=2.0)"
        case "lambda":
            return "lambda samples: gather(samples)"
        case "class":
            define("Gather", "class Gather:\n    def __call__(self, samples):\n        return gather(samples)", "data")
            return "Gather()"
        case "network" if change:
            code = """
COLLATE_WEIGHT = nn.Parameter(torch.ones(()))


def gather_weighted(samples):
    x, *others = gather(samples)
    return (x * COLLATE_WEIGHT if x.is_floating_point() else x, *others)
"""
            define("gather_weighted", code, "pinned")
            define("COLLATE_WEIGHT", "", "pinned")
            builder.program.definitions.pop("COLLATE_WEIGHT")
            return "gather_weighted"
        case _:
            return "gather"


def loop(builder: Builder, key: str, inputs: str) -> Loop:
    """A loop over `$loader`, whose body begins with `x` and `y` where they are computed with."""
    form = builder.vector_of("batch")
    sort = builder.pick(
        f"loop.{key}",
        "for",
        "enumerate",
        "named",
        "enumerate named",
        "while",
        "next",
        "zip",
        "wrapped",
        "generator",
        "islice",
        "endless",
        "next of endless",
    )
    items = {"pair": "x, y", "dict": "batch", "index": "x, y, index"}[form]
    unpack: list[str] = []
    whole = "batch" if form == "dict" or "named" in sort else ""
    if whole:
        items = "batch"
        reads = {"pair": "x, y = batch", "dict": 'x, y = batch["x"], batch["y"]', "index": "x, y, index = batch"}
        if form == "pair" and builder.has(f"subscripts.{key}"):
            reads["pair"] = "x = batch[0]\ny = batch[1]"
        unpack.append(reads[form])
    before: list[str] = []
    after: list[str] = []
    match sort:
        case "enumerate" | "enumerate named":
            target = items if whole or "," not in items else f"({items})"
            header = f"for step, {target} in enumerate($loader):"
        case "while":
            before = ["batches = iter($loader)", "step = 0"]
            header = "while step < 3:"
            unpack = [f"{items} = next(batches)", *unpack]
            after = ["step += 1"]
        case "next":
            before = ["batches = iter($loader)"]
            header = _STEPS
            unpack = [
                "try:",
                f"    {items} = next(batches)",
                "except StopIteration:",
                "    batches = iter($loader)",
                f"    {items} = next(batches)",
                *unpack,
            ]
        case "zip":
            target = items if whole or "," not in items else f"({items})"
            header = f"for step, {target} in zip(range(3), $loader):"
        case "wrapped":
            builder.program.define(
                "progress", "def progress(iterable, desc=''):\n    for each in iterable:\n        yield each"
            )
            header = f'for {items} in progress($loader, desc="train"):'
        case "generator" | "endless" | "next of endless":
            builder.program.define(
                "endless",
                "def endless(loader):\n    while True:\n        for batch in loader:\n            yield batch",
            )
            if sort == "next of endless":
                header, unpack = _STEPS, [f"{items} = next(batches)", *unpack]
            else:
                iterated = "batches" if sort == "generator" else "endless($loader)"
                target = items if whole or "," not in items else f"({items})"
                header = f"for step, {target} in zip(range(3), {iterated}):"
            before = ["batches = endless($loader)"] if sort != "endless" else []
        case "islice":
            header = f"for {items} in itertools.islice($loader, 2):"
        case _:
            header = f"for {items} in $loader:"
    return Loop(header, unpack, before, _moves(builder, key, whole, form, inputs), after, whole)


def _moves(builder: Builder, key: str, whole: str, form: str, inputs: str) -> list[str]:
    define = builder.program.define
    sort = builder.pick(
        f"move.{key}", "none", "pair", "lines", "cuda", "helper", "recursive", "list helper", "variable", "alias", "float first",
        "host read", "kept", "comprehension", "non-blocking", "reshaped", "mutated", "map",
    )  # fmt: skip
    match sort:
        case "pair":
            return ["x, y = x.to($device), y.to($device)"]
        case "lines":
            return ["x = x.to($device)", "y = y.to($device)"]
        case "non-blocking":
            return ["x = x.to($device, non_blocking=True)", "y = y.to($device, non_blocking=True)"]
        case "cuda":
            return ["if torch.cuda.is_available():", "    x, y = x.cuda(), y.cuda()"]
        case "helper":
            define("put", "def put(tensor, device):\n    return tensor.to(device)")
            put = routed(builder, "put", "put", ("tensor", "device"))
            return [f"x = {put}(x, $device)", f"y = {put}(y, $device)"]
        case "list helper":
            define("put_all", "def put_all(tensors, device):\n    return [each.to(device) for each in tensors]")
            put = routed(builder, "put_all", "put_all", ("tensors", "device"))
            return [f"x, y = {put}([x, y], $device)"]
        case "recursive":
            code = """
def put_nested(value, device):
    if isinstance(value, dict):
        return {name: put_nested(each, device) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [put_nested(each, device) for each in value]
    return value.to(device)
"""
            define("put_nested", code)
            put = routed(builder, "put_nested", "put_nested", ("value", "device"))
            if whole:
                again = {
                    "pair": "x, y = batch",
                    "dict": 'x, y = batch["x"], batch["y"]',
                    "index": "x, y, index = batch",
                }
                return [f"batch = {put}(batch, $device)", again[form]]
            return [f"x, y = {put}((x, y), $device)"]
        case "comprehension":
            return ["x, y = [each.to($device) for each in (x, y)]"]
        case "map":
            return ["x, y = map(lambda each: each.to($device), (x, y))"]
        case "variable":
            return ["x, y = Variable(x), Variable(y)"]
        case "alias" if inputs != "tokens":
            define(
                "FloatTensor",
                "FloatTensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor",
            )
            return ["x = Variable(x.type(FloatTensor))", "y = y.to($device)"]
        case "float first" if inputs != "tokens":
            return ["x = x.float().to($device)", "y = y.to($device)"]
        case "reshaped":
            return ["x = x.reshape(x.shape).to($device)", "y = y.view(y.shape).to($device)"]
        case "host read":
            return [
                "total = int(y.sum())",
                "largest = float(x.max())",
                "x, y = x.to($device), y.to($device)",
                "print(total, largest)",
            ]
        case "kept":
            define("HOST", "HOST = []", "pinned")
            return ["HOST.append(x)", "x, y = x.to($device), y.to($device)", "print(float(HOST[0].sum()))"]
        case "mutated" if inputs != "tokens":
            return ["host = x", "x, y = x.to($device), y.to($device)", "host += 1", "print(float(x.sum()))"]
        case _:
            return []
