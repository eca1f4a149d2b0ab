"""Tensors of torch on a GPU as inputs and outputs, and what is refused. Without a GPU only the refusals are tested."""

import pytest

torch = pytest.importorskip("torch")
import sluice  # noqa: E402
from sluice import _core, _gpu  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no GPU here")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(12, 16), torch.nn.Linear(16, 4)

    def forward(self, x, labels=None):
        y = self.last(torch.relu(self.first(x)))
        return y if labels is None else (y, torch.nn.functional.cross_entropy(y, labels))


def options(device):
    return sluice.Options().showCompilationProgressBar(False).device(device).randomSeed(3)


def net():
    torch.manual_seed(4)
    return Net()


class PretendsToBeOnAGpu:
    def __dlpack_device__(self):
        return (2, 0)


class TestRefusals:
    def test_memory_of_the_host(self):
        with pytest.raises(_core.InvalidArgument, match="expected memory of a GPU"):
            _core.DeviceTensor(torch.zeros(3))

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_memory_where_no_gpu_can_be_used(self):
        class Tensor(PretendsToBeOnAGpu):
            def __dlpack__(self, stream=None):
                assert stream == -1
                return torch.utils.dlpack.to_dlpack(torch.zeros(3))

        with pytest.raises(_core.Error, match="cannot be used here|takes no memory"):
            _core.DeviceTensor(Tensor())

    def test_elements_of_another_size(self):
        class Tensor(PretendsToBeOnAGpu):
            def __dlpack__(self, stream=None):
                return torch.utils.dlpack.to_dlpack(torch.zeros(3))

        with pytest.raises(_core.InvalidArgument, match="cannot stand for bfloat16"):
            _core.DeviceTensor(Tensor(), "bfloat16")

    def test_a_model_on_other_devices(self):
        model = sluice.inferenceModel(net().eval(), options("cpu"))
        model(torch.zeros(2, 12))
        with pytest.raises(_core.InvalidArgument, match="device 0 of the model is of the kind 'cpu'"):
            _core.run_on_device(model._core, [], lambda shape, dtype: None)

    def test_only_some_inputs_on_a_gpu(self):
        class Fake:
            is_cuda, device = True, torch.device("cuda:0")

        with pytest.raises(_core.InvalidArgument, match="must be on one device, got 'x' on 'cuda:0', 'y' on 'cpu'"):
            _gpu.are_on_gpu(["x", "y"], [Fake(), torch.zeros(1)])


@needs_gpu
class TestOnAGpu:
    def test_results_stay_there_and_have_the_bits_of_a_call_from_the_host(self):
        x = torch.randn(6, 12)
        for iterations in (1, 3):
            given = options("cuda:0").deviceIterations(iterations).outputMode(sluice.OutputMode.All)
            model = sluice.inferenceModel(net().eval(), given)
            here = model(x)
            there = model(x.cuda())
            assert there.device.type == "cuda" and here.device.type == "cpu"
            assert torch.equal(there.cpu(), here)

    def test_training_has_the_bits_of_the_host(self):
        def losses(move):
            given = options("cuda:0").outputMode(sluice.OutputMode.All)
            given.Training.gradientAccumulation(2)
            module = net()
            model = sluice.trainingModel(module, given, torch.optim.SGD(module.parameters(), lr=0.1))
            torch.manual_seed(5)
            x, labels = torch.randn(8, 12), torch.randint(0, 4, (8,))
            found = [model(move(x), move(labels))[1].cpu() for _ in range(5)]
            model.copyWeightsToHost()
            return found + [p.detach().clone() for p in module.parameters()]

        for here, there in zip(losses(lambda t: t), losses(lambda t: t.cuda())):
            assert torch.equal(here, there)

    def test_work_of_torch_before_and_after_is_waited_for(self):
        model = sluice.inferenceModel(net().eval(), options("cuda:0"))
        x = torch.randn(4096, 12, device="cuda")
        model(x)
        big = torch.randn(4096, 4096, device="cuda")
        for _ in range(5):
            for _ in range(10):
                big = torch.tanh(big @ big)
            y = x + big[:, :12]
            got = (model(y) * 2).cpu()
            assert torch.equal(got, model(y.cpu()) * 2)

    def test_views_other_types_and_kept_results(self):
        model = sluice.inferenceModel(net().eval(), options("cuda:0"))
        x = torch.randn(12, 6, device="cuda")
        first = model(x.t())
        kept = first.clone()
        second = model(x.t() + 1)
        assert torch.equal(first, kept) and not torch.equal(first, second)

    def test_of_several_shapes(self):
        model = sluice.inferenceModel(net().eval(), options("cuda:0"))
        for rows in (2, 5, 2):
            x = torch.randn(rows, 12)
            assert torch.equal(model(x.cuda()).cpu(), model(x))

    def test_a_model_elsewhere_is_refused(self):
        model = sluice.inferenceModel(net().eval(), options("cpu"))
        with pytest.raises(_core.InvalidArgument, match="device 0 of the model is of the kind 'cpu'"):
            model(torch.zeros(2, 12, device="cuda"))

    def test_sums_of_outputs_are_refused(self):
        given = options("cuda:0").deviceIterations(2).outputMode(sluice.OutputMode.Sum)
        model = sluice.inferenceModel(net().eval(), given)
        with pytest.raises(_core.Unsupported, match="OutputMode.Sum"):
            model(torch.zeros(4, 12, device="cuda"))
