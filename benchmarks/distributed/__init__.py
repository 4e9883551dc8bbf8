"""Whether public scripts train the same under several processes after `autoaccel distribute`."""
