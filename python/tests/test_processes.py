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


    def test_a_session_of_the_parent_is_refused_and_the_parent_goes_on(self):
        out = run(
            """
            import numpy as np
            from sluice import popart
            builder = popart.Builder()
            x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
            y = builder.aiOnnx.add([x, x])
            builder.addOutputTensor(y)
            session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]))
            session.prepareDevice()
            anchors = session.initAnchorArrays()
            step = popart.PyStepIO({x: np.ones(2, np.float32)}, anchors)
            session.run(step)
            for work in (lambda: session.run(step), session.prepareDevice, session.weightsToHost):
                in_child(work)
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            session.run(step)
            print(anchors[y].tolist())
            """
        )
        assert out.count("InvalidArgument this session was made before the process forked") == 3
        assert out.endswith("7\n[2.0, 2.0]\n")

    def test_a_function_and_a_queue_of_the_parent_are_refused_and_the_parent_goes_on(self):
        out = run(
            """
            import numpy as np
            from sluice import ipu, nn
            rows = np.arange(6, dtype=np.float32).reshape(3, 2)
            infeed = ipu.IPUInfeedQueue((rows,))

            def body(total, row):
                seen = nn.get_variable("seen", [2], initializer=0.0, trainable=False)
                seen.assign_add(row)
                return total + row

            zeros = np.zeros(2, np.float32)
            function = ipu.compile(lambda: ipu.loops.repeat(1, body, [zeros], infeed))
            function()
            for work in (function, function.explain, infeed.dequeue):
                in_child(work)
            in_child(lambda: print(nn.global_variables()[0].numpy().tolist()))
            print(function()[0].tolist())
            """
        )
        assert out.count("InvalidArgument this function was made before the process forked") == 2
        assert out.count("InvalidArgument this infeed queue was made before") == 1
        assert out.endswith("[0.0, 1.0]\n[2.0, 3.0]\n")

    def test_the_weights_of_a_function_with_torch_modules_have_the_trained_values(self):
        out = run(
            """
            import numpy as np
            from sluice import ipu
            layer = torch.nn.Linear(2, 1)
            layer.register_buffer("seen", torch.zeros(2))

            class Counts(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = layer

                def forward(self, total, x):
                    self.layer.seen += x
                    return total + self.layer(x)

            net, zero = Counts(), np.zeros(1, np.float32)
            infeed = ipu.IPUInfeedQueue((np.ones((3, 2), np.float32),))
            function = ipu.compile(lambda: ipu.loops.repeat(3, net, [zero], infeed))
            function()
            in_child(lambda: print(layer.seen.tolist()))
            print(layer.seen.tolist())
            """
        )
        assert out.splitlines() == ["[3.0, 3.0]"] * 2


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
