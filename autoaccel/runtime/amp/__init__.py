"""Mixed precision: `accel.autocast` and `accel.grad_scaler`.

autocast             the region, and the precision that suits a device
autocast_controller  whether low precision is worth it: a trial over the script's own steps
lstm_fallback        LSTM layers on CPUs that have none in low precision
"""
