"""Running scripts: rewritten in memory, as their users would run them."""
