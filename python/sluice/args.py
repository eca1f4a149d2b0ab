"""Arguments and results of models: nested structures as flat lists of tensors, and back.

    leaves, spec = flatten(({"image": x}, [y, None], 3))     # [x, y]
    unflatten(spec, leaves)                                   # the same structure

Tuples, lists, dictionaries, named tuples and dataclasses keep their types, and so do subclasses.
Everything else that is not a tensor is a part of the spec. ``registerCustomArgParser`` teaches the
functions a new type.
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from . import _core

__all__ = ["ICustomArgParser", "Spec", "flatten", "registerCustomArgParser", "unflatten"]


class ICustomArgParser:
    """How a type of the user is taken apart and put together; a base class for parsers."""

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yields the tensors of the structure in an order that is always the same."""
        raise NotImplementedError(f"{type(self).__name__} does not define yieldTensors")

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """A structure like the original one with the tensors of the iterator, in that order."""
        raise NotImplementedError(f"{type(self).__name__} does not define reconstruct")


_parsers: Dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser) -> None:
    """Lets models take and return objects of a type, and of its subclasses."""
    if not isinstance(arg_data_type, type):
        raise TypeError(f"registerCustomArgParser: expected a class, got {arg_data_type!r}")
    if not isinstance(arg_parser, ICustomArgParser):
        raise TypeError(
            "registerCustomArgParser: expected an object of a subclass of ICustomArgParser, got "
            f"{arg_parser!r}"
        )
    _parsers[arg_data_type] = arg_parser


def _parser_of(cls: type) -> Optional[ICustomArgParser]:
    return next((_parsers[base] for base in cls.__mro__ if base in _parsers), None)


@dataclasses.dataclass
class Spec:
    """A structure without its tensors. Specs are equal if their structures and constants are."""

    kind: str  # "tensor", "constant", "sequence", "mapping", "fields" or "custom"
    cls: type
    keys: Tuple[Any, ...] = ()
    children: Tuple["Spec", ...] = ()
    #: The constant, a shell of a mapping or dataclass, or the structure that a parser rebuilds.
    template: Any = None
    count: int = 0  # of a parser's tensors

    @functools.cached_property
    def num_leaves(self) -> int:
        """The number of tensors."""
        own = 1 if self.kind == "tensor" else self.count
        return own + sum(child.num_leaves for child in self.children)

    def __str__(self) -> str:
        """The structure in Python's own words; a tensor is a `*`."""
        if self.kind == "tensor":
            return "*"
        if self.kind == "constant":
            return repr(_number(self.template))
        if self.kind == "custom":
            return f"{self.cls.__name__}({', '.join('*' * self.count)})"
        parts = [str(child) for child in self.children]
        if self.kind == "sequence":
            inside = ", ".join(parts)
            return f"[{inside}]" if self.cls is list else f"({inside})"
        return "{" + ", ".join(f"{k}: {p}" for k, p in zip(self.keys, parts)) + "}"

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The structure with these tensors, which may be of any type, in the order of flatten."""
        if len(leaves) != self.num_leaves:
            raise ValueError(f"the structure has {self.num_leaves} tensors, got {len(leaves)}")
        return _unflatten(self, iter(leaves))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        alike = (self.kind, self.cls, self.keys, self.count) == (
            other.kind,
            other.cls,
            other.keys,
            other.count,
        )
        if not alike or self.children != other.children:
            return False
        return self.kind != "constant" or _same(self.template, other.template)

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)  # NaN is the same number again
    except (ValueError, TypeError, RuntimeError):  # arrays compare element by element
        return False


def flatten(structure: Any, like: Optional[Spec] = None) -> Tuple[List[torch.Tensor], Spec]:
    """The tensors of a structure, and the rest of it. Dictionaries are taken in the order that those at
    the same place of ``like`` have, if they have the same keys."""
    leaves: List[torch.Tensor] = []
    return leaves, _flatten(structure, leaves, like)


def _flatten(value: Any, leaves: List[torch.Tensor], like: Optional[Spec] = None) -> Spec:
    cls = type(value)
    parser = _parser_of(cls)
    if parser is not None:
        tensors = list(parser.yieldTensors(value))
        leaves.extend(tensors)
        return Spec("custom", cls, template=value, count=len(tensors))
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return Spec("tensor", torch.Tensor)
    if isinstance(value, (tuple, list)):
        return _spec("sequence", cls, range(len(value)), value, leaves, like)
    if isinstance(value, Mapping):
        shell = None if cls is dict else copy.copy(value)
        for key in value if shell is not None else ():
            shell[key] = None
        keys = list(value.keys())
        if like is not None and like.kind == "mapping" and set(like.keys) == set(keys):
            keys = list(like.keys)
        return _spec("mapping", cls, keys, (value[key] for key in keys), leaves, like, shell)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        shell = copy.copy(value)
        for name in names:
            object.__setattr__(shell, name, None)
        return _spec("fields", cls, names, (getattr(value, n) for n in names), leaves, like, shell)
    _require_no_tensors(value)
    return Spec("constant", type(_number(value)), template=value)


def _number(value: Any) -> Any:
    """A number of NumPy as one of Python: in another call they mean the same."""
    return value.item() if isinstance(value, np.generic) else value


def _spec(
    kind: str,
    cls: type,
    keys: Iterable[Any],
    values: Iterable[Any],
    leaves: List[torch.Tensor],
    like: Optional[Spec],
    template: Any = None,
) -> Spec:
    others = itertools.chain(() if like is None else like.children, itertools.repeat(None))
    children = tuple(_flatten(each, leaves, other) for each, other in zip(values, others))
    return Spec(kind, cls, tuple(keys), children, template)


def _require_no_tensors(value: Any) -> None:
    """Refuses objects whose tensors would be taken for constants, or be without a value, because nothing
    takes the object apart."""
    if isinstance(value, (int, float, str, bytes, type, torch.nn.Module)) or value is None:
        return
    cls = type(value).__name__
    if isinstance(value, collections.abc.Iterator):
        raise _core.InvalidArgument(
            f"an iterator ({cls}) is an argument or a result of a model, which cannot be read twice; use a "
            "list or a tuple"
        )
    inside = list(value) if isinstance(value, (set, frozenset, collections.deque)) else []
    inside += getattr(value, "__dict__", {}).values()
    for each in inside:
        parts = each.values() if isinstance(each, Mapping) else each
        parts = parts if isinstance(parts, (list, tuple, type({}.values()))) else [parts]
        if any(isinstance(part, torch.Tensor) for part in parts):
            raise _core.InvalidArgument(
                f"an object of the class {cls} that holds tensors is an argument or a result of a model, and "
                "only tuples, lists, dictionaries, named tuples and dataclasses are taken apart; use one of "
                f"these, or teach models the class with registerCustomArgParser({cls}, ...)"
            )


def unflatten(spec: Spec, leaves: Sequence[Any]) -> Any:
    """The structure with these tensors, which may be of any type, in the order of ``flatten``."""
    return spec.unflatten(leaves)


def _unflatten(spec: Spec, leaves: Iterator[Any]) -> Any:
    if spec.kind == "tensor":
        return next(leaves)
    if spec.kind == "constant":
        return spec.template
    if spec.kind == "custom":
        own = iter([next(leaves) for _ in range(spec.count)])
        parser = _parser_of(spec.cls)
        if parser is None:
            raise TypeError(f"no parser is registered for {spec.cls.__name__}")
        return parser.reconstruct(spec.template, own)
    values = [_unflatten(child, leaves) for child in spec.children]
    if spec.kind == "sequence":
        return _sequence(spec.cls, values)
    if spec.kind == "mapping":
        result = {} if spec.template is None else copy.copy(spec.template)
        for key, value in zip(spec.keys, values):
            result[key] = value
        return result
    result = copy.copy(spec.template)
    for name, value in zip(spec.keys, values):
        object.__setattr__(result, name, value)
    return result


def _sequence(cls: type, values: List[Any]) -> Any:
    if hasattr(cls, "_fields"):  # a named tuple
        return cls(*values)
    return values if cls is list else cls(values)
