"""Runs public training scripts, as they are and rewritten, and compares how they train."""
