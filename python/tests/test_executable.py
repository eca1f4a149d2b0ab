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
