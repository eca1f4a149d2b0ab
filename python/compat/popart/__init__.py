"""Lets scripts that `import popart` run on Sluice: put the folder above this one on the path."""

import sys

import sluice.popart
from sluice.popart import *  # noqa: F401,F403

sys.modules[__name__] = sluice.popart
