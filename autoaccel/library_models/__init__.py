"""What is known of libraries: torch, torchvision, numpy, the builtins. Tables, and the values that they make.

Tables:
    library_values       what functions and classes of libraries make
    library_members      what modules of libraries hold, for lookups by computed names
    member_values        what attributes and methods of their objects give
    python_names         what builtins, methods of containers and decorators of Python do
    numpy_functions      what functions and methods of NumPy do with memory
    tensor_views         which operations give a view
    tensor_operations    what operations on tensors do to their precision
    autocast_operations  what autocast does with each operation, generated from torch
    in_place_operations  what functions and layers write to
    frameworks           frameworks that run the training, and where they are told how to
    runtime_trials       how many steps the runtime needs to decide
    graph_operations     what libraries do with a graph of autograd
    waiting_operations   for which operations the host waits for the device
"""
