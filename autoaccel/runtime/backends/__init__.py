"""Settings of torch's backends that are in force for a whole process, where they make a CUDA device faster."""
