"""Tensors of torch as tensors of the library and back, without copies."""

from __future__ import annotations

import torch

from . import _core

_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.bool: "bool",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def dtype_name(dtype: torch.dtype, what: str = "the tensor") -> str:
    """NumPy's name of a type; an error for types that Sluice does not have."""
    name = _NAMES.get(dtype)
    if name is None:
        raise _core.InvalidArgument(
            f"{what} is of the type {dtype}, which is not supported; use one of {', '.join(map(str, _NAMES))}"
        )
    return name


def torch_dtype(name: str) -> torch.dtype:
    """The type of torch with this name; wider unsigned types, which torch lacks, become int64."""
    return _TYPES.get(name, torch.int64)


def to_core(tensor: torch.Tensor, what: str = "the tensor") -> _core.HostTensor:
    """A tensor over the same memory. A tensor that is not contiguous is copied once."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind, change = (tensor.layout, "to_dense") if not tensor.is_quantized else ("quantised", "dequantize")
        raise _core.InvalidArgument(f"{what} is {kind}, and dense tensors are expected; use tensor.{change}()")
    if tensor.device.type != "cpu":
        meta = "it has no data there: make it on 'cpu', for a module with module.to_empty(device='cpu')"
        hint = meta if tensor.device.type == "meta" else "use tensor.cpu(), for a module module.cpu()"
        raise _core.InvalidArgument(f"{what} is on the device '{tensor.device}', expected 'cpu'; {hint}")
    name = dtype_name(tensor.dtype, what)
    plain = tensor
    if plain.requires_grad:  # each of these is a trip through torch's dispatcher
        plain = plain.detach()
    if not plain.is_contiguous():
        plain = plain.contiguous()
    if plain.is_neg():
        plain = plain.resolve_neg()
    address = plain.data_ptr()
    if address:
        return _core.HostTensor.at(address, plain.shape, name, plain)
    if name == "bfloat16":  # without elements, or without memory, which is torch's error
        return _core.HostTensor(plain.view(torch.int16).numpy(), name)
    return _core.HostTensor(plain.numpy(), name)


def to_torch(tensor: _core.HostTensor) -> torch.Tensor:
    """A tensor of torch over the same memory."""
    array = tensor.array()
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(array).view(torch.bfloat16)
    if tensor.dtype not in _TYPES:
        return torch.from_numpy(array.astype("int64"))
    return torch.from_numpy(array)
