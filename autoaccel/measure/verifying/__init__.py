"""`verify`: whether the rewritten script trains the same and, where it does not, which change is to blame.

Its parts:
    procedure             which runs are made, and what follows from them
    originals             runs of the original, and ways to reach more of the script
    outcomes              what is said of each change in the end
    trials                the runs
    comparing             two runs, and what differs
    facts                 what can be compared although numbers differ, and the words for what does
    regrouping            what two runs do alike in other portions
    renaming              what the modules of another version are called
    rounding_differences  whether it is rounding that differs
    tolerances            how far numbers may be off by rounding
    leeway                how far lines and files may be off beside losses that round
    printed               the lines that they print
    written_files         the files that they write
    seeds                 runs under several seeds
    spread                whether they lie within that of the original
    rounding_runs         runs that tell rounding from a mistake
    overflow_runs         runs in which gradients overflow
    bisecting             which of many changes makes the difference
    several_ranks         the same for several processes: `--ranks`
    rank_differences      what differs between one process and each of several
    report                what was found
"""
