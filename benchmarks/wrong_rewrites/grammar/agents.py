"""Agents that act, remember and learn."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import kept, routed
from benchmarks.wrong_rewrites.programs import indent


def build(builder: Builder) -> None:
    """Put the program together."""
    pick, define, program = builder.pick, builder.program.define, builder.program
    builder.home = pick("home", "class", "functions")
    define(
        "make_observation", "def make_observation(rng):\n    return rng.standard_normal(4).astype(np.float32)", "data"
    )
    define("Policy", _policy(builder), "model")
    mode = pick("acting mode", "eval", "none", "train after", "eval at start")
    guard = pick("acting guard", "none", "no_grad", "detach")
    read = pick(
        "observation read", "torch.from_numpy(observation)", "torch.tensor(observation)", "torch.as_tensor(observation, dtype=torch.float32)", "torch.FloatTensor(observation)",
        "torch.tensor(np.array([observation]))[0]", "torch.Tensor(observation)",
    )  # fmt: skip
    moved = pick(
        "observation moved",
        ".unsqueeze(0)",
        ".unsqueeze(0).to($device)",
        ".to($device).unsqueeze(0)",
        ".float().unsqueeze(0)",
    )
    what = pick("learned from", "log prob", "pair", "value too", "ratio", "q values", "entropy")
    place = kept(builder, "memory")
    sampled = pick("sampled", "categorical", "multinomial", "argmax", "numpy choice", "probs")
    act = [f"state = {read}{moved}"]
    if mode in ("eval", "train after"):
        act.append("$model.eval()")
    act.append("logits, value = $model(state)")
    match sampled:
        case "multinomial":
            act += [
                "probabilities = torch.softmax(logits, -1)",
                "action = torch.multinomial(probabilities, 1)[0]",
                "log_prob = torch.log(probabilities.gather(1, action.view(1, 1)))[0]",
            ]
        case "argmax":
            act += [
                "action = logits.argmax(1)",
                "log_prob = torch.log_softmax(logits, 1).gather(1, action.view(1, 1))[0]",
            ]
        case "numpy choice":
            act += [
                "probabilities = torch.softmax(logits, -1)",
                "weights = probabilities[0].detach().cpu().numpy().astype(np.float64)",
                "action = torch.tensor([int(np.random.choice(3, p=weights / weights.sum()))]).to($device)",
                "log_prob = torch.log(probabilities[0, action])",
            ]
        case _:
            given = "probs=torch.softmax(logits, -1)" if sampled == "probs" else "logits=logits"
            act += [
                f"distribution = Categorical({given})",
                "action = distribution.sample()",
                "log_prob = distribution.log_prob(action)",
            ]
    values = {
        "log prob": ("log_prob", "loss = -(torch.stack([each.view(()) for each in {}]) * returns).mean()"),
        "pair": ("[log_prob, action]", "loss = -(torch.stack([each[0].view(()) for each in {}]) * returns).mean()"),
        "value too": (
            "(log_prob, value)",
            "values = torch.cat([each[1].view(-1) for each in {0}])\nlog_probs = torch.cat([each[0].view(-1) for each in {0}])\nloss = -(log_probs * (returns - values.detach())).mean() + F.smooth_l1_loss(values, returns)",
        ),
        "ratio": ("(state, action, log_prob.detach())", "states = torch.cat([each[0] for each in {0}])\nactions = torch.cat([each[1].view(-1) for each in {0}])\nold = torch.cat([each[2].view(-1) for each in {0}])\nlogits, values = $model(states)\nnew = torch.log_softmax(logits, 1).gather(1, actions.unsqueeze(1)).squeeze(1)\nloss = -(torch.exp(new - old) * returns).mean()"),
        "q values": ("logits[0, action]", "loss = F.mse_loss(torch.cat([each.view(-1) for each in {}]), returns)"),
        "entropy": ("{'log_prob': log_prob, 'logits': logits}", "loss = -(torch.cat([each['log_prob'].view(-1) for each in {0}]) * returns).mean() - 0.01 * torch.cat([torch.softmax(each['logits'], 1) for each in {0}]).log().mean()"),
    }  # fmt: skip
    value, learned = values[what]
    act.append(place.store(value))
    act.append(
        pick(
            "acted",
            "return action.item()",
            "return int(action)",
            "return action.cpu().numpy()[0]",
            "return action.tolist()[0]",
            "return action.detach().cpu().numpy().item()",
        )
    )
    if guard == "no_grad" and what == "ratio":
        act = ["with torch.no_grad():", indent("\n".join(act))]
    elif guard == "detach" and what == "ratio":
        act = [line.replace("$model(state)", "$model(state.detach())") for line in act]
    returns = pick(
        "returns",
        "torch.tensor(discounted)",
        "torch.tensor(np.array(discounted, dtype=np.float32))",
        "torch.FloatTensor(discounted)",
        "torch.tensor([np.float32(each) for each in discounted])",
        "torch.tensor(np.stack(discounted)).float()",
    )
    learn = [
        "discounted, total = [], 0.0",
        "for reward in reversed(rewards):",
        "    total = reward + 0.9 * total",
        "    discounted.insert(0, total)",
        f"returns = {returns}{pick('returns moved', '', '.to($device)')}",
    ]
    if builder.has("normalised"):
        learn.append("returns = (returns - returns.mean()) / (returns.std() + 1e-6)")
    if mode == "train after" or builder.has("train in learn"):
        learn.append("$model.train()")
    load = f"{place.load}[-len(rewards):]" if place.load.endswith(("]", "s", ")", "t")) else place.load
    learn += learned.replace("{0}", load).replace("{}", load).split("\n")
    if builder.has("clip"):
        clip = ["nn.utils.clip_grad_norm_($model.parameters(), 0.5)"]
    else:
        clip = []
    learn += [
        "$optimizer.zero_grad()",
        "loss.backward()",
        *clip,
        "$optimizer.step()",
        "print(loss.item())",
        "return loss.item()",
    ]
    episode = [
        "observation = make_observation(rng)",
        "rewards = []",
        "for step in range(3):",
        "    action = ACT(observation)",
        "    observation = make_observation(rng)",
        "    rewards.append(float([0.5, -0.25, 1.0][action] + observation[0]))",
        "LEARN(rewards)",
    ]
    setup = {
        "device": 'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        "model": "Policy().to($device)",
        "optimizer": "optim.Adam($model.parameters(), lr=0.01)",
    }
    if builder.home == "class":
        first = "\n".join(f"self.{name} = {made}" for name, made in setup.items()).replace("$", "self.")
        if mode == "eval at start":
            first += "\nself.model.eval()"
        self_act = "\n".join(act).replace("$", "self.")
        self_learn = "\n".join(learn).replace("$", "self.")
        methods = [
            f"def __init__(self):\n{indent(first)}",
            f"def act(self, observation):\n{indent(self_act)}",
            f"def learn(self, rewards):\n{indent(self_learn)}",
        ]
        if builder.has("select by call"):
            methods.append("def __call__(self, observation):\n    return self.act(observation)")
        define("Agent", "class Agent:\n" + indent("\n\n".join(methods)), "engine")
        program.do("torch.manual_seed(0)\nnp.random.seed(0)\nrng = np.random.default_rng(0)\nagent = Agent()")
        acts = "agent" if builder.has("select by call") else "agent.act"
        learns = "agent.learn"
    else:
        lines = [f"{name} = {made}" for name, made in setup.items()]
        if mode == "eval at start":
            lines.append("model.eval()")
        program.do(
            "torch.manual_seed(0)\nnp.random.seed(0)\nrng = np.random.default_rng(0)\n"
            + "\n".join(lines).replace("$", "")
        )
        define("act", "def act(observation):\n" + indent("\n".join(act).replace("$", "")), "pinned")
        define("learn", "def learn(rewards):\n" + indent("\n".join(learn).replace("$", "")), "pinned")
        acts = routed(builder, "act", "act", ("observation",))
        learns = routed(builder, "learn", "learn", ("rewards",))
    body = "\n".join(episode).replace("ACT", acts).replace("LEARN", learns)
    home = pick("episodes", "flat", "function", "main")
    if home == "function":
        program.define("run_episode", f"def run_episode():\n{indent(body)}", "pinned")
        program.do("for episode in range(3):\n    run_episode()")
    else:
        program.do(f"for episode in range(3):\n{indent(body)}")


def _policy(builder: Builder) -> str:
    drop = ["self.drop = nn.Dropout(0.3)"] if builder.has("policy dropout") else []
    init = ["self.body = nn.Linear(4, 8)", "self.head = nn.Linear(8, int('3'))", "self.value = nn.Linear(8, 1)", *drop]
    body = [
        "h = torch.tanh(self.body(x))",
        *(["h = self.drop(h)"] if drop else []),
        "return self.head(h), self.value(h)",
    ]
    made = "class Policy(nn.Module):\n    def __init__(self):\n        super().__init__()\n" + indent(
        "\n".join(init), 2
    )
    return made + "\n\n    def forward(self, x):\n" + indent("\n".join(body), 2)
