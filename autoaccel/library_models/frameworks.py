"""Training frameworks: which imports mean them, and which of their settings do what rules would do."""

from __future__ import annotations

from dataclasses import dataclass

# By what is imported, and what people call them.
FRAMEWORKS = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "lightning_fabric": "Lightning",
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "ignite": "Ignite",
    "fastai": "fastai",
    "apex": "Apex",
    "transformers.Trainer": "the Transformers Trainer",
    "transformers.Seq2SeqTrainer": "the Transformers Trainer",
    "composer": "Composer",
    "speechbrain": "SpeechBrain",
    "mmengine": "MMEngine",
    "catalyst": "Catalyst",
    "colossalai": "Colossal-AI",
}

# What trains nothing, though it comes from one.
UTILITIES = tuple(
    """pytorch_lightning.seed_everything lightning.seed_everything lightning.pytorch.seed_everything
    lightning.fabric.utilities lightning_fabric.utilities accelerate.utils.set_seed ignite.metrics
    ignite.utils""".split()
)


@dataclass(frozen=True, slots=True)
class Configured:
    """A framework that is told how to train by calls of these qualified names, and what does there what rules would:
    `settings` are keyword arguments of the call, `instead` is said otherwise. `only_with` is a word of the script
    without which it is none of these calls, or the framework does not run on torch."""

    framework: str
    names: tuple[str, ...]
    settings: tuple[str, ...] = ()
    instead: str = ""
    only_with: str = ""


_FASTAI = "vision_learner unet_learner cnn_learner language_model_learner text_classifier_learner tabular_learner"
CONFIGURED = (
    Configured(
        "Lightning",
        ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"),
        settings=('precision="bf16-mixed"',),
    ),
    Configured(
        "Lightning",
        ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric"),
        settings=('precision="bf16-mixed"',),
    ),
    Configured(
        "the Transformers Trainer",
        ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"),
        settings=("bf16=True", "dataloader_num_workers=…", "torch_compile=True"),
    ),
    Configured("Accelerate", ("accelerate.Accelerator",), settings=('mixed_precision="bf16"',)),
    Configured("Composer", ("composer.Trainer", "composer.trainer.Trainer"), settings=('precision="amp_bf16"',)),
    Configured(
        "Ignite",
        ("ignite.engine.create_supervised_trainer",),
        settings=('amp_mode="amp"', "scaler=True", "non_blocking=True"),
    ),
    Configured(
        "DeepSpeed",
        ("deepspeed.initialize",),
        instead='`"bf16": {"enabled": true}` in its configuration',
        only_with="deepspeed",
    ),
    Configured("fastai", (*_FASTAI.split(), "Learner", "collab_learner"), instead="`.to_bf16()` of the learner"),
    Configured(
        "Keras",
        ("keras.Sequential", "keras.Model", "keras.models.Sequential", "keras.models.Model"),
        instead='`keras.config.set_dtype_policy("mixed_bfloat16")`',
        only_with="KERAS_BACKEND",
    ),
)
"""Read in Lightning 2.6, Transformers 5.24, Accelerate 1.15, Composer 0.32, Ignite 0.5.5, fastai 2.8, Keras 3.15 and
DeepSpeed's reference. fastai's scripts import all of it, so that its names come without a module."""

SETTING_WORDS = tuple(
    dict.fromkeys(each.only_with or name.rpartition(".")[2] for each in CONFIGURED for name in each.names)
)
"""Words of which a file has one where any of these calls stands in it."""
