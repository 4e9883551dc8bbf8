"""What runs in the process of an observed script: hooks on torch, and the record of what they saw.

It is started with the interpreter that the script is for: nothing here needs more than the standard library and torch,
and Python 3.10 reads it.

What both sides speak; none of it imports torch:
    request           what is asked of a run
    run_record        what was seen of it
    messages          both as JSON
    exchange          the files between the two processes

One run, from its start to its end:
    starting          guards, torch, hooks, then the script; what is watched in each mode; how it ended
    forking           the process that runs are forked from, where they can be
    observation       who is told of what; the end, wherever it comes
    hooks             how functions of torch are wrapped

What training does:
    training          backwards, steps, losses
    loaders           passes over loaders, their batches, and datasets that draw random numbers themselves
    overflows         gradients that overflow where they are scaled, when it is asked for
    output            what is printed, and what the runtime decides
    files_written     which files the script writes, and what is in them
    coverage          which files of the project took part, and which of their lines

What it leaves:
    state             modules, optimizers, schedulers: tensors and settings
    naming            what the script calls them
    digests           equal hashes are equal bits; a few numbers to compare large tensors by
    randomness        streams of random numbers: seeds, where they end; a perturbation

What makes a run another one:
    rehearsal         the runtime does all that it does on a GPU
    invariants        what no good rewrite does, watched meanwhile
    host_prefetch     batches that are fetched ahead, without an accelerator

Several processes:
    double_precision  all in float64, so that the order of sums is no matter
    meeting           ranks that are stopped leave together

Files of the user:
    guarding          what lies outside of the copy stays as it was
    writers           functions that write below Python

Time:
    turns             so many steps at a time, when it is told to
    profiling         what binds the script
    profiled_regions  where it is: loader, model, optimizer
    timelines         from what the profiler saw to shares
"""
