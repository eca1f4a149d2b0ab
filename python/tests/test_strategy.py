"""Strategies are values, and reach the core as the code that their repr shows."""

import copy
import pickle

import pytest

import sluice
from sluice import (
    AutoStage,
    Liveness,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    TensorLocationSettings,
)
from sluice.enums import IoSchedule, PhaseOrder
from sluice.strategy import ConcurrentStages


def in_core(strategy):
    """What C++ prints for the strategy."""
    return sluice.Options().setExecutionStrategy(strategy).text("setExecutionStrategy")


def test_stages_with_and_without_devices():
    strategy = PipelinedExecution(Stage("B1", "B2").ipu(0), Stage("B3").device(1))
    stages = 'Stage("B1", "B2").device(0), Stage("B3").device(1)'
    assert in_core(strategy) == f'PipelinedExecution({stages}).schedule("1f1b")'


def test_block_ids_and_lists_are_stages():
    expected = in_core(PipelinedExecution(Stage("A"), Stage("B", "C")))
    assert in_core(PipelinedExecution("A", ["B", "C"])) == expected


def test_rules_for_stages_have_pop_torchs_and_our_names():
    assert AutoStage.SameAsIpu is AutoStage.SameAsDevice
    assert in_core(PipelinedExecution(AutoStage.SameAsIpu)) == in_core(PipelinedExecution())
    increment = in_core(PipelinedExecution(AutoStage.AutoIncrement))
    assert "AutoIncrement" in increment
    assert in_core(ShardedExecution()) == in_core(ShardedExecution(AutoStage.AutoIncrement))


def test_a_stage_is_found_by_its_block_and_placed():
    strategy = ShardedExecution("A", "B")
    strategy.stage("B").ipu(3)
    assert strategy == ShardedExecution(Stage("A"), Stage("B").ipu(3))
    with pytest.raises(KeyError, match="no stage has the block 'C'"):
        strategy.stage("C")
    with pytest.raises(KeyError, match="when the model is traced"):
        ShardedExecution().stage("A")


def test_concurrent_stages_and_a_schedule():
    strategy = PipelinedExecution("A", ConcurrentStages("B", "C"), "D").schedule("sequential")
    text = in_core(strategy)
    assert "ConcurrentStages" in text and "sequential" in text
    strategy.stage("C").ipu(2)
    assert 'Stage("C").device(2)' in in_core(strategy)


def test_a_change_after_the_option_was_set_counts_until_the_options_are_used():
    strategy = PipelinedExecution("A", "B")
    options = sluice.Options().setExecutionStrategy(strategy)
    strategy.stage("B").ipu(1)
    assert options.text("setExecutionStrategy") == in_core(strategy)
    options.freeze()
    before = options.text("setExecutionStrategy")
    strategy.stage("A").ipu(7)
    assert options.text("setExecutionStrategy") == before


def test_phases_of_ids_stages_and_lists():
    phases = [Phase("A", "B"), Phase(Stage("C"), Stage("D"))]
    expected = in_core(SerialPhasedExecution(*phases))
    assert in_core(SerialPhasedExecution(["A", "B"], [Stage("C"), Stage("D")])) == expected
    assert "Stage" in expected


def test_the_guides_parallel_example():
    strategy = ParallelPhasedExecution(
        Phase(Stage("A"), Stage("A2")),
        Phase(Stage("B"), Stage("B2")),
        Phase(Stage("C"), Stage("C2")),
    )
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1, 3)
    strategy.phase(2).ipus(0, 2)
    strategy.sendTensorsOffChipAfterFwd().useSeparateBackwardPhase()
    text = in_core(strategy)
    assert text.count(".device(1)") == 1 and text.count(".device(2)") == 2
    assert "OffChipAfterFwd" in text and "useSeparateBackwardPhase(true)" in text


def test_liveness_order_and_io_of_phases():
    strategy = SerialPhasedExecution("A", "B").setTensorsLiveness(Liveness.OffChipAfterEachPhase)
    strategy.order(PhaseOrder.PhaseMajor).io(IoSchedule.OnDemand)
    text = in_core(strategy)
    for word in ("OffChipAfterEachPhase", "PhaseMajor", "OnDemand"):
        assert word in text


def test_automatic_phases():
    assert "automatic(4)" in in_core(SerialPhasedExecution(Phase.automatic(4)))
    assert repr(Phase.automatic(4)) == "Phase.automatic(4)"


def test_wrong_arguments_say_what_is_expected():
    with pytest.raises(ValueError, match="one or more blocks"):
        Stage()
    with pytest.raises(TypeError, match="a block's id is text"):
        Stage(1)
    with pytest.raises(TypeError, match="whole number"):
        Stage("A").ipu("0")
    with pytest.raises(TypeError, match="phases belong to the phased strategies"):
        PipelinedExecution(Phase("A"))
    with pytest.raises(TypeError, match="one AutoStage"):
        PipelinedExecution(AutoStage.SameAsIpu, "A")
    with pytest.raises(ValueError, match="2 stages need as many devices"):
        Phase(Stage("A"), Stage("B")).ipus(0)
    with pytest.raises(IndexError, match="phase 2, expected 0 to 0"):
        SerialPhasedExecution("A").phase(2)
    with pytest.raises(IndexError, match="stage 1 of 1"):
        Phase("A").stage(1)
    with pytest.raises(TypeError, match="got 3"):
        SerialPhasedExecution(3)
    with pytest.raises(ValueError, match="two or more"):
        ConcurrentStages("A")


def test_a_block_in_two_stages_is_the_cores_error():
    with pytest.raises(ValueError, match="A"):
        in_core(PipelinedExecution("A", "A"))


STRATEGIES = [
    PipelinedExecution(Stage("A").ipu(0), "B").schedule("sequential"),
    ShardedExecution(AutoStage.AutoIncrement),
    SerialPhasedExecution("A", ["B", "C"]).setTensorsLiveness(Liveness.OffChipAfterFwd),
    ParallelPhasedExecution(Phase(Stage("A").ipu(0)), Phase(Stage("B").ipu(1))),
    TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(8),
]


@pytest.mark.parametrize("value", STRATEGIES, ids=repr)
def test_copies_and_pickles_are_equal(value):
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert other == value and repr(other) == repr(value)


@pytest.mark.parametrize("value", STRATEGIES, ids=repr)
def test_a_repr_is_the_code_that_makes_the_value(value):
    assert eval(repr(value), dict(vars(sluice.strategy))) == value


def test_tensor_locations_reach_the_core():
    options = sluice.Options()
    location = TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding()
    options.TensorLocations.setOptimizerLocation(location)
    text = options.text("tensorLocations.setOptimizerLocation")
    assert "useOnChipStorage(false)" in text and "useReplicatedTensorSharding(true)" in text
    options.TensorLocations.setWeightLocation(location.useOnChipStorage(None))
    assert "useOnChipStorage" not in options.text("tensorLocations.setWeightLocation")
