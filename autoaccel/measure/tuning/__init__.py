"""`tune`: which of the rewrites that train the same pay on this machine.

Its parts:
    deciding        from benchmarks to what is kept, and why the rest is not
    tune_record     what was decided, in a file that `rewrite` reads
    machine_facts   which machine it holds for
    batch_sizes     other batch sizes, which are tried and not written
"""
