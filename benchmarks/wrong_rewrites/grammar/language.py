"""Recurrent networks over one long text, whose state is carried from chunk to chunk."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.leaving import leave, whole_numbers
from benchmarks.wrong_rewrites.grammar.making import arrays
from benchmarks.wrong_rewrites.grammar.routing import kept, routed
from benchmarks.wrong_rewrites.programs import indent


def build(builder: Builder) -> None:
    """Put the program together."""
    pick, has, define, program = builder.pick, builder.has, builder.program.define, builder.program
    builder.home = pick("home", "flat", "main", "function")
    cell = pick("cell", "GRU", "LSTM", "RNN", "by hand")
    start = pick("state", "method", "zeros", "none", "like weights")
    zeros = {
        "method": "$model.initial(3, $device)",
        "zeros": "torch.zeros(1, 3, 8).to($device)"
        if cell != "LSTM"
        else "(torch.zeros(1, 3, 8).to($device), torch.zeros(1, 3, 8).to($device))",
        "none": "None",
        "like weights": "$model.initial(3, next($model.parameters()).device)",
    }[start if cell != "by hand" or start != "none" else "zeros"]
    initial = (
        "state = torch.zeros(1, size, 8)\n        state = state.to(device)\n        return state"
        if has("two statements")
        else "return torch.zeros(1, size, 8).to(device)"
    )
    if cell == "LSTM":
        initial = "return (torch.zeros(1, size, 8).to(device), torch.zeros(1, size, 8).to(device))"
    if cell == "by hand":
        made = "self.inner, self.input = nn.Linear(8, 8), nn.Linear(4, 8)"
        step = "outs = []\n        for index in range(h.size(0)):\n            state = torch.tanh(self.inner(state) + self.input(h[index]))\n            outs.append(state[0])\n        h = torch.stack(outs)"
    else:
        made = f"self.rnn = nn.{cell}(4, 8)"
        step = "h, state = self.rnn(h, state)"
    drop = pick("dropout", "none", "module", "functional")
    dropped = {
        "none": "",
        "module": "\n        h = self.drop(h)",
        "functional": "\n        h = F.dropout(h, 0.1, self.training)",
    }[drop]
    code = f"""
class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        {made}
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, int("9"))

    def initial(self, size, device):
        {initial}

    def forward(self, x, state):
        h = self.embedding(x)
        {step}{dropped}
        return self.head(h), state
"""
    define("Language", code, "model")
    define("make_text", "def make_text():\n    torch.manual_seed(1)\n    return torch.randint(0, 9, (13, 3))", "data")
    detached = "tuple(each.detach() for each in state)" if cell == "LSTM" else "state.detach()"
    if has("repackage"):
        define(
            "repackage",
            "def repackage(state):\n    if isinstance(state, torch.Tensor):\n        return state.detach()\n    return tuple(repackage(each) for each in state)",
        )
        detached = f"{routed(builder, 'repackage', 'repackage', ('state',))}(state)"
    batch = pick("chunks", "slices", "function", "generator")
    if batch == "function":
        define(
            "chunk",
            "def chunk(text, start):\n    return text[start : start + 4], text[start + 1 : start + 5].reshape(-1)",
            "data",
        )
        get = [f"x, y = {routed(builder, 'chunk', 'chunk', ('text', 'start'))}($text, start)"]
    else:
        get = ["x = $text[start : start + 4]", "y = $text[start + 1 : start + 5].reshape(-1)"]
    header = "for start in range(0, 12, 4):"
    if batch == "generator":
        define(
            "chunks",
            "def chunks(text):\n    for start in range(0, 12, 4):\n        yield text[start : start + 4], text[start + 1 : start + 5].reshape(-1)",
            "data",
        )
        header, get = "for x, y in chunks($text):", []
    if pick("chunk moves", "none", "to") == "to":
        get.append("x, y = x.to($device), y.to($device)")
    additions = Additions()
    leave(builder, additions, "1")
    whole_numbers(builder, additions, "1", "class")
    arrays_used = has("arrays")
    if arrays_used:
        arrays(builder, additions, "1")
        additions.loss = [line.replace("(out.float() - array_1)", "array_1.float()") for line in additions.loss]
    body = [
        *get,
        f"state = {detached}" if zeros != "None" else f"state = None if state is None else {detached}",
        "$optimizer.zero_grad()",
        "out, state = $model(x, state)",
        "out = out.reshape(-1, 9)",
        *additions.forward,
    ]
    body += ["loss = F.cross_entropy(out, y)", *additions.loss, "loss.backward()"]
    if has("clip"):
        body.append("nn.utils.clip_grad_norm_($model.parameters(), 0.25)")
    elif has("own step"):
        body.append("for parameter in $model.parameters():\n    parameter.data.add_(parameter.grad, alpha=-0.01)")
    body += ["$optimizer.step()", "print(loss.item())"]
    train = "\n".join(
        [*additions.start, "$model.train()", f"state = {zeros}", header, indent("\n".join(body)), *additions.end]
    )
    evaluation = pick("evaluation", "none", "perplexity", "sampling", "kept")
    end = "pass"
    if evaluation == "perplexity":
        define(
            "evaluate",
            f"def evaluate(model, text, device):\n    model.eval()\n    total = 0.0\n    state = {zeros.replace('$', '')}\n    for start in range(0, 12, 4):\n        out, state = model(text[start : start + 4].to(device), state)\n        total += F.cross_entropy(out.reshape(-1, 9), text[start + 1 : start + 5].reshape(-1).to(device)).item()\n    return math.exp(total / 3)",
            "engine",
        )
        end = f"print({routed(builder, 'evaluate', 'evaluate', ('model', 'text', 'device'))}($model, $text, $device))"
    elif evaluation == "sampling":
        define(
            "sample",
            f"def sample(model, device):\n    model.eval()\n    state = {zeros.replace('$', '').replace('3', '1') if zeros != 'None' else 'None'}\n    token, words = torch.zeros(1, 1, dtype=torch.long).to(device), []\n    for _ in range(3):\n        out, state = model(token, state)\n        weights = out.squeeze().exp().cpu()\n        token = torch.multinomial(weights, 1)[0].view(1, 1).to(device)\n        words.append(token.item())\n    return words",
            "engine",
        )
        end = f"print({routed(builder, 'sample', 'sample', ('model', 'device'))}($model, $device))"
    elif evaluation == "kept":
        place = kept(builder, "states")
        end = f"$model.eval()\nout, last = $model($text[:2].to($device), {zeros})\n{place.store('out')}\nprint(float({place.load}[-1].sum()))"
    if pick("learned from evaluation", "no", "yes") == "yes" and evaluation == "kept":
        end += f"\n$optimizer.zero_grad()\n{place.load}[-1].pow(2).mean().backward()\n$optimizer.step()"
    setup = {
        "device": 'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        "model": "Language().to(device)",
        "optimizer": pick(
            "optimizer", "optim.SGD(model.parameters(), lr=0.5)", "optim.Adam(model.parameters(), lr=0.01)"
        ),
        "text": "make_text()",
    }
    made_all = "\n".join(["torch.manual_seed(0)", *(f"{name} = {value}" for name, value in setup.items())])
    if builder.home == "function":
        call = builder.extract("train_epoch", train, frozenset(), (), "engine")
        program.do("\n".join([made_all, "for epoch in range(2):", indent(builder.spelled(call + "\n" + end))]))
        return
    whole = "\n".join([made_all, "for epoch in range(2):", indent(builder.spelled(train + "\n" + end))])
    if builder.home == "main":
        define("main", f"def main():\n{indent(whole)}", "pinned")
        whole = "main()"
    program.do(whole)
