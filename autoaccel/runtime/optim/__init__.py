"""Optimizers that update all parameters in one kernel, where that is faster."""
