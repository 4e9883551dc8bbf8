"""What the runtime costs the host in each step, beyond torch's own calls."""
