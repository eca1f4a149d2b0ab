"""Models alive at a fork and at the end of the interpreter: errors and exit codes, never a hang."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

HEAD = """
import os, sys, threading
import torch
import sluice

class Net(torch.nn.Module):
    def __init__(self, host=None):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.host = None if host is None else sluice.CPU(host, "host")

    def forward(self, x):
        y = self.layer(x)
        if self.host is not None and not self.training:  # in an inference model
            y = self.host(y)
        return y, (y * y).mean()

def made(host=None):
    net = Net(host)
    return net, sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))

X = torch.ones(2, 4)

def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except sluice.Error as error:
            print(type(error).__name__, error)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def run(body, code=0):
    """What a program prints; a hang ends it with an error."""
    found = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(body)], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == code, found.stderr
    return found.stdout


class TestInAForkedProcess:
    def test_a_model_of_the_parent_is_refused_and_the_parent_goes_on(self):
        out = run(
            """
            net, model = made()
            model(X)
            in_child(lambda: model(X))
            in_child(lambda: model.explain())
            print(model(X)[1].item() > 0)
            """
        )
        assert out.count("InvalidArgument this model was made before the process forked") == 2
        assert "spawn" in out and out.endswith("True\n")

    def test_the_parameters_have_the_trained_values(self):
        out = run(
            """
            net, model = made()
            model(X)
            in_child(lambda: print(net.layer.weight.tolist()))
            print(net.layer.weight.tolist())
            """
        )
        child, parent = out.splitlines()
        assert child == parent

    def test_a_new_model_can_be_made_and_the_process_ends(self):
        out = run(
            """
            net, model = made()
            model(X)
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                print(made()[1](X)[1].item() > 0)
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """
        )
        assert out.split() == ["True", "7"]

    def test_values_of_a_step_that_ran_at_the_fork_are_not_taken_for_the_newest(self):
        out = run(
            """
            def host(y):
                in_child(lambda: net.layer.weight.tolist())
                return y * 1.0

            net, model = made(host)
            inference = sluice.inferenceModel(net)
            inference.compile(X)
            model(X)
            inference(X)
            print(len(net.layer.weight.tolist()))
            """
        )
        assert out.startswith("InvalidArgument the newest values") and out.endswith("2\n")


class TestAtTheEndOfTheInterpreter:
    # A daemon thread in a function of torch that gives up Python's lock ends the process at this point,
    # without Sluice as well; so the thread here does nothing but run steps.
    def test_a_thread_that_runs_steps_does_not_hold_it_up(self):
        run(
            """
            net, model = made()
            model(X)
            began = threading.Event()
            def steps():
                while True:
                    model(X)
                    began.set()
            threading.Thread(target=steps, daemon=True).start()
            began.wait()
            """
        )

    def test_an_asynchronous_loader_may_be_in_the_middle(self):
        run(
            """
            net, model = made()
            data = torch.utils.data.TensorDataset(torch.ones(64, 4))
            loader = sluice.DataLoader(sluice.Options(), data, 2, mode=sluice.DataLoaderMode.Async)
            for (x,) in loader:
                model(x)
                sys.exit(5)
            """,
            code=5,
        )
