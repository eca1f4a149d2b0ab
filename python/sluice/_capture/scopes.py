"""What is different in Python while a forward is captured: modules open the scope of their node,
custom autograd functions are refused, distributions do not look at their arguments, and what the
forward leaves behind in its modules is undone."""

import contextlib
import threading

import torch

from .. import _core
from . import compat, emit, places
from .tensor import SymbolicTensor


@contextlib.contextmanager
def module_calls(capture, nodes, names):
    """Calls of modules open the `_core.ModuleScope` of their node, in this thread only. `nodes` and
    `names` are by the module's id."""
    original = torch.nn.Module.__call__
    thread = threading.get_ident()

    def call(module, *args, **kwargs):
        node = nodes.get(id(module))
        if node is None or threading.get_ident() != thread:
            return original(module, *args, **kwargs)
        capture.module_path.append(names.get(id(module), ""))
        try:
            with _core.ModuleScope(node):
                return original(module, *args, **kwargs)
        finally:
            capture.module_path.pop()

    torch.nn.Module.__call__ = call
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


@contextlib.contextmanager
def autograd_functions(capture):
    """Custom gradients would be lost without a word, so they are refused. Checkpointing is one of
    them that has a counterpart."""
    function = torch.autograd.Function
    had_own = "apply" in vars(function)
    original = vars(function).get("apply", function.apply)
    thread = threading.get_ident()

    def apply(cls, *args, **kwargs):
        if threading.get_ident() != thread:
            return original.__get__(None, cls)(*args, **kwargs)
        if cls.__name__ == "CheckpointFunction":
            return _checkpoint(capture, *args)
        if cls.__name__ == "_NoopSaveInputs":  # newer checkpoints hold their inputs with it
            return torch.empty(0)
        error = _core.Unsupported(
            "torch.autograd.Function subclasses have a backward of their own, which is not "
            "captured; write forward with functions of torch, or use sluice.custom_op"
        )
        raise places.located(error, cls.__name__, capture.module_path)

    function.apply = classmethod(apply)
    try:
        yield
    finally:
        if had_own:
            function.apply = original
        else:
            del function.apply


def _checkpoint(capture, body, _, *args):
    """The arguments and results are kept for the backward pass; what lies between is computed
    again if the model recomputes activations."""

    def keep(x):
        with compat.BelowPython():
            if isinstance(x, torch.Tensor) and capture.known(x) is None:
                return capture.wrap(emit.op("recomputation_checkpoint", capture.value(x)))
        return x

    results = body(*(keep(each) for each in args))
    if isinstance(results, (list, tuple)):
        return type(results)(keep(each) for each in results)
    return keep(results)


@contextlib.contextmanager
def unchecked_distributions():
    """Distributions would ask unknown tensors whether they are valid."""
    distribution = torch.distributions.Distribution
    before = compat.validates_distributions()
    distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)


@contextlib.contextmanager
def kept_attributes(capture, modules, parameters):
    """Buffers that forward replaces (`self.mean = ...`) are written, and every module gets its own
    tensors back; symbolic ones would be of no use to it later."""
    before = [(m, dict(m.named_buffers(recurse=False)), _tensors_of(m)) for m in modules]
    try:
        yield
        for module, buffers, _ in before:
            for name, old in buffers.items():
                new = getattr(module, name, None)
                if new is not old and id(old) in parameters and isinstance(new, torch.Tensor):
                    _replace(capture, old, new, name)
    finally:
        for module, buffers, attributes in before:
            for name, old in buffers.items():
                setattr(module, name, old)
            for name, value in _tensors_of(module).items():
                if isinstance(value, SymbolicTensor) and name not in attributes:
                    delattr(module, name)
            vars(module).update(attributes)


def _replace(capture, old, new, name):
    if new.shape != old.shape or new.dtype != old.dtype:
        raise _core.Unsupported(
            f"the buffer '{name}' is {old.dtype} {list(old.shape)} and forward replaces it by "
            f"{new.dtype} {list(new.shape)}; a buffer keeps its type and shape"
        )
    capture.write(old, capture.value(new))


def _tensors_of(module):
    return {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
