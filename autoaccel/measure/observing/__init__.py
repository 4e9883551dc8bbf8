"""What runs in the process of an observed script: hooks on torch, and the record of what they saw.

It is started with the interpreter that the script is for: nothing here needs more than the standard library and torch,
and Python 3.10 reads it. `request` and `record` are what both sides speak; they do not import torch.
"""
