"""Rewrites that are right: whether `verify` lets them pass, and how long it takes."""
