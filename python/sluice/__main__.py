"""`python -m sluice`: the command line of Sluice."""

import sys

from . import _core


def main() -> int:
    """Runs the command line with the arguments of the program."""
    return _core.command_line(["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
