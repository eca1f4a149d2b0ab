"""Random modules of views and in-place writes (random_modules.py) against eager torch."""

import unittest

import random_modules
import torch
from capture_support import run
from network_comparison import gradients_of_sluice
from seeds import soak_seed


class Together(torch.nn.Module):
    """Many modules in one, which costs less time."""

    def __init__(self, modules, function=None):
        super().__init__()
        self.parts = torch.nn.ModuleList(modules)
        self.function = function or (lambda module, x: module(x))

    def forward(self, inputs):
        results = []
        for module, x in zip(self.parts, inputs):
            try:
                results.append(self.function(module, x))
            except Exception as error:
                raise AssertionError(f"{error}\n{module}") from error
        return results, sum(loss for _, loss in results)


def inputs_of(modules):
    """New inputs for the modules, which begin anew."""
    for module in modules:
        module.reset()
    return [random_modules.start(module.seed)[0] for module in modules]


class Strides(unittest.TestCase):
    """They decide which later views torch allows."""

    def test_results_of_tensors_with_gaps_or_overlaps_have_those_of_torch(self):
        inputs = {
            "expanded": lambda x: x.expand(2, *x.shape),
            "with gaps": lambda x: x[:, ::2],
            "permuted, with gaps": lambda x: x.permute(2, 0, 1)[::2],
        }
        functions = {
            "flip": lambda x: x.flip(1),
            "roll": lambda x: x.roll(1, 1),
            "add": lambda x: x + 1,
            "cumsum": lambda x: x.cumsum(1),
        }
        for kind, view in inputs.items():
            for name, function in functions.items():
                seen = []

                class Module(torch.nn.Module):
                    def forward(self, x):
                        y = function(view(x))
                        seen.append(y.stride())
                        return y.clone()

                run(Module(), torch.randn(2, 4, 6))
                with self.subTest(f"{name} of {kind}"):
                    self.assertEqual(seen[0], function(view(torch.randn(2, 4, 6))).stride())


class Views(unittest.TestCase):
    modules_per_round = 60

    @classmethod
    def setUpClass(cls):
        first = soak_seed(default=0)
        seeds = range(first, first + cls.modules_per_round)
        cls.modules = [random_modules.RandomModule(seed) for seed in seeds]

    def _compare(self, module, what, ours, wanted):
        self.assertEqual(ours.shape, wanted.shape, f"{what} of {module}")
        if not torch.equal(ours, wanted):
            self.fail(f"{what} is {ours}\ntorch has {wanted}\n{module}")

    def _compare_results(self, module, results):
        for i, (ours, wanted) in enumerate(zip(results, module.results)):
            self._compare(module, f"t[{i}]", ours, wanted)

    def test_modules_give_what_torch_gives(self):
        inputs = inputs_of(self.modules)
        results, _ = run(Together(self.modules), inputs)
        for module, (tensors, _), x in zip(self.modules, results, inputs):
            self._compare_results(module, tensors)
            self._compare(module, "the input", x, module.after[0])
            self._compare(module, "the buffer", module.state, module.after[1])

    def test_gradients_are_those_of_torch(self):
        modules = [module for module in self.modules if module.gradient is not None]
        _, gradients = gradients_of_sluice(Together(modules), (inputs_of(modules),))
        for i, module in enumerate(modules):
            self._compare(module, "the gradient", gradients[f"parts.{i}.weight"], module.gradient)
            self._compare(module, "the buffer", module.state, module.after[1])

    def test_modules_on_known_values_give_what_torch_gives(self):
        def on_known(module, x):
            first, state, weight = random_modules.start(module.seed)
            tensors = [first, state, weight * 2, random_modules.known()]
            return random_modules.run(module.lines, tensors), x.sum()

        results, _ = run(Together(self.modules, on_known), inputs_of(self.modules))
        for module, (tensors, _) in zip(self.modules, results):
            self._compare_results(module, tensors)


if __name__ == "__main__":
    unittest.main()
