"""What runs in the process of an observed script: hooks on torch, and the record of what they saw.

It is started with the interpreter that the script is for: nothing here needs more than the standard library and torch,
and Python 3.10 reads it.

What both sides speak; none of it imports torch:
    request         what is asked of a run
    record          what was seen of it
    exchange        the files between the two processes

One run, from its start to its end:
    starting        guards, torch, hooks, then the script
    parts           what is watched in each mode
    running         the script itself, and how it ended
    observation     who is told of what; the end, wherever it comes
    children        processes of the script, which end with it
    hooks           how functions of torch are wrapped
    callers         who asks: the script, a library, torch

What training does:
    training        backwards and steps
    marking         steps where the script's text has a mark
    evaluating      steps that are batches, where nothing is trained
    losses          what goes backward
    loaders         passes over loaders, and their batches
    drawing         datasets that draw random numbers themselves
    marks           what no good rewrite does
    decisions       what the runtime decides
    printing        what is printed
    lines           which lines are reached
    files           which files of the project took part
    scripting       functions that are compiled from the file on disk

What it leaves:
    state           modules, optimizers, schedulers
    modules         what a module consists of
    graphs          weights in plain tensors, found from their loss
    naming          what the script calls them
    settings        state that is no tensor
    fingerprints    equal hashes are equal bits
    sketches        a few numbers to compare large tensors by
    randomness      streams of random numbers: seeds, and where they end

What makes a run another one:
    rehearsal       the runtime does all that it does on a GPU
    precision       regions and scaled gradients, watched
    moving          batches that are fetched ahead, without an accelerator
    seeding         workers that draw what others draw, too
    jitter          a small push

Files of the user:
    guarding        what lies outside of the copy stays as it was
    writers         functions that write below Python

Time:
    turns           so many steps at a time, when it is told to
    profiling       what binds the script
    regions         where it is: loader, model, optimizer
    sampling        batches that are made in the loop
    traces          what the profiler saw
    attribution     from times to shares
    timelines       the same on an accelerator
"""
