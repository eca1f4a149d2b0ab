#include "sluice/runtime/sim_bound.h"

#include <gtest/gtest.h>

#include "sluice/device/kernel_table.h"

namespace sluice::runtime {
namespace {

using parallel::SegmentInfo;
using parallel::SegmentKind;
using program::Program;

/// The name of a kernel is as long as its time.
struct ToyModel : device::CostModel {
  std::string target() const override { return "toy"; }
  std::int64_t ticksPerSecond() const override { return 1; }
  const device::MachineRates& machine() const override { return rates; }
  std::int64_t kernelTicks(const device::KernelCall& call) const override {
    return static_cast<std::int64_t>(call.name.size());
  }
  device::MachineRates rates = {.taskSeconds = 100};
};

device::KernelCall call(const std::string& name,
                        std::vector<std::int32_t> inputs,
                        std::vector<std::int32_t> outputs) {
  device::KernelCall made;
  made.name = name;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

SimBound boundOfToy(const Program& program) {
  const ToyModel model;
  const device::CostModel* models[] = {&model};
  return boundOf(program, models);
}

/// x -> aa -> (bbbbb and c) -> dd, for three micro-batches; then the update eeee of what dd makes.
Program diamond() {
  Program p;
  p.microBatchesPerRound = 3;
  p.buffers.resize(6);
  p.segments = {
      {SegmentInfo{.kind = SegmentKind::Pack}, {call("packing", {5}, {5})}},
      {SegmentInfo{}, {call("aa", {0, -1}, {1}), call("bbbbb", {1}, {2})}},
      {SegmentInfo{.kind = SegmentKind::Backward}, {call("c", {1}, {3}), call("dd", {2, 3}, {4})}},
      {SegmentInfo{.kind = SegmentKind::Update}, {call("eeee", {4}, {5})}}};
  return p;
}

TEST(SimBound, CountsKernelsForEveryMicroBatchAndUpdatesOnce) {
  EXPECT_EQ(boundOfToy(diamond()).work, 3 * (2 + 5 + 1 + 2) + 4);
}

TEST(SimBound, FollowsTheSlowestKernelOfAChain) {
  // aa, then bbbbb for each of three micro-batches, then dd and eeee.
  EXPECT_EQ(boundOfToy(diamond()).chain, 2 + 3 * 5 + 2 + 4);
}

TEST(SimBound, ChangesOfStorageTakeNoTimeButCarryTheChain) {
  Program p = diamond();
  p.buffers.resize(7);
  p.segments[1].calls.push_back(call("a change of storage", {2}, {6}));
  p.segments[1].calls.back().def = &device::kReorder;
  p.segments[2].calls[1].inputs = {6, 3};
  EXPECT_EQ(boundOfToy(p), boundOfToy(diamond()));
}

TEST(SimBound, ABufferThatIsWrittenAgainEndsTheChain) {
  // bbbbb's result is overwritten by c, so nothing that reads it afterwards waits for bbbbb.
  Program p = diamond();
  p.segments[2].calls[0].outputs = {2};
  p.segments[2].calls[1].inputs = {2};
  // bbbbb has nothing after it: 2 + 15. Through dd: 2 + 1 + 3 * 2 + 4.
  EXPECT_EQ(boundOfToy(p).chain, 2 + 15);
}

}  // namespace
}  // namespace sluice::runtime
