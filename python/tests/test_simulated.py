"""Simulated devices and trace points from Python."""

import os
import subprocess
import sys

import pytest
import torch

import sluice


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.tanh(self.fc(x))


def test_the_ipu_model_gives_the_results_of_the_cpu():
    x = torch.randn(2, 4)
    results = []
    for on in (False, True):
        model = sluice.inferenceModel(Net(), sluice.Options().useIpuModel(on))
        results.append(model(x))
    assert torch.equal(*results)


def test_a_step_is_timed_without_being_run():
    model = sluice.inferenceModel(Net(), sluice.Options().useOfflineIpuTarget(21))
    model.compile(torch.randn(2, 4))
    step = model.simulateStep()
    assert step.target == "ipu21" and step.cycles > 0
    assert step.seconds == pytest.approx(step.cycles / 1.85e9)
    with pytest.raises(ValueError, match="Never"):
        model(torch.randn(2, 4))
    real = sluice.inferenceModel(Net(), sluice.Options().device("cpu"))
    real.compile(torch.randn(2, 4))
    with pytest.raises(ValueError, match="not simulated"):
        real.simulateStep()


def test_the_environment_asks_for_the_ipu_model():
    script = (
        "import sluice, torch\n"
        "model = sluice.inferenceModel(torch.nn.Linear(2, 2))\n"
        "model.compile(torch.zeros(1, 2))\n"
        "print(model.simulateStep().target)\n"
    )
    for name in ("SLUICE_IPU_MODEL", "POPTORCH_IPU_MODEL"):
        variables = {k: v for k, v in os.environ.items() if k != "SLUICE_DEVICE"}
        run = subprocess.run(
            [sys.executable, "-c", script],
            env={**variables, name: "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip().endswith("ipu2"), run.stdout


def test_trace_points_of_the_user_are_written(tmp_path):
    channel = sluice.profiling.Channel("loading")

    class Loader:
        def load(self, n):
            """Loads."""
            return n + 1

    loader = channel.instrument(Loader(), "load")
    assert loader.load(1) == 2  # not recorded yet
    assert loader.load.__doc__ == "Loads."
    with pytest.raises(ValueError, match="record"):
        sluice.profiling.write(tmp_path / "none.slt")
    sluice.profiling.record()
    try:
        assert loader.load(2) == 3
        with pytest.raises(KeyError), channel.tracepoint("decode"):
            raise KeyError
    finally:
        sluice.profiling.record(False)
    sluice.profiling.write(tmp_path / "host.slt")
    out = tmp_path / "host.csv"
    assert sluice._core.command_line(["sluice", "report", str(tmp_path / "host.slt"), "-o", str(out)]) == 0
    text = out.read_text()
    assert "loading" in text and ",load," in text and ",decode," in text


class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(6))

    def forward(self, x, y):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x, torch.nn.functional.mse_loss(x, y)


def planning(memory=0):
    options = sluice.Options().device("sim@ipu2").enforceIpuRules(False)
    options.Training.gradientAccumulation(6)
    return options.memoryPerDevice(memory) if memory else options


def test_a_plan_is_found_and_its_lines_give_its_step():
    x = torch.randn(12, 16)
    net = Deep()
    model = sluice.trainingModel(net, planning(), torch.optim.SGD(net.parameters(), lr=0.1))
    found = model.findPlan(x, x, devices=3)
    fitting = [each[2] for each in found.tried if each[1]]
    assert found.complete and found.seconds == min(fitting) and 0 < found.bound <= found.seconds
    for memory in (0, max(found.bytes)):
        options = planning(memory)
        exec("\n".join(found.lines), {"options": options, "sluice": sluice})
        net = Deep()
        planned = sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
        planned.compile(x, x)
        assert planned.simulateStep().seconds == found.seconds
    assert not model.isCompiled()


def test_without_room_the_smallest_budget_is_found():
    x = torch.randn(12, 16)
    least = sluice.trainingModel(Deep(), planning(256)).findPlan(x, x, devices=2)
    assert least.plan is None and least.lines == [] and least.smallest_budget > 256
    assert sluice.trainingModel(Deep(), planning(least.smallest_budget)).findPlan(x, x, devices=2).plan
    with pytest.raises(ValueError, match="1 to 64 devices"):
        sluice.trainingModel(Deep(), planning()).findPlan(x, x, devices=0)


def test_every_strategy_of_a_plan_is_python():
    for text in (
        'sluice.PipelinedExecution.automatic(3).schedule("zb-h1")',
        "sluice.ShardedExecution.automatic([0.25, 0.75])",
        "sluice.SerialPhasedExecution(sluice.Phase.automatic(4)).setTensorsLiveness(sluice.Liveness.AlwaysLive)",
    ):
        strategy = eval(text)
        assert repr(strategy) == text.replace("sluice.", "").replace('"', "'")
        sluice.Options().setExecutionStrategy(strategy)
    with pytest.raises(ValueError, match="devices"):
        sluice.Options().setExecutionStrategy(sluice.PipelinedExecution.automatic(0))
