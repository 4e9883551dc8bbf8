"""How pictures lie in memory while a model works on them, where channels last is faster.

Modules:
    channels_last_call  `channels_last`: which layout a call of a model has, decided by a trial
    memory_format       tensors in the one layout and in the other
    layout_inspection   what of a forward pass would notice the layout
"""
