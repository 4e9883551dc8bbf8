"""Whether the tool survives whatever Python there is: every file of installed packages, read, linted and rewritten."""
