"""`__main__.py FOLDER [COMMANDS EVENTS]`: one observed run, with the folder of its exchange; the numbers are file
descriptors for `turns`. `__main__.py --serve CHANNEL MARK`: the process that such runs are forked from."""

from __future__ import annotations

import sys
import time

_BEGAN = time.monotonic()


def main(arguments: list[str]) -> None:
    """Become the requested script, under observation."""
    began = _BEGAN
    if arguments[1] == "--serve":
        from autoaccel.measure.observing import forking

        forked = forking.serve(int(arguments[2]), arguments[3])
        if forked is None:
            return
        arguments, began = forked, time.monotonic()
    from autoaccel.measure.observing import starting

    starting.start(*arguments[1:], began=began)


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # this folder, whose modules have names that others may have: the script's folder takes its place
        sys.path[0] = __file__.rpartition("autoaccel")[0].rstrip("/\\") or "."
    main(sys.argv)
