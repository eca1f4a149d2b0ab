"""What is different in Python while a forward is captured: modules open the scope of their node,
custom autograd functions are refused, batch norms count by themselves, and distributions do not look at their
arguments."""

import contextlib
import threading

import torch

from .. import _core
from . import compat, emit, places, rules_nn
from .tensor import SymbolicTensor, set_data


@contextlib.contextmanager
def module_calls(capture, nodes, names):
    """Calls of modules open the `_core.ModuleScope` of their node, in this thread only. `nodes` and
    `names` are by the module's id."""
    original = torch.nn.Module.__call__
    thread = threading.get_ident()

    def call(module, *args, **kwargs):
        plain = compat.uncompiled(module)
        if plain is not module:
            return call(plain, *args, **kwargs)
        node = nodes.get(id(module))
        if node is None or threading.get_ident() != thread:
            return original(module, *args, **kwargs)
        capture.module_path.append(names.get(id(module), ""))
        try:
            with _core.ModuleScope(node):
                return original(module, *args, **kwargs)
        except RuntimeError as error:
            _refuse_constructor(capture, error)
            raise
        finally:
            capture.module_path.pop()

    torch.nn.Module.__call__ = call
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


def _refuse_constructor(capture, error):
    """Gives the reason if torch 1.13 says that torch.Tensor(...) found a tensor of the capture where it made one."""
    if isinstance(error, _core.Error) or "python object of type SymbolicTensor" not in str(error):
        return
    reason = _core.Unsupported(
        "the constructor makes tensors that a capture does not see; use torch.tensor([...]) for numbers, and "
        "torch.empty(...) or x.new_empty(...) for a shape"
    )
    raise places.located(reason, "torch.Tensor", capture.module_path, places.user_line_of(error)) from None


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
                kept = emit.op("recomputation_checkpoint", capture.value(x))
                return capture.wrap(kept, capture.has_gradient(x))
        return x

    results = body(*(keep(each) for each in args))
    if isinstance(results, (list, tuple)):
        return type(results)(keep(each) for each in results)
    return keep(results)


@contextlib.contextmanager
def cumulative_norms(capture):
    """Batch norms with momentum=None ask the number of batches, which only a run knows, for its value."""
    norm = compat.batch_norm_class()
    original = norm.forward
    thread = threading.get_ident()

    def forward(module, x):
        counts = module.training and module.track_running_stats and module.num_batches_tracked is not None
        if module.momentum is not None or not counts or threading.get_ident() != thread:
            return original(module, x)
        compat.check_input_dim(module, x)
        try:
            with compat.BelowPython():
                return rules_nn.cumulative_batch_norm(capture, module, x)
        except _core.Error as error:
            raise places.located(error, "batch_norm", capture.module_path) from error

    norm.forward = forward
    try:
        yield
    finally:
        norm.forward = original


@contextlib.contextmanager
def data_setters(capture):
    """`x.data = y` is done below all that could see it if x is a parameter or a buffer, and would leave it
    with a symbolic tensor's memory, which is none. It is a write."""
    original = compat.tensor_data()
    thread = threading.get_ident()

    def write(x, y):
        ours = isinstance(x, SymbolicTensor) or isinstance(y, SymbolicTensor)
        if threading.get_ident() != thread or not ours:
            return original.__set__(x, y)
        if isinstance(x, SymbolicTensor):
            return set_data(x, y)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            _refuse_data(capture, x, y)
        with torch.no_grad():
            x.copy_(y)

    outer = vars(torch.Tensor).get("data")  # that of a capture of another thread, which waits
    torch.Tensor.data = property(original.__get__, write)
    try:
        yield
    finally:
        if outer is None:
            del torch.Tensor.data
        else:
            torch.Tensor.data = outer


def _refuse_data(capture, x, y):
    error = _core.Unsupported(
        f"the data of a tensor of {x.dtype} {list(x.shape)} is replaced by one of {y.dtype} {list(y.shape)}; "
        "a parameter or buffer keeps its type and shape"
    )
    raise places.located(error, "Tensor.data", capture.module_path)


@contextlib.contextmanager
def no_cached_casts():
    """torch.autocast keeps weights that it has cast until it ends: symbolic ones would outlive the capture."""
    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(before)


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
