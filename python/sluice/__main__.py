"""`python -m sluice`: the command line of Sluice."""

import sys

from . import _core

sys.exit(_core.command_line(["sluice", *sys.argv[1:]]))
