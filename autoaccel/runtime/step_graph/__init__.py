"""`accel.step`: a whole training step as one CUDA graph, where that is asked for, proven, and faster.

Modules:
    step             the decorator
    step_controller  one step on its way from eager to captured, and back
    captured_graph   static arguments, the graph, and copies of what it hands out
    training_state   the tensors that a step changes, to be put back
    assumptions      what a graph has taken for constant, and whether it still is
    write_recorder   which tensors from outside a step reads, and which it writes to
"""
