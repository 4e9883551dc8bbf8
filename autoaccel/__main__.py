"""`python -m autoaccel`."""

from autoaccel.cli.main import main

if __name__ == "__main__":
    main()
