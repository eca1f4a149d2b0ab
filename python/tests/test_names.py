"""Every public name of PopTorch exists and takes PopTorch's parameters."""

import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import poptorch_names as names

import sluice


def entries():
    """Triples of module, dotted name and parameters (None: a property or anything)."""
    for module, text in {"": names.PACKAGE, **names.SUBMODULES}.items():
        owner = ""
        for line in filter(None, text.splitlines()):
            name, _, rest = line.strip().partition("(")
            member = line.startswith(" ")
            owner = owner if member else name
            parameters = None if "(" not in line or rest == "...)" else split(rest[:-1])
            yield module, f"{owner}.{name}" if member else name, parameters


def split(text):
    return [each.strip() for each in text.split(",") if each.strip()]


def found(module, name):
    value = sluice if not module else importlib.import_module(f"sluice.{module}")
    for part in name.split("."):
        value = getattr(value, part)
    return value


CASES = list(entries())


@pytest.mark.parametrize("module, name, parameters", CASES, ids=[c[1] for c in CASES])
def test_a_name_exists_with_its_parameters(module, name, parameters):
    value = found(module, name)
    if parameters is None:
        return
    signature = inspect.signature(value)
    own = [p for p in signature.parameters.values() if p.name != "self"]
    kinds = {p.kind for p in own}
    positional = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    wanted = [each for each in parameters if not each.startswith("*")]
    for given, here in zip(wanted, positional):
        assert given.rstrip("=") == here.name, "the order of parameters"
        if given.endswith("="):
            assert here.default is not here.empty, f"{here.name} has no default"
    assert len(positional) >= len(wanted)
    assert all(p.default is not p.empty for p in positional[len(wanted) :])
    for each in parameters:
        if re.match(r"\*\w", each):
            assert inspect.Parameter.VAR_POSITIONAL in kinds
        if each.startswith("**"):
            assert inspect.Parameter.VAR_KEYWORD in kinds


@pytest.mark.parametrize("name", names.ENUMS)
def test_an_enumeration_has_its_members_in_order(name):
    members = [m.name for m in getattr(sluice, name)]
    assert members[: len(names.ENUMS[name].split())] == names.ENUMS[name].split()


def test_errors_are_errors():
    for name in names.ERRORS:
        assert issubclass(getattr(sluice, name), sluice.Error)
    assert issubclass(sluice.Error, RuntimeError)


@pytest.mark.parametrize("name", names.MISSING)
def test_missing_names_are_still_missing(name):
    # A name that has come belongs into the table of names.
    with pytest.raises(AttributeError):
        found("", name)


def test_every_public_function_has_documentation():
    for module, name, _ in CASES:
        value = found(module, name)
        assert inspect.getdoc(value), f"{name} has no documentation"


def run_with_compat(code):
    """Runs a script that may import poptorch."""
    compat = Path(sluice.__file__).resolve().parents[1] / "compat"
    path = [str(Path(__file__).resolve().parents[1] / "compat"), str(compat), *sys.path]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**__import__("os").environ, "PYTHONPATH": ":".join(filter(None, path))},
        capture_output=True,
        text=True,
    )


def test_scripts_that_import_poptorch_run():
    code = """
        import poptorch, torch
        from poptorch.optim import AdamW
        import poptorch.autocasting, poptorch.profiling
        opts = poptorch.Options().deviceIterations(2)
        opts.Training.gradientAccumulation(3)
        model = torch.nn.Linear(2, 1).autocast()
        opts.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu))
        data = torch.utils.data.TensorDataset(torch.ones(12, 2))
        loader = poptorch.DataLoader(opts, data, mode=poptorch.DataLoaderMode.Async)
        print(len(next(iter(loader))[0]), AdamW is poptorch.optim.AdamW, poptorch.__version__ != "")
    """
    run = run_with_compat(code)
    assert (run.returncode, run.stdout.strip()) == (0, "6 True True"), run.stderr


@pytest.mark.parametrize("name", ["sluice", "poptorch"])
def test_ops_outside_blocks_join_one_and_are_errors_of_poptorch(name):
    code = f"""
        import {name}, torch
        class Net(torch.nn.Module):
            def forward(self, x):
                with {name}.Block("one"):
                    x = torch.relu(x)
                return x * 2
        print({name}.inferenceModel(Net())(torch.ones(1, 2)).tolist())
    """
    run = run_with_compat(code)
    if name == "sluice":
        assert (run.returncode, run.stdout.strip()) == (0, "[[2.0, 2.0]]"), run.stderr
        assert "join the block before them" in run.stderr
    else:
        assert run.returncode != 0 and "no active block" in run.stderr, run.stderr


def test_a_star_import_leaves_the_names_of_torch_alone():
    found = {}
    exec("from torch import nn, optim\nfrom sluice import *\nOptions, trainingModel, popart", found)
    assert found["nn"] is torch.nn and found["optim"] is torch.optim
    assert {"nn", "optim"} <= set(dir(sluice)) and sluice.optim.SGD is not torch.optim.SGD
