"""Mixed precision: `accel.autocast` and `accel.grad_scaler`.

Modules:
    autocast             the region
    precision            the low precision that suits a device
    autocast_controller  whether it is worth it: a trial over the script's own steps
    region_failures      exceptions that leave regions
    program_state        what the program holds: compiled code, networks, tensors
    grad_scaler          the scaler, active where gradients are float16
    lstm_fallback        LSTM layers on CPUs that have none in low precision
"""
