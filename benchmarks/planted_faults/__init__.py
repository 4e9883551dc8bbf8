"""Findings that are wrong on purpose: whether `verify` catches them, and names the right one."""
