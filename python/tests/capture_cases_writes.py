"""Cases for in-place writes, and for values that Python may look at; see capture_cases.py."""

import torch
import torch.nn.functional as F
from capture_cases import Case, mask, X

def written(x):
    y = x.clone()
    y[0] = 1.0
    y[:, 1] += x[:, 2]
    y[1:, ::2] *= 2
    y.t()[3].zero_()
    return y, y.view(-1)


def written_through_views(x):
    y = x * 1
    flat = y.view(-1)
    part = flat[2:7]
    part.mul_(3)
    y.unsqueeze(0)[0, 2].add_(1)
    y.expand(2, 3, 4)
    y.diagonal().fill_(5)
    a, b = y[:, :2], y[:, 2:]
    a.copy_(b)
    return y, flat, part, a


def metadata_in_place(x):
    y = x.clone()
    z = y.view(-1)
    y.transpose_(0, 1)
    y.unsqueeze_(0)
    y += 1
    first = y.shape
    y.squeeze_()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    return y, z, torch.tensor(first), y.detach_()


def buffers(x):
    buffer = torch.zeros(3, 4, dtype=x.dtype)
    buffer[0] = x[0]
    for i in range(1, 3):
        buffer[i] = buffer[i - 1] * 0.5 + x[i]
    out = torch.empty(2, 4, dtype=x.dtype)
    torch.add(x[:2].detach(), 1, out=out)
    return buffer, out


def in_place_functions(x, c):
    y = x.clone()
    y.add_(1).mul_(2).sub_(x).div_(3).clamp_(-1, 1).pow_(2).exp_().sqrt_().neg_().abs_().sigmoid_()
    y.masked_fill_(c, 0.5).tanh_()
    F.relu(y, inplace=True)
    y.addcmul_(x, x).lerp_(x, 0.1).zero_().fill_(2).copy_(x)
    y[c[0].new_zeros(3, dtype=torch.long)] = 1.0
    return y


def no_gradient(x):
    with torch.no_grad():
        y = x * 2
        z = x.view(-1)
    return x * y, z.sum() * x


def written_unseen(x):
    """Gradients pass as if the writes had not been."""
    y, z, part = x * 2, x * 3, x * 4
    y.detach().mul_(5)
    z.data[0] = 7
    z[1:].data.neg_()
    with torch.no_grad():
        part.view(-1)[2:5] = float("inf")
        part[:2] += 1
        part.clamp_(-3, 3)
    return y * 2, z + 1, part, y.detach() * x


def parts_of_expanded(x):
    """Elements that are there twice may be written once."""
    y = x * 2
    y.expand(2, 3, 4)[1].mul_(3)
    y[:1].expand(3, 4)[2, 1:3] = 5
    y.unfold(1, 2, 1)[:, 0].add_(1)
    return y


def viewed_as(x):
    y = x * 2
    flat = y.view_as(x.reshape(2, 6))
    flat[0] = 1
    return y, flat, x.expand_as(x.new_zeros(2, 3, 4))


def control_flow(x):
    steps = torch.arange(3)
    total = x
    for i in steps:
        if i > 0 and bool((steps < 2).any()):
            total = total * int(i) + steps.sum().item()
    if steps.tolist() == [0, 1, 2] and len(steps.numpy()) == 3:
        total = total + 1
    known = torch.ones(3)
    known[1] = 4
    known.view(-1)[2:] += 1
    return total * known.sum(), known.max(), None


WRITES = [
    Case("written", written, X),
    Case("written_through_views", written_through_views, X),
    Case("metadata_in_place", metadata_in_place, X),
    Case("buffers", buffers, X),
    Case("in_place_functions", in_place_functions, X, mask(3, 4), grad=False),
    Case("no_gradient", no_gradient, X),
    Case("written_unseen", written_unseen, X),
    Case("parts_of_expanded", parts_of_expanded, X),
    Case("viewed_as", viewed_as, X),
    Case("control_flow", control_flow, X),
]
