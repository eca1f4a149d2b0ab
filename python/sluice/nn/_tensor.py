"""Tensors of a trace: what counts as one, operators, and ops by name."""

from __future__ import annotations

import difflib
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from .. import _core

Tensor = _core.Tensor

_SHORT = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float64": "f64",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
}


def dtype_name(dtype: Any) -> str:
    """The name of an element type, given as a name, a type of NumPy or Python, or a tensor's."""
    name = dtype if isinstance(dtype, str) else None
    if name is None:
        try:
            name = {float: "float32", int: "int32", bool: "bool"}.get(dtype) or np.dtype(dtype).name
        except TypeError:
            name = str(dtype)
    if name not in _SHORT:
        raise _core.InvalidArgument(
            f"there is no element type '{name}'; there are {', '.join(_SHORT)}"
        )
    return name


def to_array(value: Any) -> np.ndarray:
    """A copy of the value. Numbers of Python and lists of them become float32 and int32."""
    array = np.array(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        small = {"float64": np.float32, "int64": np.int32}.get(array.dtype.name)
        fits = array.dtype.kind != "i" or array.size == 0 or np.abs(array).max() < 2**31
        if small is not None and fits:
            array = array.astype(small)
    if array.dtype.name not in _SHORT:
        raise _core.InvalidArgument(
            f"expected an array of numbers, got {array.dtype} from a {type(value).__name__}"
        )
    return array


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16 values, ties to even."""
    bits = np.asarray(array, np.float32, order="C").view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = np.where(np.isnan(array), (bits >> 16) | 0x40, rounded)
    return quiet.astype(np.uint16).view(np.int16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_host(value: Any, dtype: Optional[Any] = None) -> _core.HostTensor:
    """A tensor with a copy of the value."""
    if isinstance(value, _core.HostTensor):
        return value.clone()
    array = to_array(value)
    name = dtype_name(dtype) if dtype is not None else array.dtype.name
    if name == "bfloat16":
        return _core.HostTensor(to_bfloat16(array), "bfloat16")
    return _core.HostTensor(np.asarray(array, name, order="C"))


def to_numpy(tensor: _core.HostTensor) -> np.ndarray:
    """The tensor's values; bfloat16 as float32."""
    return from_bfloat16(tensor.array()) if tensor.dtype == "bfloat16" else tensor.array()


def is_symbolic(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "_as_tensor")


def _numbers(value: Any, dtype: str) -> Tensor:
    """A number of Python, or a list of them, takes the type of the tensor that it meets."""
    array = np.array(value)
    if dtype.startswith(("int", "uint")) and array.dtype.kind == "f" and (array % 1 != 0).any():
        raise _core.InvalidArgument(
            f"{value!r} meets a tensor of {dtype}, which cannot hold it; cast the tensor first"
        )
    return _core.constant(to_host(array, dtype))


def as_tensor(value: Any, like: Optional[Tensor] = None) -> Tensor:
    """The value as a tensor of the current trace: a tensor, a variable, a number or an array."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "_as_tensor"):
        return value._as_tensor()
    if isinstance(value, (bool, int, float, list, tuple)) and like is not None:
        return _numbers(value, like.dtype)
    if isinstance(value, (bool, int, float, list, tuple, np.ndarray, np.generic, _core.HostTensor)):
        return _core.constant(to_host(value))
    raise _core.InvalidArgument(
        f"expected a tensor, a variable, a number or an array, got {type(value).__name__}"
    )


def as_tensors(values: Sequence[Any]) -> List[Tensor]:
    """Numbers take the type of the first value that is a tensor."""
    like = next((as_tensor(v) for v in values if is_symbolic(v)), None)
    return [as_tensor(v, like) for v in values]


def call(function: str, name: str, *values: Any, **attrs: Any) -> Tensor:
    """The first result of an op whose operands are first cast to one type, by the rules for the
    function of this name."""
    tensors = _core.resolve_types(function, as_tensors(values))
    return _core.op(name, tensors, attrs)[0]


# --- ops by name ----------------------------------------------------------------------------------


def op_names() -> List[str]:
    """The names of all ops; docs/ops.md describes them."""
    return _core.op_names()


def op_help(name: str) -> str:
    """The attributes of an op, as they are given to `op`."""
    _require_op(name)
    parts = []
    for attr, (kind, required, default) in _core.op_schema(name).items():
        if attr != "ordinal":
            parts.append(f"{attr}: {kind}" + ("" if required else f" = {default!r}"))
    return f"op('{name}', *tensors{''.join(', ' + part for part in parts)})"


def _require_op(name: str) -> None:
    known = _core.op_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 3) or known
        raise _core.InvalidArgument(f"there is no op '{name}'; there are {', '.join(near)}")


def _attr(kind: str, name: str, value: Any) -> Any:
    if name == "dtype":
        return _SHORT[dtype_name(value)]
    if name == "dtypes":
        return [_SHORT[dtype_name(each)] for each in value]
    if kind == "tensor":
        return to_host(value)
    return list(value) if isinstance(value, (tuple, range)) else value


def op(name: str, *tensors: Any, **attrs: Any) -> Union[Tensor, List[Tensor]]:
    """Any op of the op table: its result, or a list if it has several. Operands are not cast; numbers
    take the type of the first tensor. `op_help(name)` shows the attributes."""
    _require_op(name)
    schema = _core.op_schema(name)
    for attr in attrs:
        if attr not in schema:
            raise _core.InvalidArgument(f"'{name}' has no attribute '{attr}': {op_help(name)}")
    for attr, (_, required, _) in schema.items():
        if required and attr not in attrs and attr != "ordinal":
            raise _core.InvalidArgument(f"'{name}' needs the attribute '{attr}': {op_help(name)}")
    values = {attr: _attr(schema[attr][0], attr, value) for attr, value in attrs.items()}
    results = _core.op(name, as_tensors(tensors), values)
    return results[0] if len(results) == 1 else results
