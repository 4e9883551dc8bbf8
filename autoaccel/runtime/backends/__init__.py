"""Settings of torch's backends that are in force for a whole process, where they make a CUDA device faster.

Modules:
    switches         `matmul_precision` and `cudnn_benchmark`: what they switch, and where they do not
    backend_setting  one setting on trial, switched between the script's steps
"""
