"""Pipelines of stages that run on several devices at the same time."""

from __future__ import annotations

import enum
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from .. import _core
from ..nn._tensor import as_tensor, is_symbolic
from ..nn.variables import Graph
from . import ipu_compiler
from ._operation import Operation
from ._structure import Names, callable_of
from .ipu_infeed_queue import IPUInfeedQueue
from .ipu_outfeed_queue import IPUOutfeedQueue
from .loops import _as_list
from .optimizers import GradientAccumulationReductionMethod, Optimizer, accumulation_dtype

__all__ = [
    "OptimizerFunctionOutput", "PipelineSchedule", "PipelineStageOptions", "RecomputationMode",
    "pipeline",
]


class PipelineSchedule(enum.Enum):
    """Grouped: forward passes run at the same time, then backward passes. Interleaved: a device
    alternates between them and keeps fewer activations. Sequential: one stage at a time."""

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """Auto: as the options say. RecomputeThenBackpropagate: what a stage does not pass on is
    recomputed. RecomputeAndBackpropagateInterleaved: from a few points of each stage."""

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class OptimizerFunctionOutput(NamedTuple):
    """What an optimizer function returns: the optimizer, which must not be wrapped, and the loss."""

    opt: Optimizer
    loss: Any


class PipelineStageOptions:
    """Options of one stage: the largest share of a device's memory that its convolutions and products
    should use."""

    def __init__(self, available_memory_proportion: Optional[float] = None) -> None:
        if available_memory_proportion is not None and not 0 <= available_memory_proportion <= 1:
            raise _core.InvalidArgument(
                f"available_memory_proportion is from 0 to 1, got {available_memory_proportion}"
            )
        self.available_memory_proportion = available_memory_proportion


def pipeline(
    computational_stages: Sequence[Union[Callable, Sequence[Callable]]],
    gradient_accumulation_count: Optional[int] = None,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Optional[Sequence[Any]] = None,
    infeed_queue: Optional[IPUInfeedQueue] = None,
    outfeed_queue: Optional[IPUOutfeedQueue] = None,
    optimizer_function: Optional[Callable] = None,
    device_mapping: Optional[Sequence[Union[int, Sequence[int]]]] = None,
    pipeline_schedule: Optional[PipelineSchedule] = None,
    recomputation_mode: Optional[RecomputationMode] = None,
    forward_propagation_stages_poplar_options: Optional[Sequence[PipelineStageOptions]] = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: None = None,
    offload_weight_update_variables: Optional[bool] = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: Optional[bool] = None,
    offload_gradient_accumulation_buffers: Optional[bool] = None,
    replicated_weight_sharding: Optional[bool] = None,
    offload_weights: Optional[bool] = None,
    gradient_accumulation_dtype: Any = None,
    reduction_method: Any = GradientAccumulationReductionMethod.SUM,
    name: Optional[str] = None,
) -> Operation:
    """Runs stages as a pipeline. Stage 0 gets `inputs` and then the infeed's tensors; every later stage
    gets exactly the outputs of the one before, those of a dict by names. An element of the stages may be
    a list of functions, which run at the same time on their own devices; they get the same arguments,
    and their outputs are joined. A run takes gradient_accumulation_count mini-batches and ends with an update; a call of the
    compiled function makes repeat_count runs. Without an optimizer function nothing is trained."""
    given = dict(locals())
    function = ipu_compiler.current("pipelining_ops.pipeline")
    _require(given)
    names = Names()
    stages = [_functions_of(stage, number, names) for number, stage in enumerate(computational_stages)]
    _limit_memory(stages, forward_propagation_stages_poplar_options)
    options = _options(given, function.graph, names, len(stages))
    function._needs_devices(_device_count(stages, options["device_mapping"]))
    if infeed_queue is not None:
        options["infeed"] = infeed_queue._started()
        carried = len(options["inputs"])
        stages[0] = [infeed_queue._with_names(body, carried) for body in stages[0]]
    function._keep(options["infeed"], options["outfeed"])
    _core.pipeline(stages, options)
    if outfeed_queue is not None:
        outfeed_queue._names = None if outfeed_loss else names.of(len(stages) - 1)
    return Operation(name or "pipeline")


def _require(given: Dict[str, Any]) -> None:
    if given["accumulate_outfeed_dtype"] is not None:
        raise _core.Unsupported("pipeline: accumulate_outfeed_dtype; sums have the type of the outputs")
    if given["gradient_accumulation_count"] is None:
        raise _core.InvalidArgument("pipeline: gradient_accumulation_count must be given")


#: Arguments that the library takes as they are, and those where None means False.
_PLAIN = (
    "accumulate_outfeed",
    "batch_serialization_iterations",
    "continuous_weight_updates",
    "gradient_accumulation_count",
    "offload_weight_update_variables",
    "outfeed_loss",
    "repeat_count",
    "replicated_optimizer_state_sharding",
)
_FLAGS = (
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "offload_weights",
    "replicated_weight_sharding",
)


def _options(given: Dict[str, Any], graph: Graph, names: Names, stages: int) -> Dict[str, Any]:
    """The arguments as the library takes them; the infeed comes later."""
    schedule, mode = given["pipeline_schedule"], given["recomputation_mode"]
    outfeed = given["outfeed_queue"]
    reduction = GradientAccumulationReductionMethod.parse(given["reduction_method"])
    return {
        **{name: given[name] for name in _PLAIN},
        **{name: bool(given[name]) for name in _FLAGS},
        "inputs": [as_tensor(value) for value in _as_list(given["inputs"])],
        "infeed": None,
        "outfeed": outfeed._queue if outfeed is not None else None,
        "optimizer_function": _optimizer_function(
            given["optimizer_function"], graph, lambda call, tensors: names.call(stages - 1, call, tensors)
        ),
        "device_mapping": [_as_list(devices) for devices in given["device_mapping"] or ()],
        "pipeline_schedule": _named("pipeline_schedule", PipelineSchedule, schedule),
        "recomputation_mode": _named("recomputation_mode", RecomputationMode, mode),
        "gradient_accumulation_dtype": accumulation_dtype(given["gradient_accumulation_dtype"], graph),
        "reduction_method": reduction.value,
    }


def _functions_of(stage: Any, number: int, names: Names) -> List[Callable]:
    """The functions of a stage as functions from lists of tensors to lists of tensors."""
    where = f"stage {number} of the pipeline"

    def staged(function: Callable, first: bool) -> Callable:
        call = callable_of(function, where)

        def run(tensors: List[_core.Tensor], named: Optional[Dict[str, _core.Tensor]] = None) -> List[_core.Tensor]:
            if first:
                names.begin(number)
            if named is not None or number == 0:  # from an infeed
                result = call(*tensors, **(named or {}))
            else:
                result = names.call(number - 1, call, tensors)
            return names.results(number, result, where)

        return run

    functions = list(stage) if isinstance(stage, (list, tuple)) else [stage]
    return [staged(function, i == 0) for i, function in enumerate(functions)]


def _device_count(stages: List[List[Callable]], mapping: List[List[int]]) -> int:
    if mapping:
        return max((device for devices in mapping for device in devices), default=0) + 1
    return sum(len(functions) for functions in stages)


def _named(what: str, kind: Any, value: Any) -> str:
    """The name of an enumerator; that of the first one for None."""
    if value is None:
        return next(iter(kind)).name
    if not isinstance(value, kind):
        raise TypeError(f"pipeline: {what} is a {kind.__name__}, got {value!r}")
    return value.name


def _optimizer_function(
    function: Optional[Callable], graph: Graph, apply: Callable[[Callable, List[_core.Tensor]], Any]
) -> Optional[Callable]:
    """As the library calls it. `apply` gives it the results of the last stage."""
    if function is None:
        return None

    def call(outputs: List[_core.Tensor]) -> tuple:
        result = apply(function, outputs)
        if not isinstance(result, OptimizerFunctionOutput):
            raise TypeError(
                "pipeline: the optimizer_function returns an OptimizerFunctionOutput, got "
                f"{type(result).__name__}"
            )
        if not isinstance(result.opt, Optimizer):
            raise TypeError(f"pipeline: expected an optimizer, got {type(result.opt).__name__}")
        if not is_symbolic(result.loss):
            raise TypeError(f"pipeline: expected a tensor as loss, got {type(result.loss).__name__}")
        return result.opt._rule(graph), as_tensor(result.loss)

    return call


def _limit_memory(stages: List[List[Callable]], options: Optional[Sequence[Any]]) -> None:
    """Gives the outputs of stages their share of memory."""
    if options is None:
        return
    if len(options) != len(stages):
        raise _core.InvalidArgument(
            f"pipeline: there are options for {len(options)} stages, and {len(stages)} stages"
        )
    for functions, option in zip(stages, options):
        share = option.available_memory_proportion
        if share is not None:
            functions[:] = [_limited(function, share) for function in functions]


def _limited(function: Callable, share: float) -> Callable:
    return lambda *arguments: [
        _core.functions.set_available_memory(output, share) for output in function(*arguments)
    ]
