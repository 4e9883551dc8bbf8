"""The built-in rules, one module each, named as the rule."""

# In the order in which they are applied: an earlier rule wins where two want the same code.
MODULES = (
    "deprecated_amp",
    "create_on_device",
    "as_tensor",
    "stacked_arrays",
    "loader_workers",
    "non_blocking",
    "no_grad_eval",
    "autocast",
    "compile",
    "prefetch",
    "unused_suppression",
)
