"""Capture: a call of a torch.nn.Module becomes ops of the current Sluice trace.

    tensors, spec = args.flatten((args, kwargs))
    traced = trace(module, spec, symbols, parameters=..., modules=..., training=...)
    result = traced.spec.unflatten(tensors that the model returned)

`trace` calls the module once with symbolic tensors (tensor.py). Calls of torch reach a dispatch
mode (mode.py), which looks up a rule for each (registry.py, rules_*.py, composites.py).

- Parameters and buffers are found by identity, so that tied weights, views of them and modules that
  several models share just work. Buffers that forward writes are assigned.
- Functions of known values are computed at once (known.py): masks, positions and sizes may decide
  what Python does. Values that only a run knows may not: `.item()`, `if tensor:` and shapes that
  depend on data are refused.
- Any other tensor of torch, such as a global or a plain attribute, is a constant: its value is that
  of the time of the capture. Writing it in forward is refused, and so is a call after it was written
  elsewhere.
- Half and float operands meet as the options' halfFloatCasting and autocast say, not as in torch;
  all other types are promoted as in torch.
- Gradients do not see what is written inside `no_grad` or through a detached view, as in torch.
  What has a gradient of its own and is written through a detached view gets none.
- Random functions give new numbers in every run of the model; torch's seed has no influence on
  them.
- What forward does to the attributes of modules, and to lists and dictionaries in them of at most 10,000 entries, is
  undone afterwards; keep state in buffers.
"""

import contextlib
import sys
import threading

import torch

from .. import _core, args as structures
from . import (
    attributes,
    compat,
    composites,
    functional,
    lending,
    refused,
    rules_images,
    rules_index,
    rules_logs,
    rules_loss,
    rules_math,
    rules_nn,
    rules_pad,
    rules_products,
    rules_random,
    rules_reduce,
    rules_shape,
    rules_special,
    scopes,
    tensor,
    views,
)
from .mode import Capture
from .places import Constant
from .tensor import SymbolicTensor
from .views import body

__all__ = ["Constant", "SymbolicTensor", "Traced", "body", "current", "trace", "unwrap", "wrap"]

_current = None
_lock = lending.Lock()  # what a capture changes in torch is the whole process's


class Traced:
    """What a captured call returned.

    outputs         the result's tensors, as `_core.Tensor`s
    spec            the structure around them (args.Spec); None and other leaves are kept in it
    changed_inputs  the new value of every input that was changed in place, by its position
    rules           the names of the rules that were used
    constants       the tensors from outside that it read (places.Constant)
    assigned        the `_core.Parameter`s of the buffers that it wrote
    trains          whether the loss, the last of the outputs or a marked one, depends on what is trained
    marks_loss      whether there is a marked one
    """

    def __init__(self, outputs, spec, changed_inputs, capture, trains):
        self.outputs = outputs
        self.spec = spec
        self.changed_inputs = changed_inputs
        self.rules = capture.used
        self.constants = capture.constants
        self.assigned = capture.assigned()
        self.trains = trains
        self.marks_loss = capture.marked_loss is not None


def current():
    """The capture in progress, or None."""
    return _current


def unwrap(x):
    """The `_core.Tensor` of a tensor inside a captured forward."""
    capture = _require_current()
    with compat.BelowPython():
        return capture.value(x)


def wrap(value, sources=None):
    """The tensor of torch for a `_core.Tensor` inside a captured forward. If all tensors that it was
    computed from are given, they say whether it depends on what is trained."""
    capture = _require_current()
    with compat.BelowPython():
        return capture.wrap(value, sources is None or capture.has_gradient(*sources))


def mark_loss(x):
    """Says that the model minimises the tensor, wherever forward returns it."""
    _require_current().marked_loss = x


def outside(function):
    """The result of a function in a thread of its own, which nothing captures, in the middle of a
    capture. It may itself capture: what a capture changes in torch is for its own thread only. Captures of
    other threads wait for that of the caller."""
    found, work = [], _core.Work()

    def call():
        try:
            with work:
                found.append((function(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=call, name="sluice-cpu-op")
    with _lock, _lock.lent(thread):
        thread.start()
        thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result


def model_lock():
    """A lock for the calls of a model, which a thread may wait for in the middle of a capture."""
    return lending.ModelLock(_lock)


def _require_current():
    if _current is None:
        raise _core.InvalidArgument(
            "this function can be called only in the forward of a model that is being captured"
        )
    return _current


def trace(module, spec, inputs, *, parameters, modules, training):
    """Calls the module and appends what it does to the current trace.

    module      a torch.nn.Module, or any function of tensors
    spec        the structure of (args, kwargs), from args.flatten
    inputs      the `_core.Tensor`s that take the places of the tensors in it
    parameters  the `_core.Parameter` of each torch parameter and buffer, by id(); buffers that are
                not among them are constants
    modules     the `_core.Module` of each submodule, by id(); the others have no scope
    training    whether a training model is captured: only then are gradients cut in `no_grad`

    Returns a Traced.
    """
    global _current
    capture = Capture(parameters, training)
    symbols = [tensor.of_value(views.Storage(capture.token, each), each) for each in inputs]
    versions = [each.node.storage for each in symbols]
    args, kwargs = spec.unflatten(symbols)
    with _lock, contextlib.ExitStack() as stack:
        _enter(stack, capture, module, parameters, modules)
        outer, _current = _current, capture
        try:
            result = module(*args, **kwargs)
        finally:
            _current = outer
        leaves, structure = structures.flatten(result)
        with compat.BelowPython():
            outputs = [capture.value(each) for each in leaves]
            loss = leaves[-1:] if capture.marked_loss is None else [capture.marked_loss]
            trains = capture.has_gradient(*loss)
    changed = {i: s.read() for i, s in enumerate(versions) if s.version > 0}
    return Traced(outputs, structure, changed, capture, trains)


def _enter(stack, capture, module, parameters, modules):
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    names = dict((id(m), n) for n, m in module.named_modules()) if parts else {}
    _require_plain_modules(parts, names)
    capture.remember(parts)
    stack.enter_context(torch.enable_grad())
    plain = compat.compiled_functions_run_plainly(sys.modules)
    if plain is not None:
        stack.enter_context(plain)
    stack.enter_context(scopes.no_cached_casts())
    stack.enter_context(scopes.cumulative_norms(capture))
    stack.enter_context(scopes.data_setters(capture))
    stack.enter_context(refused.functions(capture))
    stack.enter_context(functional.replaced())
    stack.enter_context(scopes.unchecked_distributions())
    stack.enter_context(attributes.kept(capture, parts, names, parameters))
    stack.enter_context(scopes.autograd_functions(capture))
    stack.enter_context(scopes.module_calls(capture, modules, names))
    stack.enter_context(compat.BelowAutograd())
    stack.enter_context(capture.mode)


def _require_plain_modules(parts, names):
    for each in parts:
        if isinstance(each, torch.jit.ScriptModule):
            what = f"the module '{names[id(each)]}'" if names[id(each)] else "the module"
            raise _core.Unsupported(
                f"{what} is a scripted or traced module of torch.jit; "
                "capture needs the Python module that it was made from"
            )
