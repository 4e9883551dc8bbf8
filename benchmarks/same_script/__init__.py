"""Measures scripts against themselves: the speed-up that is reported must be none."""
