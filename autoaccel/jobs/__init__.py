"""Many files: shared between processes, and answered from what an earlier run kept."""
