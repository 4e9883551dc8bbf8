"""Losses, and the optimizers that lower them."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import routed


def write_optimizer(builder: Builder) -> None:
    pick = builder.pick
    kind = pick("optimizer", "SGD", "momentum", "Adam", "AdamW", "groups", "branches", "sum", "head only")
    parameters = "$model.parameters()"
    if builder.vector_of("dataset") == "embedding" and "PARAMETERS" in builder.program.definitions:
        parameters = "[*$model.parameters(), *PARAMETERS]"
    if builder.vector_of("collate") == "network" and "gather_weighted" in builder.program.definitions:
        parameters = f"[{'*PARAMETERS, ' if 'PARAMETERS' in parameters else ''}*$model.parameters(), COLLATE_WEIGHT]"
    made = {
        "SGD": f"optim.SGD({parameters}, lr=0.1)",
        "momentum": f"optim.SGD({parameters}, lr=0.1, momentum=0.9, weight_decay=0.01)",
        "Adam": f"optim.Adam({parameters}, lr=0.01)",
        "AdamW": f"optim.AdamW({parameters}, lr=0.01)",
        "groups": 'optim.SGD([{"params": [p for n, p in $model.named_parameters() if "head" in n]}, {"params": [p for n, p in $model.named_parameters() if "head" not in n], "lr": 0.01}], lr=0.1)',
        "branches": f"optim.SGD({parameters}, lr=0.1) if len(list($model.parameters())) > 4 else optim.Adam({parameters}, lr=0.01)",
        "head only": "optim.SGD(list($model.parameters())[-2:], lr=0.1)",
        "sum": f"optim.SGD(list({parameters}), lr=0.1)",
    }
    builder.setup["optimizer"] = made[kind]
    match pick("scheduler", "none", "epoch", "batch", "lambda"):
        case "epoch" | "batch":
            builder.setup["scheduler"] = "optim.lr_scheduler.StepLR($optimizer, step_size=1, gamma=0.5)"
        case "lambda":
            builder.setup["scheduler"] = "optim.lr_scheduler.LambdaLR($optimizer, lambda epoch: 0.9 ** epoch)"
        case _:
            pass


def loss_lines(builder: Builder, targets: str) -> list[str]:
    pick, define = builder.pick, builder.program.define
    sigmoid = builder.vector_of("sigmoid") == "yes"
    if targets == "class":
        sort = pick(
            "loss", "criterion", "functional", "log softmax", "custom", "smoothed", "weights", "manual", "clamped"
        )
        match sort:
            case "functional":
                return ["loss = F.cross_entropy(out, y)"]
            case "log softmax":
                return ["loss = F.nll_loss(F.log_softmax(out, dim=1), y)"]
            case "custom":
                define(
                    "loss_of",
                    "def loss_of(out, y):\n    return -torch.log_softmax(out, 1).gather(1, y.unsqueeze(1)).mean()",
                )
                return [f"loss = {routed(builder, 'loss', 'loss_of', ('out', 'y'))}(out, y)"]
            case "smoothed":
                define(
                    "smoothed",
                    "def smoothed(out, y):\n    wanted = torch.zeros(out.size(0), out.size(1)).to(out.device)\n    wanted.scatter_(1, y.unsqueeze(1), 0.9)\n    return -(wanted * torch.log_softmax(out, 1)).sum(1).mean()",
                )
                return [f"loss = {routed(builder, 'loss', 'smoothed', ('out', 'y'))}(out, y)"]
            case "weights":
                builder.setup["criterion"] = "nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).to($device))"
                return ["loss = $criterion(out, y)"]
            case "manual":
                return [
                    "probabilities = torch.exp(out) / torch.exp(out).sum(1, keepdim=True)",
                    "loss = -torch.log(probabilities[torch.arange(len(y)), y]).mean()",
                ]
            case "clamped":
                return ["loss = -torch.log(torch.softmax(out, 1).gather(1, y.unsqueeze(1)).clamp(min=1e-7)).mean()"]
            case _:
                builder.setup["criterion"] = "nn.CrossEntropyLoss()"
                return ["loss = $criterion(out, y)"]
    if targets == "number":
        match pick("loss", "criterion", "functional", "custom", "sum", "log cosh", "class"):
            case "functional":
                return ["loss = F.smooth_l1_loss(out, y)"]
            case "custom":
                define("loss_of", "def loss_of(out, y):\n    return ((out - y) ** 2).mean()")
                return [f"loss = {routed(builder, 'loss', 'loss_of', ('out', 'y'))}(out, y)"]
            case "sum":
                return ["loss = (out - y).abs().sum() / len(y)"]
            case "log cosh":
                return ["loss = torch.log(torch.cosh(out - y)).mean()"]
            case "class":
                define(
                    "Distance",
                    "class Distance(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.weight = 0.5\n\n    def forward(self, out, y):\n        return self.weight * (out - y).pow(2).sum(1).mean()",
                    "model",
                )
                builder.setup["criterion"] = "Distance()"
                return ["loss = $criterion(out, y)"]
            case _:
                builder.setup["criterion"] = "nn.MSELoss()"
                return ["loss = $criterion(out, y)"]
    if not sigmoid:
        builder.setup["criterion"] = "nn.BCEWithLogitsLoss()"
        return ["loss = $criterion(out, y)"]
    match pick("loss", "criterion", "functional", "manual"):
        case "functional":
            return ["loss = F.binary_cross_entropy(out, y)"]
        case "manual":
            return ["loss = -(y * torch.log(out + 1e-6) + (1 - y) * torch.log(1 - out + 1e-6)).mean()"]
        case _:
            builder.setup["criterion"] = "nn.BCELoss()"
            return ["loss = $criterion(out, y)"]
