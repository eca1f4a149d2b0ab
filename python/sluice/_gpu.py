"""Calls whose tensors are on a GPU: the model reads inputs where torch has them, and leaves its outputs in tensors
of torch, without a way through the host's memory. DLPack gives the tensors to the library."""

from __future__ import annotations

from typing import Any, List, Sequence

import torch

from . import _core
from ._convert import dtype_name, to_core, torch_dtype


def are_on_gpu(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all of them are; an error if only some are, or if they are on several GPUs."""
    if not any(each.is_cuda for each in tensors):
        return False
    places = {each.device for each in tensors}
    where = ", ".join(f"'{name}' on '{each.device}'" for name, each in zip(names, tensors))
    if len(places) > 1:
        raise _core.InvalidArgument(f"the inputs of a call must be on one device, got {where}")
    return True


def on_host(tensors: Sequence[torch.Tensor]) -> List[_core.HostTensor]:
    """Tensors of the same types without values, to compile for."""
    return [to_core(torch.empty(each.shape, dtype=each.dtype)) for each in tensors]


def _taken(tensor: torch.Tensor) -> _core.DeviceTensor:
    dtype_name(tensor.dtype)
    plain = tensor.detach().resolve_neg().contiguous()
    if plain.dtype is torch.bool:  # older versions of DLPack have no bool
        plain = plain.view(torch.uint8)
    return _core.DeviceTensor(plain, dtype_name(tensor.dtype))


def run(core: _core.Model, tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Makes a call. It begins when torch's current stream has made the inputs, and ends when the outputs are there."""
    device = tensors[0].device
    outputs: List[torch.Tensor] = []

    def make(shape: Any, dtype: str) -> _core.DeviceTensor:
        if torch_dtype(dtype) is torch.int64 and dtype != "int64":
            raise _core.Unsupported(f"torch has no tensors of {dtype} on a GPU, which an output is; use tensor.cpu()")
        outputs.append(torch.empty(shape, dtype=torch_dtype(dtype), device=device))
        return _taken(outputs[-1])

    inputs = [_taken(each) for each in tensors]
    torch.cuda.current_stream(device).synchronize()
    _core.run_on_device(core, inputs, make)
    return outputs
