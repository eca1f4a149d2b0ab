"""Scopes of the TensorFlow port."""

from __future__ import annotations

import contextlib
import re
from typing import Iterator

from .. import _core
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
