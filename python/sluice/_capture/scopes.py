"""What is different in Python while a forward is captured: modules open the scope of their node,
custom autograd functions are refused, batch norms count by themselves, distributions do not look at their
arguments, and what the forward leaves behind in its modules is undone."""

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


@contextlib.contextmanager
def kept_attributes(capture, modules, names, parameters):
    """Buffers that forward replaces (`self.mean = ...`) are written, and every module gets its own
    tensors back; symbolic ones would be of no use to it later."""
    before = [(m, dict(m.named_buffers(recurse=False)), _tensors_of(m)) for m in modules]
    weights = [(m, dict(compat.own_parameters(m))) for m in modules]
    try:
        yield
        _require_same_weights(weights, names)
        for module, buffers, _ in before:
            for name, old in buffers.items():
                new = getattr(module, name, None)
                if new is not old and id(old) in parameters and isinstance(new, torch.Tensor):
                    _replace(capture, old, new, name)
    finally:
        for module, own in weights:
            _put_back(module, own)
        for module, buffers, attributes in before:
            for name, old in buffers.items():
                setattr(module, name, old)
            for name, value in _tensors_of(module).items():
                if isinstance(value, SymbolicTensor) and name not in attributes:
                    delattr(module, name)
            vars(module).update(attributes)


def _require_same_weights(weights, names):
    for module, own in weights:
        now = compat.own_parameters(module)
        name = next((name for name in own if now.get(name) is not own[name]), None)
        name = name or next((name for name in now if name not in own), None)
        if name is not None:
            path = ".".join(part for part in (names.get(id(module)), name) if part)
            raise _core.Unsupported(
                f"forward adds, removes or replaces the parameter '{path}', and the weights of a model are those "
                "that it has at the first call; do it before, or compute with a changed copy"
            )


def _put_back(module, own):
    now = compat.own_parameters(module)
    if list(now) == list(own) and all(now[name] is own[name] for name in own):
        return
    for name in own:
        vars(module).pop(name, None)  # a plain tensor that took the parameter's place
    now.clear()
    now.update(own)


def _replace(capture, old, new, name):
    if new.shape != old.shape or new.dtype != old.dtype:
        raise _core.Unsupported(
            f"the buffer '{name}' is {old.dtype} {list(old.shape)} and forward replaces it by "
            f"{new.dtype} {list(new.shape)}; a buffer keeps its type and shape"
        )
    capture.write(old, capture.value(new))


def _tensors_of(module):
    return {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
