"""PopTorch's name for ``sluice``: with this folder on the path, scripts of PopTorch run."""

import sys
from typing import Any, List

import sluice
from sluice import autocasting, enums, ops, optim, options, profiling

for _module in (autocasting, enums, ops, optim, options, profiling):
    sys.modules[f"{__name__}.{_module.__name__.rsplit('.', 1)[-1]}"] = _module
del _module

__version__ = sluice.__version__
# The names of other libraries are not poptorch's.
__all__ = [name for name in sluice.__all__ if name not in ("ipu", "nn", "popart", "popdist")]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'poptorch' has no attribute {name!r}")
    return getattr(sluice, name)


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
