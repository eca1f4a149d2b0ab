"""The dispatch mode: every call of torch inside a captured forward ends here."""

import torch

from .. import _core
from . import compat, dtypes, emit, known, places, tensor, views
from .registry import RULES, Kind
from .tensor import SymbolicTensor


class Capture:
    """One capture in progress. Rules get it as their first argument."""

    def __init__(self, parameters, training):
        self._parameters = parameters
        self._owned = known.Memory(parameters)
        self.token = object()  # of all that belongs to this capture
        self._adopted = {}
        self._attributes = {}  # tensors of modules: where they are, by id()
        self._plans = {}
        self._storages = []  # of parameters and buffers
        self.constants = []
        self.module_path = []
        self.training = training
        self.mode = _Mode(self)
        self.used = set()
        self.marked_loss = None  # what identity_loss gave last

    # What rules ask for.

    def symbolic(self, x):
        """Any tensor of torch as a symbolic one."""
        if isinstance(x, SymbolicTensor) and x.node.storage.capture is self.token:
            return x
        found = self._adopted.get(id(x))
        if found is None:
            # The tensor itself is kept, so that no other one gets its id.
            found = self._adopted[id(x)] = (x, self._adopt(x))
        return found[1]

    def value(self, x):
        """The tensor's value in the trace; None stays None."""
        return None if x is None else self.symbolic(x).node.read()

    def known(self, x):
        """The contents of a tensor as one of torch, or None if they are not known."""
        return self.symbolic(x).known()

    def write(self, target, value):
        """Gives a tensor a new value of its own type and shape."""
        self.symbolic(target).node.write(value)

    def wrap(self, result, has_gradient=True):
        """The results of a rule as tensors of torch. Inside `no_grad` gradients end here."""
        if isinstance(result, _core.Tensor):
            has_gradient = has_gradient and dtypes.is_float(result.dtype)
            if self.cuts_gradients and dtypes.is_float(result.dtype):
                result, has_gradient = emit.op("detach", result), False
            return tensor.of_value(views.Storage(self.token, result, has_gradient=has_gradient), result)
        if isinstance(result, SymbolicTensor):
            return result
        if isinstance(result, torch.Tensor):
            return self.fresh(result)
        if isinstance(result, (list, tuple)):
            return type(result)(self.wrap(each, has_gradient) for each in result)
        return result

    def has_gradient(self, *operands):
        """Whether one of the tensors may depend on what is trained, as torch's `requires_grad` says."""
        nodes = (self.symbolic(each).node for each in operands)
        return any(node.storage.has_gradient and not node.is_detached for node in nodes)

    def fresh(self, contents):
        """A new tensor with known contents, which are its own."""
        contents = contents.detach()
        return tensor.like(views.Storage(self.token, known=contents), contents)

    @property
    def cuts_gradients(self):
        return self.training and not torch.is_grad_enabled()

    def call(self, func, args, kwargs):
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = _plan(func)
        try:
            return plan.run(self, func, args, kwargs)
        except _core.Error as error:
            if places.is_located(error):
                raise
            raise places.located(error, func, self.module_path) from error

    # How tensors that are not symbolic get in.

    def remember(self, modules):
        """Lets views of parameters that exist already be recognised, and notes tensors in plain attributes."""
        for module in modules:
            for name, x in vars(module).items():
                if isinstance(x, torch.Tensor):
                    self._attributes.setdefault(id(x), (module, name))
        self._owned.add(
            x
            for module in modules
            for x in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if id(x) in self._parameters
        )

    def _adopt(self, x):
        if isinstance(x, SymbolicTensor):
            return self._adopt_symbolic(x)
        known.require_plain(x)
        owner = self._parameters.get(id(x))
        if owner is not None:
            self._storages.append(views.Storage(self.token, owner=owner))
            return tensor.fresh(self._storages[-1], x.shape, x.dtype)
        owner = self._owned.find(x)
        if owner is not None:
            parameter, positions = owner
            base = self.symbolic(parameter)
            node = views.View(base.node, views.Strided(positions))
            if not x.requires_grad:
                node = views.View(node, views.Detach())
            return tensor.fresh(node, x.shape, x.dtype)
        return self._constant(x, self._attributes.get(id(x)))

    def _constant(self, x, attribute=None):
        self.constants.append(places.Constant(x, attribute))
        contents = x.detach().contiguous()
        storage = views.Storage(self.token, known=contents, outside=True)
        return tensor.fresh(storage, x.shape, x.dtype)

    def _adopt_symbolic(self, x):
        """A tensor that another capture made, and a cache in Python has kept."""
        if x.known() is not None:
            return self._constant(x.known())
        raise _core.InvalidArgument(
            f"a tensor {list(x.shape)} is used that an earlier capture of a forward has computed: a cache in "
            "Python, such as functools.lru_cache or a global dictionary, has kept it; compute it in every forward "
            "or keep it in a register_buffer()"
        )

    def assigned(self):
        """The parameters that were written, which are buffers."""
        return [each.owner for each in self._storages if each.version > 0]

    def operands(self, args, kwargs):
        found = []
        _collect(args, found)
        _collect(tuple(kwargs.values()), found)
        return found

    def all_known(self, args, kwargs):
        return all(
            self.symbolic(x).node.storage.known is not None for x in self.operands(args, kwargs)
        )


class _Mode(compat.TorchDispatchMode):
    def __init__(self, capture):
        super().__init__()
        self._capture = capture

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self._capture.call(func, args, kwargs or {})


def _collect(x, found):
    if isinstance(x, torch.Tensor):
        found.append(x)
    elif isinstance(x, (list, tuple)):
        for each in x:
            _collect(each, found)


def convert(change, x):
    """x with every tensor in it changed."""
    if isinstance(x, torch.Tensor):
        return change(x)
    if isinstance(x, (list, tuple)):
        return type(x)(convert(change, each) for each in x)
    if isinstance(x, dict):
        return {key: convert(change, each) for key, each in x.items()}
    return x


# Plans: what is done with a function, decided once per trace.


class _Eager:
    """Computes with known values; there is no rule for others."""

    def run(self, capture, func, args, kwargs):
        if not capture.all_known(args, kwargs):
            raise _core.Unsupported(
                "there is no rule for this function; write it with other functions of torch, or run it on "
                "the host with sluice.CPU"
            )
        return known.run(capture, func, args, kwargs)


class _Composite:
    """A function that torch defines by others."""

    def run(self, capture, func, args, kwargs):
        with capture.mode:
            return compat.decompose(func, args, kwargs)


class _Refused:
    def __init__(self, rule):
        self._rule = rule

    def run(self, capture, func, args, kwargs):
        if not (self._rule.eager and capture.all_known(args, kwargs)):
            raise _core.Unsupported(self._rule.reason)
        return known.run(capture, func, args, kwargs)


class _Plain:
    """A rule whose results are new tensors."""

    def __init__(self, rule):
        self._rule = rule

    def run(self, capture, func, args, kwargs):
        if self._rule.eager and capture.all_known(args, kwargs):
            return known.run(capture, func, args, kwargs)
        gradient = capture.training and capture.has_gradient(*capture.operands(args, kwargs))
        result = capture.wrap(self.values(capture, args, kwargs), gradient)
        if isinstance(result, SymbolicTensor) and not _contiguous_operands(capture, args):
            return _with_strides(capture, result, func, args, kwargs)
        return result

    def values(self, capture, args, kwargs):
        capture.used.add(self._rule.name)
        if self._rule.kind is Kind.VALUE:
            args, kwargs = convert(capture.value, args), convert(capture.value, kwargs)
        return self._rule.function(capture, *args, **kwargs)


def _contiguous_operands(capture, args):
    return all(x.is_contiguous() for x in args if isinstance(x, torch.Tensor))


def _with_strides(capture, result, func, args, kwargs):
    """The result with the strides that torch would give it: functions of permuted tensors have
    permuted results. They decide whether a later reshape() is a view or a copy."""

    def shadow(x):
        return capture.symbolic(x).shadow()

    try:
        geometry = func(*convert(shadow, args), **convert(shadow, kwargs))
    except (NotImplementedError, RuntimeError):  # torch cannot tell without contents
        return result
    if not isinstance(geometry, torch.Tensor) or geometry.size() != result.size():
        return result
    # A result fills its own memory; without contents, `flip` and others keep the gaps between the elements of
    # parts of tensors, and the strides of expanded ones.
    strides = torch.empty_like(geometry).stride()
    contents = result.known()
    if contents is None:
        return SymbolicTensor(result.node, result.size(), strides, 0, result.dtype)
    strided = torch.empty_strided(result.size(), strides, dtype=result.dtype)
    return capture.fresh(strided.copy_(contents))


class _Views:
    """A rule whose results share memory with the first argument."""

    def __init__(self, rule):
        self._rule = rule

    def run(self, capture, func, args, kwargs):
        capture.used.add(self._rule.name)
        x = capture.symbolic(args[0])
        geometry = func(x.shadow(), *args[1:], **kwargs)
        steps = self._rule.function(x, geometry, *args[1:], **kwargs)
        if isinstance(geometry, torch.Tensor):
            return self._view(capture, x, geometry, steps)
        return [self._view(capture, x, g, s) for g, s in zip(geometry, steps)]

    def change(self, capture, func, args, kwargs):
        """The in-place form: the same object becomes another view."""
        x = capture.symbolic(args[0])
        plain = _functional(func)
        geometry = plain(x.shadow(), *args[1:], **kwargs)
        capture.used.add(self._rule.name)
        for step in self._rule.function(x, geometry, *args[1:], **kwargs):
            x.node = views.View(x.node, step)
        if tuple(geometry.size()) != tuple(x.size()) or geometry.stride() != x.stride():
            compat.change_metadata(func, x, args[1:])
        return args[0]

    def _view(self, capture, x, geometry, steps):
        node = x.node
        for step in steps:
            node = views.View(node, step)
        if capture.cuts_gradients and x.dtype.is_floating_point and x.known() is None:
            node = views.View(node, views.Detach())
        return tensor.like(node, geometry)


class _ViewsInPlace:
    def __init__(self, views_plan):
        self._views = views_plan

    def run(self, capture, func, args, kwargs):
        known.require_writable(capture, args[0], metadata=True)
        return self._views.change(capture, func, args, kwargs)


class _Writes:
    """An in-place or out= form: the plain form's rule, and a write of its results."""

    def __init__(self, plain, targets, drop):
        self._plain = plain
        self._targets = targets
        self._drop = drop

    def run(self, capture, func, args, kwargs):
        targets = [args[i] if i < len(args) else kwargs[name] for i, name in self._targets]
        for target in targets:
            known.require_writable(capture, target)
        if self._plain._rule.eager and capture.all_known(args, kwargs):
            return known.run(capture, func, args, kwargs)
        if self._drop:
            names = {name for _, name in self._targets}
            kwargs = {key: each for key, each in kwargs.items() if key not in names}
        gradient = capture.training and capture.has_gradient(*capture.operands(args, kwargs))
        results = self._plain.values(capture, args, kwargs)
        single = not isinstance(results, (list, tuple))
        for target, result in zip(targets, [results] if single else results):
            assign(capture, target, result, gradient)
        return targets[0] if len(targets) == 1 else tuple(targets)


def assign(capture, target, result, has_gradient=True):
    """Writes a result into a tensor as torch's in-place functions do."""
    x = capture.symbolic(target)
    if x.node.has_twins and x.repeats_elements():
        raise _core.Unsupported(
            "an expanded tensor, or another view that has some elements twice, is written in place; "
            "write a clone() of it"
        )
    result = capture.value(result) if isinstance(result, torch.Tensor) else result
    wanted = dtypes.core_name(x.dtype)
    if not torch.can_cast(dtypes.torch_type(result.dtype), x.dtype):
        raise _core.InvalidArgument(
            f"a result of type {result.dtype} cannot be stored in a tensor of type {wanted}"
        )
    if tuple(result.shape) != tuple(x.shape):
        if len(result.shape) > x.dim():
            raise _core.InvalidArgument(
                f"a result of shape {list(result.shape)} does not fit into {list(x.shape)}"
            )
        result = emit.broadcast(result, x.shape)
    result = emit.cast(result, wanted)
    if not (capture.training and dtypes.is_float(wanted)):
        x.node.write(result)
    elif capture.cuts_gradients or x.node.is_detached:
        _write_unseen(x.node, emit.op("detach", result))
    else:
        x.node.write(result)
        x.node.storage.has_gradient |= has_gradient


def _write_unseen(node, value):
    """What is written inside `no_grad`, or through a detached view, has the new value, but gradients
    pass as if nothing had been written."""
    storage = node.storage
    seen = storage.seen() if storage.has_gradient and storage.known is None else None
    node.write(value)
    if seen is not None:
        storage.keep_gradient_of(seen)


def _functional(func):
    """The function that an in-place or out= form belongs to."""
    name = compat.base_name(func)
    written = {each for _, each in compat.mutable_arguments(func)}
    wanted = [a for a in compat.schema_arguments(func) if a[0] not in written or a[0] == "self"]
    candidates = compat.overload_named(func, name[:-1] if name.endswith("_") else name)
    for candidate in candidates.values():
        if compat.schema_arguments(candidate) == wanted and not compat.mutable_arguments(candidate):
            return candidate
    return None


def _plan(func):
    if not compat.is_overload(func):
        return _Eager()
    rule = RULES.get(str(func))
    if rule is not None:
        targets = compat.mutable_arguments(func)
        in_place = targets and compat.base_name(func).endswith("_")
        if in_place and rule.kind in (Kind.VALUE, Kind.RAW):
            return _Writes(_Plain(rule), targets, drop=False)
        plans = {Kind.REFUSED: _Refused, Kind.VIEW: _Views}
        return plans.get(rule.kind, _Plain)(rule)
    targets = compat.mutable_arguments(func)
    if targets:
        plain = _functional(func)
        rule = RULES.get(str(plain))
        if rule is not None and rule.kind is Kind.VIEW:
            return _ViewsInPlace(_Views(rule))
        if rule is not None and rule.kind is not Kind.REFUSED:
            return _Writes(_Plain(rule), targets, drop=targets[0][1] != "self")
    if compat.is_composite(func):
        return _Composite()
    return _Eager()
