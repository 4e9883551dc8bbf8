"""Networks, and what they return."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.programs import indent

HIDDEN = 8
_TYPES = ("scores.dtype", "torch.float32")
# Widths of heads are read from texts, as from a command line: rules leave networks alone that literals show to be small.


def build(builder: Builder, inputs: str, width: int) -> str:
    """Define the network; returns the form of its output: tensor, tuple, dictionary, loss or attribute."""
    pick, has, define = builder.pick, builder.has, builder.program.define
    init: list[str] = []
    body: list[str] = []
    match inputs:
        case "image":
            init += ["self.conv = nn.Conv2d(1, 2, 3)"]
            body += ["h = F.relu(self.conv(x))"]
            if has("batch norm"):
                init.append("self.norm = nn.BatchNorm2d(2)")
                body.append("h = self.norm(h)")
            body.append("h = h.view(h.size(0), -1)" if has("view") else "h = torch.flatten(h, 1)")
            init.append(f"self.first = nn.Linear(32, {HIDDEN})")
            body.append("h = torch.relu(self.first(h))")
        case "tokens" | "series":
            if inputs == "tokens":
                init.append("self.embedding = nn.Embedding(9, 4)")
                body.append("h = self.embedding(x)")
            else:
                body.append("h = x")
            if has("positions"):
                init.append("self.positions = nn.Embedding(5, 4)")
                body.append("h = h + self.positions(torch.arange(x.size(1)).to(x.device))")
            kind = pick("sequence", "mean", "gru", "lstm", "attention", "loop")
            if kind in ("gru", "lstm"):
                init.append(f"self.rnn = nn.{kind.upper()}(4, {HIDDEN}, batch_first=True)")
                state = pick("initial state", "none", "zeros", "method")
                zeros = f"torch.zeros(1, x.size(0), {HIDDEN}).to(x.device)"
                given = ""
                if state == "zeros":
                    given = f", {zeros}" if kind == "gru" else f", ({zeros}, {zeros})"
                elif state == "method":
                    given = ", self.initial(x.size(0), x.device)"
                    builder.setup.setdefault(
                        "initial",
                        f"\ndef initial(self, size, device):\n    h0 = torch.zeros(1, size, {HIDDEN})\n    h0 = h0.to(device)\n    return "
                        + ("h0" if kind == "gru" else "h0, h0.clone()"),
                    )
                body += [f"h, _ = self.rnn(h{given})", "h = h[:, -1]"]
            elif kind == "attention":
                init += [
                    "self.query = nn.Linear(4, 4)",
                    "self.key = nn.Linear(4, 4)",
                    f"self.first = nn.Linear(4, {HIDDEN})",
                ]
                body += ["scores = self.query(h) @ self.key(h).transpose(1, 2) / 2.0"]
                if has("mask"):
                    far = pick("masked by", "-1e9", "FAR", "self.far", *(f"torch.finfo({each}).min" for each in _TYPES))
                    if far == "FAR":
                        define("FAR", "FAR = -torch.finfo(torch.float32).max", "model")
                    elif far == "self.far":
                        init.append("self.far = -1e9")
                    body += [
                        "mask = torch.tril(torch.ones(x.size(1), x.size(1))).to(x.device)",
                        f"scores = scores.masked_fill(mask == 0, {far})",
                    ]
                body += ["h = (torch.softmax(scores, -1) @ h).mean(1)", "h = torch.tanh(self.first(h))"]
            elif kind == "loop":
                init.append(f"self.cell = nn.GRUCell(4, {HIDDEN})")
                body += [
                    f"state = torch.zeros(x.size(0), {HIDDEN}).to(x.device)",
                    "for index in range(x.size(1)):",
                    "    state = self.cell(h[:, index], state)",
                    "h = state",
                ]
            else:
                init.append(f"self.first = nn.Linear(4, {HIDDEN})")
                body.append("h = torch.tanh(self.first(h.mean(1)))")
        case _:
            init.append(f"self.first = nn.Linear(6, {HIDDEN})")
            body.append(
                pick(
                    "activation",
                    "h = torch.relu(self.first(x))",
                    "h = F.gelu(self.first(x))",
                    "h = self.first(x).clamp(min=0)",
                    "h = self.first(x).clamp(0, torch.finfo(torch.float32).max)",
                )
            )
    if has("dropout"):
        init.append("self.drop = nn.Dropout(0.2)")
        body.append("h = self.drop(h)")
    if has("submodule"):
        define(
            "Block",
            f"class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear({HIDDEN}, {HIDDEN})\n\n    def forward(self, x):\n        return x + torch.tanh(self.inner(x))",
            "model",
        )
        init.append("self.blocks = nn.ModuleList([Block() for _ in range(2)])")
        body += ["for block in self.blocks:", "    h = block(h)"]
    if has("model noise"):
        body += ["if self.training:", "    h = h + 0.01 * torch.randn(h.shape).to(h.device)"]
    if has("scale buffer"):
        init.append('self.register_buffer("scale", torch.ones(1))')
        body.append("h = h * self.scale")
    if has("running"):
        init.append('self.register_buffer("seen", torch.zeros(1))')
        body.append("self.seen += h.detach().mean()")
    if has("numpy inside"):
        body.append("h = h + torch.tensor(np.ones(h.shape[1], dtype=np.float32)).to(h.device)")
    if has("remember features"):
        body.append("self.features = h")
    init.append(f"self.head = nn.Linear({HIDDEN}, int('{width}'))")
    body.append("out = self.head(h)")
    if has("sigmoid"):
        body.append("out = torch.sigmoid(out)")
    form = pick("output", "tensor", "tuple", "dictionary", "list", "indices")
    results = {
        "tensor": "return out",
        "tuple": "return out, h",
        "dictionary": 'return {"out": out, "h": h}',
        "list": "return [h, out]",
        "indices": "return out, out.max(1)[1]",
    }
    body.append(results[form])
    methods = builder.setup.pop("initial", "")
    code = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n" + indent("\n".join(init), 2)
    code += "\n" + indent(methods) if methods else ""
    if has("forward split"):
        at = body.index("out = self.head(h)")
        code += "\n\n    def encode(self, x):\n" + indent("\n".join([*body[:at], "return h"]), 2)
        body = ["h = self.encode(x)", *body[at:]]
    code += "\n\n    def forward(self, x):\n" + indent("\n".join(body), 2)
    define("Net", code, "model")
    made = pick("model made", "call", "factory", "sequential", "subclass")
    if made == "factory":
        define("make_model", "def make_model():\n    return Net()", "model")
        return form
    if made == "subclass":
        define("BigNet", "class BigNet(Net):\n    def forward(self, x):\n        return super().forward(x)", "model")
    return form


def made(builder: Builder) -> str:
    """The expression that makes it."""
    how = builder.vector_of("model made")
    call = {"factory": "make_model()", "subclass": "BigNet()"}.get(how, "Net()")
    moved = builder.pick("model move", "to", "none", "cuda")
    return f"{call}.to($device)" if moved == "to" else call


def unpacked(form: str, call: str) -> list[str]:
    """Statements that make `out` of a call of the network."""
    return {
        "tensor": [f"out = {call}"],
        "tuple": [f"out, h = {call}"],
        "dictionary": [f"result = {call}", 'out = result["out"]'],
        "list": [f"h, out = {call}"],
        "indices": [f"out, tags = {call}"],
    }[form]
