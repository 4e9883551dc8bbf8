"""A/B trials over the script's own steps, and what later runs are told of their results.

Modules:
    ab_trial        of two ways to do the steps of a loop, the faster one, with next to nothing lost by asking
    clocks          moments of the host and of a device, without ever waiting for it
    decision_cache  decisions of earlier runs, on disk
    on_or_off       what is on or off in all steps to come: the user's wish, an earlier run's answer, or a trial's
"""
