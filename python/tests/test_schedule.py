"""Schedules: hand-computed lengths and bounds, pictures, errors."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

import sluice
from sluice import _core


def test_one_forward_one_backward_has_the_length_of_the_formula():
    # A forward pass takes 1 and a backward pass 2: (micro-batches + stages - 1) x 3.
    found = sluice.schedule("1f1b", stages=4, micro_batches=8)
    assert found.makespan == (8 + 4 - 1) * 3 == found.bound
    assert found.stash_depth == [4, 3, 2, 1]
    assert found.idle_share == pytest.approx(3 / 11)
    assert [len(order) for order in found.devices] == [16] * 4


@pytest.mark.parametrize("kind", _core.schedule_kinds())
def test_every_kind_draws_itself(kind):
    found = sluice.schedule(kind, stages=3, micro_batches=6)
    assert found.makespan >= found.bound > 0
    text = str(found).splitlines()
    assert text[0].startswith(kind) and len(text) == 4
    picture = ElementTree.fromstring(found.svg())
    titles = [e.text for e in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == sum(len(order) for order in found.devices)
    assert found._repr_html_() == found.svg()


def test_text_shows_passes_in_order():
    lines = str(sluice.schedule("gpipe", stages=2, micro_batches=2)).splitlines()
    assert re.findall(r"[FB]\d", lines[1]) == ["F0", "F1", "B0", "B1"] or re.findall(
        r"[FB]\d", lines[1]) == ["F0", "F1", "B1", "B0"]


@pytest.mark.parametrize("bad, words", [
    (dict(kind="fastest"), "1f1b"),
    (dict(stages=[]), "stage"),
    (dict(micro_batches=0), "micro-batch|microBatches"),
])
def test_bad_problems_are_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        sluice.schedule(**bad)
