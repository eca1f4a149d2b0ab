"""Optimizers: PyTorch's own, with the attributes that float16 and the devices need.

    optimizer = sluice.optim.AdamW(model.parameters(), lr=1e-3, loss_scaling=1024)
    training = sluice.trainingModel(model, options, optimizer)

The classes are subclasses of torch.optim's, so parameter groups and learning-rate schedulers work.
After a change, ``training.setOptimizer(optimizer)`` applies it. Attributes that the constructor is
given are variable: they can change during training. The others are constants of the compiled
program; ``optimizer.variable_attrs`` decides otherwise. docs/optimizers.md states the rules.

Optimizers of torch.optim may be given to ``trainingModel`` as well.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ._optim_base import Optimizer, VariableAttributes, for_torch, given_only

__all__ = ["SGD", "Adam", "AdamW", "LAMB", "Optimizer", "RMSprop", "VariableAttributes"]

_ACCUM = {"accum_type": None}
_MOMENTS = {
    **_ACCUM,
    "first_order_momentum_accum_type": None,
    "second_order_momentum_accum_type": None,
}


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent, with or without momentum.

    ``use_combined_accum`` keeps gradients and velocity in one tensor, which ``velocity_scaling``
    moves to where float16 has digits. ``accum_type`` and ``velocity_accum_type`` are the types of
    gradient accumulators and velocities: torch.float32 (default) or torch.float16. Dampening
    applies from the first step on; torch's rule, which skips it there, is that of torch.optim.SGD.
    """

    _extra = (
        "loss_scaling",
        "use_combined_accum",
        "accum_type",
        "velocity_accum_type",
        "max_grad_norm",
    )

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: Optional[float] = None,
        dampening: Optional[float] = None,
        weight_decay: Optional[float] = None,
        nesterov: Optional[bool] = None,
        maximize: Optional[bool] = None,
        foreach: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        velocity_scaling: Optional[float] = None,
        use_combined_accum: Optional[bool] = None,
        accum_type: Optional[torch.dtype] = None,
        velocity_accum_type: Optional[torch.dtype] = None,
        max_grad_norm: Optional[float] = None,
    ) -> None:
        given = given_only(locals())
        groups = _groups(params)
        torch_arguments = for_torch(torch.optim.SGD, given, (*self._extra, "velocity_scaling"))
        torch.optim.SGD.__init__(self, groups, **torch_arguments)
        # The one attribute of ours that belongs to groups.
        self.defaults["velocity_scaling"] = 1.0 if velocity_scaling is None else velocity_scaling
        for group in self.param_groups:
            group.setdefault("velocity_scaling", self.defaults["velocity_scaling"])
        defaults = {"loss_scaling": 1.0, "use_combined_accum": False, "max_grad_norm": math.inf}
        self._set_up(given, {**defaults, **_ACCUM, "velocity_accum_type": None})


class Adam(Optimizer, torch.optim.Adam):
    """Adam. The moments are stored in the given types: torch.float32 (default) or torch.float16."""

    _extra = ("loss_scaling", *_MOMENTS, "max_grad_norm")

    def __init__(
        self,
        params: Any,
        lr: Optional[float] = None,
        betas: Optional[Tuple[float, float]] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        amsgrad: Optional[bool] = None,
        foreach: Optional[bool] = None,
        maximize: Optional[bool] = None,
        capturable: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        fused: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
        max_grad_norm: Optional[float] = None,
    ) -> None:
        given = given_only(locals())
        torch_arguments = for_torch(torch.optim.Adam, given, self._extra)
        torch.optim.Adam.__init__(self, _groups(params), **torch_arguments)
        self._set_up(given, {"loss_scaling": 1.0, **_MOMENTS, "max_grad_norm": math.inf})


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay, 0.01 by default."""

    _extra = ("loss_scaling", "bias_correction", *_MOMENTS, "max_grad_norm")

    def __init__(
        self,
        params: Any,
        lr: Optional[float] = None,
        betas: Optional[Tuple[float, float]] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        amsgrad: Optional[bool] = None,
        maximize: Optional[bool] = None,
        foreach: Optional[bool] = None,
        capturable: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        fused: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        bias_correction: Optional[bool] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
        max_grad_norm: Optional[float] = None,
    ) -> None:
        given = given_only(locals())
        torch_arguments = for_torch(torch.optim.AdamW, given, self._extra)
        torch.optim.AdamW.__init__(self, _groups(params), **torch_arguments)
        defaults = {"loss_scaling": 1.0, "bias_correction": True, "max_grad_norm": math.inf}
        self._set_up(given, {**defaults, **_MOMENTS})


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop; ``use_tf_variant`` follows TensorFlow's rule instead of PyTorch's."""

    _extra = ("loss_scaling", *_MOMENTS, "use_tf_variant")

    def __init__(
        self,
        params: Any,
        lr: Optional[float] = None,
        alpha: Optional[float] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        momentum: Optional[float] = None,
        centered: Optional[bool] = None,
        foreach: Optional[bool] = None,
        maximize: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
        use_tf_variant: Optional[bool] = None,
    ) -> None:
        given = given_only(locals())
        torch_arguments = for_torch(torch.optim.RMSprop, given, self._extra)
        torch.optim.RMSprop.__init__(self, _groups(params), **torch_arguments)
        self._set_up(given, {"loss_scaling": 1.0, **_MOMENTS, "use_tf_variant": False})


class LAMB(Optimizer, torch.optim.Optimizer):
    """LAMB: AdamW whose step is scaled by the ratio of each weight's norm to that of the step."""

    _extra = ("loss_scaling", "bias_correction", "max_weight_norm", *_MOMENTS)

    def __init__(
        self,
        params: Any,
        lr: Optional[float] = None,
        betas: Optional[Tuple[float, float]] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        bias_correction: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        max_weight_norm: Optional[float] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
    ) -> None:
        given = given_only(locals())
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}
        defaults.update({k: given[k] for k in defaults if given[k] is not None})
        torch.optim.Optimizer.__init__(self, _groups(params), defaults)
        extra = {"loss_scaling": 1.0, "bias_correction": True, "max_weight_norm": 65500.0}
        self._set_up(given, {**extra, **_MOMENTS})

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Updates the weights on the host, by the same rule as a training model."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, weight: torch.Tensor, group: Dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state.update(
                step=0,
                exp_avg=torch.zeros_like(weight),
                exp_avg_sq=torch.zeros_like(weight),
            )
        state["step"] += 1
        beta1, beta2 = group["betas"]
        gradient = weight.grad
        first = state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        second = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if self.bias_correction:
            first = first / (1 - beta1 ** state["step"])
            second = second / (1 - beta2 ** state["step"])
        move = first / (second.sqrt() + group["eps"]) + group["weight_decay"] * weight
        ratio = 1.0
        weight_norm, move_norm = float(weight.norm()), float(move.norm())
        limit = self.max_weight_norm
        if limit > 0 and weight_norm > 0 and move_norm > 0:
            ratio = min(weight_norm, limit) / move_norm
        weight.add_(move, alpha=-group["lr"] * ratio)


def _groups(params: Any) -> List[Any]:
    """The parameters or groups as a list; a group's extra attributes would be ignored."""
    groups = list(params) if not isinstance(params, torch.Tensor) else params
    whole = {name for cls in (SGD, Adam, AdamW, RMSprop, LAMB) for name in cls._extra}
    for group in groups:
        found = sorted(whole & set(group)) if isinstance(group, dict) else []
        if found:
            raise ValueError(
                f"{', '.join(found)} must be the same for all parameter groups: set it in the "
                f"optimizer's constructor"
            )
    return groups
