"""The benchmark suite: plain training scripts as they are, rewritten, and written by hand, side by side.

What there is:
    catalogue    the scripts and their columns
    data         files that some of them read
    candidates   what is run for a column

Measuring:
    measuring    turns of all columns of a script, several processes of each
    schedule     who gets how much of the time
    estimates    ratios, and intervals over processes and blocks
    gate         whether the losses are the same

What comes out:
    results      plain data
    verdicts     what was promised, and whether it holds
    reporting    the table
    drawing      the picture
"""
