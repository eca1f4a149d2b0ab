"""Functions of torch.nn.functional that ask tensors for their values, written without the question."""

import contextlib
import math
import threading

import torch


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """torch's refuses variances below zero; here they are taken for `eps`, as all that are smaller."""
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    if var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    # The limit has no gradient of its own: that of the variance passes.
    var = var + (var.clamp(min=eps) - var).detach()
    losses = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return losses if reduction == "none" else getattr(losses, reduction)()


REPLACED = {torch.nn.functional.gaussian_nll_loss: gaussian_nll_loss}


@contextlib.contextmanager
def replaced():
    """Modules call these functions inside, in this thread only: parameters tell no function that they are used."""
    module, thread = torch.nn.functional, threading.get_ident()

    def either(original, ours):
        return lambda *args, **kwargs: (ours if threading.get_ident() == thread else original)(*args, **kwargs)

    before = {original.__name__: getattr(module, original.__name__) for original in REPLACED}
    for original, ours in REPLACED.items():
        setattr(module, original.__name__, either(original, ours))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(module, name, function)
