"""Mixed precision: `accel.autocast` and `accel.grad_scaler`.

Modules:
    autocast             the region, and exceptions that leave it
    precision            the low precision that suits a device
    autocast_controller  whether it is worth it: a trial over the script's own steps
    program_state        what the program holds: compiled code, networks, tensors
    grad_scaler          the scaler, active where gradients are float16
    lstm_fallback        LSTM layers on CPUs that have none in low precision
"""
