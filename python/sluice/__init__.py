"""Sluice: one neural network over many memory-limited devices.

    import sluice

    options = sluice.Options().deviceIterations(10)
    options.Training.gradientAccumulation(8)
    model = sluice.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=0.1))
    output, loss = model(images, labels)

`module` is an ordinary torch.nn.Module whose forward returns the loss last. Blocks say where it may be
cut (`sluice.Block`, `sluice.BeginBlock`); a strategy says how its parts run (`PipelinedExecution`,
`ShardedExecution`, `SerialPhasedExecution`, `ParallelPhasedExecution`). Names are those of PopTorch:
`import sluice as poptorch` works. `sluice.popart` and `sluice.ipu` have those of PopART and of the
TensorFlow port, and need no torch.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, List

try:
    from . import _core
except ImportError as _error:
    from ._missing import reason as _reason

    raise ImportError(_reason(_error)) from _error
from . import enums as _enums, errors as _errors, helpers as _helpers
from .enums import *  # noqa: F401,F403
from .errors import *  # noqa: F401,F403
from .helpers import *  # noqa: F401,F403
from .options import Options
from .schedules import Schedule, schedule
from .strategy import (
    ConcurrentStages,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    TensorLocationSettings,
)

__version__ = _core.version()

#: The module of each name that needs torch. These modules are loaded when a name of theirs is first
#: used, so that `import sluice` works, and is quick, without torch.
_MODULES = {
    "args": ["ICustomArgParser", "registerCustomArgParser"],
    "autocasting": ["autocast"],
    "data": ["AsynchronousDataAccessor", "DataLoader"],
    "executable": ["LoadedModel", "load"],
    "model": [
        "Executor",
        "inferenceModel",
        "poptorchAtExit",
        "registerPostCompileHook",
        "registerPreCompileHook",
        "trainingModel",
    ],
    "ops": [
        "Attribute",
        "BeginBlock",
        "Block",
        "BlockFunction",
        "CPU",
        "LegacyBeginBlockFn",
        "MultiConv",
        "NameScope",
        "cond",
        "ctc_beam_search_decoder",
        "custom_op",
        "dynamic_slice",
        "dynamic_update",
        "for_loop",
        "identity_loss",
        "ipu_print_tensor",
        "isRunningOnIpu",
        "nop",
        "recomputationCheckpoint",
        "removeBlocks",
        "serializedMatMul",
        "set_available_memory",
        "set_overlap_for_input",
        "set_overlap_for_output",
    ],
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = ("autocasting", "ipu", "nn", "optim", "popart", "popdist", "profiling")
_ALIASES = {"PoplarExecutor": "Executor"}

load_custom_ops = _core.load_custom_ops


def _use_notebook() -> None:
    """In a notebook, text of the library goes to the output of the running cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        _core.set_console(_helpers.NotebookConsole(), redraws=True)


_use_notebook()
if "torch" in sys.modules:  # autocasting adds torch.nn.Module.autocast, which comes before any name of ours
    importlib.import_module(".autocasting", __name__)

__all__ = [
    *_enums.__all__,
    *_errors.__all__,
    *_helpers.__all__,
    "ConcurrentStages",
    "Options",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "Schedule",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
    "load_custom_ops",
    "schedule",
    *_WHERE,
    *_ALIASES,
    *(name for name in _SUBMODULES if name not in ("nn", "optim")),  # which scripts have from torch
]


def __getattr__(name: str) -> Any:
    name_here = _ALIASES.get(name, name)
    if name_here in _WHERE:
        value = getattr(importlib.import_module("." + _WHERE[name_here], __name__), name_here)
    elif name in _SUBMODULES:
        value = importlib.import_module("." + name, __name__)
    else:
        raise AttributeError(f"module 'sluice' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
