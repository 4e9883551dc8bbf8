"""Whether what the analysis says holds: monotone in its bounds, the same in every order and under every hash seed."""
