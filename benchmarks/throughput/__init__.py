"""Files per CPU-second of `autoaccel lint` and of TorchFix on the same trees, in one run."""
