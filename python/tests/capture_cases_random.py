"""Random functions and the mean and standard deviation of their numbers; see
test_capture_random.py. Every function gets a tensor of ones that only a run knows."""

import math

import torch
import torch.nn.functional as F

MANY = (100, 100)


class Case:
    def __init__(self, name, function, mean, deviation):
        self.name = name
        self.function = function
        self.mean = mean
        self.deviation = deviation


def many(x):
    return x[0].expand(*MANY)


def own(x):
    return many(x).clone()


def generator():
    return torch.Generator().manual_seed(3)


UNIFORM = (0.5, 1 / math.sqrt(12))
DIE = (2.5, math.sqrt(35 / 12))

CASES = [
    Case("rand", lambda x: torch.rand(MANY), *UNIFORM),
    Case("rand_generator", lambda x: torch.rand(MANY, generator=generator()), *UNIFORM),
    Case("randn", lambda x: torch.randn(*MANY), 0, 1),
    Case("randn_generator", lambda x: torch.randn(MANY, generator=generator()), 0, 1),
    Case("rand_like", lambda x: torch.rand_like(many(x)), *UNIFORM),
    Case("randn_like", lambda x: torch.randn_like(many(x)), 0, 1),
    Case("randint", lambda x: torch.randint(6, MANY), *DIE),
    Case("randint_generator", lambda x: torch.randint(6, MANY, generator=generator()), *DIE),
    Case("randint_low", lambda x: torch.randint(-2, 4, MANY), 0.5, DIE[1]),
    Case("randint_low_g", lambda x: torch.randint(-2, 4, MANY, generator=generator()), 0.5, DIE[1]),
    Case("randint_like", lambda x: torch.randint_like(many(x), 6), *DIE),
    Case("randint_like_low", lambda x: torch.randint_like(many(x), -2, 4), 0.5, DIE[1]),
    Case("randint_wide", lambda x: torch.randint(2**40, MANY) / 2**40, *UNIFORM),
    Case("randperm", lambda x: torch.randperm(10000), 4999.5, 10000 / math.sqrt(12)),
    Case(
        "randperm_g",
        lambda x: torch.randperm(10000, generator=generator()),
        4999.5,
        10000 / math.sqrt(12),
    ),
    Case("uniform_", lambda x: own(x).uniform_(-1, 3), 1, 4 / math.sqrt(12)),
    Case("normal_", lambda x: own(x).normal_(2, 3), 2, 3),
    Case("normal_float_float", lambda x: torch.normal(2.0, 3.0, MANY), 2, 3),
    Case("normal_tensor_float", lambda x: torch.normal(many(x), 3.0), 1, 3),
    Case("normal_float_tensor", lambda x: torch.normal(2.0, many(x)), 2, 1),
    Case("normal_tensors", lambda x: torch.normal(many(x), many(x)), 1, 1),
    Case("exponential_", lambda x: own(x).exponential_(2.0), 0.5, 0.5),
    Case("bernoulli", lambda x: torch.bernoulli(many(x) * 0.3), 0.3, math.sqrt(0.21)),
    Case("bernoulli_p", lambda x: torch.bernoulli(many(x), 0.3), 0.3, math.sqrt(0.21)),
    Case("bernoulli_", lambda x: own(x).bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    Case("bernoulli_tensor", lambda x: own(x).bernoulli_(many(x) * 0.3), 0.3, math.sqrt(0.21)),
    Case(
        "multinomial",
        lambda x: torch.multinomial(x * torch.tensor([3.0, 1.0]), 10000, replacement=True),
        0.25,
        math.sqrt(3 / 16),
    ),
    Case(
        "multinomial_without",
        lambda x: torch.multinomial(many(x), 100),
        49.5,
        100 / math.sqrt(12),
    ),
    Case("multinomial_one", lambda x: torch.multinomial(many(x)[0, :6].expand(10000, 6), 1), *DIE),
    Case("dropout", lambda x: F.dropout(many(x), 0.25, training=True), 1, math.sqrt(1 / 3)),
    Case(
        "dropout_known",
        lambda x: F.dropout(torch.ones(MANY), 0.25, training=True),
        1,
        math.sqrt(1 / 3),
    ),
    Case("alpha_dropout", lambda x: F.alpha_dropout(torch.randn(MANY), 0.25, training=True), 0, 1),
    Case(
        "feature_dropout",
        lambda x: F.dropout2d(many(x)[:, :, None, None], 0.25, training=True),
        1,
        math.sqrt(1 / 3),
    ),
    Case("rrelu", lambda x: F.rrelu(-many(x), 0.0, 1.0, training=True), -0.5, UNIFORM[1]),
    Case("gumbel", lambda x: F.gumbel_softmax(many(x)[:, :2], hard=True)[:, 0], 0.5, 0.5),
    Case("Normal", lambda x: torch.distributions.Normal(many(x), 2.0).sample(), 1, 2),
    Case("Uniform", lambda x: torch.distributions.Uniform(0 * many(x), many(x)).sample(), *UNIFORM),
    Case(
        "Bernoulli",
        lambda x: torch.distributions.Bernoulli(many(x) * 0.3).sample(),
        0.3,
        math.sqrt(0.21),
    ),
    Case("Exponential", lambda x: torch.distributions.Exponential(many(x) * 2).sample(), 0.5, 0.5),
]
