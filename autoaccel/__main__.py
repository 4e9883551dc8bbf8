"""`python -m autoaccel`, and the `autoaccel` command."""

import os
import sys


def main() -> None:
    """Runs the command line."""
    try:
        from autoaccel.cli.main import main as command

        command()
    except KeyboardInterrupt:
        # Before the command could watch for it: most of a short run is imports.
        sys.exit(130)


def _leave_working_folder() -> None:
    """Takes from the search path what `python -m` has put first: a `click.py` beside a user's script is not click."""
    folder = "" if sys.flags.safe_path else sys.path[0]
    # `pathlib` would import what may be shadowed, too.
    if folder == os.getcwd() and not __file__.startswith(f"{folder}{os.sep}"):  # noqa: PTH109
        del sys.path[0]


if __name__ == "__main__":
    _leave_working_folder()
    main()
