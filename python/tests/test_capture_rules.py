"""Every rule against eager torch.

A family of cases is one training model: the float inputs of all cases are its weights, its forward
returns the results of all of them, and its loss is their sum with random factors. With SGD and a
learning rate of 1 the change of a weight is its gradient. Errors are relative to float64: they may
be twice those of eager float32."""

import copy
import functools
import unittest
import zlib

import capture_cases_index
import capture_cases_math
import capture_cases_newer
import capture_cases_nn
import capture_cases_random
import capture_cases_reduce
import capture_cases_shape
import capture_cases_writes
import numpy
import torch
from capture_support import difference, recorded, run, train

from sluice import args as structures
from sluice._capture.registry import RULES, Kind

FAMILIES = {
    name: getattr(module, name)
    for module in (
        capture_cases_index,
        capture_cases_math,
        capture_cases_newer,
        capture_cases_nn,
        capture_cases_reduce,
        capture_cases_shape,
        capture_cases_writes,
    )
    for name in dir(module)
    if name.isupper() and isinstance(getattr(module, name), list)
}

def _exists(name):
    _, function, overload = name.split(".")
    return overload in getattr(getattr(torch.ops.aten, function, None), "overloads", list)()


# Functions of other versions of torch than the one that runs the tests.
ELSEWHERE = {name for name in RULES if not _exists(name)}


class Family(torch.nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.cases = cases
        self.weights = torch.nn.ModuleList()
        self.inner = torch.nn.ModuleList()
        for case in cases:
            floats = [x.clone() for x in case.inputs if x.is_floating_point()]
            self.weights.append(torch.nn.ParameterList(torch.nn.Parameter(x) for x in floats))
            if isinstance(case.function, torch.nn.Module):
                self.inner.append(case.function)

    def inputs(self):
        return [[x for x in case.inputs if not x.is_floating_point()] for case in self.cases]

    def forward(self, others):
        results, losses, inner = [], [], iter(self.inner)
        for case, weights, ints in zip(self.cases, self.weights, others):
            function = next(inner) if isinstance(case.function, torch.nn.Module) else case.function
            floats = iter(p if case.grad else p.detach() for p in weights)
            rest = iter(ints)
            args = [next(floats if x.is_floating_point() else rest) for x in case.inputs]
            result = function(*args)
            results.append(result)
            if case.grad:
                losses.extend(weighted(case.name, x) for x in leaves(result))
        return results, sum(each for each in losses if each is not None)


def weighted(name, x):
    """The sum of a result with fixed random factors; None if it has no gradient."""
    if not x.is_floating_point():
        return None
    return (x.double() * factors(tuple(x.shape), zlib.crc32(name.encode()))).sum()


@functools.lru_cache(maxsize=None)
def factors(shape, seed):
    # Not torch's random numbers: those would be random numbers of the model.
    return torch.from_numpy(numpy.asarray(numpy.random.RandomState(seed).randn(*shape)))


def leaves(result):
    return structures.flatten(result)[0]


def eager(family, inputs):
    """Results and gradients by parameter name."""
    results, loss = family(inputs)
    loss.backward()
    # Copies: some results are views of weights, which training changes.
    results = [[x.detach().clone() for x in leaves(each)] for each in results]
    gradients = {name: p.grad for name, p in family.named_parameters() if p.grad is not None}
    return results, gradients


@functools.lru_cache(maxsize=None)
def compared(name):
    cases = FAMILIES[name]
    single = Family(cases)
    double = copy.deepcopy(single).double()
    # torch comes first: tensors that are cached during a capture are symbolic.
    expected = [eager(each, each.inputs()) for each in (single, double)]
    before = {n: p.detach().clone() for n, p in single.named_parameters()}
    with recorded() as traces:
        results, _ = train(single, single.inputs())
    delta = {n: before[n] - p.detach() for n, p in single.named_parameters()}
    return cases, (results, delta, before), *expected, traces[0].rules


def random_rules():
    """The rules that the random cases use; test_capture_random.py looks at their numbers."""
    with recorded() as traces:
        run(lambda x: [case.function(x) for case in capture_cases_random.CASES], torch.ones(2))
    return traces[0].rules


def problem(where, ours, single, double, floor=0.0):
    """Says what is wrong with a tensor, or returns None."""
    if tuple(ours.shape) != tuple(single.shape):
        return f"{where}: shape {list(ours.shape)}, torch has {list(single.shape)}"
    if ours.dtype != single.dtype:
        return f"{where}: {ours.dtype}, torch has {single.dtype}"
    own, torchs = difference(ours, double), difference(single, double)
    if own > 2 * torchs + 1e-6 + floor:
        return f"{where}: error {own:.2e}, that of torch is {torchs:.2e}"
    return None


class Rules(unittest.TestCase):
    maxDiff = None

    def _check(self, name):
        cases, ours, single, double, _ = compared(name)
        problems = []
        for i, case in enumerate(cases):
            tensors = leaves(ours[0][i]), single[0][i], double[0][i]
            self.assertEqual(len(tensors[0]), len(tensors[1]), case.name)
            for j, each in enumerate(zip(*tensors)):
                problems.append(problem(f"{case.name}[{j}]", *each))
        for parameter, gradient in single[1].items():
            where = parameter
            if parameter.startswith("weights."):
                where = "gradient of " + cases[int(parameter.split(".")[1])].name + " " + parameter
            # The difference of two rounded weights knows no more than their last bits.
            size = max(float(gradient.norm()), 1e-6)
            floor = 2.0**-23 * float(ours[2][parameter].norm()) / size
            problems.append(
                problem(where, ours[1][parameter], gradient, double[1][parameter], floor)
            )
        self.assertEqual("", "\n".join(p for p in problems if p))

    def test_every_rule_has_a_case(self):
        used = set().union(*(compared(name)[4] for name in FAMILIES), random_rules())
        wanted = {n for n, rule in RULES.items() if rule.kind is not Kind.REFUSED}
        self.assertEqual("", "\n".join(sorted(wanted - used - ELSEWHERE)))


for _name in FAMILIES:
    setattr(
        Rules,
        f"test_{_name.lower()}_agrees_with_torch",
        lambda self, name=_name: self._check(name),
    )
