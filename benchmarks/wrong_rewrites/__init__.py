"""Generated training programs: whether their rewritten form trains as they do."""
