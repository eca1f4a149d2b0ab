"""Scopes of the TensorFlow port."""

from __future__ import annotations

import contextlib
import re
from typing import Any, ContextManager, Iterator

from .. import _core
from .._option_base import warn_no_effect
from . import ipu_compiler


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[str]:
    """The system as a place for functions: '/device:IPU:0', of which there is one."""
    if not isinstance(device, str) or not re.fullmatch(r"/device:IPU:0", device):
        raise _core.InvalidArgument(
            f"ipu_scope: expected '/device:IPU:0', the devices of the system, got {device!r}"
        )
    yield device


@contextlib.contextmanager
def ipu_shard(index: int) -> Iterator[int]:
    """Places what the body of loops.repeat computes inside on this device of the replica. Shards are
    used in ascending order."""
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise _core.InvalidArgument(f"ipu_shard: expected a device number, got {index!r}")
    ipu_compiler.current("ipu_shard")._use_shard(index)
    with _core.Block(f"shard{index}", index):
        yield index

@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: Any = None) -> Iterator[None]:
    """What is inside is compiled, as everything in a function of ipu.compile is."""
    ipu_compiler.current("ipu_jit_scope")
    yield


@contextlib.contextmanager
def frontend_attribute(attribute_name: str, attribute_value: str, restore_to: Any = None) -> Iterator[None]:
    """Accepted; attributes are notes for Poplar's compiler."""
    warn_no_effect("scopes.frontend_attribute")
    yield


@contextlib.contextmanager
def partials_type(override: Any) -> Iterator[None]:
    """Accepted; sums are made in float32 at least, which is the more precise choice."""
    warn_no_effect("scopes.partials_type")
    yield


def stochastic_rounding(override: bool) -> ContextManager:
    """There is none for parts of a function."""
    raise _core.Unsupported(
        "scopes.stochastic_rounding: rounding is chosen for a whole function; use the options, "
        "Options.Precision.enableStochasticRounding, which ipu.compile takes"
    )


def outside_compilation_scope(name: str = "outside") -> ContextManager:
    """There is none: a function runs on the devices as a whole."""
    raise _core.Unsupported(
        "scopes.outside_compilation_scope: a compiled function runs on the devices as a whole; pass values out with "
        "an IPUOutfeedQueue, or compute them before or after the call"
    )
