"""Models that come and go, and steps, take no memory for good."""

import gc
import os

import torch

import sluice
from networks import TwoLayers, batch

PAGE = os.sysconf("SC_PAGE_SIZE")
GROWTH = 8 << 20  # bytes that allocators may keep; one object per cycle or step would be seen as well


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def grows(turn, warm, count):
    """Bytes and Python objects that so many turns add, after some to warm up."""
    for _ in range(warm):
        turn()
    before = resident(), len(gc.get_objects())
    for _ in range(count):
        turn()
    return resident() - before[0], len(gc.get_objects()) - before[1]


def trained(net):
    return sluice.trainingModel(net, None, torch.optim.Adam(net.parameters(), lr=0.001))


def test_a_thousand_models_of_a_module():
    net, (x, y) = TwoLayers(), batch()

    def turn():
        model = trained(net)
        model(x, y)
        model.destroy()

    space, objects = grows(turn, 100, 1000)
    assert space < GROWTH and objects < 100


def test_a_thousand_modules_whose_models_are_never_destroyed():
    x, y = batch()
    space, objects = grows(lambda: trained(TwoLayers())(x, y), 100, 1000)
    assert space < GROWTH and objects < 100


def test_ten_thousand_steps():
    net, (x, y) = TwoLayers(), batch()
    model = trained(net)
    first = model(x, y)
    kept = [each.clone() for each in first]

    def turn():
        model(x, y)
        net.first.bias.sum()  # copies the values back

    space, objects = grows(turn, 1000, 10000)
    assert space < GROWTH and objects < 100
    assert all(map(torch.equal, first, kept))
