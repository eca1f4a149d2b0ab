"""Functions for the forward of a model that torch does not have.

Inside a model that is traced they make ops. Outside they do what they mean with plain tensors, or
just return their argument, so that a module also runs in torch alone.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

import torch

from ._option_base import warn_no_effect
from .blocks import Attribute, BeginBlock, Block, BlockFunction, LegacyBeginBlockFn, NameScope, _Scope, removeBlocks
from .custom import CPU, custom_op
from .enums import MatMulSerializationMode, MultiConvPlanType, OverlapMode

__all__ = [
    "Attribute",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CPU",
    "LegacyBeginBlockFn",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "identity_loss",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "nop",
    "recomputationCheckpoint",
    "removeBlocks",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]

Tensor = torch.Tensor
Body = Callable[..., Any]


def isRunningOnIpu() -> bool:
    """Whether this code runs in the trace of a model, so that its ops will run on devices."""
    from . import _core

    return bool(_core.tracing())


def _emit(function: str, tensors: Sequence[Any], *arguments: Any, **options: Any) -> Any:
    """Calls a function of the core with the tensors' values; wraps the results."""
    from . import _capture, _core

    values = [_capture.unwrap(each) for each in tensors]
    result = getattr(_core.functions, function)(*values, *arguments, **options)
    if isinstance(result, (list, tuple)):
        return tuple(_capture.wrap(each, tensors) for each in result)
    return _capture.wrap(result, tensors)


def _require_tensor(function: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}: {name} must be a tensor, got {value!r}")


def identity_loss(x: Tensor, reduction: str) -> Tensor:
    """Reduces x ("mean", "sum" or "none") and marks the result as the loss that is minimised.

    All other marked losses must feed the one that the model minimises.
    """
    names = {0: "sum", 1: "mean", 2: "none"}
    reduction = names.get(reduction, reduction)  # type: ignore[call-overload]
    if reduction not in names.values():
        raise ValueError(f"identity_loss: expected 'mean', 'sum' or 'none', got {reduction!r}")
    if isRunningOnIpu():
        from . import _capture

        loss = _emit("identity_loss", [x], reduction)
        _capture.mark_loss(loss)
        return loss
    return x if reduction == "none" else getattr(x, reduction)()


def nop(tensor: Tensor) -> Tensor:
    """Returns the tensor unchanged, as an op that no pass removes."""
    return _emit("nop", [tensor]) if isRunningOnIpu() else tensor


def recomputationCheckpoint(*tensors: Tensor) -> Any:
    """Keeps the tensors for the backward pass where activations are recomputed."""
    if not tensors:
        raise ValueError("recomputationCheckpoint: expected one or more tensors")
    if isRunningOnIpu():
        tensors = tuple(_emit("recomputation_checkpoint", [each]) for each in tensors)
    return tensors[0] if len(tensors) == 1 else tensors


def serializedMatMul(
    lhs: Tensor,
    rhs: Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> Tensor:
    """Computes matmul(lhs, rhs) as ``factor`` smaller products, which need less working memory.

    ``mode`` says which dimension is cut; ``factor`` must divide it. With ``keep_precision``,
    partial results of 16-bit types are added in float32.
    """
    mode = MatMulSerializationMode[mode] if isinstance(mode, str) else MatMulSerializationMode(mode)
    if isRunningOnIpu():
        return _emit("serialized_matmul", [lhs, rhs], mode.name, factor, keep_precision)
    return torch.matmul(lhs, rhs)


def set_available_memory(tensor: Tensor, available_memory_proportion: float) -> Tensor:
    """Says which share of a device's memory the op that made the tensor should use at most.

    A hint: the model warns if the share, a number from 0 to 1, is too small.
    """
    if not 0 <= available_memory_proportion <= 1:
        raise ValueError(
            f"set_available_memory: expected a share from 0 to 1, got {available_memory_proportion}"
        )
    if isRunningOnIpu():
        return _emit("set_available_memory", [tensor], float(available_memory_proportion))
    return tensor


def ipu_print_tensor(
    tensor: Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> Tensor:
    """Logs the tensor in every run and, in training, its gradient. Use the result, or it is gone.

    Tensors with more elements than ``summarise_threshold`` are cut to their edges.
    """
    formats = ("auto", "fixed", "scientific", "none")
    if float_format not in formats:
        raise ValueError(f"ipu_print_tensor: float_format must be one of {formats}")
    if not isRunningOnIpu():
        return tensor
    text: Dict[str, Any] = {
        "summarise_threshold": summarise_threshold,
        "edge_items": edge_items,
        "max_line_width": max_line_width,
        "digits": digits,
        "float_format": float_format,
        "separator": separator,
        "open_bracket": open_bracket,
        "close_bracket": close_bracket,
    }
    return _emit("print_tensor", [tensor], title, print_gradient, text)


def ctc_beam_search_decoder(
    probs: Tensor, lengths: Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> Tuple[Tensor, Tensor, Tensor]:
    """Decodes log-probabilities [steps, batch, classes] of the lengths [batch].

    Returns the log-probabilities [batch, paths], lengths [batch, paths] and labels
    [batch, paths, steps] of the best paths. torch has no such function, so a small model
    computes it outside of models.
    """
    _require_tensor("ctc_beam_search_decoder", "probs", probs)
    _require_tensor("ctc_beam_search_decoder", "lengths", lengths)
    if isRunningOnIpu():
        return _emit("ctc_beam_search_decoder", [probs, lengths], blank, beam_width, top_paths)
    from .model import inferenceModel

    model = inferenceModel(_Decoder(blank, beam_width, top_paths))
    try:
        return model(probs, lengths)
    finally:
        model.destroy()


class _Decoder(torch.nn.Module):
    def __init__(self, *settings: int) -> None:
        super().__init__()
        self._settings = settings

    def forward(self, probs: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        return ctc_beam_search_decoder(probs, lengths, *self._settings)


# Control flow.


def _body(function: str, body: Body) -> Callable[[List[Any]], List[Any]]:
    """The body of a loop or a branch as a function of the core's tensors."""
    from . import _capture

    def call(values: List[Any]) -> List[Any]:
        with _capture.body():
            return [_capture.unwrap(x) for x in _results(function, body(*map(_capture.wrap, values)))]

    return call


def _results(function: str, results: Any) -> List[Any]:
    results = [results] if isinstance(results, Tensor) else list(results)
    for each in results:
        _require_tensor(function, "every result of the body", each)
    return results


def _inputs(function: str, inputs: Any) -> List[Tensor]:
    if not isinstance(inputs, (list, tuple)):
        raise ValueError(f"{function}: the inputs must be a list of tensors, got {inputs!r}")
    for each in inputs:
        _require_tensor(function, "every input", each)
    return list(inputs)


def for_loop(count: int, body: Body, inputs: Sequence[Tensor]) -> List[Tensor]:
    """Applies the body ``count`` times, first to the inputs and then to its own results.

    Tensors are passed by value. The body returns as many tensors as it takes, of the same shapes
    and types. From 16 runs on, a model compiles the body once.
    """
    tensors = _inputs("for_loop", inputs)
    if isRunningOnIpu():
        from . import _capture, _core

        values = [_capture.unwrap(each) for each in tensors]
        results = _core.functions.for_loop(count, _body("for_loop", body), values)
        return [_capture.wrap(each) for each in results]
    for _ in range(count):
        results = _results("for_loop", body(*(each.clone() for each in tensors)))
        if [(x.shape, x.dtype) for x in results] != [(x.shape, x.dtype) for x in tensors]:
            raise ValueError("for_loop: the body must return tensors like those that it takes")
        tensors = results
    return tensors


def cond(
    condition: Tensor,
    then_body: Body,
    then_inps: Sequence[Tensor],
    else_body: Body,
    else_inps: Sequence[Tensor],
) -> List[Tensor]:
    """The results of one of two bodies, chosen by a tensor with a single bool.

    Both bodies return equally many tensors of the same shapes and types, and neither may write a
    buffer. A model runs only the chosen one where it can.
    """
    then_tensors, else_tensors = _inputs("cond", then_inps), _inputs("cond", else_inps)
    if isRunningOnIpu():
        from . import _capture, _core

        results = _core.functions.cond(
            _capture.unwrap(condition),
            _body("cond", then_body),
            [_capture.unwrap(each) for each in then_tensors],
            _body("cond", else_body),
            [_capture.unwrap(each) for each in else_tensors],
        )
        return [_capture.wrap(each) for each in results]
    body, tensors = (then_body, then_tensors) if bool(condition) else (else_body, else_tensors)
    return _results("cond", body(*(each.clone() for each in tensors)))


# Slices at computed offsets.


def dynamic_slice(
    tensor: Tensor, dim: int, start: Union[int, Tensor], size: int, step: int = 1
) -> Tensor:
    """Every step-th of ``size`` elements along a dimension, from an offset that may be a tensor."""
    if step < 1 or size % step != 0:
        raise ValueError(f"dynamic_slice: the step must divide the size {size}, got {step}")
    if isRunningOnIpu() and isinstance(start, Tensor):
        from . import _capture, _core

        values = _capture.unwrap(tensor), _capture.unwrap(start)
        return _capture.wrap(_core.functions.dynamic_slice(values[0], dim, values[1], size, step))
    block = tensor.narrow(dim, int(start), size)
    return block.index_select(dim, torch.arange(0, size, step)) if step > 1 else block


def dynamic_update(
    input: Tensor, src: Tensor, dim: int, start: Union[int, Tensor], size: int
) -> Tensor:
    """A copy of the input with ``size`` elements along a dimension replaced by those of ``src``."""
    if src.shape[dim] != size:
        raise ValueError(
            f"dynamic_update: src has {src.shape[dim]} elements along dimension {dim}, and size is "
            f"{size}"
        )
    if isRunningOnIpu() and isinstance(start, Tensor):
        from . import _capture, _core

        x, update, at = (_capture.unwrap(each) for each in (input, src, start))
        return _capture.wrap(_core.functions.dynamic_update(x, update, dim, at))
    result = input.clone()
    result.narrow(dim, int(start), size).copy_(src)
    return result


# Hints.


class MultiConv(_Scope):
    """A group of convolutions that do not depend on each other: ``with MultiConv():``.

    The options take one value for all convolutions or a list with one value for each. Results are
    those of separate convolutions. ``availableMemoryProportions`` works like
    ``set_available_memory``; the others are hints for devices with tiles.
    """

    def __init__(self) -> None:
        super().__init__()
        self._settings: Dict[str, Any] = {}

    def availableMemoryProportions(self, value: Union[float, Sequence[float]]) -> "MultiConv":
        """The share of a device's memory for each convolution, from 0 to 1."""
        return self._set("available_memory_proportions", value, float)

    def partialsTypes(self, value: Any) -> "MultiConv":
        """The types in which products may accumulate: torch.float32 or torch.float16."""
        names = {torch.float32: "float32", torch.float16: "float16"}
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each not in names:
                raise ValueError(f"partialsTypes: expected torch.float32 or float16, got {each!r}")
        return self._set("partials_types", value, names.__getitem__)

    def enableConvDithering(self, value: Union[bool, Sequence[bool]]) -> "MultiConv":
        """Whether convolutions begin on different tiles."""
        return self._set("enable_conv_dithering", value, bool)

    def planType(self, value: MultiConvPlanType) -> "MultiConv":
        """Whether convolutions share the tiles at the same time or use all tiles in turn."""
        self._settings["plan_type"] = MultiConvPlanType(value).name
        return self

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """The least number of tiles that each convolution gets."""
        self._settings["per_conv_reserved_tiles"] = int(value)
        return self

    def cycleBackOff(self, value: float) -> "MultiConv":
        """How much slower a convolution may be than alone, so that others get tiles."""
        self._settings["cycle_back_off"] = float(value)
        return self

    def _set(self, name: str, value: Any, convert: Callable[[Any], Any]) -> "MultiConv":
        items = value if isinstance(value, (list, tuple)) else [value]
        self._settings[name] = [convert(each) for each in items]
        return self

    def _make(self) -> Any:
        from . import _core

        return _core.MultiConv(**self._settings)


def _overlap(name: str, tensors: Any, mode: Any) -> Any:
    if not isinstance(mode, OverlapMode):
        raise TypeError(f"{name}: expected an OverlapMode, got {mode!r}")
    if isRunningOnIpu():
        warn_no_effect(name)
    return tensors


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Returns the tensors. They are copied while devices compute whenever that is possible."""
    return _overlap("set_overlap_for_input", input_tensors, mode)


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Returns the tensors. They are copied while devices compute whenever that is possible."""
    return _overlap("set_overlap_for_output", output_tensors, mode)
