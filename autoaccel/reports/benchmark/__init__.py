"""Reports of a benchmark: pure functions from what was measured to text."""
