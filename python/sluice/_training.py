"""What a training model asks of its module, its loss and its optimizer."""

from __future__ import annotations

import math
import warnings
from typing import Dict, List

import torch

from . import _capture, _core
from ._capture import compat
from ._optim_core import to_core as optimizer_to_core
from ._optim_core import untrained
from ._state import Held, Tree
from .options import Options


def default_optimizer(module: torch.nn.Module) -> torch.optim.Optimizer:
    """What a model without an optimizer is trained with."""
    parameters = list(module.parameters())
    if not parameters:
        raise _core.InvalidArgument(
            f"{type(module).__name__} has no parameters, so that there is nothing to train; use "
            "inferenceModel, or make its weights torch.nn.Parameters of the module"
        )
    return torch.optim.SGD(parameters, lr=0.01)


def require_own(optimizer: torch.optim.Optimizer, tree: Tree) -> None:
    """An error if none of the optimizer's parameters is one of the module's."""
    names = tree.names()
    if not any(id(p) in names for group in optimizer.param_groups for p in group["params"]):
        raise _core.InvalidArgument(
            "the optimizer has none of the module's parameters; make it with "
            "module.parameters() of the module that is trained"
        )


def rule_of(optimizer: torch.optim.Optimizer, tree: Tree, options: Options) -> _core.Optimizer:
    """The optimizer as the library has it. Parameters in none of its groups are not trained."""
    require_own(optimizer, tree)
    names = tree.names()
    rule = optimizer_to_core(optimizer, names)
    if options._core.text("training.setAutomaticLossScaling").startswith("true"):
        rule.mark_variable("loss_scaling")
    left_out = set(untrained(optimizer, names))
    for each in tree.held:
        if not each.parameter.is_buffer:
            each.parameter.trainable = (
                each.tensor.requires_grad and each.parameter.full_name not in left_out
            )
    return rule


def require_loss(traced: _capture.Traced, module: torch.nn.Module, tree: Tree) -> None:
    """An error if forward returned nothing that training could make smaller."""
    kind = type(module).__name__
    if not traced.outputs:
        raise _core.InvalidArgument(
            f"{kind}.forward returned no tensor: a training model minimises the last tensor that forward "
            "returns, so end it with `return output, loss`"
        )
    if traced.trains:
        return
    if not any(each.parameter.trainable for each in tree.held if not each.parameter.is_buffer):
        raise _core.InvalidArgument(
            f"{kind} has no trainable weights: each of its parameters is frozen (requires_grad is False) or "
            "in no parameter group of the optimizer"
        )
    raise _core.InvalidArgument(
        f"the loss of {kind}, which is the last tensor that forward returns or what identity_loss marks, "
        "depends on no weight that is trained: return the loss last, compute it from what the layers "
        "return, and leave out what ends gradients on the way: torch.no_grad, detach(), .data, and "
        "functions such as argmax. Weights that are frozen, or in no parameter group of the optimizer, are "
        "not trained"
    )


def require_no_strangers(traced: _capture.Traced, optimizer: torch.optim.Optimizer) -> None:
    """An error if forward uses a parameter of the optimizer that the module does not know."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for each in traced.constants:
        if id(each.tensor) in wanted:
            where = f" at {each.line}" if each.line else ""
            raise _core.InvalidArgument(
                f"forward uses{where} a parameter {list(each.tensor.shape)} that the optimizer has and the module "
                "has not, so that it would not be trained: make it an attribute of the module; those in lists and "
                "dictionaries need torch.nn.ParameterList, ModuleList, ParameterDict or ModuleDict"
            )


def with_scalar_loss(traced: _capture.Traced) -> None:
    """Marks a loss that is a tensor with axes, but has one element: torch takes it for a number."""
    loss = traced.outputs[-1]
    if not traced.marks_loss and len(loss.shape) > 0 and math.prod(loss.shape) == 1:
        _core.functions.identity_loss(loss, "sum")


def require_separate(tree: Tree) -> None:
    """An error if a weight is in the same memory as another tensor of the module: a step would write the one and
    not the other."""
    by_memory: Dict[int, List[Held]] = {}
    with compat.without_torch_function():
        for each in tree.held:
            x = each.tensor
            if x.numel() > 0:
                by_memory.setdefault(x.data_ptr() - x.storage_offset() * x.element_size(), []).append(each)
        for group in by_memory.values():
            before: List[Held] = []
            for each in sorted(group, key=lambda held: held.tensor.storage_offset()):
                before = [other for other in before if _end(other.tensor) > each.tensor.storage_offset()]
                for other in before:
                    if (each.tensor.requires_grad or other.tensor.requires_grad) and _overlap(each.tensor, other.tensor):
                        names = sorted((each.parameter.full_name, other.parameter.full_name))
                        raise _core.InvalidArgument(
                            f"'{names[0]}' and '{names[1]}' are two tensors in the same memory, and a model would "
                            "train them apart from each other: tie weights by assigning the same Parameter "
                            "(decoder.weight = encoder.weight), or clone() one of them"
                        )
                before.append(each)


def _end(x: torch.Tensor) -> int:
    """Where the elements end in their memory."""
    return x.storage_offset() + sum((n - 1) * step for n, step in zip(x.size(), x.stride())) + 1


def _overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors of one memory, whose ends overlap, have an element in common."""
    if x.is_contiguous() and y.is_contiguous():
        return True
    taken = torch.zeros(max(_end(x), _end(y)), dtype=torch.bool)
    taken.as_strided(x.size(), x.stride(), x.storage_offset()).fill_(True)
    return bool(taken.as_strided(y.size(), y.stride(), y.storage_offset()).any())


def require_no_hooks(module: torch.nn.Module) -> None:
    """An error if there are hooks that want to see or change gradients: they would not run."""
    for path, part in module.named_modules():
        if compat.has_backward_hooks(part):
            what = f"the module '{path}'" if path else f"{type(module).__name__}"
            raise _hooks_error(f"{what} has a backward hook")
    for name, parameter in module.named_parameters():
        if compat.has_gradient_hooks(parameter):
            raise _hooks_error(f"the parameter '{name}' has a gradient hook")


def _hooks_error(found: str) -> _core.Unsupported:
    return _core.Unsupported(
        f"{found}, and gradients of a training model stay on the devices, so that it would never be called: "
        "remove it; an optimizer of sluice.optim clips gradients with max_grad_norm, and "
        "Options.anchorTensor lets you look at them"
    )


class Watch:
    """What a compiled training model has taken over, to see that it changes only as it may."""

    def __init__(self, tree: Tree, optimizer: torch.optim.Optimizer) -> None:
        self._tree = tree
        with compat.without_torch_function():
            self._trained = [each.tensor.requires_grad for each in tree.held]
        self._warned = False
        self.take(optimizer)

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        """Notes that the model has the optimizer's attributes as they are now."""
        self._optimizer = optimizer
        self._rates = self._rates_now()

    def _rates_now(self) -> List[float]:
        return [group["lr"] for group in self._optimizer.param_groups]

    def require_unchanged(self) -> None:
        """An error if weights were frozen or unfrozen; a warning if a learning rate was left behind."""
        with compat.without_torch_function():
            now = [each.tensor.requires_grad for each in self._tree.held]
        if now != self._trained:
            each = next(e for e, a, b in zip(self._tree.held, now, self._trained) if a != b)
            then = "trained" if each.parameter.trainable else "frozen"
            raise _core.InvalidArgument(
                f"requires_grad of the parameter '{each.parameter.full_name}' has changed, which was {then} when "
                "the model was made, and is so in its program: destroy() the model and make a new one with "
                "the same optimizer"
            )
        if not self._warned and self._rates_now() != self._rates:
            self._warned = True
            warnings.warn(
                "a learning rate of the optimizer has changed, and the model still trains with that of before: "
                "call model.setOptimizer(optimizer) after each change",
                stacklevel=4,
            )
