"""`bench`: the original and the rewritten script in turns, on the same machine in one run; what was gained, and why."""
