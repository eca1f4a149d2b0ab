"""Options: every setter reaches the core, whose printed values are the oracle."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import pytest

import sluice
from sluice import ConnectionType, OutputMode, ReductionType, _core
from sluice import _option_base as base
from sluice.enums import BY_CORE_TYPE, Recomputation



class InCore:
    """A value that only the core has a form of; sluice.autocasting, which has it, needs torch."""

    def __init__(self, *call):
        self._call = call

    def to_core(self):
        return _core.Call(*self._call)


#: Arguments for every setter of the core's table, and the text that it prints then (None: the value
#: has another setter, or stands elsewhere).
CASES = {
    "deviceIterations": ([4], "4"),
    "autoSelectDevices": ([4, 2], "4, 2"),
    "selectDevices": ([[0, 1], 1], None),
    "replicationFactor": ([2], "2"),
    "inputReplicaGrouping": ([2, sluice.CommGroupType.Consecutive], "2, Consecutive"),
    "outputMode": ([OutputMode.EveryN, 4], "EveryN, 4"),
    "anchorTensor": (["a", "fc/matmul"], '[["a", "fc/matmul", Default, 1]]'),
    "syntheticDataMode": ([sluice.enums.SyntheticDataMode.Zeros], "Zeros"),
    "enableSyntheticData": ([True], None),
    "setExecutionStrategy": ([sluice.ShardedExecution("A")], 'ShardedExecution(Stage("A"))'),
    "recomputation": ([Recomputation.Standard], "Standard"),
    "continuousWeightUpdates": ([True], "true"),
    "fusion": ([False], "false"),
    "constantWeights": ([True], "true"),
    "foldBatchNorm": ([True], "true"),
    "verifyPrograms": ([True], "true"),
    "dumpDirectory": (["dumps"], '"dumps"'),
    "enablePipelining": ([True], "true"),
    "virtualGraphMode": ([sluice.enums.VirtualGraphMode.Auto], "Auto"),
    "virtualGraphSplitRatios": ([[0.25, 0.75]], "[0.25, 0.75]"),
    "devicesPerReplica": ([2], "2"),
    "executionPhases": ([4, 2], "4, 2"),
    "enableExecutableCaching": (["cache", "2KiB"], '"cache", 2048'),
    "recovery": ([3, 0.5, 8], "3, 0.5, 8"),
    "showCompilationProgressBar": ([False], "false"),
    "device": (["cpu"], '"cpu"'),
    "threads": ([2], "2"),
    "memoryPerDevice": (["64KiB"], "65536"),
    "setAvailableMemoryProportion": ([{"IPU0": 0.5}], '"IPU0", 0.5'),
    "remoteMemory": (["remote", "1MiB"], '"remote", 1048576'),
    "remoteBandwidth": ([1e6], "1000000"),
    "undoMemory": ([1024], "1024"),
    "connectionType": ([ConnectionType.OnDemand], "OnDemand"),
    "useOfflineTarget": ([2], None),
    "useIpuModel": ([True], "true"),
    "useDeviceIds": ([[0, 1]], "[0, 1]"),
    "useDeviceId": ([1], None),
    "inputOverlap": ([sluice.OverlapMode.NoOverlap], "NoOverlap"),
    "outputOverlap": ([sluice.OverlapMode.OverlapAccumulationLoop], "OverlapAccumulationLoop"),
    "barriers": ([True], "true"),
    "syncPattern": ([sluice.SyncPattern.SinglePipeline], "SinglePipeline"),
    "autoRoundNumDevices": ([True], "true"),
    "enforceIpuRules": ([True], "true"),
    "stallTimeout": ([2.5], "2.5"),
    "tuningTable": (["table.txt"], '"table.txt"'),
    "randomSeed": ([42], "42"),
    "broadcastBuffers": ([False], "false"),
    "updatableNamedBuffers": ([["mean"]], '["mean"]'),
    "relaxOptimizerAttributesChecks": ([True], "true"),
    "enableStableNorm": ([True], "true"),
    "rearrangeAnchorsOnHost": ([True], "true"),
    "modelName": (["net"], '"net"'),
    "maxRepeatLogs": ([2], "2"),
    "disableModuleNamescope": ([], "true"),
    "logDir": (["logs"], '"logs"'),
    "logCycleCount": ([True], "true"),
    "enableProfiling": (["profile"], '"profile"'),
    "traceValues": ([sluice.enums.TraceValues.Hashes], "Hashes"),
    "traceKernels": ([True], "true"),
    "training.gradientAccumulation": ([8], "8"),
    "training.accumulationAndReplicationReductionType": ([ReductionType.Sum], "Sum"),
    "training.replicationReductionType": ([ReductionType.Sum], "Sum"),
    "training.setMeanAccumulationAndReplicationReductionStrategy": (
        [sluice.MeanReductionStrategy.Running],
        "Running",
    ),
    "training.setAutomaticLossScaling": ([True], "true"),
    "training.logGradientStatistics": ([10], "10"),
    "training.setConvolutionDithering": ([True], "true"),
    "precision.autocastEnabled": ([False], "false"),
    "precision.autocastPolicy": (
        [InCore("Policy", [["conv2d"], ["bmm"], [], [], "f16"])],
        'Policy(["conv2d"], ["bmm"], [], [], "f16")',
    ),
    "precision.halfFloatCasting": (
        [sluice.HalfFloatCastingBehavior.HalfUpcastToFloat],
        "HalfUpcastToFloat",
    ),
    "precision.runningStatisticsAlwaysFloat": ([False], "false"),
    "precision.enableStochasticRounding": ([True], "true"),
    "precision.enableFloatingPointExceptions": ([True], "true"),
    "precision.setPartialsType": (["float16"], '"f16"'),
    "jit.traceModel": ([True], "true"),
    "tensorLocations.setTensorLocation": (["fc.weight", False], '[["fc.weight", false]]'),
    "tensorLocations.numIOTiles": ([64], "64"),
    "distributed.setEnvVarNames": (["SIZE", "RANK"], '"SIZE", "RANK"'),
    "distributed.configureProcessId": ([1, 4], "1, 4"),
    "distributed.shareModel": ([True], "true"),
    "distributed.disable": ([], None),
    "popart.set": (["accumulationFactor", 4], None),
}
for _name in ("Activation", "Weight", "Optimizer", "Accumulator"):
    _location = sluice.TensorLocationSettings().useOnChipStorage(False)
    CASES[f"tensorLocations.set{_name}Location"] = (
        [_location],
        "TensorLocationSettings().useOnChipStorage(false)",
    )


def call(options, name, arguments):
    *groups, setter = name.split(".")
    target = options
    for group in groups:
        target = getattr(target, group)
    return getattr(target, setter)(*arguments)


@pytest.mark.parametrize("name", _core.Options.settings())
def test_every_setting_of_the_core_can_be_set(name):
    assert name in CASES, f"the setting {name} of the core has no case in this test"
    arguments, expected = CASES[name]
    options = sluice.Options()
    returned = call(options, name, arguments)
    assert returned is (options if "." not in name else getattr(options, name.split(".")[0]))
    if expected is not None:
        assert options.text(name) == expected


def test_groups_have_pop_torchs_names_and_ours():
    options = sluice.Options()
    assert options.Training is options.training and options.Precision is options.precision
    assert options.Jit is options.jit and options.Distributed is options.distributed
    assert options.TensorLocations is options.tensorLocations
    assert options._Popart is options.popart and options.popart() is options._Popart


def test_names_with_ipu_are_other_names_of_device_settings():
    options = sluice.Options().useIpuId(1).autoRoundNumIPUs()
    assert options.text("useDeviceIds") == "[1]"
    assert options.text("autoRoundNumDevices") == "true"
    assert sluice.Options().useOfflineIpuTarget().text("connectionType") == "Never"


def test_setters_chain():
    options = sluice.Options().deviceIterations(2).replicationFactor(3).threads(2)
    options.Training.gradientAccumulation(4).setConvolutionDithering(True)
    assert options.text("deviceIterations") == "2" and options.text("threads") == "2"
    assert options.text("training.setConvolutionDithering") == "true"


def test_values_can_be_read():
    options = sluice.Options().deviceIterations(7).outputMode(OutputMode.EveryN, 3).logDir("x")
    assert options.device_iterations == 7 and options.replication_factor == 1
    assert options.output_mode is OutputMode.EveryN and options.output_return_period == 3
    assert options.log_dir == "x" and options.random_seed is None
    assert options.auto_round_num_ipus is False
    assert options.connection_type is ConnectionType.Always
    assert options.value("outputMode") == (OutputMode.EveryN, 3)
    assert options.Training.gradient_accumulation == 1
    assert options.Training.accumulation_and_replication_reduction_type is ReductionType.Mean
    assert options.Precision.half_float_casting is sluice.HalfFloatCastingBehavior.Default
    assert options.Distributed.numProcesses == 1 and options.Distributed.processId == 0
    assert options.value("recomputation") is Recomputation.Default
    assert sluice.Options().recomputation(None).value("recomputation") is Recomputation.Off
    assert "PipelinedExecution" in options.value("setExecutionStrategy")
    assert options.anchored_tensors == []


def test_default_output_mode():
    assert sluice.Options().defaultOutputMode()
    assert not sluice.Options().outputMode("All").defaultOutputMode()


def test_an_unknown_name_proposes_near_ones():
    with pytest.raises(AttributeError, match="did you mean .*deviceIterations"):
        sluice.Options().deviceIteration(4)
    with pytest.raises(AttributeError, match="gradientAccumulation"):
        sluice.Options().Training.gradientAcumulation(4)
    with pytest.raises(AttributeError, match="it has"):
        sluice.Options().xyzzy
    assert not hasattr(sluice.Options(), "_nothing")


def test_wrong_values_are_refused_and_change_nothing():
    options = sluice.Options().deviceIterations(2)
    with pytest.raises(ValueError, match="deviceIterations"):
        options.deviceIterations(0)
    with pytest.raises(ValueError, match="whole number"):
        options.deviceIterations("4")
    with pytest.raises(ValueError, match="OutputMode"):
        options.outputMode(ConnectionType.Always)
    with pytest.raises(ValueError, match="EveryN needs"):
        options.outputMode(OutputMode.EveryN)
    with pytest.raises(ValueError, match="ReductionType"):
        options.Training.accumulationAndReplicationReductionType(ReductionType.NoReduction)
    with pytest.raises(TypeError, match="a dictionary such as"):
        options.setAvailableMemoryProportion(0.5)
    with pytest.raises(TypeError, match="object of type|of type object"):
        options.threads(object())
    with pytest.raises(ValueError, match="f32 or f16"):
        options.Precision.setPartialsType("int8")
    assert repr(options) == "Options(deviceIterations=2)"


def test_frozen_options_cannot_be_changed_and_a_clone_can():
    options = sluice.Options().deviceIterations(2)
    options.freeze()
    assert options.frozen
    with pytest.raises(Exception, match="frozen"):
        options.deviceIterations(3)
    with pytest.raises(Exception, match="frozen"):
        options.Training.gradientAccumulation(3)
    with pytest.raises(AttributeError, match="frozen"):
        options._Popart.checkIsFrozen("x")
    clone = options.clone()
    assert clone == options and not clone.frozen
    clone._Popart.checkIsFrozen()
    assert clone.deviceIterations(3) != options


def sample():
    options = sluice.Options().deviceIterations(3).outputMode(OutputMode.EveryN, 3)
    options.setExecutionStrategy(sluice.PipelinedExecution("A", sluice.Stage("B").ipu(1)))
    options.Training.gradientAccumulation(5)
    location = sluice.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setWeightLocation(location)
    options.anchorTensor("a", "b").setAvailableMemoryProportion({"IPU0": 0.25})
    options._Popart.set("replicatedGraphCount", 2)
    return options


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_copies_are_equal_and_apart(copied):
    options = sample()
    other = copied(options)
    assert str(other) == str(options) and other == options
    other.deviceIterations(9)
    other.Training.gradientAccumulation(2)
    assert options.device_iterations == 3 and options.Training.gradient_accumulation == 5


def test_a_value_that_changes_later_does_not_change_the_options():
    location = sluice.TensorLocationSettings().useOnChipStorage(False)
    options = sluice.Options()
    options.TensorLocations.setWeightLocation(location)
    location.useOnChipStorage(True)
    assert pickled(options) == options and "false" in repr(options.TensorLocations)


def test_a_copy_has_a_strategy_of_its_own():
    strategy = sluice.PipelinedExecution("A", "B")
    options = sluice.Options().setExecutionStrategy(strategy)
    other = options.clone()
    strategy.stage("A").ipu(2)
    assert "device(2)" in options.text("setExecutionStrategy")
    assert "device(2)" not in other.text("setExecutionStrategy")


def test_files_and_json_survive_pickling(tmp_path):
    path = tmp_path / "options.conf"
    path.write_text("deviceIterations(4)\n")
    options = sluice.Options().loadFromFile(path).from_json('{"threads": 2}')
    path.unlink()
    assert pickle.loads(pickle.dumps(options)) == options


def test_all_values_as_text_and_dictionary():
    options = sample()
    text, values = str(options), options.toDict()
    assert "training.gradientAccumulation: 5\n" in text
    assert values["training.gradientAccumulation"] == 5 and values["outputMode"][1] == 3
    assert len(values) == len(text.splitlines())
    assert repr(sluice.Options()) == "Options()"
    assert repr(sluice.Options().modelName("a\nb")) == 'Options(modelName="a\nb")'
    assert repr(options.Training) == "_TrainingOptions(gradientAccumulation=5)"
    assert "outputMode=(EveryN, 3)" in repr(options)
    assert "training.gradientAccumulation=5" in repr(options)


def test_files_in_pop_torchs_words(tmp_path):
    path = tmp_path / "poptorch.conf"
    path.write_text(
        """
# a comment with useIpuId
deviceIterations(4)      # 4
  autoRoundNumIPUs(True)
Training.gradientAccumulation(8)
setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("ipu").ipu(0), Stage("B").ipu(1)))
Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat)
"""
    )
    expected = sluice.Options().deviceIterations(4).autoRoundNumIPUs()
    stages = sluice.Stage("ipu").ipu(0), sluice.Stage("B").ipu(1)
    expected.setExecutionStrategy(sluice.PipelinedExecution(*stages))
    expected.Training.gradientAccumulation(8)
    expected.Precision.halfFloatCasting(sluice.HalfFloatCastingBehavior.HalfUpcastToFloat)
    assert sluice.Options().loadFromFile(str(path)) == expected


def test_lines_of_files_that_only_python_can_read(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "poptorch.conf"
    path.write_text(
        'deviceIterations(3)\n'
        'setAvailableMemoryProportion({"IPU0": 0.2})\n'
        'Precision.setPartialsType(torch.half)\n'
        'deviceIterations(4)\n'
        'outputMode(output_mode=poptorch.OutputMode.EveryN, output_return_period=2)\n'
        '_Popart.setPatterns({"InPlace": False}, level=1)\n'
        '_Popart.set("prefetchBufferingDepthMap", {"a": 2})\n'
        '_Popart.set("outlineThreshold", 10.0)  # has no counterpart\n'
        'Training.gradientAccumulation(gradient_accumulation=8)\n'
    )
    expected = sluice.Options().setAvailableMemoryProportion({"IPU0": 0.2}).deviceIterations(4)
    expected.outputMode(sluice.OutputMode.EveryN, 2).Precision.setPartialsType(torch.half)
    expected.Training.gradientAccumulation(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = sluice.Options().loadFromFile(path)
        assert options == expected and pickle.loads(pickle.dumps(options)) == expected
        options.deviceIterations(7)
        assert pickle.loads(pickle.dumps(options)).device_iterations == 7


@pytest.mark.parametrize("line, word", [
    ('Precision.setPartialsType(torch.load)', "torch.load' is no value"),
    ('Precision.setPartialsType(torch.load("x"))', "no value of an option"),
    ('setAvailableMemoryProportion({"IPU0": open})', "'open' is no value"),
    ('setAvailableMemoryProportion({"IPU0": 7.0})', "7"),
    ('outputMode(output_mode=poptorch.OutputMode.Some)', "no value of an option"),
    ('deviceIteration(device_iterations=2)', "did you mean deviceIterations"),
    ('outputMode(mode=3)', "mode"),
    ('_Popart.set("accumulationFactor", {})', "got {}"),
])
def test_lines_of_files_that_python_refuses(tmp_path, line, word):
    path = tmp_path / "options.conf"
    path.write_text(f"deviceIterations(4)\n{line}\n")
    options = sluice.Options()
    with pytest.raises(sluice.ConfigFileError, match=word) as error:
        options.loadFromFile(path)
    assert f"{path}, line 2: '{line}'" in str(error.value) and options == sluice.Options()
    options.freeze()
    path.write_text("deviceIterations(device_iterations=4)")
    with pytest.raises(sluice.Error, match="frozen|in use|clone"):
        options.loadFromFile(path)


def test_a_broken_file_names_the_line_and_changes_nothing(tmp_path):
    path = tmp_path / "options.conf"
    path.write_text("deviceIterations(4)\n\nuseIpuId(,)\n")
    options = sluice.Options()
    with pytest.raises(sluice.ConfigFileError, match=r"line 3.*useIpuId\(,\)") as error:
        options.loadFromFile(path)
    assert str(path) in str(error.value) and options == sluice.Options()
    with pytest.raises(sluice.ConfigFileError, match="missing.conf"):
        options.loadFromFile(tmp_path / "missing.conf")


def test_json_is_the_same_as_setters():
    options = sluice.Options().from_json(
        json.dumps(
            {
                "Training.gradientAccumulation": 8,
                "connectionType": "ConnectionType.OnDemand",
                "outputMode": ["EveryN", 4],
                "useIpuId": 3,
                "setExecutionStrategy": "PipelinedExecution(Stage('A').ipu(1))",
            }
        )
    )
    expected = sluice.Options().connectionType(ConnectionType.OnDemand).useIpuId(3)
    expected.outputMode(OutputMode.EveryN, 4).Training.gradientAccumulation(8)
    expected.setExecutionStrategy(sluice.PipelinedExecution(sluice.Stage("A").ipu(1)))
    assert options == expected
    for text in ("{", "3", '{"xyz": 1}'):
        with pytest.raises(sluice.ConfigFileError, match="from_json"):
            options.from_json(text)


def test_defaults_come_from_the_environment():
    code = "import sluice; o = sluice.Options(); print(o.device_iterations, repr(o))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**__import__("os").environ, "SLUICE_DEFAULT_OPTIONS": '{"deviceIterations": 6}'},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "6 Options(deviceIterations=6)"


WITHOUT_EFFECT = {
    "Options.sourceLocationExcludes": lambda o: o.sourceLocationExcludes(["a"]),
    "Options.appendToLocationExcludes": lambda o: o.appendToLocationExcludes("a", "b"),
    "Jit.traceModel(False)": lambda o: o.Jit.traceModel(False),
    "_Popart.setEngineOptions": lambda o: o._Popart.setEngineOptions({"debug": "true"}),
    "_Popart.setPatterns": lambda o: o._Popart.setPatterns(["PostNRepl"], level=1),
    "_Popart.set": lambda o: o._Popart.set("xyzzy", 1),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_names_without_effect_warn_once_and_change_nothing(name):
    base._warned.clear()
    options = sluice.Options()
    with pytest.warns(UserWarning, match="has no effect"):
        WITHOUT_EFFECT[name](options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WITHOUT_EFFECT[name](options)
    assert options == sluice.Options() and name in base.NO_EFFECT


def test_popart_names_with_a_counterpart_are_set_and_checked():
    options = sluice.Options()
    options._Popart.set("accumulationFactor", 4).set("autoRecomputation", 3)
    assert options.text("training.gradientAccumulation") == "4"
    assert options.text("recomputation") == "Pipeline"
    with pytest.raises(ValueError, match="autoRecomputation"):
        options._Popart.set("autoRecomputation", 99)


def test_the_enumerations_are_those_of_the_core():
    # A wrong member makes the core list those that it knows.
    settings = {
        "OutputMode": "outputMode",
        "ConnectionType": "connectionType",
        "MeanReductionStrategy": "training.setMeanAccumulationAndReplicationReductionStrategy",
        "SyntheticDataMode": "syntheticDataMode",
        "OverlapMode": "inputOverlap",
        "SyncPattern": "syncPattern",
        "HalfFloatCasting": "precision.halfFloatCasting",
        "VirtualGraphMode": "virtualGraphMode",
        "Recomputation": "recomputation",
    }
    for kind, setting in settings.items():
        with pytest.raises(ValueError, match=kind) as error:
            _core.Options().apply(setting, "xyzzy")
        listed = str(error.value).split("{")[1].split("}")[0].split(", ")
        assert {each.core_name.split(".")[1] for each in BY_CORE_TYPE[kind]} == set(listed)


def test_numbers_of_enumerations_are_pop_torchs():
    assert [m.value for m in (OutputMode.Final, OutputMode.All, OutputMode.Default)] == [0, 2, 4]
    assert ReductionType.Mean.value == 1 and sluice.MeanReductionStrategy.Post.value == 1
    assert ConnectionType.Always.value == 0 and sluice.SyncPattern.Full.value == 0
    assert sluice.HalfFloatCastingBehavior.Default.value == 2
    for each in BY_CORE_TYPE.values():
        for member in each:
            assert pickle.loads(pickle.dumps(member)) is member


def test_options_do_not_import_torch():
    code = "import sluice, sys; sluice.Options().deviceIterations(2); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_seed_is_also_torchs():
    torch = pytest.importorskip("torch")
    sluice.Options().randomSeed(7)
    first = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(first, torch.rand(3))


def test_settings_in_the_constructor_are_an_error_that_shows_the_call():
    with pytest.raises(TypeError, match=r"Options\(\)\.deviceIterations\(4\)"):
        sluice.Options(deviceIterations=4)
