"""Running scripts: rewritten in memory, observed, compared, timed.

Running a script as its users would, from rewritten texts:
    program         as `python script.py` and `python -m module`
    importing       the import hook, here and in processes that the script starts
    rewriter        which files are the project's
    positions       line numbers of the original

Observed runs, in processes of their own:
    interpreters    which Python
    launching       their start and their end
    fork_server     forks of a process that has torch, which need not import it
    watchdog        their end when the tool is gone
    watchdog_client  what it is told
    failures        what is told of one that went wrong
    scratch         a copy of the project for them

What is compared:
    changes         what rewriting would change, one change at a time
    distributed_changes  what `distribute` would change, one edit at a time
    versions        what lies between two versions of a script, as hunks
    observing       in the script's process: hooks, and what they saw
    verifying       whether it trains the same
    benching        what was gained
    tuning          which of it pays on this machine

What they run on:
    checkup         what of the machine costs training time
"""
