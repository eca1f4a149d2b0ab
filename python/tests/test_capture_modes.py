"""Layers that do one thing in training and another in evaluation: batch norm and dropout."""

import copy
import unittest

import torch
import torch.nn as nn
from capture_support import difference
from captured_networks import Classifier, frozen_norm, labels, normal
from network_comparison import RATE, UPDATES, gradients_of_sluice, trained_by_torch

import sluice


class BatchNorm(unittest.TestCase):
    def _trained(self):
        """A network trained by Sluice, a copy that was trained by torch, and an input."""
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5, momentum=0.3, eps=1e-3))
        net, x, y = Classifier(body).double(), normal(6, 3, 6, 6).double(), labels(6)
        eager = copy.deepcopy(net)
        trained_by_torch(eager, (x, y))
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        training = sluice.trainingModel(net, optimizer=optimizer)
        for _ in range(UPDATES):
            training(x, y)
        return net, eager.eval(), x, training

    def test_inference_uses_the_statistics_of_training(self):
        net, eager, x, training = self._trained()
        inference = sluice.inferenceModel(net.body)
        ours, wanted = inference(x), eager.body(x).detach()
        self.assertLess(difference(ours, wanted), 1e-9)
        self.assertGreater(difference(ours, eager.train().body(x).detach()), 1e-3)
        training.destroy()
        inference.destroy()

    def test_inference_leaves_the_statistics_alone(self):
        net, _, x, training = self._trained()
        training.destroy()
        before = {name: each.clone() for name, each in net.named_buffers()}
        inference = sluice.inferenceModel(net.body)
        inference(x)
        inference.destroy()
        for name, each in net.named_buffers():
            self.assertTrue(torch.equal(each, before[name]), name)

    def test_a_frozen_batch_norm_keeps_its_statistics_while_the_rest_is_trained(self):
        net = Classifier(frozen_norm())
        frozen, own = net.body[1], net.body[4]
        before = [each.clone() for each in (*frozen.buffers(), *own.buffers())]
        _, gradients = gradients_of_sluice(net, (normal(4, 3, 8, 8), labels(4)))
        after = [*frozen.buffers(), *own.buffers()]
        same = [torch.equal(a, b) for a, b in zip(after, before)]
        self.assertEqual(same, [True] * 3 + [False] * 3)
        self.assertGreater(float(gradients["body.1.weight"].abs().sum()), 0)


class Dropped(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.weight = nn.Parameter(torch.full((100, 100), 3.0))
        self.dropout = nn.Dropout(p)

    def forward(self):
        y = self.dropout(self.weight)
        return y, y.sum()


def steps(p, count, seed=5):
    """The results of some steps of training, which does not change the weights."""
    net = Dropped(p)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    model = sluice.trainingModel(net, sluice.Options().randomSeed(seed), optimizer)
    try:
        return [model()[0] for _ in range(count)]
    finally:
        model.destroy()


class Dropout(unittest.TestCase):
    def test_the_share_of_zeros_is_the_probability(self):
        for p in (0.1, 0.5, 0.8):
            (y,) = steps(p, 1)
            share = float((y == 0).double().mean())
            self.assertLess(abs(share - p), 5 * (p * (1 - p) / y.numel()) ** 0.5, p)

    def test_rows_and_columns_have_their_share_of_zeros(self):
        (y,) = steps(0.5, 1)
        for axis in (0, 1):
            shares = (y == 0).double().mean(axis)
            self.assertLess(float((shares - 0.5).abs().max()), 5 * 0.5 / 10)
            self.assertLess(abs(float(shares.std()) / 0.05 - 1), 0.4)

    def test_what_is_left_is_scaled(self):
        for p in (0.1, 0.5, 0.8):
            (y,) = steps(p, 1)
            left = y[y != 0]
            self.assertTrue(torch.allclose(left, torch.full_like(left, 3 / (1 - p)), rtol=1e-6))

    def test_every_step_drops_others(self):
        first, second, third = (y == 0 for y in steps(0.5, 3))
        for a, b in ((first, second), (second, third), (first, third)):
            self.assertLess(abs(float((a == b).double().mean()) - 0.5), 5 * 0.5 / 100)

    def test_the_seed_decides(self):
        runs = [steps(0.5, 2, seed) for seed in (5, 5, 6)]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(runs[0], runs[1])))
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(runs[0], runs[2])))

    def test_gradients_are_zero_where_results_are_and_scaled_elsewhere(self):
        (y, _), gradients = gradients_of_sluice(Dropped(0.5), ())
        self.assertTrue(torch.equal(gradients["weight"], (y != 0) * 2.0))

    def test_inference_drops_nothing(self):
        net = Dropped(0.5)
        model = sluice.inferenceModel(net)
        y, _ = model()
        model.destroy()
        self.assertTrue(torch.equal(y, net.weight.detach()))


if __name__ == "__main__":
    unittest.main()
