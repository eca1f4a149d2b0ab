"""Options and devices of sluice.popart."""

import warnings

import numpy as np
import pytest

import sluice.popart as popart
from sluice import _core
from sluice.popart import _warn
from sluice.popart.session_options import _OPTIONS


def texts(options):
    """Every setting that differs from the default, as text."""
    made, plain = options._core_options(), _core.Options()
    return {name: made.text(name) for name in _core.Options.settings() if made.text(name) != plain.text(name)}


class TestSessionOptions:
    SUM = {"training.accumulationAndReplicationReductionType": "Sum"}

    def test_gradients_are_summed_as_in_popart(self):
        assert texts(popart.SessionOptions()) == self.SUM

    @pytest.mark.parametrize("name, value, setting, text", [
        ("syntheticDataMode", popart.SyntheticDataMode.Zeros, "syntheticDataMode", "Zeros"),
        ("virtualGraphMode", popart.VirtualGraphMode.Auto, "virtualGraphMode", "Auto"),
        ("enablePipelining", True, "enablePipelining", "true"),
        ("autoRecomputation", popart.RecomputationType.RecomputeAll, "recomputation", "All"),
        ("autoRecomputation", popart.RecomputationType.Pipeline, "recomputation", "Pipeline"),
        ("numIOTiles", 64, "tensorLocations.numIOTiles", "64"),
        ("enableFloatingPointChecks", True, "precision.enableFloatingPointExceptions", "true"),
        ("enableStochasticRounding", True, "precision.enableStochasticRounding", "true"),
        ("partialsTypeMatMuls", "half", "precision.setPartialsType", '"f16"'),
        ("enableStableNorm", True, "enableStableNorm", "true"),
        ("logDir", "/tmp/x", "logDir", '"/tmp/x"'),
        ("instrumentWithHardwareCycleCounter", True, "logCycleCount", "true"),
        ("virtualGraphSplitRatios", [0.25, 0.75], "virtualGraphSplitRatios", "[0.25, 0.75]"),
        ("meanAccumulationAndReplicationReductionStrategy", popart.MeanReductionStrategy.Running,
         "training.setMeanAccumulationAndReplicationReductionStrategy", "Running"),
        ("automaticLossScalingSettings", popart.AutomaticLossScalingSettings(enabled=True),
         "training.setAutomaticLossScaling", "true"),
        ("tensorLocationSettingsOverride", {"w": popart.TensorLocation(popart.TensorStorage.OffChip)},
         "tensorLocations.setTensorLocation", '[["w", false]]'),
    ])
    def test_become_those_of_the_library(self, name, value, setting, text):
        options = popart.SessionOptions()
        setattr(options, name, value)
        assert texts(options) == {**self.SUM, setting: text}

    def test_counts_need_their_switches(self):
        options = popart.SessionOptions()
        options.accumulationFactor = 4
        with pytest.raises(popart.InvalidArgument, match="enableGradientAccumulation is False"):
            texts(options)
        options.enableGradientAccumulation = True
        options.replicatedGraphCount = 2
        with pytest.raises(popart.InvalidArgument, match="enableReplicatedGraphs"):
            texts(options)
        options.enableReplicatedGraphs = True
        assert texts(options) == {**self.SUM, "training.gradientAccumulation": "4", "replicationFactor": "2"}

    def test_locations_are_settings_of_a_class(self):
        options = popart.SessionOptions()
        options.weightTensorLocationSettings.location.storage = popart.TensorStorage.OffChip
        options.weightTensorLocationSettings.minElementsForOffChip = 0
        text = texts(options)["tensorLocations.setWeightLocation"]
        assert "useOnChipStorage(false)" in text and "minElementsForOffChip(0)" in text
        other = popart.TensorLocationSettings(popart.TensorLocation(
            popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On), 4, 16)
        options.optimizerStateTensorLocationSettings = other
        text = texts(options)["tensorLocations.setOptimizerLocation"]
        assert "useReplicatedTensorSharding(true)" in text and "16" in text
        options.weightTensorLocationSettings = "OffChip"
        with pytest.raises(TypeError, match="weightTensorLocationSettings"):
            texts(options)

    def test_phases_have_groups(self):
        options = popart.SessionOptions()
        options.executionPhaseSettings.phases = 4
        assert texts(options)["executionPhases"] == "4, 2"

    def test_any_other_setting_can_be_given(self):
        options = popart.SessionOptions().set("threads", 2)
        assert texts(options)["threads"] == "2"
        with pytest.raises(popart.InvalidArgument, match="thread"):
            options.set("thread", 2)

    def test_unknown_names_propose_others(self):
        options = popart.SessionOptions()
        with pytest.raises(AttributeError, match="did you mean enablePipelining"):
            options.enablePipeline = True
        with pytest.raises(AttributeError, match="replicatedGraphCount"):
            options.replicatedGraphCounts
        with pytest.raises(AttributeError, match="phases"):
            options.executionPhaseSettings.phase = 1
        assert "enablePipelining" not in repr(options)

    def test_defaults_are_not_shared(self):
        popart.SessionOptions().executionPhaseSettings.phases = 7
        popart.SessionOptions().engineOptions["a"] = "b"
        assert popart.SessionOptions().executionPhaseSettings.phases == 0 and not popart.SessionOptions().engineOptions

    def test_those_without_effect_warn_once_each(self):
        names = [name for name, option in _OPTIONS.items() if option.apply is None]
        assert {"engineOptions", "enableOutlining", "hostAllReduce"} - set(names) == {"hostAllReduce"}
        _warn._given.clear()
        options = popart.SessionOptions()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for name in names * 2:
                setattr(options, name, "another")
            texts(options)
        assert sorted(str(each.message).split()[0] for each in caught) == sorted(f"SessionOptions.{n}" for n in names)
        with pytest.warns(UserWarning, match="engineOptions has no effect"):
            _warn._given.clear()
            options = popart.SessionOptions()
            options.engineOptions["target"] = "x"
            texts(options)

    def test_patterns_are_accepted(self):
        patterns = popart.Patterns(popart.PatternsLevel.Default)
        patterns.InPlace = False
        assert patterns.enablePattern("Fuse", True).isPatternEnabled("Fuse") and not patterns.InPlace


class TestDevices:
    def test_are_acquired_and_given_back(self):
        manager = popart.DeviceManager()
        with manager.acquireAvailableDevice(2, pattern=popart.SyncPattern.ReplicaAndLadder) as device:
            assert device.numIpus == 2 and device.isAttached and device.type == popart.DeviceType.Ipu
            assert "2 of kind 'cpu'" in repr(device)
        assert not device.isAttached and not device.attach()
        assert manager.createCpuDevice().numIpus == 1 and manager.createCpuDevice().type == popart.DeviceType.Cpu
        model = manager.createIpuModelDevice({"numIPUs": "3", "ipuVersion": "ipu1"})
        assert model.numIpus == 3 and "3 of kind 'sim@ipu1'" in repr(model)
        assert model.type == popart.DeviceType.IpuModel
        assert len(manager.enumerateDevices(numIpus=2)) == 1

    @pytest.mark.parametrize("call, kind, word", [
        (lambda m: m.acquireAvailableDevice(0), popart.InvalidArgument, "got 0"),
        (lambda m: popart.DeviceManager("tpu").acquireAvailableDevice(1), popart.DeviceError, "'tpu'"),
        (lambda m: m.createIpuModelDevice({"numIPUs": 0}), popart.InvalidArgument, "got 0"),
        (lambda m: m.createIpuModelDevice({"ipuVersion": "ipu9"}), popart.Error, "ipu9"),
        (lambda m: m.createIpuModelDevice({"tilesPerIPU": 4}), popart.InvalidArgument, "tilesPerIPU"),
        (lambda m: m.acquireDeviceById(1), popart.Unsupported, "set\\('device'"),
        (lambda m: m.setOnDemandAttachTimeout(1), popart.Unsupported, "wait")])
    def test_refuse_what_there_is_not(self, call, kind, word):
        with pytest.raises(kind, match=word):
            call(popart.DeviceManager())
        assert popart.DeviceManager("tpu").enumerateDevices() == []

    def test_released_ones_run_nothing(self):
        device = popart.DeviceManager().createCpuDevice()
        device.detach()
        builder = popart.Builder()
        y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [1])])
        with pytest.raises(popart.InvalidArgument, match="released"):
            popart.InferenceSession(builder, popart.DataFlow(1, [y]), device)

    def test_models_of_ipus_have_the_results_of_the_cpu(self):
        results = []
        for make in (lambda m: m.createCpuDevice(), lambda m: m.createIpuModelDevice({"numIPUs": 1})):
            builder = popart.Builder()
            y = builder.aiOnnx.tanh([builder.addInputTensor("FLOAT", [4], "x")])
            session = popart.InferenceSession(builder, popart.DataFlow(1, [y]), make(popart.DeviceManager()))
            session.prepareDevice()
            anchors = session.initAnchorArrays()
            session.run(popart.PyStepIO({"x": np.linspace(-1, 1, 4, dtype=np.float32)}, anchors))
            results.append(anchors[y].tobytes())
        assert results[0] == results[1]

    def test_offline_ones_compile_only(self):
        builder = popart.Builder()
        y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [1], "x")])
        device = popart.DeviceManager().createOfflineIPUDevice()
        session = popart.InferenceSession(builder, popart.DataFlow(1, [y]), device)
        session.prepareDevice()
        with pytest.raises(popart.Error, match="onnection|attach|Never"):
            session.run(popart.PyStepIO({"x": np.ones(1, np.float32)}, {}))
