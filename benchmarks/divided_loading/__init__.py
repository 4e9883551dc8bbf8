"""What workers gain where a dataset keeps a generator (AA203), and for a plain stream (AA204)."""
