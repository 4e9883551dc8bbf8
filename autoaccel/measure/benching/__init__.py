"""`bench`: the original and the rewritten script in turns, on the same machine in one run; what was gained, and why.

Its parts:
    procedure       from the first look at the script to the report
    contenders      runs that stand still while others have their turn
    rounds          who runs when, and for how long
    figures         from turns to figures, and when a slower start is made up for
    medians         with intervals that hold
    ablation        what each rule is worth
    diagnosis       what binds the script
    machine         what the figures hold for
    notes           what the reader must know beside them
    report          what was found
"""
