"""Parameters stay the user's: reads after training, writes before a step, saving, copies, sharing."""

import copy
import io
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice._convert  # noqa: E402
import sluice._state as _state  # noqa: E402
from networks import Normed, TwoLayers, batch, bits, train_eagerly  # noqa: E402


@pytest.fixture
def trained():
    torch.manual_seed(3)
    net = TwoLayers()
    model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.5))
    model(*batch())
    expected = TwoLayers()
    torch.manual_seed(3)
    expected = TwoLayers()
    train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), *batch())
    return net, model, expected


READS = {
    "arithmetic": lambda p: p + 0,
    "detach": lambda p: p.detach(),
    "data": lambda p: p.data,
    "numpy": lambda p: torch.from_numpy(p.detach().numpy()),
    "tolist": lambda p: torch.tensor(p.tolist()),
    "item": lambda p: torch.tensor([p[i, j].item() for i in range(6) for j in range(6)]).view(6, 6),
    "clone": lambda p: p.clone(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "stack": lambda p: torch.stack([p])[0],
    "dlpack": lambda p: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(p.detach())),
}


class Scaled(torch.nn.Module):
    def __init__(self, **parameters):
        super().__init__()
        for name, value in parameters.items():
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, x):
        for each in (*self.parameters(), *self.buffers()):
            x = x * each
        return x.pow(2).mean()


class TestSharedMemory:
    def test_parts_of_one_tensor_are_trained_each(self):
        whole = torch.arange(1.0, 7.0)
        net = Scaled(a=torch.nn.Parameter(whole[:3]), b=torch.nn.Parameter(whole[3:]))
        expected = Scaled(a=torch.nn.Parameter(whole[:3].clone()), b=torch.nn.Parameter(whole[3:].clone()))
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.01))
        optimizer = torch.optim.SGD(expected.parameters(), lr=0.01)
        x = torch.ones(2, 3)
        for _ in range(3):
            model(x)
            optimizer.zero_grad()
            expected(x).backward()
            optimizer.step()
            assert torch.allclose(torch.cat([net.a, net.b]), torch.cat([expected.a, expected.b]))
            assert torch.equal(whole, torch.cat([net.a, net.b]).detach())
        with torch.no_grad():
            net.b.mul_(2)
            expected.b.mul_(2)
        assert torch.allclose(model(x), expected(x))

    @pytest.mark.parametrize("make", [
        lambda w: dict(w=torch.nn.Parameter(w), v=torch.nn.Parameter(w.data)),
        lambda w: dict(w=torch.nn.Parameter(w[:2]), v=w[1:]),
        lambda w: dict(w=torch.nn.Parameter(w[::2]), v=torch.nn.Parameter(w[2:])),
    ])
    def test_a_weight_in_the_memory_of_another_tensor_is_refused(self, make):
        net = Scaled(**make(torch.ones(5)))
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        with pytest.raises(sluice.InvalidArgument, match="'v' and 'w' are two tensors in the same memory.*clone"):
            model(torch.ones(1))

    def test_other_tensors_may_share_memory(self):
        table = torch.ones(6)
        net = Scaled(a=torch.nn.Parameter(table[::2]), b=torch.nn.Parameter(table[1::2]), c=torch.ones(3))
        net.register_buffer("d", net.c[:])
        sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))(torch.ones(3))
        tied = Scaled(w=torch.nn.Parameter(torch.ones(3)), v=torch.nn.Parameter(torch.ones(3)))
        tied.v = tied.w
        sluice.trainingModel(tied, None, torch.optim.SGD(tied.parameters(), lr=0.1))(torch.ones(3))


class TestReading:
    @pytest.mark.parametrize("read", READS)
    def test_sees_the_trained_value(self, trained, read):
        net, _, expected = trained
        found = READS[read](net.first.weight)
        assert torch.allclose(found, expected.first.weight, atol=1e-6)

    def test_sees_it_in_text_and_state_dict(self, trained):
        net, model, expected = trained
        assert repr(net.first.weight)[:30] == repr(
            torch.nn.Parameter(net.first.weight.detach().clone()))[:30]
        for a, b in zip(model.state_dict().values(), expected.state_dict().values()):
            assert torch.allclose(a, b, atol=1e-6)

    def test_copies_once_per_step(self, trained):
        net, model, _ = trained
        assert model._tree.newer
        net.first.weight.sum()
        assert not model._tree.newer
        model(*batch())
        assert model._tree.newer

    def test_works_in_eager_torch_after_training(self, trained):
        net, _, expected = trained
        x, _ = batch()
        assert torch.allclose(net(x), expected(x), atol=1e-6)

    def test_survives_saving_the_whole_module(self, trained):
        net, _, expected = trained
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        assert type(loaded.first.weight) is torch.nn.Parameter
        assert torch.allclose(loaded.last.bias, expected.last.bias, atol=1e-6)

    def test_gives_copies_of_their_own(self, trained):
        net, model, _ = trained
        twin = copy.deepcopy(net)
        before = twin.first.weight.clone()
        model(*batch())
        net.first.weight.sum()
        assert type(twin.first.weight) is torch.nn.Parameter
        assert torch.equal(twin.first.weight, before)


WRITES = {
    "copy_": lambda p: p.copy_(torch.zeros_like(p)),
    "zero_": lambda p: p.zero_(),
    "data": lambda p: p.data.zero_(),
    "data copy": lambda p: p.data.copy_(torch.zeros(6, 6)),
    "slice": lambda p: p[:].fill_(0),
    "init": torch.nn.init.zeros_,
    "mul_": lambda p: p.mul_(0),
    "numpy": None,
}


class TestWriting:
    @pytest.mark.parametrize("write", [w for w in WRITES if WRITES[w] is not None])
    def test_is_seen_by_the_next_step(self, trained, write):
        net, model, _ = trained
        with torch.no_grad():
            WRITES[write](net.first.weight)
        inference = sluice.inferenceModel(net)
        x, _ = batch()
        expected = net.last(torch.tanh(net.first.bias)).expand(8, 3)
        assert torch.allclose(inference(x), expected, atol=1e-6)

    def test_keeps_what_other_parameters_learned(self, trained):
        net, model, expected = trained
        with torch.no_grad():
            net.first.bias.zero_()
        model(*batch())
        with torch.no_grad():
            expected.first.bias.zero_()
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), *batch())
        for a, b in zip(net.parameters(), expected.parameters()):
            assert torch.allclose(a, b, atol=1e-5)

    @pytest.mark.parametrize("look", [False, True])
    def test_through_a_view_from_before_a_step(self, trained, look):
        net, model, expected = trained
        view = net.first.weight.detach()
        model(*batch())
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), *batch())
        view.zero_()
        with torch.no_grad():
            expected.first.weight.zero_()
        if look:
            assert torch.equal(net.first.weight, torch.zeros(6, 6))
        assert torch.allclose(sluice.inferenceModel(net)(batch()[0]), expected(batch()[0]), atol=1e-6)
        model(*batch())
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), *batch())
        for a, b in zip(net.parameters(), expected.parameters()):
            assert torch.allclose(a, b, atol=1e-5)

    def test_of_tensors_of_inference_mode(self):
        with torch.inference_mode():  # torch counts no writes of what is made here
            net = TwoLayers()
        twin = TwoLayers()
        twin.load_state_dict(net.state_dict())
        nets, (x, y) = (net, twin), batch()
        models = [sluice.trainingModel(n, None, torch.optim.SGD(n.parameters(), lr=0.5)) for n in nets]
        for _ in range(2):
            assert torch.equal(*(model(x, y)[1] for model in models))
        assert bits(net) == bits(twin)
        with torch.inference_mode():
            for n in nets:
                n.first.bias.fill_(2)
        assert torch.equal(*(sluice.inferenceModel(n)(x) for n in nets))
        assert torch.equal(*(model(x, y)[1] for model in models))
        assert bits(net) == bits(twin)

    def test_by_load_state_dict(self, trained):
        net, model, _ = trained
        model.load_state_dict({k: torch.zeros_like(v) for k, v in net.state_dict().items()})
        assert torch.equal(sluice.inferenceModel(net)(torch.ones(8, 6)), torch.zeros(8, 3))

    def test_of_another_shape_is_refused(self, trained):
        net, model, _ = trained
        net.first.weight.data = torch.zeros(7, 6)
        with pytest.raises(ValueError, match="shape"):
            model(*batch())


class TestSharing:
    def test_inference_uses_the_weights_of_training(self, trained):
        net, model, _ = trained
        inference = sluice.inferenceModel(net)
        x, y = batch()
        before = inference(x)
        model(x, y)
        after = inference(x)
        assert not torch.equal(before, after)
        assert torch.allclose(after, net(x), atol=1e-6)

    def test_a_part_of_the_trained_module_shares_its_weights(self, trained):
        net, model, _ = trained
        part = sluice.inferenceModel(net.last)
        x = torch.randn(8, 6)
        model(*batch())
        assert torch.allclose(part(x), net.last(x), atol=1e-6)
        assert part._tree is model._tree

    def test_a_module_around_a_module_with_a_model_sees_its_weights(self):
        inner = TwoLayers()

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, x, y):
                return self.inner(x, y)

        inference = sluice.inferenceModel(inner)
        x, y = batch()
        before = inference(x)
        outer = Outer()
        model = sluice.trainingModel(outer, None, torch.optim.SGD(outer.parameters(), lr=0.5))
        model(x, y)
        after = inference(x)
        assert not torch.equal(before, after)
        assert torch.allclose(after, inner(x), atol=1e-6)

    def test_tied_weights_are_one_variable(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Linear(4, 4, bias=False)
                self.b = torch.nn.Linear(4, 4, bias=False)
                self.b.weight = self.a.weight

            def forward(self, x, y=None):
                x = self.b(torch.tanh(self.a(x)))
                return x if y is None else (x, torch.nn.functional.mse_loss(x, y))

        net = Tied()
        expected = copy.deepcopy(net)
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.5))
        x, y = torch.randn(8, 4), torch.randn(8, 4)
        model(x, y)
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), x, y)
        assert net.a.weight is net.b.weight
        assert torch.allclose(net.a.weight, expected.a.weight, atol=1e-6)

    def test_destroying_the_model_keeps_the_weights(self, trained):
        net, model, expected = trained
        model.destroy()
        assert type(net.first.weight) is torch.nn.Parameter
        assert torch.allclose(net.first.weight, expected.first.weight, atol=1e-6)
        again = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.5))
        again(*batch())
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.5), *batch())
        assert torch.allclose(net.first.weight, expected.first.weight, atol=1e-5)

    def test_buffers_are_shared_too(self):
        net = Normed()
        model = sluice.trainingModel(net)
        x, y = torch.randn(16, 4) + 3, torch.randn(16, 4)
        for _ in range(3):
            model(x, y)
        net.eval()
        inference = sluice.inferenceModel(net)
        assert torch.allclose(inference(x), net(x), atol=1e-5)


class TestThreads:
    def test_a_host_function_may_read_parameters_while_other_threads_do(self, trained):
        net = trained[0]

        class Reads(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net
                self.host = sluice.CPU(lambda x: x + float(net.first.weight.sum()), "reads")

            def forward(self, x):
                return self.host(self.net.first(x))

        model = sluice.inferenceModel(Reads())
        x, _ = batch()
        model.compile(x)
        reader = threading.Thread(target=lambda: [net.last.weight.sum() for _ in range(50)])
        reader.start()
        found = model(x)
        reader.join(30)
        assert not reader.is_alive()
        assert torch.allclose(found, net.first(x) + net.first.weight.sum(), atol=1e-5)

    def test_reading_while_another_thread_trains_gives_whole_values_in_the_end(self):
        torch.manual_seed(3)
        net = TwoLayers()
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        worker = threading.Thread(target=lambda: [model(*batch()) for _ in range(30)])
        worker.start()
        while worker.is_alive():
            net.first.weight.sum()
        worker.join()
        torch.manual_seed(3)
        expected = TwoLayers()
        alone = sluice.trainingModel(expected, None, torch.optim.SGD(expected.parameters(), lr=0.1))
        for _ in range(30):
            alone(*batch())
        assert bits(net) == bits(expected)

    @pytest.mark.parametrize("counts", [False, True])
    def test_a_step_of_inference_does_not_undo_a_step_of_training(self, counts):
        """Both models have trees of their own, and the slower one brings back only what it has written."""

        class Waits(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net
                self.host = sluice.CPU(self.wait, "waits")
                self.register_buffer("calls", torch.zeros(1))
                self.began, self.go, self.waits = threading.Event(), threading.Event(), False

            def wait(self, x):
                if self.waits:
                    self.began.set()
                    self.go.wait(60)
                return x

            def forward(self, x):
                if counts:
                    self.calls += 1
                return self.host(self.net(x))

        class Loss(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x, y):
                return torch.nn.functional.mse_loss(self.net(x), y)

        def train(disturbed):
            torch.manual_seed(5)
            net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
            loss, waits = Loss(net), Waits(net)
            model = sluice.trainingModel(loss, None, torch.optim.SGD(net.parameters(), lr=0.5))
            slow = sluice.inferenceModel(waits)
            x, y = torch.randn(8, 4), torch.randn(8, 4)
            slow(x)
            model(x, y)
            waits.waits = True
            step = threading.Thread(target=lambda: slow(x))
            if disturbed:
                step.start()
                waits.began.wait(60)
            model(x, y)
            if disturbed:
                waits.go.set()
                step.join()
                assert waits.calls == (2 if counts else 0)
            model(x, y)
            return bits(net)

        assert train(True) == train(False)

    def test_a_write_during_a_capture_is_seen_by_the_next_step(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.ones(2))
                self.register_buffer("calls", torch.zeros(1))

            def forward(self, x):
                def write():
                    with torch.no_grad():
                        net.w.fill_(3)

                if len(x) > 1:
                    writer = threading.Thread(target=write)
                    writer.start()
                    writer.join()
                self.calls += 1
                return x * self.w

        net = Net()
        model = sluice.inferenceModel(net)
        model(torch.ones(1, 2))
        model(torch.ones(2, 2))
        assert torch.equal(model(torch.ones(1, 2)), torch.full((1, 2), 3.0))
        assert net.calls == 3

    def test_a_step_does_not_take_what_a_read_fills_in_for_a_write(self, monkeypatch):
        torch.manual_seed(3)
        expected = TwoLayers()
        torch.manual_seed(3)
        net = TwoLayers()
        models = [sluice.trainingModel(m, None, torch.optim.SGD(m.parameters(), lr=0.1)) for m in (net, expected)]
        for model in models:
            model(*batch())
            model(*batch())
        waits_or_ended = threading.Event()
        step = threading.Thread(target=lambda: (models[0](*batch()), waits_or_ended.set()))

        class ToldOfWaiting:
            def __init__(self, lock):
                self.lock = lock

            def __enter__(self):
                if threading.current_thread() is step:
                    waits_or_ended.set()
                return self.lock.__enter__()

            def __exit__(self, *error):
                return self.lock.__exit__(*error)

        fill, to_torch = _state.Held.fill, _state.to_torch
        between = []

        def step_after_reading(value):
            found = to_torch(value)
            if not between:
                between.append(models[0](*batch()))
            return found

        def fill_beside_a_step(held, value):
            fill(held, value)
            if step.ident is None:
                step.start()
                assert waits_or_ended.wait(60)

        monkeypatch.setattr(_state, "_lock", ToldOfWaiting(_state._lock))
        monkeypatch.setattr(_state, "to_torch", step_after_reading)
        monkeypatch.setattr(_state.Held, "fill", fill_beside_a_step)
        net.first.weight.sum()
        step.join(60)
        monkeypatch.undo()
        models[1](*batch())
        models[1](*batch())
        assert bits(net) == bits(expected)


def test_bits_do_not_depend_on_reading_in_between():
    def run(read):
        torch.manual_seed(3)
        net = TwoLayers()
        model = sluice.trainingModel(net, None, torch.optim.Adam(net.parameters(), lr=0.1))
        for _ in range(4):
            model(*batch())
            if read:
                net.first.weight.sum()
        return bits(net)

    assert run(True) == run(False)


class TestOptimizerState:
    def test_goes_through_a_file_and_continues_with_the_same_bits(self):
        def make(net):
            optimizer = sluice.optim.Adam(net.parameters(), lr=0.1)
            return optimizer, sluice.trainingModel(net, None, optimizer)

        torch.manual_seed(3)
        net = TwoLayers()
        optimizer, model = make(net)
        for _ in range(2):
            model(*batch())
        file = io.BytesIO()
        torch.save((net.state_dict(), optimizer.state_dict()), file)
        for _ in range(2):
            model(*batch())
        expected = bits(net)
        file.seek(0)
        weights, state = torch.load(file, weights_only=False)
        again = TwoLayers()
        again.load_state_dict(weights)
        optimizer, model = make(again)
        optimizer.load_state_dict(state)
        for _ in range(2):
            model(*batch())
        assert bits(again) == expected

    def test_can_be_copied(self, trained):
        net = TwoLayers()
        optimizer = sluice.optim.AdamW(net.parameters(), lr=0.1)
        sluice.trainingModel(net, None, optimizer)(*batch())
        state = copy.deepcopy(optimizer.state_dict())
        assert all(isinstance(t, torch.Tensor) for t in state["ipu_state"].values())
