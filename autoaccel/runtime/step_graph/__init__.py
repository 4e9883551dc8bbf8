"""`accel.step`: a whole training step as one CUDA graph, where that is proven, and faster.

Modules:
    step             the decorator
    step_controller  one step on its way from eager to captured, and back
    captured_graph   static arguments, the graph, and copies of what it hands out
    training_state   the tensors that a step changes, to be put back
    assumptions      what a graph has taken for constant, and whether it still is
    readable_values  what a step's code can read from outside of it
    step_equality    whether a replayed step is the plain one, but for the noise of kernels
    write_recorder   which tensors from outside a step reads, and which it writes to
"""
