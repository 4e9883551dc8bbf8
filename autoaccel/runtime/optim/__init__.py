"""Optimizers that update all parameters in one kernel, where that is faster.

Modules:
    fused_step  the kernel's trial over the script's own steps, and the step that it makes
    kernel_fit  whether the kernel makes the right thing of an optimizer's tensors
"""
