"""Functions that no mode of torch sees and that symbolic tensors would send astray: they would read memory
that is not there, or take gradients for zero. While a forward is captured they are errors."""

import contextlib
import sys
import threading

import torch

from .. import _core
from . import compat, places
from .tensor import SymbolicTensor

_GRADIENTS = (
    "gradients inside of forward are not captured: a training model takes the gradient of the last tensor that "
    "forward returns by itself"
)
_MEMORY = "a tensor has no memory while the model is captured; use functions of torch"
_VALUES = (
    "the value of a tensor is wanted, but it is known only when the model runs; torch.stack makes a tensor of "
    "tensors"
)


def functions(capture):
    """A context in which these functions are refused, in this thread only."""
    stack = contextlib.ExitStack()
    for owner, name in compat.gradient_functions(sys.modules):
        stack.enter_context(_replaced(capture, owner, name, _GRADIENTS, lambda args: None))
    for owner in (torch, torch.utils.dlpack):
        stack.enter_context(_replaced(capture, owner, "to_dlpack", _MEMORY, _without_symbolic))
    stack.enter_context(_replaced(capture, torch, "tensor", _VALUES, _with_values))
    return stack


@contextlib.contextmanager
def _replaced(capture, owner, name, reason, check):
    """The function is refused if `check` returns None for its arguments, and else called with the result."""
    original = getattr(owner, name, None)
    thread = threading.get_ident()

    def function(*args, **kwargs):
        args = args if threading.get_ident() != thread else check(args)
        if args is not None:
            return original(*args, **kwargs)
        shown = name.lstrip("_")
        raise places.located(_core.Unsupported(reason), f"{owner.__name__}.{shown}", capture.module_path)

    if original is not None:
        setattr(owner, name, function)
    try:
        yield
    finally:
        if original is not None:
            setattr(owner, name, original)


def _without_symbolic(args):
    return None if any(isinstance(each, SymbolicTensor) for each in args) else args


def _with_values(args):
    """Lists of tensors, of which torch reads the memory, with the values of those that are known."""
    if not args or not isinstance(args[0], (list, tuple)):
        return args
    try:
        return (_values(args[0]), *args[1:])
    except _Unknown:
        return None


class _Unknown(Exception):
    pass


def _values(x):
    if isinstance(x, (list, tuple)):
        return [_values(each) for each in x]
    if not isinstance(x, SymbolicTensor):
        return x
    if x.node.storage.known is None:
        raise _Unknown
    with compat.BelowPython():
        return x.known().tolist()
