"""Values of options in their three forms: Python's objects, the core's arguments, printed text."""

from __future__ import annotations

import ast
import numbers
import os
from typing import Any, Optional, Tuple

# The core's short names of the types that options take.
_DTYPES = {"float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "bfloat16": "bf16"}


def dtype_name(value: Any) -> str:
    """The short name of a type: ``torch.float16``, ``"half"`` and ``numpy.float16`` are "f16"."""
    text = getattr(value, "__name__", None) or str(value)
    text = text.rsplit(".", 1)[-1]
    return _DTYPES.get(text, text)


def to_core(value: Any) -> Any:
    """Converts an argument of a setter for ``_core.Options.apply``."""
    if hasattr(value, "to_core"):
        return value.to_core()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_core(item) for item in (sorted(value) if _unordered(value) else value)]
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return dtype_name(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # numpy and torch scalars
        return to_core(value.item())
    raise TypeError(
        f"an option takes None, truth values, numbers, text, enumerators, strategies and lists of "
        f"these; got {value!r} of type {type(value).__name__}"
    )


def _unordered(value: Any) -> bool:
    return isinstance(value, (set, frozenset))


def parse(text: str) -> Tuple[Any, ...]:
    """Converts printed arguments of a setter, such as ``EveryN, 4``, to Python's values.

    Words other than true, false and none, and calls such as ``Stage("A")``, stay text.
    """
    call = ast.parse(f"_({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return tuple(_value(argument) for argument in call.args)


_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf")}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id, node.id)
    if isinstance(node, ast.Constant):
        return "None" if node.value is None else node.value
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    return ast.unparse(node)


def as_enum(value: Any, kind: Optional[Any]) -> Any:
    """The member of an enumeration with this name; other values unchanged."""
    if kind is None or not isinstance(value, str) or value not in kind.__members__:
        return value
    return kind[value]
