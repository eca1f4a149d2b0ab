"""PopDist's name for ``sluice.popdist``: with this folder on the path, scripts of PopDist run."""

import sys
import types

import sluice.popdist
from sluice.popdist import *  # noqa: F401,F403

#: `import popdist.poptorch` has the options.
poptorch = types.ModuleType(f"{__name__}.poptorch")
poptorch.Options = sluice.popdist.Options  # type: ignore[attr-defined]
sys.modules[poptorch.__name__] = poptorch
