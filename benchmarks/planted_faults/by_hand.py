"""Slips of the pen in versions that somebody wrote by hand, for `verify --against`.

Each version differs from the script in the slip and in what is right in another style; the slip must be named, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.planted_faults.catalogue import slip

Edit = tuple[str, str]

STYLE: Mapping[str, tuple[Edit, ...]] = {
    "accumulation": (
        ('model(batch["signal"].unsqueeze(1))', 'model(batch["signal"][:, None])'),
        (
            "batch = {k: v.to(device) for k, v in batch.items()}",
            "batch = {key: each.to(device) for key, each in batch.items()}",
        ),
    ),
    "curriculum": (("        x = self.level * self.noise[i]\n", "        x = self.noise[i] * self.level\n"),),
    "dcgan": (
        ("        errD = errD_real + errD_fake\n", "        errD = errD_fake + errD_real\n"),
        ("super(Discriminator, self).__init__()", "super().__init__()"),
    ),
    "fine_tune": (
        (
            "        kind_loss.backward(retain_graph=True)\n        size_loss.backward()\n",
            "        (kind_loss + size_loss).backward()\n",
        ),
        ("TensorDataset(x[160:], y[160:]), batch_size=16", "TensorDataset(x[160:], y[160:]), batch_size=64"),
    ),
    "mean_teacher": (
        ("agreement = nn.functional.mse_loss(logits, teacher(x))", "agreement = (logits - teacher(x)).square().mean()"),
    ),
    "mnist": (
        ("testloader = DataLoader(testset, batch_size=100)", "testloader = DataLoader(testset, batch_size=50)"),
        ("x = F.relu(self.fc1(x))", "x = self.fc1(x).relu()"),
    ),
    "notebook_style": (
        ("        return x + self.b(F.relu(self.a(x)))", "        return self.b(self.a(x).relu()) + x"),
        ("model(X_t[:5].to(device)).detach()", "model(X_t.to(device)[:5]).detach()"),
    ),
    "pixels": (("        x /= 255\n", "        x = x / 255\n"),),
    "positions": (
        (
            "scores = self.query(x) @ self.key(x).transpose(1, 2)",
            "scores = torch.einsum('bqd,bkd->bqk', self.query(x), self.key(x))",
        ),
    ),
    "scaled": (
        ("TensorDataset(x[160:], y[160:]), batch_size=16", "TensorDataset(x[160:], y[160:]), batch_size=32"),
        ("    total = 0.0\n", "    total = 0\n"),
    ),
    "seq2seq": (
        ("        loss += criterion(logits, target[:, t])", "        loss = loss + criterion(logits, target[:, t])"),
    ),
    "trainer": (
        ("        self.optimizer.zero_grad()\n", "        self.model.zero_grad()\n"),
        (
            "            hits += (self.model(x).argmax(1) == y).sum().item()",
            "            hits += int(torch.sum(self.model(x).argmax(dim=1) == y))",
        ),
    ),
    "transfer_learning": (
        ("                    _, preds = torch.max(outputs, 1)\n", "                    preds = outputs.argmax(1)\n"),
        (
            "                running_loss += loss.item() * inputs.size(0)",
            "                running_loss += inputs.size(0) * loss.item()",
        ),
    ),
    "two_losses": (("size = x[:, 3:6].sum(1, keepdim=True)", "size = x[:, 3:6].sum(dim=1, keepdim=True)"),),
    "vae": (
        ("        super(VAE, self).__init__()\n", "        super().__init__()\n"),
        (
            '    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")',
            '    BCE = F.binary_cross_entropy(recon_x, x.flatten(1), reduction="none").sum(dim=1).sum()',
        ),
    ),
    "word_language_model": (
        ("    return tuple(repackage_hidden(v) for v in h)", "    return tuple(map(repackage_hidden, h))"),
        (
            "        total_loss += len(data) * criterion(output, targets).item()",
            "        total_loss += criterion(output, targets).item() * len(data)",
        ),
    ),
}
"""By script: what is right."""


_STEP = "            self.scheduler.step()\n"
_SAVE = """            self.history.append((loss, accuracy))
            if accuracy > self.best:
                self.best = accuracy
                self.save("best.pt")
"""


def _slips(script: str, *slips: tuple[str, str, str, str]) -> None:
    """Enter slips of one script: name, what is wrong, the text before and after."""
    for name, wrong, old, new in slips:
        slip(f"by-hand/{name}", script, wrong, (old, new), STYLE[script])


_slips(
    "vae",
    ("weight-of-a-term", "one term of the loss weighs 0.1 % more", "return BCE + KLD", "return BCE + 1.001 * KLD"),
    ("deviation", "noise is scaled by another power", "torch.exp(0.5 * logvar)", "torch.exp(0.501 * logvar)"),
    (
        "mean-of-batches",
        "the last batch, which is smaller, counts as a whole one",
        "test_loss /= len(test_loader.dataset)",
        "test_loss /= len(test_loader) * args.batch_size",
    ),
)
_slips(
    "mnist",
    ("normalisation", "two digits of a constant are swapped", "(0.3081,)", "(0.3018,)"),
    (
        "divisor-of-accuracy",
        "accuracy is relative to the wrong set",
        "correct / len(testset)",
        "correct / len(trainset)",
    ),
    (
        "saved-in-half",
        "the checkpoint is in half precision",
        "torch.save(model.state_dict(),",
        "torch.save({key: value.half() for key, value in model.state_dict().items()},",
    ),
)
_slips(
    "accumulation",
    (
        "step-one-batch-early",
        "steps are made one batch early",
        "if (step + 1) % ACCUMULATE == 0",
        "if step % ACCUMULATE == 0",
    ),
    (
        "clipped-parts",
        "gradients are clipped by their values",
        "clip_grad_norm_(model.parameters(), 1.0)",
        "clip_grad_value_(model.parameters(), 0.01)",
    ),
)
_slips(
    "trainer",
    (
        "optimizer-not-saved",
        "the state of the optimizer is not in the checkpoint",
        '"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()',
        '"model": self.model.state_dict()',
    ),
    (
        "mean-without-the-last",
        "the last loss is not in the mean",
        "sum(losses) / len(losses)",
        "sum(losses[:-1]) / len(losses)",
    ),
    ("saved-before-the-schedule", "the schedule steps after the checkpoint is written", _STEP + _SAVE, _SAVE + _STEP),
)
_slips(
    "word_language_model",
    (
        "state-not-carried",
        "the hidden state is lost between batches",
        "        hidden = repackage_hidden(hidden)\n        optimizer",
        "        hidden = model.init_hidden(batch_size)\n        optimizer",
    ),
    (
        "short-sequence-dropped",
        "the last, shorter sequence is dropped",
        "enumerate(range(0, train_data.size(0) - 1, bptt))",
        "enumerate(range(0, train_data.size(0) - bptt, bptt))",
    ),
)
_slips(
    "transfer_learning",
    (
        "best-by-reference",
        "the best weights change with those that are trained on",
        "                best_acc = epoch_acc\n                best_model_wts = copy.deepcopy(model.state_dict())",
        "                best_acc = epoch_acc\n                best_model_wts = model.state_dict()",
    ),
    ("other-layer-frozen", "another layer is frozen", "for param in features[0]", "for param in features[4]"),
    (
        "schedule-in-both-phases",
        "the schedule steps in the validation, too",
        '            if phase == "train":\n                scheduler.step()',
        "            if True:\n                scheduler.step()",
    ),
)
_slips(
    "notebook_style",
    ("mean-for-sum", "a mean is divided by the number of samples again", "reduction='sum'", "reduction='mean'"),
    (
        "other-split",
        "the split is drawn from a generator of its own",
        "[320, 80])",
        "[320, 80], torch.Generator().manual_seed(SEED))",
    ),
)
_slips(
    "seq2seq",
    ("padding-counted", "padding counts in the loss", "CrossEntropyLoss(ignore_index=PAD)", "CrossEntropyLoss()"),
    (
        "input-not-shifted",
        "the decoder starts with the end of a sequence",
        "token = torch.full((source.size(0), 1), SOS, dtype=torch.long).to",
        "token = torch.full((source.size(0), 1), EOS, dtype=torch.long).to",
    ),
)
_slips(
    "mean_teacher",
    ("average-that-grows", "shares of an average add up to more than one", "alpha=0.1)", "alpha=0.1001)"),
    (
        "teacher-not-trained",
        "the teacher never follows",
        "slow.data.mul_(0.9).add_(fast.data, alpha=0.1)",
        "slow.data.mul(0.9).add_(fast.data, alpha=0.1)",
    ),
)
_slips(
    "positions",
    ("weight-of-a-penalty", "a penalty weighs 0.1 % more", "0.1 * smoothness", "0.1001 * smoothness"),
    ("mask-of-another-token", "another token is masked", "tokens[:, None] == 0", "tokens[:, None] == 1"),
)
_slips(
    "pixels",
    (
        "weighted-mean",
        "a weighted mean is divided by the weights",
        "(weights * losses).mean()",
        "(weights * losses).sum() / weights.sum()",
    ),
)
_slips("two_losses", ("trunk-cut-off", "one head does not train the trunk", "self.size(h)", "self.size(h.detach())"))
_slips(
    "dcgan",
    (
        "smoothed-labels",
        "labels of real pictures are smoothed a little",
        "1.0, device=device)",
        "0.9999, device=device)",
    ),
)
_slips(
    "fine_tune",
    (
        "another-order",
        "gradients are clipped after the step",
        "        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n        optimizer.step()\n",
        "        optimizer.step()\n        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n",
    ),
)
_slips(
    "curriculum", ("late-by-an-epoch", "the data get harder an epoch late", "0.3 * epoch", "0.3 * max(epoch - 1, 0)")
)
_slips(
    "scaled",
    (
        "step-by-itself",
        "the optimizer steps by itself, though gradients overflowed",
        "scaler.step(optimizer)",
        "optimizer.step()",
    ),
    ("clipped-while-scaled", "gradients are clipped while they are scaled", "        scaler.unscale_(optimizer)\n", ""),
    (
        "schedule-of-skipped-steps",
        "the schedule goes on where a step is left out",
        "        if scaler.get_scale() >= scale:\n            scheduler.step()",
        "        scheduler.step()",
    ),
    (
        "written-too-early",
        "what is written lacks the last epoch",
        "json.dump(history, file)",
        "json.dump(history[:-1], file)",
    ),
)
