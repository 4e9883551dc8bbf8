"""What a GPU has to tell about the runtime: prices of its parts, and hazards that no CPU shows."""
