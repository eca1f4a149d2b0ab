"""Op sets of a Builder. A table says what each op takes; methods are made from it."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np

from .. import _core
from . import _warn
from .tensor_info import data_type

if TYPE_CHECKING:
    from .builder import Builder

#: The opset of `builder.aiOnnx`, as in PopART. Ops that are newer have the form of the newest one.
DEFAULT_OPSET = 10
OLDEST_OPSET = 6
NEWEST_OPSET = 17

#: Methods whose names differ from the op's in lower case: PopART avoids words that languages reserve.
_METHOD_NAMES = {"And": "logical_and", "If": "logical_if", "Not": "logical_not", "Or": "logical_or",
                 "Xor": "logical_xor"}
#: Attributes that are numbers of element types and may be given in any spelling of a type.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_datatype", "tensor_type", "data_type", "outDataType"})

REQUIRED = inspect.Parameter.empty


class Attribute(NamedTuple):
    name: str
    kind: str  #: int, float, str, ints, floats, strs, tensor, graph, bool or reduction
    default: Any = REQUIRED
    onnx: Optional[str] = None  #: the attribute's name in the model, if it is another one


class OpSpec(NamedTuple):
    """One op: its name in the standard and what its method takes."""

    op: str
    attributes: Tuple[Attribute, ...] = ()
    inputs: Tuple[int, int] = (1, 1)
    outputs: Tuple[int, int] = (1, 1)
    opset: int = NEWEST_OPSET
    domain: str = ""
    doc: str = ""

    @property
    def counts_outputs(self) -> bool:
        """Whether the caller says how many results there are."""
        return self.outputs[0] != self.outputs[1]

    def signature(self) -> inspect.Signature:
        either, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = []
        if self.inputs[1] > 0:
            default = [] if self.inputs[0] == 0 else REQUIRED
            parameters.append(inspect.Parameter("args", either, default=default))
        required = [a for a in self.attributes if a.default is REQUIRED]
        optional = [a for a in self.attributes if a.default is not REQUIRED and a.name != "auto_pad"]
        if self.counts_outputs:
            default = 1 if not required and not (parameters and parameters[0].default == []) else REQUIRED
            parameters.append(inspect.Parameter("num_outputs", either, default=default))
        parameters += [inspect.Parameter(a.name, either, default=a.default) for a in required + optional]
        parameters.append(inspect.Parameter("debugContext", either, default=""))
        parameters += [inspect.Parameter(a.name, named, default=a.default)
                       for a in self.attributes if a.name == "auto_pad"]
        return inspect.Signature(parameters)

    def describe(self) -> str:
        least, most = self.inputs
        count = str(least) if least == most else f"{least} or more" if most > 100 else f"{least} to {most}"
        takes = f"{self.op} takes {count} tensor{'' if count == '1' else 's'}"
        version = f" (opset {self.opset})" if not self.domain else ""
        result = "a list of ids" if self.outputs[1] > 1 else "nothing" if self.outputs[1] == 0 else "an id"
        lines = [f"{takes} and returns {result}{version}.", *([self.doc] if self.doc else [])]
        lines += [f"    {a.name}: {a.kind}" + ("" if a.default is REQUIRED else f", {a.default!r} if not given")
                  for a in self.attributes]
        return "\n".join(lines)


@lru_cache(maxsize=None)
def onnx_specs(opset: int) -> Dict[str, OpSpec]:
    """The ops of an opset by their methods' names."""
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise _core.InvalidArgument(
            f"ai.onnx: expected an opset from {OLDEST_OPSET} to {NEWEST_OPSET}, got {opset}")
    specs = {}
    for op, (attributes, inputs, outputs, since) in _core.onnx_ops(opset).items():
        wanted = tuple(Attribute(name, kind, REQUIRED if required else default)
                       for name, kind, required, default in attributes)
        specs[_METHOD_NAMES.get(op, op.lower())] = OpSpec(op, wanted, inputs, outputs, max(since, 1))
    return {name: spec._replace(opset=opset) for name, spec in sorted(specs.items())}


def attribute_value(op: str, attribute: Attribute, value: Any) -> Any:
    """The value as _core takes it: a plain number, text, list or tensor."""
    try:
        if attribute.kind == "int":
            if attribute.name in _TYPE_ATTRIBUTES and not isinstance(value, (int, np.integer)):
                return int(data_type(value))
            return int(value)
        if attribute.kind == "bool":
            return int(bool(value))
        if attribute.kind == "float":
            return float(value)
        if attribute.kind == "ints":
            return [int(each) for each in value]
        if attribute.kind == "floats":
            return [float(each) for each in value]
        if attribute.kind == "tensor":
            return _core.HostTensor(np.asarray(value))
        if attribute.kind == "strs":
            return [str(each) for each in value]
    except (TypeError, ValueError) as error:
        if isinstance(error, _core.Error):
            raise
        raise _core.InvalidArgument(
            f"{op}, {attribute.name}: expected {attribute.kind}, got {value!r}") from None
    if attribute.kind == "reduction":
        return {"NoReduction": "none"}.get(getattr(value, "name", value), getattr(value, "name", str(value)).lower())
    if not isinstance(value, str):
        raise _core.InvalidArgument(f"{op}, {attribute.name}: expected a text, got {value!r}")
    return value


class OpSet:
    """The ops of one domain, for one Builder."""

    _specs: Dict[str, OpSpec] = {}

    def __init__(self, builder: "Builder") -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no op '{name}'"
                             f"{_warn.did_you_mean(name, self._specs)}")

    def _bind(self, name: str, spec: OpSpec, args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
        for old in ("debugPrefix", "debug_context"):
            if old in kwargs:
                kwargs["debugContext"] = kwargs.pop(old)
        for attribute in spec.attributes:
            if attribute.onnx in kwargs:  # lambda and from are no names of parameters
                kwargs[attribute.name] = kwargs.pop(attribute.onnx)
        try:
            return dict(spec.signature().bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{name}{spec.signature()}: {error}") from None

    def _make(self, name: str, spec: OpSpec, args: Sequence[Any], kwargs: Dict[str, Any]) -> Union[str, List[str]]:
        given = self._bind(name, spec, args, kwargs)
        inputs = given.pop("args", [])
        if isinstance(inputs, str):
            raise TypeError(f"{name}: the tensors come as a list: {name}([{inputs!r}], ...)")
        count = len(inputs)
        if not spec.inputs[0] <= count <= spec.inputs[1]:
            least, most = spec.inputs
            raise _core.InvalidArgument(
                f"{name} takes {least if least == most else f'{least} to {most}'} tensors, got {count}")
        outputs = int(given.pop("num_outputs", spec.outputs[0] if not spec.counts_outputs else max(spec.outputs[0], 1)))
        if not spec.outputs[0] <= outputs <= spec.outputs[1]:
            raise _core.InvalidArgument(
                f"{name}: num_outputs is from {spec.outputs[0]} to {spec.outputs[1]}, got {outputs}")
        context = given.pop("debugContext", "")
        attributes, bodies = {}, {}
        for attribute in spec.attributes:
            value = given.get(attribute.name)
            if value is None or (isinstance(value, (list, tuple)) and not value):
                continue
            if attribute.kind == "graph":
                bodies[attribute.name] = value
            else:
                attributes[attribute.onnx or attribute.name] = attribute_value(name, attribute, value)
        ids = self._builder._op(spec, inputs, attributes, outputs, context, bodies)
        return ids if spec.outputs[1] > 1 else ids[0] if ids else None


def _method(name: str, spec: OpSpec) -> Any:
    def call(self: OpSet, *args: Any, **kwargs: Any) -> Any:
        return self._make(name, spec, args, kwargs)

    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(spec.signature().parameters.values())
    call.__name__ = name
    call.__doc__ = spec.describe()
    # Some of the standard's attributes have no default that Python's rules allow after a required one.
    call.__signature__ = inspect.Signature([self_parameter, *parameters])
    return call


def make_op_set(name: str, specs: Dict[str, OpSpec], doc: str, base: Type[OpSet] = OpSet) -> Type[OpSet]:
    """A class with a method for each op."""
    methods = {each: _method(each, spec) for each, spec in specs.items() if not hasattr(base, each)}
    for each, method in methods.items():
        method.__qualname__ = f"{name}.{each}"
    return type(name, (base,), {"__doc__": doc, "__module__": "sluice.popart", "_specs": specs, **methods})


class OnnxOps(OpSet):
    """Ops of the standard that a table cannot say."""

    _opset = NEWEST_OPSET

    def constant(self, value: Any, debugContext: Any = "") -> str:
        """A tensor that never changes."""
        return self._builder.addConstant(value, debugContext)

    def split(self, args: Sequence[str], num_outputs: Optional[int] = None, axis: int = 0,
              split: Sequence[int] = (), debugContext: Any = "") -> List[str]:
        """Cuts a tensor along an axis into parts of these sizes, or into equal ones.

        From opset 13 on, the sizes may also be a second tensor.
        """
        spec = self._specs["split"]
        args, given = list(args), {"axis": axis}
        if split and any(each.name == "split" for each in spec.attributes):
            given["split"] = split
        elif split:
            args.append(self._builder.addConstant(np.asarray(split, np.int64)))
        if num_outputs is None:
            num_outputs = len(split)
        return self._make("split", spec, (args, num_outputs), {**given, "debugContext": debugContext})

    def logical_if(self, args: Sequence[str], num_outputs: int, else_branch: "Builder",
                   then_branch: "Builder", name: Any = "") -> List[str]:
        """The results of one of two graphs. Both are computed, and the condition selects."""
        if len(args) != 1:
            raise _core.InvalidArgument(f"logical_if takes 1 tensor, the condition; got {len(args)}")
        graphcore = self._builder.aiGraphcore
        branches = [graphcore.call([], num_outputs, branch, name) for branch in (then_branch, else_branch)]
        where = onnx_specs(max(self._opset, 9))["where"]
        return [self._builder._op(where, [args[0], yes, no], {}, 1, name, {})[0]
                for yes, no in zip(*branches)]


@lru_cache(maxsize=None)
def onnx_op_set(opset: int, strict: bool = True) -> Type[OpSet]:
    """The class of an opset. One that is not strict also has the ops of newer opsets."""
    specs = onnx_specs(opset)
    if not strict:
        specs = {**onnx_specs(NEWEST_OPSET), **specs}
    later = "" if strict else f", and those that came later, up to opset {NEWEST_OPSET}"
    doc = f"Ops of ONNX's opset {opset}{later}."
    made = make_op_set(f"AiOnnxOpset{opset}" if strict else "AiOnnx", dict(sorted(specs.items())), doc, OnnxOps)
    made._opset = opset
    return made
