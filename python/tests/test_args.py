"""Structures come apart into tensors and together again with their types."""

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from sluice.args import ICustomArgParser, flatten, registerCustomArgParser, unflatten


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Record:
    x: Any
    name: str = "r"


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """A dictionary with attributes, as transformers' ModelOutput."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                super().__setitem__(field.name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


A, B, C = torch.ones(1), torch.zeros(2), torch.arange(3)
STRUCTURES = [
    A,
    (A, B),
    [A, (B, [C])],
    {"x": A, "y": {"z": (B,)}},
    Pair(A, Pair(B, None)),
    Record(A, "name"),
    [Record((A, B)), None, 3, "text", 1.5],
    collections.OrderedDict(b=B, a=A),
    collections.defaultdict(list, {"k": A}),
    None,
    (),
    torch.Size([1, 2]),
    torch.max(torch.eye(2), 1),
]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a is b or torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return a == b


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: type(s).__name__)
def test_a_structure_comes_back_with_its_types(structure):
    leaves, spec = flatten(structure)
    assert spec.num_leaves == len(leaves)
    back = unflatten(spec, leaves)
    assert type(back) is type(structure) and same(structure, back)


def test_tensors_come_in_the_order_in_which_they_stand():
    leaves, spec = flatten(({"b": B, "a": A}, [C]))
    assert [id(x) for x in leaves] == [id(B), id(A), id(C)]
    back = unflatten(spec, ["one", "two", "three"])
    assert back == ({"b": "one", "a": "two"}, ["three"])


def test_a_dictionary_with_attributes_keeps_both():
    leaves, spec = flatten(Output(loss=A, logits=B))
    back = unflatten(spec, [x + 1 for x in leaves])
    assert type(back) is Output
    assert torch.equal(back.loss, A + 1) and torch.equal(back["logits"], B + 1)


def test_a_spec_holds_no_tensors():
    structure = Record({"x": A})
    _, spec = flatten(structure)
    assert spec.template.x is None


def test_specs_are_equal_if_structure_and_constants_are():
    assert flatten((A, 3))[1] == flatten((B, 3))[1]
    assert flatten((A, 3))[1] != flatten((B, 4))[1]
    assert flatten([A])[1] != flatten((A,))[1]
    assert flatten({"a": A})[1] != flatten({"b": A})[1]
    assert flatten((A, None))[1] != flatten((A, B))[1]
    assert flatten([A])[1] != 3


def test_dictionaries_are_taken_in_the_order_of_another_spec():
    _, spec = flatten(({"b": B, "a": {"c": C, "d": A}}, 3))
    leaves, again = flatten(({"a": {"d": A, "c": C}, "b": B}, 3), spec)
    assert [id(x) for x in leaves] == [id(B), id(C), id(A)] and again == spec
    leaves, other = flatten(({"a": A, "e": B}, 3), spec)
    assert [id(x) for x in leaves] == [id(A), id(B)] and other != spec


@pytest.mark.parametrize("holder", [
    types.SimpleNamespace(x=A), types.SimpleNamespace(x=[A]), types.SimpleNamespace(x={"y": A}), {A}
])
def test_objects_that_would_hide_their_tensors_are_refused(holder):
    with pytest.raises(ValueError, match="registerCustomArgParser"):
        flatten([holder])
    flatten([types.SimpleNamespace(x=3), {4}, torch.nn.Linear(1, 1), torch.nn.Linear])


def test_iterators_are_refused():
    with pytest.raises(ValueError, match="use a list"):
        flatten(x for x in (A, B))


def test_another_number_of_tensors_is_refused():
    _, spec = flatten((A, B))
    with pytest.raises(ValueError, match="has 2 tensors, got 1"):
        unflatten(spec, [A])


class Graph:
    def __init__(self, nodes, edges):
        self.nodes, self.edges = nodes, edges


class BigGraph(Graph):
    pass


class GraphParser(ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.nodes
        yield struct.edges

    def reconstruct(self, original_structure, tensor_iterator):
        return type(original_structure)(next(tensor_iterator), next(tensor_iterator))


def test_a_registered_parser_handles_a_type_and_its_subclasses():
    registerCustomArgParser(Graph, GraphParser())
    leaves, spec = flatten([A, BigGraph(B, C)])
    assert len(leaves) == 3 and spec.num_leaves == 3
    back = unflatten(spec, [x + 1 for x in leaves])
    assert type(back[1]) is BigGraph and torch.equal(back[1].edges, C + 1)
    assert flatten(Graph(A, B))[1] == flatten(Graph(B, C))[1]


def test_wrong_parsers_are_refused():
    with pytest.raises(TypeError, match="expected a class"):
        registerCustomArgParser(3, GraphParser())
    with pytest.raises(TypeError, match="subclass of ICustomArgParser"):
        registerCustomArgParser(Graph, object())
    with pytest.raises(NotImplementedError, match="yieldTensors"):
        ICustomArgParser().yieldTensors(None)
    with pytest.raises(NotImplementedError, match="reconstruct"):
        ICustomArgParser().reconstruct(None, iter(()))
