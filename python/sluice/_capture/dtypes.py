"""Element types: torch's and Sluice's names for them, and torch's rules of promotion."""

import functools

import torch

from .. import _core

# By the names of `_core`: torch's type, and the name in the attributes of ops.
_TABLE = {
    "float32": (torch.float32, "f32"),
    "float16": (torch.float16, "f16"),
    "bfloat16": (torch.bfloat16, "bf16"),
    "float64": (torch.float64, "f64"),
    "int8": (torch.int8, "i8"),
    "uint8": (torch.uint8, "u8"),
    "int16": (torch.int16, "i16"),
    "int32": (torch.int32, "i32"),
    "int64": (torch.int64, "i64"),
    "bool": (torch.bool, "bool"),
}
_NAMES = {entry[0]: name for name, entry in _TABLE.items()}

FLOATS = ("float16", "bfloat16", "float32", "float64")


def torch_type(name):
    return _TABLE[name][0]


def attribute(name):
    """The type's name in the attributes of ops."""
    return _TABLE[name][1]


def core_name(dtype):
    """The name of a torch type, or None if Sluice has no such type."""
    return _NAMES.get(dtype)


def default_float():
    return core_name(torch.get_default_dtype())


def is_float(name):
    return name in FLOATS


def _number(value):
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, complex):
        raise _core.Unsupported(f"the complex number {value} is used; keep real and imaginary parts apart")
    return "int64" if isinstance(value, int) else default_float()


@functools.lru_cache(maxsize=None)
def _promote_two(first, second):
    if first is None or second is None:
        return first or second
    return core_name(torch.promote_types(torch_type(first), torch_type(second)))


def _combine(higher, lower):
    """Joins two classes of operands; the higher one decides unless its kind is too small."""
    if higher is None or lower is None:
        return higher or lower
    if is_float(higher):
        return higher
    if higher == "bool" or is_float(lower):
        return _promote_two(higher, lower)
    return higher


def promote(*operands):
    """The type in which torch computes with the operands: tensors of `_core` and numbers.
    Tensors with axes come before tensors without, and those before numbers."""
    axes = none = number = None
    for each in operands:
        if isinstance(each, (bool, int, float, complex)):
            number = _promote_two(number, _number(each))
        elif len(each.shape) > 0:
            axes = _promote_two(axes, each.dtype)
        else:
            none = _promote_two(none, each.dtype)
    return _combine(axes, _combine(none, number))
