"""Random functions in captured models. Models have a fixed seed, so that nothing here is left to
chance once it passes; the bounds are those of five standard errors."""

import unittest

import torch
from capture_cases_random import CASES
from capture_support import run, train

import sluice


class RandomNumbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = sluice.inferenceModel(Everything())
        cls.first = cls.model(torch.ones(2))
        cls.second = cls.model(torch.ones(2))

    def test_numbers_have_the_mean_and_deviation_of_their_distribution(self):
        for case, numbers in zip(CASES, self.first):
            with self.subTest(case.name):
                numbers = numbers.double()
                self.assertLess(numbers.numel() and abs(numbers.mean() - case.mean),
                                5 * case.deviation / numbers.numel() ** 0.5 + 1e-9)
                self.assertLess(abs(numbers.std() / case.deviation - 1), 0.15)

    def test_types_and_shapes_are_those_of_torch(self):
        for case, numbers in zip(CASES, self.first):
            with self.subTest(case.name):
                expected = case.function(torch.ones(2))
                self.assertEqual(numbers.dtype, expected.dtype)
                self.assertEqual(numbers.shape, expected.shape)

    def test_every_run_has_new_numbers(self):
        for case, before, now in zip(CASES, self.first, self.second):
            with self.subTest(case.name):
                self.assertFalse(torch.equal(before, now))

    def test_the_same_model_draws_the_same_numbers(self):
        again = sluice.inferenceModel(Everything())
        for first, second in zip(self.first, again(torch.ones(2))):
            self.assertTrue(torch.equal(first, second))

    def test_permutations_hold_every_number_once(self):
        place = [case.name for case in CASES].index("randperm")
        self.assertEqual(sorted(self.first[place].tolist()), list(range(10000)))
        without = self.first[[case.name for case in CASES].index("multinomial_without")]
        for row in without:
            self.assertEqual(sorted(row.tolist()), list(range(100)))

    def test_whole_features_are_dropped_together(self):
        dropped = run(
            lambda x: torch.nn.functional.dropout2d(x, 0.5, training=True), torch.ones(4, 8, 3, 3)
        )
        for feature in dropped.flatten(0, 1):
            self.assertIn(float(feature.sum()), (0.0, 18.0))

    def test_dropout_of_evaluated_modules_does_nothing(self):
        x = torch.randn(3, 4)
        self.assertTrue(torch.equal(run(torch.nn.Dropout(0.5).eval(), x), x))
        self.assertTrue(torch.equal(run(torch.nn.Dropout2d(0.5).eval(), x), x))

    def test_dropout_with_probability_one_leaves_zeros(self):
        x = torch.randn(3, 4)
        for name in ("dropout", "dropout2d"):
            function = getattr(torch.nn.functional, name)
            result = run(lambda x: function(x[..., None], 1.0, training=True), x)
            self.assertEqual(float(result.abs().sum()), 0.0)

    def test_the_gradient_uses_the_mask_of_the_forward_pass(self):
        class Dropped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(50))

            def forward(self):
                y = torch.nn.functional.dropout(self.weight + 1, 0.5)
                return y, y.sum()

        module = Dropped()
        y, _ = train(module)
        self.assertTrue(torch.equal(-module.weight.detach(), y))

    def test_random_integers_need_a_float_type_for_uniform_numbers(self):
        with self.assertRaisesRegex(sluice.InvalidArgument, "float type"):
            run(lambda x: x.long().uniform_(), torch.ones(2))


class Everything(torch.nn.Module):
    def forward(self, x):
        return [case.function(x) for case in CASES]


if __name__ == "__main__":
    unittest.main()
