"""All private names of torch that the capture uses, for torch 1.13 and 2.x.

No other file of the package reads a name of torch that begins with an underscore.
"""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "BelowAutograd",
    "BelowPython",
    "TorchDispatchMode",
    "autocast_type",
    "base_name",
    "batch_norm_class",
    "change_metadata",
    "check_input_dim",
    "compiled_functions_run_plainly",
    "decompose",
    "gradient_functions",
    "has_backward_hooks",
    "has_gradient_hooks",
    "is_composite",
    "is_overload",
    "mutable_arguments",
    "note_step",
    "overload_named",
    "own_buffers",
    "own_parameters",
    "own_parts",
    "pass_through",
    "schema_arguments",
    "tensor_data",
    "uncompiled",
    "validates_distributions",
    "with_truths",
    "without_torch_function",
    "wrapper",
]

_COMPOSITE = "CompositeImplicitAutograd"
_DATA = torch.Tensor.data


class _Guard:
    """A guard of torch as a context manager. In torch 1.13 a guard acts as long as the object
    lives; in later versions it has to be entered."""

    def __enter__(self):
        self._guard = self._make()
        if hasattr(self._guard, "__enter__"):
            self._guard.__enter__()
        return self

    def __exit__(self, *error):
        if hasattr(self._guard, "__exit__"):
            self._guard.__exit__(*error)
        del self._guard


class BelowAutograd(_Guard):
    """While it is open, calls skip autograd. Two things follow: composite functions such as
    `linear` reach the dispatch mode whole instead of as their parts, and results never require
    a gradient, so that torch adds no `detach` of its own."""

    _make = staticmethod(torch._C._AutoDispatchBelowAutograd)


class BelowPython(_Guard):
    """While it is open, no dispatch mode and no `__torch_dispatch__` is called."""

    _make = staticmethod(torch._C._DisableTorchDispatch)


class without_torch_function(_Guard):
    """Inside, no `__torch_function__` of a tensor's class is called."""

    _make = staticmethod(torch._C.DisableTorchFunction)


def wrapper(cls, size, strides, dtype):
    """A tensor of the class that has a shape and a type but no memory. It is never one of inference_mode:
    torch gives views the counter of writes of what they view, and such tensors have none."""
    ordinary = torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext()
    with ordinary:
        return torch.Tensor._make_wrapper_subclass(
            cls, size, strides=strides, dtype=dtype, device="cpu"
        )


def change_metadata(func, tensor, args):
    """Applies an in-place view such as `transpose_` to the sizes and strides of a wrapper."""
    with BelowPython():
        func(tensor, *args)


def pass_through(func, args, kwargs):
    """Calls a function without the `__torch_function__` of its arguments."""
    with without_torch_function():
        return func(*args, **kwargs)


def is_overload(func):
    return isinstance(func, torch._ops.OpOverload)


def is_composite(func):
    """Whether torch itself defines the function by other functions, also for its gradient."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE)


def decompose(func, args, kwargs):
    func, args, kwargs = with_truths(func, args, kwargs)
    return func.decompose(*args, **kwargs) if is_composite(func) else func(*args, **kwargs)


def schema_arguments(func):
    """The (name, type) of every argument."""
    return [(a.name, str(a.type)) for a in func._schema.arguments]


def mutable_arguments(func):
    """The (position, name) of every argument that the function writes."""
    return [
        (i, a.name)
        for i, a in enumerate(func._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]


_LOSES_TRUTHS = torch.ops.aten.full.default([1], True).dtype is not torch.bool  # torch 1.13


def with_truths(func, args, kwargs):
    """A call of an overload as one that keeps truth values, which torch 1.13 takes for integers where a number
    is wanted: as tensors without axes, by the overload that has tensors there."""
    if not (_LOSES_TRUTHS and is_overload(func)):
        return func, args, kwargs
    schema = schema_arguments(func)
    given = {**dict(zip((name for name, _ in schema), args)), **kwargs}
    numbers = [name for name, kind in schema if kind == "number" and name in given]
    if not any(isinstance(given[name], bool) for name in numbers):
        return func, args, kwargs
    if base_name(func) == "full":
        dtype = torch.bool if kwargs.get("dtype") is None else kwargs["dtype"]
        return func, args, {**kwargs, "dtype": dtype}
    wanted = [(name, "Tensor" if name in numbers else kind) for name, kind in schema]
    for other in overload_named(func, base_name(func)).values():
        if schema_arguments(other) == wanted:
            changed = {name: torch.tensor(given[name]) for name in numbers}
            args = [changed.get(name, each) for (name, _), each in zip(schema, args)]
            return other, args, {name: changed.get(name, each) for name, each in kwargs.items()}
    return func, args, kwargs


def _packet(func):
    namespace, _, name = func._schema.name.partition("::")
    return getattr(torch.ops, namespace), name


def overload_named(func, name):
    """The overloads of another function of the same namespace, by the overload's name."""
    namespace, _ = _packet(func)
    packet = getattr(namespace, name, None)
    if packet is None:
        return {}
    return {each: getattr(packet, each) for each in packet.overloads()}


def base_name(func):
    """`add_` for aten::add_.Tensor."""
    return _packet(func)[1]


def validates_distributions():
    return torch.distributions.Distribution._validate_args


def own_parameters(module):
    """The dictionary of a module's own parameters."""
    return module._parameters


def own_buffers(module):
    """The dictionary of a module's own buffers."""
    return module._buffers


def own_parts(module):
    """The dictionary of a module's own parts."""
    return module._modules


def gradient_functions(modules):
    """The (module, name) of what torch.autograd.functional and functorch begin every gradient with."""
    found = [(torch.autograd.functional, "_autograd_grad")]
    for path in ("functorch._src.eager_transforms", "torch._functorch.eager_transforms"):
        transforms = modules.get(path)
        names = ("_grad_increment_nesting", "_jvp_increment_nesting", "grad_increment_nesting")
        found += [(transforms, name) for name in names if hasattr(transforms, name)]
    return found


if hasattr(torch, "get_autocast_dtype"):  # since torch 2.4

    def autocast_type():
        """The type of torch.autocast on the CPU, or None if it is off."""
        return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None

else:

    def autocast_type():
        """As above."""
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def uncompiled(module):
    """The module that torch.compile wrapped, or the module itself. A capture is a compiler of its own."""
    return module._orig_mod if type(module).__name__ == "OptimizedModule" else module


def compiled_functions_run_plainly(modules):
    """A context in which functions of torch.compile are what they were before; None without any."""
    compiler = getattr(torch, "compiler", None)
    if "torch._dynamo" in modules and hasattr(compiler, "set_stance"):
        return compiler.set_stance("force_eager")
    return None


def tensor_data():
    """The attribute `data` of all tensors, which a capture replaces for its time."""
    return _DATA


def batch_norm_class():
    """The class whose forward all batch norms have."""
    return torch.nn.modules.batchnorm._BatchNorm


def check_input_dim(module, x):
    """A batch norm's own check of the number of dimensions."""
    module._check_input_dim(x)


def has_backward_hooks(module):
    """Whether hooks of the module want gradients. Global ones are all modules'."""
    own = (getattr(module, name, None) for name in ("_backward_hooks", "_backward_pre_hooks"))
    return any(own)


def has_gradient_hooks(parameter):
    names = ("_backward_hooks", "_post_accumulate_grad_hooks")
    with without_torch_function():
        return any(getattr(parameter, name, None) for name in names)


def note_step(optimizer):
    """Tells the schedulers of an optimizer that it took a step, which Sluice took in its place."""
    optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
    optimizer._opt_called = True
