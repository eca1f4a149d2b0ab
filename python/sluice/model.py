"""trainingModel and inferenceModel: a torch module that runs on the devices of Sluice."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from . import _capture, _core, _forks, _gpu, _optim_state, _training, args as _args
from . import autocasting  # noqa: F401  (adds Module.autocast)
from ._call_form import Form, Traced, add_defaults, leaf_names, require_separate, require_tensors
from ._call_form import require_whole, signature_of
from ._capture import compat
from ._convert import to_core, to_torch
from ._model_reports import PlanReport, Reports
from ._model_values import Values
from ._state import Parts, Tree, join_tree
from ._optim_core import update_core as update_optimizer
from .options import Options

__all__ = ["Executor", "inferenceModel", "poptorchAtExit", "trainingModel"]

_OPTIMIZER_HINT = "make it with torch.optim or sluice.optim"
_ending = False  # the interpreter
_before_compile: List[Callable[[], None]] = []
_after_compile: List[Callable[[], None]] = []


def _require_kind(name: str, value: Any, kind: type, hint: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise _core.InvalidArgument(
            f"the argument '{name}' must be of the class {kind.__name__} or None, got "
            f"{type(value).__name__}; {hint}"
        )


class Executor(_forks.Watched, Reports, Values):
    """A torch module, compiled for the devices of Sluice. Call it as you would call the module, with
    the data of a whole step: the first dimension of every input is micro-batch x replicas x gradient
    accumulation x device iterations. The first call compiles."""

    def __init__(
        self,
        model: torch.nn.Module,
        options: Optional[Options],
        training: bool,
        optimizer: Optional[torch.optim.Optimizer] = None,
        user_model: Optional[torch.nn.Module] = None,
    ) -> None:
        if isinstance(model, Executor):
            model = model.model
        if not isinstance(model, torch.nn.Module):
            raise _core.InvalidArgument(
                f"expected a torch.nn.Module, got {type(model).__name__}; wrap a function in a module"
            )
        _require_kind("options", options, Options, "make them with sluice.Options()")
        _require_kind("optimizer", optimizer, torch.optim.Optimizer, _OPTIMIZER_HINT)
        self._user_model = user_model if user_model is not None else model
        self._model = model = compat.uncompiled(model)
        self._options = options if options is not None else Options()
        self._training = training
        self._optimizer = optimizer
        self._form: Optional[Form] = None  # of the first call, which all others must have
        self._traced: Optional[Traced] = None  # the newest
        self._tree: Optional[Tree] = None
        self._parts: Optional[Parts] = None  # of the module when the tree was made
        self._core: Optional[_core.Model] = None
        self._watch: Optional[_training.Watch] = None  # of a training model with devices
        self._link: Optional[_optim_state._Link] = None
        self._taken: Optional[_core.Optimizer] = None  # the rule that the devices have
        self._destroyed = False
        self._running = False
        self._lock = _capture.model_lock()
        self._signature = signature_of(model)
        self._lost = False  # made by the parent of this forked process
        self._executable: Optional[str] = None  # a file to take programs from
        if _ending:
            raise _core.InvalidArgument("the interpreter is ending: no new model can be made")
        _forks.watch(self)

    # --- making -----------------------------------------------------------------------------

    def _make(self, form: Form) -> _core.Model:
        if self._lost:
            raise _forks.lost_error()
        if self._destroyed:
            raise _destroyed_error(type(self).__name__)
        if self._core is None:
            self._tree, self._parts = join_tree(self._model), Parts(self._model)
            self_ref = weakref.ref(self)
            try:
                self._taken = self._rule() if self._training else None
                self._core = _core.Model(
                    self._tree.core,
                    lambda tensors: self_ref()._trace(tensors),
                    form.names,
                    self._options._core,
                    self._taken,
                    loose_ops="poptorch" not in sys.modules,  # PopTorch refuses ops outside blocks
                )
                if self._training:
                    self._watch = _training.Watch(self._tree, self._optimizer)
                    self._link = _optim_state.link(self._optimizer, self._core, self._tree)
            except BaseException:
                self._unmake()
                raise
        return self._core

    def _unmake(self) -> None:
        """Gives up the devices and the tree; the parameters keep the newest values."""
        tree, self._tree, core, self._core = self._tree, None, self._core, None
        link, self._link, self._watch = self._link, None, None
        self._form = self._parts = None
        with contextlib.ExitStack() as ends:  # each of them, even if another one fails
            if tree is not None:
                ends.callback(tree.leave)
            if core is not None:
                ends.callback(core.destroy)
            if link is not None:
                ends.callback(link.end)
            if core is not None:
                tree.fetch_last()

    def _state_trees(self) -> List[Tree]:
        return [] if self._tree is None else [self._tree]

    def _after_fork(self) -> None:
        self._lock = _capture.model_lock()  # a thread that is not here may have had it
        if self._core is None:
            return
        _forks.lose(self._core)
        tree, self._tree, self._core, self._form, self._parts = self._tree, None, None, None, None
        if self._link is not None:
            self._link.lose()
            _forks.lose(self._link)
        self._link = self._watch = None
        self._lost = True
        tree.lose()

    def _rule(self) -> _core.Optimizer:
        if self._optimizer is None:
            self._optimizer = _training.default_optimizer(self._model)
        _training.require_no_hooks(self._model)
        _training.require_separate(self._tree)
        return _training.rule_of(self._optimizer, self._tree, self._options)

    def _trace(self, tensors: List[_core.Tensor]) -> List[_core.Tensor]:
        self._tree.fetch()
        _core.use_auto_id()
        with self._tree.plain() as captured, _mode_of(self._model, self._training):
            traced = _capture.trace(
                self._model,
                self._form.spec,
                tensors,
                parameters=self._tree.parameters,
                modules=self._tree.modules,
                training=self._training,
            )
            captured += traced.assigned
        self._traced = Traced(
            traced.spec,
            len(traced.outputs),
            tuple(traced.changed_inputs),
            tuple(traced.constants),
            tuple(each for each in self._tree.held if self._writes(each.parameter, traced)),
        )
        if self._training:
            _training.require_loss(traced, self._model, self._tree)
            _training.require_no_strangers(traced, self._optimizer)
            _training.with_scalar_loss(traced)
        # The loss is the last output, so inputs that forward wrote come first. A model that only writes
        # has an output all the same, which nobody sees.
        outputs = [*traced.changed_inputs.values(), *traced.outputs]
        return outputs if outputs else [_core.scalar(0.0)]

    def _writes(self, parameter: _core.Parameter, traced: _capture.Traced) -> bool:
        trained = self._training and not parameter.is_buffer and parameter.trainable
        return trained or any(each is parameter for each in traced.assigned)

    def _form_of(self, args: tuple, kwargs: Dict[str, Any]) -> Tuple[Form, List[torch.Tensor]]:
        form = self._form
        if form is not None and not form.compiled:  # the first call failed: this one may differ from it
            self._unmake()
        elif form is not None and form.tensors == len(args) and not kwargs:
            if all(type(each) is torch.Tensor for each in args):
                return form, list(args)
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _core.InvalidArgument(
                f"{type(self._model).__name__}.forward{self._signature}: {error}"
            ) from None
        for name, value in bound.arguments.items():
            require_tensors(name, value)
        add_defaults(bound)
        like = None if self._form is None else self._form.spec
        leaves, spec = _args.flatten((bound.args, bound.kwargs), like)
        if self._form is None:
            plain = not kwargs and all(type(each) is torch.Tensor for each in args)
            self._form = Form(spec, leaf_names(bound.arguments), len(args) if plain else -1)
        elif self._form.spec != spec:
            raise _core.InvalidArgument(
                "the model was compiled for arguments of another structure, or with other values of "
                f"those that are no tensors: {self._form.spec}, now {spec}; use another model for this "
                "kind of call"
            )
        return self._form, leaves

    def _prepare(self, args: tuple, kwargs: Dict[str, Any]):
        """The tensors of a call, and what was compiled for them."""
        form, leaves = self._form_of(args, kwargs)
        on_gpu = _gpu.are_on_gpu(form.names, leaves)
        inputs = None if on_gpu else [to_core(each, f"input '{name}'") for name, each in zip(form.names, leaves)]
        form.require_same_autocast()
        core = self._make(form)
        self._tree.require_unchanged(self._parts)
        if self._watch is not None:
            self._watch.require_unchanged()
        self._tree.push()
        types = tuple((each.shape, each.dtype) for each in leaves)
        traced = form.compiled.get(types)
        again = traced is not None and any(each.is_replaced() for each in traced.constants)
        if traced is None or again:
            _mark_modules(self._model, self._tree)
            for hook in list(_before_compile):
                hook()
            self._traced = None
            try:
                if self._executable is not None:
                    core.load_executable(self._executable)
                    self._executable = None
                like = inputs or _gpu.on_host(leaves)
                (core.compile_again if again else core.compile)(like)
                if self._traced is None:  # the program came from a file
                    core.trace(like)
            except BaseException:
                if not form.compiled:  # a traceback may keep the model, which must not keep the module
                    self._unmake()
                raise
            traced = form.compiled[types] = self._traced
            for hook in list(_after_compile):
                hook()
        for constant in traced.constants:
            constant.require_unchanged()
        if traced.changed:
            require_separate(form.names, leaves, traced.changed)
            for i in traced.changed:
                require_whole(form.names[i], leaves[i], core.returned_shape(leaves[i].shape))
            if on_gpu:
                raise _core.Unsupported(
                    f"forward changes its input '{form.names[traced.changed[0]]}' in place, which is on a GPU; "
                    "use tensor.cpu(), or do not change it"
                )
        return leaves, inputs, traced

    # --- running ----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step and returns what forward returned, joined over the micro-batches as the output
        mode says."""
        with self._lock:
            leaves, inputs, traced = self._prepare(args, kwargs)
            self._running = True
            try:
                results = _gpu.run(self._core, leaves) if inputs is None else self._core.run(inputs)
            except BaseException:
                self._tree.note_failure()
                raise
            finally:
                self._running = False
            if self._training:
                compat.note_step(self._optimizer)
            self._tree.note_step(traced.written)
        changed = len(traced.changed)
        for position, value in zip(traced.changed, results):
            with torch.no_grad():
                leaves[position].copy_(to_torch(value))
        outputs = results[changed : changed + traced.outputs]
        if inputs is not None:
            outputs = [to_torch(each) for each in outputs]
        return _args.unflatten(traced.spec, outputs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles for these arguments without running."""
        with self._lock:
            self._prepare(args, kwargs)

    def loadExecutable(self, filename: "str | os.PathLike[str]") -> None:
        """Takes the programs of a file that `save` or `compileAndExport` of a model of the same module
        and options has written, instead of compiling them; the values of the module stay. The next
        call still traces the module, to know its results."""
        with self._lock:
            if self._core is not None:
                raise _core.InvalidArgument("loadExecutable: call it before the model is called or compiled")
            self._executable = os.fspath(filename)

    def save(
        self, filename: "str | os.PathLike[str]", export_model: bool = True, save_rng_state: bool = True
    ) -> None:
        """Writes the compiled programs, and with `export_model` all values, to a file that `sluice.load`,
        `loadExecutable`, C++ and `sluice run` read. A folder gets a file with the model's name."""
        with self._lock:
            core = self._compiled("save")
            if any(traced.changed for traced in self._form.compiled.values()):
                raise _core.Unsupported("save: forward writes to its inputs, which no file can do for the caller")
            self._tree.push()
            core.save(os.fspath(filename), export_model, save_rng_state)

    def compileAndExport(
        self, filename: "str | os.PathLike[str]", *args: Any, export_model: bool = True, **kwargs: Any
    ) -> None:
        """Compiles for these arguments, without running, and saves."""
        with self._lock:
            self._prepare(args, kwargs)
            self.save(filename, export_model)

    def cancel(self) -> bool:
        """Ends the call that is running in another thread; it raises Cancelled."""
        return self._core is not None and self._core.cancel()

    def destroy(self) -> None:
        """Frees the devices. The module keeps the newest values of its parameters."""
        with self._lock:
            self._unmake()
            self._destroyed = True

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *error: Any) -> None:
        self.destroy()

    def __del__(self) -> None:
        try:
            self.destroy()
        except Exception:  # the interpreter is ending
            pass

    # --- asking -----------------------------------------------------------------------------

    @property
    def model(self) -> torch.nn.Module:
        """The module as it was given."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The options; they are frozen once the model is made."""
        return self._options

    @property
    def training(self) -> bool:
        """Whether calls update the weights."""
        return self._training

    def _compiled(self, what: str) -> _core.Model:
        if self._core is None:
            if self._lost:
                raise _forks.lost_error()
            if self._destroyed:
                raise _destroyed_error(what)
            raise _core.InvalidArgument(f"{what}: call or compile() the model first")
        return self._core

    def isCompiled(self) -> bool:
        """Whether the model is compiled for some arguments."""
        return self._core is not None and self._core.is_compiled

    @property
    def compilationTime(self) -> float:
        """Seconds spent compiling so far."""
        return self._compiled("compilationTime").compilation_time

    def findPlan(
        self,
        *args: Any,
        devices: int = 1,
        seconds: float = 10,
        exhaustive: bool = False,
        replicas: bool = True,
        **kwargs: Any,
    ) -> "PlanReport":
        """The fastest way to call the model with these arguments on so many simulated devices.

        Strategy, cut, schedule, recomputation and offload are planned within `memoryPerDevice` and
        simulated; nothing runs. `lines` sets up an object `options` for it; `tried` has (plan, fits,
        seconds, bytes of the largest device, why it is impossible). With `replicas`, copies of the model
        may share the micro-batches of a step; their gradients are added up in another order.
        """
        with self._lock:
            form, leaves = self._form_of(args, kwargs)
            inputs = [to_core(each, f"input '{name}'") for name, each in zip(form.names, leaves)]
            core = self._make(form)
            _mark_modules(self._model, self._tree)
            try:
                found = core.find_plan(inputs, devices, seconds, exhaustive, replicas)
            finally:
                if not form.compiled:
                    self._unmake()
            return PlanReport(**{"seconds": 0.0, "bytes": [], "lines": [], **found})

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes over the attributes of an optimizer, for instance after a scheduler has changed its
        learning rate."""
        if not self._training:
            raise _core.InvalidArgument("setOptimizer: an inference model has no optimizer")
        if optimizer is None:
            raise _core.InvalidArgument("setOptimizer: expected an optimizer, got None")
        _require_kind("optimizer", optimizer, torch.optim.Optimizer, _OPTIMIZER_HINT)
        with self._lock:
            if self._core is not None:
                if optimizer is not self._optimizer:
                    _optim_state.require_free(optimizer)
                _training.require_own(optimizer, self._tree)
                rule = update_optimizer(self._core, optimizer, self._tree.names())
                if optimizer is not self._optimizer:
                    self._link_to(optimizer)
                self._taken = rule
                self._watch.take(optimizer)
            self._optimizer = optimizer

    def _link_to(self, optimizer: torch.optim.Optimizer) -> None:
        """Ties the model to another optimizer; to the one of before if that fails."""
        try:
            self._link.end()
            self._link = _optim_state.link(optimizer, self._core, self._tree)
        except BaseException:
            self._core.set_optimizer(self._taken)
            self._link.resume()
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._user_model, name)
        if inspect.ismethod(value) and value.__self__ is self._user_model:
            return self._method(value)
        return value

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the module. Those that return the module, such as eval(), return the model."""

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return self if result is self._user_model else result

        return call

    def __repr__(self) -> str:
        kind = "training" if self._training else "inference"
        return f"{type(self).__name__}({kind}, {self._user_model!r})"

    def __reduce__(self):
        raise _core.Unsupported(
            "a model cannot be pickled or copied: save model.state_dict(), or copy the module itself"
        )


def _destroyed_error(what: str) -> _core.InvalidArgument:
    return _core.InvalidArgument(
        f"{what}: this model was destroyed; make a new one with trainingModel or inferenceModel"
    )


@contextlib.contextmanager
def _mode_of(module: torch.nn.Module, training: bool) -> Iterator[None]:
    """Inside, an inference model's modules are in evaluation mode, whatever mode they are in."""
    changed = [] if training else [part for part in module.modules() if part.training]
    for part in changed:
        part.training = False
    try:
        yield
    finally:
        for part in changed:
            part.training = True


def _mark_modules(module: torch.nn.Module, tree: Tree) -> None:
    """Tells the tree which modules begin a block (BeginBlock), and which have autocast set."""
    for part in module.modules():
        core = tree.modules[id(part)]
        mark = part.__dict__.get("_sluice_block")
        if mark is None:
            core.clear_block_mark()
        else:
            core.set_block_mark(*mark)
        autocast = part.__dict__.get("_sluice_autocast")
        if autocast is not None:
            core.autocast(autocast)


def trainingModel(
    model: torch.nn.Module,
    options: Optional[Options] = None,
    optimizer: Optional[torch.optim.Optimizer] = None,
) -> Executor:
    """Wraps a module for training. Its forward takes the inputs and the labels and returns the loss
    last: `return output, loss`. Every call of the result runs forward, backward and the optimizer; the
    module's parameters are always up to date when they are read. Without an optimizer, plain SGD with a
    learning rate of 0.01 is used."""
    return Executor(model, options, training=True, optimizer=optimizer)


def inferenceModel(model: torch.nn.Module, options: Optional[Options] = None) -> Executor:
    """Wraps a module for inference and validation. A module that is also trained, or a part of it,
    shares its weights with the training model. Dropout and norms always behave as after eval()."""
    return Executor(model, options, training=False)


def registerPreCompileHook(hook: Callable[[], None]) -> Callable[[], None]:
    """Calls the function before every compilation; the result removes it."""
    _before_compile.append(hook)
    return lambda: _before_compile.remove(hook)


def registerPostCompileHook(hook: Callable[[], None]) -> Callable[[], None]:
    """Calls the function after every compilation; the result removes it."""
    _after_compile.append(hook)
    return lambda: _after_compile.remove(hook)


def poptorchAtExit() -> None:
    """Destroys all models. The end of the interpreter does so, too."""
    for executor in _forks.living(Executor):
        executor.destroy()


@atexit.register
def _destroy_all() -> None:
    """Ends all models while the interpreter can still run their functions. Daemon threads go on for a
    while; they get no new ones."""
    global _ending
    _ending = True
    poptorchAtExit()
