"""Two networks with an optimizer each, trained against each other."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar import data
from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.leaving import into_buffers, leave, whole_numbers
from benchmarks.wrong_rewrites.grammar.making import create
from benchmarks.wrong_rewrites.grammar.routing import kept, routed
from benchmarks.wrong_rewrites.programs import indent

_NETWORK = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear({width}, 8), nn.LeakyReLU(0.2){norm}, nn.Linear(8, int("{out}")){last})

    def forward(self, x):
        return self.body(x)
"""


def build(builder: Builder) -> None:
    """Put the program together."""
    pick, has, define, program = builder.pick, builder.has, builder.program.define, builder.program
    builder.home = pick("home", "flat", "main", "function", "class")
    objective = pick("objective", "probabilities", "logits", "least squares", "wasserstein", "penalty", "hinge")
    norm = ", nn.BatchNorm1d(8)" if has("batch norm") else ""
    define("Generator", _NETWORK.format(name="Generator", width=3, out=6, norm=norm, last=", nn.Tanh()"), "model")
    define(
        "Discriminator",
        _NETWORK.format(
            name="Discriminator", width=6, out=1, norm="", last=", nn.Sigmoid()" if objective == "probabilities" else ""
        ),
        "model",
    )
    data.build(builder, "vector", "class")
    loop = data.loop(builder, "train", "vector")
    noise = pick(
        "noise", "torch.randn(x.size(0), 3).to($device)", "torch.randn(x.size(0), 3, device=$device)", "Variable(torch.FloatTensor(np.random.normal(0, 1, (x.size(0), 3))))",
        "Variable(Tensor(np.random.normal(0, 1, (x.size(0), 3))))", "torch.tensor(np.random.randn(x.size(0), 3).astype(np.float32)).to($device)", "torch.rand(x.size(0), 3).to($device)",
        "noise_of(x.size(0), $device)",
    )  # fmt: skip
    if "noise_of" in noise:
        define("noise_of", "def noise_of(size, device):\n    return torch.randn(size, 3).to(device)")
        noise = noise.replace("noise_of", routed(builder, "noise", "noise_of", ("size", "device")))
    if "Tensor(" in noise and "torch.F" not in noise:
        define("Tensor", "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor")
    labels = pick("labels", "full", "fill", "like", "helper", "smooth")
    real, fake = {
        "full": ("torch.full((x.size(0), 1), 1.0).to($device)", "torch.zeros(x.size(0), 1).to($device)"),
        "fill": (
            "Variable(torch.FloatTensor(x.size(0), 1).fill_(1.0), requires_grad=False)",
            "Variable(torch.FloatTensor(x.size(0), 1).fill_(0.0), requires_grad=False)",
        ),
        "like": ("torch.ones_like(x[:, :1]).to($device)", "torch.zeros_like(x[:, :1]).to($device)"),
        "helper": ("labels_of(x.size(0), 1.0, $device)", "labels_of(x.size(0), 0.0, $device)"),
        "smooth": ("(0.9 * torch.ones(x.size(0), 1)).to($device)", "torch.zeros(x.size(0), 1).to($device)"),
    }[labels]
    if labels == "helper":
        define("labels_of", "def labels_of(size, value, device):\n    return torch.full((size, 1), value).to(device)")
    match objective:
        case "logits":
            score_real, score_fake, score_good = (
                f"F.binary_cross_entropy_with_logits($discriminator({of}), {label})"
                for of, label in (("x", "real"), ("made.detach()", "fake"), ("made", "real"))
            )
        case "least squares":
            score_real, score_fake, score_good = (
                f"F.mse_loss($discriminator({of}), {label})"
                for of, label in (("x", "real"), ("made.detach()", "fake"), ("made", "real"))
            )
        case "wasserstein" | "penalty":
            score_real, score_fake, score_good = (
                "-$discriminator(x).mean()",
                "$discriminator(made.detach()).mean()",
                "-$discriminator(made).mean()",
            )
        case "hinge":
            score_real, score_fake, score_good = (
                "F.relu(1 - $discriminator(x)).mean()",
                "F.relu(1 + $discriminator(made.detach())).mean()",
                "-$discriminator(made).mean()",
            )
        case _:
            builder.setup["criterion"] = "nn.BCELoss()"
            score_real, score_fake, score_good = (
                f"$criterion($discriminator({of}), {label})"
                for of, label in (("x", "real"), ("made.detach()", "fake"), ("made", "real"))
            )
    discriminate = [f"real_loss = {score_real}", f"fake_loss = {score_fake}"]
    together = "(real_loss + fake_loss) / 2"
    if objective == "penalty":
        define(
            "penalty_of",
            "def penalty_of(discriminator, x, made):\n    mixed = (0.5 * x + 0.5 * made).requires_grad_(True)\n    score = discriminator(mixed).sum()\n    (slope,) = torch.autograd.grad(score, mixed, create_graph=True)\n    return ((slope.norm(2, dim=1) - 1) ** 2).mean()",
        )
        together += " + 0.1 * penalty_of($discriminator, x, made.detach())"
    backwards = pick("backwards", "together", "apart", "helper")
    train_d = ["$d_optimizer.zero_grad()", *discriminate]
    if backwards == "apart":
        train_d += ["real_loss.backward()", "fake_loss.backward()", "d_loss = real_loss + fake_loss"]
    elif backwards == "helper":
        define("go_backward", "def go_backward(loss):\n    loss.backward()\n    return loss")
        train_d += [f"d_loss = {routed(builder, 'backward', 'go_backward', ('loss',))}({together})"]
    else:
        train_d += [f"d_loss = {together}", "d_loss.backward()"]
    if has("clip"):
        train_d.append("nn.utils.clip_grad_norm_($discriminator.parameters(), 0.5)")
    train_d.append("$d_optimizer.step()")
    if objective == "wasserstein":
        train_d += ["for parameter in $discriminator.parameters():", "    parameter.data.clamp_(-0.1, 0.1)"]
    train_g = ["$g_optimizer.zero_grad()", f"g_loss = {score_good}", "g_loss.backward()", "$g_optimizer.step()"]
    made = [f"z = {noise}", "made = $generator(z)"]
    order = pick("order", "generator first", "discriminator first", "fresh", "sometimes")
    bound = [f"real = {real}", f"fake = {fake}"]
    match order:
        case "discriminator first":
            step = [*bound, *made, *train_d, *train_g]
        case "fresh":
            step = [*bound, *made, *train_d, *made, *train_g]
        case "sometimes":
            step = [
                *bound,
                *made,
                *train_d,
                "turn[0] += 1",
                "if turn[0] % 2 == 0:",
                indent("\n".join([*made, *train_g, "print(g_loss.item())"])),
            ]
            define("turn", "turn = [0]")
        case _:
            step = [*bound, *made, *train_g, *train_d]
    look = ["print(d_loss.item())" if order == "sometimes" else "print(d_loss.item(), g_loss.item())"]
    additions = Additions()
    # the gadgets look at `out`
    step.append("out = made[:, :3]")
    step.append("loss = d_loss")
    leave(builder, additions, "1")
    whole_numbers(builder, additions, "1", "number")
    into_buffers(builder, additions, "1")
    if order != "sometimes":
        create(builder, additions, "1")
    additions.loss = [line for line in additions.loss if "loss = loss" not in line]
    sample = pick("sample", "none", "eval", "plain", "fixed", "kept", "keeps training")
    end = {
        "none": [],
        "eval": [
            "$generator.eval()",
            "sample = $generator(torch.ones(2, 3).to($device))",
            "print(float(sample.sum()))",
            "$generator.train()",
        ],
        "plain": [
            "sample = $generator(torch.ones(2, 3).to($device)).detach().cpu().numpy()",
            "print(sample.dtype, sample.sum())",
        ],
        "fixed": ["print($generator(FIXED.to($device)).data.numpy().shape)"],
        "kept": ["SAMPLE_STORE"],
        "keeps training": [
            "$generator.eval()",
            "sample = $generator(torch.ones(2, 3).to($device))",
            "$g_optimizer.zero_grad()",
            "sample.pow(2).mean().backward()",
            "$g_optimizer.step()",
            "$generator.train()",
        ],
    }[sample]
    if sample == "fixed":
        define("FIXED", "FIXED = torch.ones(2, 3)")
    if sample == "kept":
        place = kept(builder, "samples")
        end = [
            "sample = $generator(torch.ones(2, 3).to($device))",
            place.store("sample"),
            f"print(float(sum(each.sum() for each in {place.load})))",
        ]
    body = "\n".join([*loop.unpack, *loop.moves, *step, *additions.forward, *additions.loss, *look, *loop.after])
    train = "\n".join([*loop.before, *additions.start, loop.header, indent(body), *additions.end, *end])
    optimizer = pick("optimizers", "Adam", "SGD", "list")
    names = [
        "device",
        "generator",
        "discriminator",
        "criterion",
        "g_optimizer",
        "d_optimizer",
        "dataset",
        "sampler",
        "loader",
    ]
    made_by = {**builder.setup, "device": 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'}
    for name, letter in (("generator", "g"), ("discriminator", "d")):
        made_by[name] = f"{name.title()}().to(device)"
        kind = "SGD" if optimizer == "SGD" else "Adam"
        made_by[f"{letter}_optimizer"] = (
            f"optim.{kind}({'list(' if optimizer == 'list' else ''}{name}.parameters(){')' if optimizer == 'list' else ''}, lr=0.01)"
        )
    names = [name for name in names if name in made_by]
    setup = "\n".join(
        ["torch.manual_seed(0)", "np.random.seed(0)", *(f"{name} = {made_by[name]}" for name in names)]
    ).replace("$", "")
    if builder.home == "class":
        keep = "\n".join(f"self.{name} = {name}" for name in names)
        methods = [
            f"def __init__(self, {', '.join(names)}):\n{indent(keep)}",
            f"def train_epoch(self):\n{indent(builder.spelled(train))}",
        ]
        program.define("Adversary", "class Adversary:\n" + indent("\n\n".join(methods)), "engine")
        program.do(
            "\n".join(
                [
                    setup,
                    f"adversary = Adversary({', '.join(names)})",
                    "for epoch in range(2):",
                    "    adversary.train_epoch()",
                ]
            )
        )
    elif builder.home == "function":
        call = builder.extract("train_epoch", train, frozenset(), (), "engine")
        program.do("\n".join([setup, "for epoch in range(2):", indent(builder.spelled(call))]))
    else:
        whole = "\n".join([setup, "for epoch in range(2):", indent(builder.spelled(train))])
        if builder.home == "main":
            program.define("main", f"def main():\n{indent(whole)}", "pinned")
            whole = "main()"
        program.do(whole)
