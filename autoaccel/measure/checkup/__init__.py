"""`doctor`: what of the machine, and of the place of the data, costs training time.

Its parts:
    readings        what a check finds, and the row that becomes of it
    host            files of /proc and /sys, of this machine or of a recorded one
    data_files      what a script reads, how much of it there is, and how fast the disk gives it
    nvidia          what `nvidia-smi` says
    python_facts    what the script's Python says: torch, its threads, image libraries
    host_checks     processors, memory and disks
    gpu_checks      driver, clocks, power, bus, use by others
    python_checks   threads, images, how processes find one another
    checks          all of them, as a table
"""
