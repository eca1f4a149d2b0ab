"""Random modules full of views and in-place writes.

A module is a list of lines of Python on a growing list `t` of tensors: its input, its buffer, twice
its weight and a tensor that is known when the module is captured. The shapes of the input and of the
buffer are the caller's and stay. The lines are made while eager
torch runs them, so that each is one that torch accepts. All numbers are small integers, and no
function gives others, so that results and gradients must be equal."""

import random

import torch

LINES = 14
SHAPE = (2, 3, 4)
LARGEST = 2.0**30  # float64 has exact sums and products of such numbers


def start(seed):
    """The values of the input, the buffer and the weight of a module."""
    r = random.Random(f"values {seed}")
    count = SHAPE[0] * SHAPE[1] * SHAPE[2]
    made = ([float(r.randrange(-9, 10)) for _ in range(count)] for _ in range(3))
    return [torch.tensor(numbers, dtype=torch.float64).reshape(SHAPE) for numbers in made]


def known():
    return torch.arange(24, dtype=torch.float64).reshape(SHAPE) - 12


# Makers of lines: functions of the random numbers and a tensor. {x} is that tensor, {y} another.


def _axis(r, x):
    return r.randrange(x.dim())


def _range(r, x, axis):
    first = r.randrange(x.shape[axis])
    last = r.randrange(first + 1, x.shape[axis] + 1)
    return f"{first}:{last}:{r.choice((1, 1, 2))}"


def _index(r, x):
    """What may stand in brackets: integers, ranges, None, an ellipsis."""
    parts = []
    for axis in range(r.randrange(1, x.dim() + 1)):
        kind = r.random()
        parts.append(
            str(r.randrange(x.shape[axis])) if kind < 0.3 else
            _range(r, x, axis) if kind < 0.8 else ":")
    if r.random() < 0.2:
        parts.append("...")
    if r.random() < 0.1:
        parts.insert(r.randrange(len(parts) + 1), "None")
    return ", ".join(parts)


def _shape(r, x):
    """Another shape for as many elements."""
    n, shape = x.numel(), []
    for d in (2, 3, 2):
        if n % d == 0 and r.random() < 0.7:
            shape.append(d)
            n //= d
    shape.insert(r.randrange(len(shape) + 1), n)
    return tuple(shape)


def _axes(r, x):
    axes = list(range(x.dim()))
    r.shuffle(axes)
    return tuple(axes)


def _places(r, x, axis, count=None):
    count = r.randrange(1, x.shape[axis] + 1) if count is None else count
    return f"torch.tensor({r.sample(range(x.shape[axis]), count)})"


def _mask(r, x):
    bits = [r.random() < 0.5 for _ in range(x.numel())]
    return f"torch.tensor({bits}).reshape({tuple(x.shape)})"


def _number(r):
    return float(r.randrange(-3, 4))


def _plain(line):
    return lambda r, x: line


def _with_axis(line):
    return lambda r, x: line.replace("AXIS", str(_axis(r, x)))


def _with_places(line):
    def make(r, x):
        axis = _axis(r, x)
        return line.replace("AXIS", str(axis)).replace("PLACES", _places(r, x, axis))

    return make


VIEWS = [
    lambda r, x: f"{{x}}[{_index(r, x)}]",
    lambda r, x: f"{{x}}[{_index(r, x)}]",
    lambda r, x: f"{{x}}.transpose({_axis(r, x)}, {_axis(r, x)})",
    lambda r, x: f"{{x}}.permute({_axes(r, x)})",
    lambda r, x: f"{{x}}.reshape({_shape(r, x)})",
    lambda r, x: f"{{x}}.view({_shape(r, x)})",
    lambda r, x: f"{{x}}.unsqueeze({r.randrange(x.dim() + 1)})",
    lambda r, x: f"{{x}}.select({_axis(r, x)}, -1)",
    _with_axis("{x}.chunk(2, AXIS)[0]"),
    _with_axis("{x}.unbind(AXIS)[-1]"),
    _with_axis("{x}.unfold(AXIS, 2, 1)"),
    _with_axis("{x}.narrow(AXIS, 0, 1)"),
    _with_axis("{x}.split(2, AXIS)[-1]"),
    *map(_plain, (
        "{x}.squeeze()", "{x}.flatten()", "{x}.t()", "{x}.diagonal()", "{x}.detach()",
        "{x}.view_as({x})", "{x}.expand(2, *{x}.shape)", "{x}.movedim(0, -1)", "{x}.mT",
        "{x}.swapaxes(0, -1)", "{x}.expand_as({y})", "{x}[None]",
    )),
]
# No writes through `.data`: torch does not count them, and takes gradients of values that are gone.
WRITES = [
    lambda r, x: f"{{x}}.add_({_number(r)})",
    lambda r, x: f"{{x}}.fill_({_number(r)})",
    lambda r, x: f"{{x}}.masked_fill_({_mask(r, x)}, {_number(r)})",
    lambda r, x: f"{{x}}[{_mask(r, x)}] = {_number(r)}",
    lambda r, x: f"{{x}}[{_index(r, x)}] = {_number(r)}",
    lambda r, x: f"{{x}}[{_index(r, x)}] += {_number(r)}",
    lambda r, x: f"{{x}}[{_index(r, x)}] *= {{y}}",
    lambda r, x: f"{{x}}[{_index(r, x)}] = {{y}}.clone()",
    lambda r, x: f"{{x}}[{_places(r, x, 0)}] = {_number(r)}",
    lambda r, x: f"{{x}}[{_places(r, x, 0)}] += 1",
    _with_places("{x}.index_fill_(AXIS, PLACES, 2.0)"),
    _with_places("{x}.index_copy_(AXIS, PLACES, {x}.index_select(AXIS, PLACES) * 2)"),
    _with_places("{x}.index_add_(AXIS, PLACES, {x}.index_select(AXIS, PLACES).clone())"),
    _with_axis("{x}.scatter_(AXIS, torch.zeros_like({x}, dtype=torch.long), 3.0)"),
    _with_axis("{x}.cumsum_(AXIS)"),
    *map(_plain, (
        "{x}.mul_(2)", "{x}.neg_()", "{x}.zero_()", "{x}.clamp_(-5.5, 5.5)", "{x}.relu_()",
        "{x}.add_({x}.clone().flip(0))", "{x}.copy_({y}.clone())", "{x}.add_({y}.clone())",
        "{x}.mul_({y}.clone())", "{x}.sub_({y}.clone(), alpha=2)", "{x}.addcmul_({y}, {y})",
        "{x}.detach().add_(1)", "{x}.detach().mul_(2)",
        "with torch.no_grad(): {x}.add_(1)", "with torch.no_grad(): {x}.view(-1)[0] = 5",
        "torch.nn.functional.relu({x}, inplace=True)", "{x}.copy_({y}.detach())",
        "{x}.masked_fill_({y} > 0, 1.0)", "{x}.mT.tril_()",
    )),
]
RESULTS = [
    _with_axis("{x}.sum(AXIS)"),
    _with_axis("{x}.flip(AXIS)"),
    _with_axis("{x}.roll(1, AXIS)"),
    _with_axis("torch.cat([{x}, {x}], AXIS)"),
    _with_axis("torch.stack([{x}, {x} * 2], AXIS)"),
    *map(_plain, (
        "{x}.clone()", "{x} + 1", "{x} * {x}", "{x} + {y}", "{x}.contiguous()", "torch.relu({x})",
        "torch.zeros_like({x})", "torch.where({x} > 0, {x}, {y})", "{x}.new_zeros({x}.shape)",
        "{x}.permute(*reversed(range({x}.dim()))).contiguous()", "-{x}",
    )),
]
METADATA = list(map(_plain, (
    "{x}.squeeze_()", "{x}.t_()", "{x}.unsqueeze_(0)", "{x}.transpose_(0, 1)",
)))


def _overlaps(x):
    """Whether two elements are the same memory; what a write of such a tensor does is left open."""
    places = torch.zeros(x.shape, dtype=torch.long)
    for axis, step in enumerate(x.stride()):
        places += (torch.arange(x.shape[axis]) * step).reshape(-1, *[1] * (x.dim() - axis - 1))
    return places.unique().numel() < x.numel()


def _races(x, y):
    """Whether a write of x may change elements of y that are read later; torch leaves the order open."""
    same = (x.storage_offset(), x.shape, x.stride()) == (y.storage_offset(), y.shape, y.stride())
    return x.storage().data_ptr() == y.storage().data_ptr() and not same


def _line(r, tensors, detached):
    """A line that may fit one of the tensors; torch has to say."""
    at, other = r.randrange(len(tensors)), r.randrange(len(tensors))
    kind = r.choices((VIEWS, WRITES, RESULTS, METADATA), (6, 6, 2, 0.6))[0]
    if tensors[at].dim() == 0 or tensors[at].numel() == 0:
        return None
    # What the caller has keeps its shape.
    given = any(tensors[at] is each for each in tensors[:2])
    if kind is WRITES and _overlaps(tensors[at]) or kind is METADATA and given:
        return None
    line = r.choice(kind)(r, tensors[at])
    # A capture knows no gradients that a detached view has and what it views has not.
    if kind is WRITES and at in detached and "{y}" in line and tensors[other].requires_grad:
        return None
    reads_while_writing = kind is WRITES and "{y}" in line.replace("{y}.clone()", "").replace("{y} > 0", "")
    if reads_while_writing and _races(tensors[at], tensors[other]):
        return None
    if kind is VIEWS and (at in detached or line == "{x}.detach()"):
        detached.add(len(tensors))
    line = line.replace("{x}", f"t[{at}]").replace("{y}", f"t[{other}]")
    return f"t.append({line})" if kind in (VIEWS, RESULTS) else line


def run(lines, tensors):
    for line in lines:
        exec(line, {"torch": torch, "t": tensors})
    return tensors


def loss_of(tensors):
    return sum((x * (i + 1)).sum() for i, x in enumerate(tensors))


class RandomModule(torch.nn.Module):
    """The module of a seed, with what torch makes of it.

    results    the tensors at the end
    after      the input and the buffer at the end
    gradient   that of the weight, or None where torch refuses to differentiate
    """

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        _, state, weight = start(seed)
        self.register_buffer("state", state)
        self.weight = torch.nn.Parameter(weight)
        attempt = 0
        while not self._make(random.Random(f"lines {seed} {attempt}")):
            attempt += 1

    def reset(self):
        """The buffer and the weight as they were at first."""
        with torch.no_grad():
            for own, first in zip((self.state, self.weight), start(self.seed)[1:]):
                own.copy_(first)

    def forward(self, x):
        tensors = run(self.lines, [x, self.state, self.weight * 2, known()])
        return tensors, loss_of(tensors)

    def __str__(self):
        return f"SLUICE_SEED={self.seed}\n" + "\n".join(self.lines)

    def _make(self, r):
        self.lines, tensors, detached = [], self._fresh(), set()
        while len(self.lines) < LINES:
            line = _line(r, tensors, detached)
            if line is None:
                continue
            try:
                run([line], tensors)
            except (RuntimeError, IndexError, ValueError):
                detached.discard(len(tensors))
                continue
            self.lines.append(line)
        return self._expect()

    def _fresh(self):
        x, state, weight = start(self.seed)
        self.leaf = weight.requires_grad_()
        return [x, state, weight * 2, known()]

    def _expect(self):
        """Runs the lines again, without those that torch refused. False if they are no good."""
        tensors = self._fresh()
        x, state = tensors[:2]
        try:
            run(self.lines, tensors)
        except RuntimeError:
            return False
        self.results = [each.detach().clone() for each in tensors]
        self.after = x.detach().clone(), state.detach().clone()
        try:
            loss = loss_of(tensors)
            loss.backward()
            self.gradient = self.leaf.grad
        except RuntimeError:
            self.gradient = None
        checked = [*self.results, torch.zeros(1) if self.gradient is None else self.gradient]
        return all(bool((each.abs() <= LARGEST).all()) for each in checked)
