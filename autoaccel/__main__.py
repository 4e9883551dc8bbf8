"""`python -m autoaccel`, and the `autoaccel` command."""

import sys


def main() -> None:
    try:
        from autoaccel.cli.main import main as command

        command()
    except KeyboardInterrupt:
        # Before the command could watch for it: most of a short run is imports.
        sys.exit(130)


if __name__ == "__main__":
    main()
