"""Rewrite plain PyTorch training scripts so that they train faster and still train the same.

Nothing heavy is imported here: rewritten scripts import `autoaccel.runtime`, and the command line wants to start fast.
"""

__version__ = "0.1.0"

HOME = "https://github.com/autoaccel/autoaccel"
