"""Executables and their cache from Python: the same bits as the model that was saved."""

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

import sluice


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(4, 8)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x, labels=None):
        y = self.last(torch.tanh(self.first(x)))
        if labels is None:
            return y
        return y, torch.nn.functional.cross_entropy(y, labels)


def data():
    torch.manual_seed(5)
    return torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 1, 0])


def training():
    module = Net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    return sluice.trainingModel(module, sluice.Options(), optimizer)


def test_a_loaded_model_goes_on_with_the_bits_of_the_saved_one(tmp_path):
    x, labels = data()
    model = training()
    model(x, labels)
    model.save(tmp_path / "net.slx")
    expected = [model(x, labels)[1] for _ in range(3)]
    loaded = sluice.load(tmp_path / "net.slx", refuse_other_target=True)
    assert loaded.compilationTime == 0 and loaded.training and loaded.updates == 1
    assert loaded.inputNames() == ["x", "labels"]
    got = [loaded(x, labels=labels)[1] for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(expected, got))
    state = loaded.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(state[name], value), name


def test_inference_in_another_process(tmp_path):
    x, _ = data()
    model = sluice.inferenceModel(Net())
    model.compileAndExport(tmp_path / "net.slx", x)
    torch.save({"x": x, "y": model(x)}, tmp_path / "data.pt")
    code = f"""
        import sluice, torch
        given = torch.load(r"{tmp_path / 'data.pt'}")
        model = sluice.load(r"{tmp_path / 'net.slx'}", lambda options: options.threads(2))
        print(torch.equal(model(given["x"]), given["y"]), model.options.threads)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, check=True
    )
    assert run.stdout.split()[0] == "True"


def test_options_that_are_compiled_in_may_not_change(tmp_path):
    x, _ = data()
    sluice.inferenceModel(Net()).compileAndExport(tmp_path / "net.slx", x)
    with pytest.raises(sluice.Error, match="deviceIterations.*1 there and 3 here"):
        sluice.load(tmp_path / "net.slx", lambda options: options.deviceIterations(3))


def test_a_model_of_the_module_takes_the_programs(tmp_path):
    x, labels = data()
    saved = training()
    saved.compileAndExport(tmp_path / "net.slx", x, labels, export_model=False)
    expected = saved(x, labels)[1]
    model = training()
    model.loadExecutable(tmp_path / "net.slx")
    assert torch.equal(model(x, labels)[1], expected)
    with pytest.raises(sluice.Error, match="loadExecutable"):
        sluice.load(tmp_path / "net.slx")
    with pytest.raises(sluice.Error, match="before the model is called"):
        model.loadExecutable(tmp_path / "net.slx")


def test_wrong_inputs_are_named(tmp_path):
    x, _ = data()
    sluice.inferenceModel(Net()).compileAndExport(tmp_path / "net.slx", x)
    loaded = sluice.load(tmp_path / "net.slx")
    with pytest.raises(sluice.Error, match="'x' is missing"):
        loaded()
    with pytest.raises(sluice.Error, match="'z' is not one of x"):
        loaded(x, z=x)
    with pytest.raises(sluice.Error, match="takes 1 inputs"):
        loaded(x, x)
    with pytest.raises(sluice.Error, match="not begin with"):
        (tmp_path / "bad.slx").write_bytes(b"PK...")
        sluice.load(tmp_path / "bad.slx")


def test_the_cache_gives_the_same_bits(tmp_path):
    x, labels = data()
    losses = []
    for _ in range(2):
        module = Net()
        options = sluice.Options().enableExecutableCaching(str(tmp_path / "cache"))
        model = sluice.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=0.1))
        losses.append([model(x, labels)[1] for _ in range(2)])
    assert torch.equal(torch.stack(losses[0]), torch.stack(losses[1]))
    assert len(list((tmp_path / "cache").glob("*.slc"))) == 1


def test_a_loaded_model_has_reports(tmp_path):
    x, labels = data()
    model = training()
    model(x, labels)
    model.save(tmp_path / "net.slx")
    loaded = sluice.load(
        tmp_path / "net.slx", lambda options: options.enableProfiling(str(tmp_path / "profile"))
    )
    loaded(x, labels)
    assert loaded.explain() == model.explain() and "18 kernels" in loaded.summary()
    loaded.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    least, mean, most = loaded.getComputeLatency()
    assert 0 < least <= most and mean > 0
    with pytest.raises(sluice.InvalidArgument, match="not simulated"):
        loaded.simulateStep()


def test_changes_are_suggested_in_the_time_of_a_target():
    class Cut(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(5))

        def forward(self, x, y):
            for number, part in enumerate(self.parts):
                with sluice.Block(f"b{number}"):
                    x = torch.relu(part(x))
            return torch.nn.functional.mse_loss(x, y)

    options = sluice.Options().deviceIterations(2).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(4)
    blocks = [f"b{number}" for number in range(5)]
    options.setExecutionStrategy(
        sluice.PipelinedExecution(sluice.Stage(blocks[0]).ipu(0), sluice.Stage(*blocks[1:]).ipu(1))
    )
    net = Cut()
    model = sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(sluice.InvalidArgument, match="call or compile"):
        model.suggestChanges(1, "ipu2")
    model(torch.randn(64, 64), torch.randn(64, 64))
    with pytest.raises(sluice.InvalidArgument, match="not simulated"):
        model.suggestChanges()
    found = model.suggestChanges(20, "ipu2")
    assert "move block b1 to device 0" in [each.change for each in found]
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    assert len(model.suggestChanges(1, "ipu2")) == 1
