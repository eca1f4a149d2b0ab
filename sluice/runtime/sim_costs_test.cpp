#include "sluice/runtime/sim_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::runtime {
namespace {

using program::BufferId;
using program::CollectiveKind;
using program::Program;
using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// 1 MHz, so that a tick is a microsecond.
struct ToyModel : device::CostModel {
  std::string target() const override { return "toy"; }
  std::int64_t ticksPerSecond() const override { return hertz; }
  const device::MachineRates& machine() const override { return rates; }
  std::int64_t kernelTicks(const device::KernelCall& call) const override {
    return static_cast<std::int64_t>(call.name.size());
  }
  device::MachineRates rates = {.peer = {.bytesPerSecond = 2e6, .latencySeconds = 3e-6},
                                .host = {.bytesPerSecond = 1e6, .latencySeconds = 5e-6},
                                .remote = {.bytesPerSecond = 4e6, .latencySeconds = 0},
                                .sumBytesPerSecond = 8e6,
                                .syncSeconds = 7e-6,
                                .taskSeconds = 1e-6};
  std::int64_t hertz = 1'000'000;
};

/// Two devices; a fetch, a copy to device 1, sums of 16 bytes.
Program small() {
  Program p;
  p.devices.resize(2);
  const TensorType four{DType::F32, Shape{4}};
  const TensorType two{DType::F32, Shape{2}};
  p.buffers = {{.name = "a", .device = 0, .bytes = 16},
               {.name = "b", .device = 1, .bytes = 16},
               {.name = "r", .device = program::kRemote, .bytes = 16}};
  p.segments = {{parallel::SegmentInfo{.device = 1}, {}}};
  p.segments[0].calls.resize(2);
  p.segments[0].calls[0].name = "four";
  p.segments[0].calls[1].name = "sixsix";
  p.feeds = {{.name = "x", .type = four, .buffer = BufferId(0)}};
  p.drains = {{.name = "y", .type = two, .buffer = BufferId(1)}};
  p.transfers = {{.name = "h", .from = BufferId(0), .to = BufferId(1), .bytes = 16},
                 {.name = "w", .from = BufferId(2), .to = BufferId(0), .bytes = 16},
                 {.name = "w", .from = BufferId(1), .to = BufferId(2), .bytes = 16}};
  const auto sum = [&](CollectiveKind kind, const TensorType& type, const TensorType& operand) {
    p.collectives.push_back({.name = "g",
                             .from = BufferId(1),
                             .to = BufferId(1),
                             .type = type,
                             .kind = kind,
                             .operand = operand});
  };
  sum(CollectiveKind::Sum, four, four);
  sum(CollectiveKind::SumPart, two, four);
  sum(CollectiveKind::Gather, four, two);
  return p;
}

std::vector<std::string> namesOf(const SimCosts& costs, const SimCost& cost) {
  std::vector<std::string> names;
  for (const std::int32_t resource : cost.resources) {
    names.push_back(costs.resources[static_cast<std::size_t>(resource)].name);
  }
  return names;
}

void expectCost(const SimCosts& costs,
                const SimCost& cost,
                std::int64_t busy,
                std::int64_t latency,
                const std::vector<std::string>& resources) {
  EXPECT_EQ(cost.busy, busy);
  EXPECT_EQ(cost.latency, latency);
  EXPECT_EQ(namesOf(costs, cost), resources);
}

TEST(SimCosts, OfDevicesWithPorts) {
  const ToyModel model;
  const device::CostModel* models[] = {&model};
  const SimCosts costs = costsOf(small(), models, 2);
  EXPECT_EQ(costs.ticksPerSecond, 1'000'000);
  expectCost(costs, costs.segments[0], 11, 0, {});                 // 1 + 4 + 6
  expectCost(costs, costs.feeds[0], 17, 5, {"host in 0"});         // 1 + 16 / 1
  expectCost(costs, costs.drains[0], 9, 5, {"host out 1"});        // 1 + 8 / 1
  expectCost(costs, costs.transfers[0], 9, 3, {"out 0", "in 1"});  // 1 + 16 / 2
  expectCost(costs, costs.transfers[1], 5, 0, {"host in 0"});      // 1 + 16 / 4
  expectCost(costs, costs.transfers[2], 5, 0, {"host out 1"});
  // Two replicas: a sum moves 2 * 1/2 of 16 bytes and reads 32; a part half of each.
  expectCost(costs, costs.collectives[0], 1 + 8 + 4, 3, {"out 1", "in 1"});
  expectCost(costs, costs.collectives[1], 1 + 4 + 2, 3, {"out 1", "in 1"});
  expectCost(costs, costs.collectives[2], 1 + 4 + 2, 3, {"out 1", "in 1"});
  expectCost(costs, costs.barrier, 7, 0, {});
}

TEST(SimCosts, OfDevicesThatShareCores) {
  ToyModel model;
  model.rates.cores = 2;
  model.rates.hostStreams = 1;
  const device::CostModel* models[] = {&model, &model};
  const SimCosts costs = costsOf(small(), models, 4);
  expectCost(costs, costs.segments[0], 11, 0, {"cores"});
  expectCost(costs, costs.feeds[0], 17, 5, {"cores", "host"});
  expectCost(costs, costs.transfers[0], 9, 3, {"cores"});
  expectCost(costs, costs.transfers[1], 5, 0, {"host in 0", "cores"});
  expectCost(costs, costs.collectives[0], 1 + 8, 0, {"cores"});  // reads 64 bytes
  EXPECT_EQ(costs.resources[0].capacity, 2);
  EXPECT_TRUE(costs.resources[0].shared);
}

TEST(SimCosts, OfAReplicaThatIsCutOverProcesses) {
  ToyModel model;
  model.rates.cores = 1;
  model.rates.processes = 2;
  model.rates.process = {.bytesPerSecond = 1e6, .latencySeconds = 20e-6};
  const device::CostModel* models[] = {&model};
  const SimCosts costs = costsOf(small(), models, 1);
  expectCost(costs, costs.segments[0], 11, 0, {"cores 1"});
  expectCost(costs,
             costs.transfers[0],  // 1 + 16 / 1
             17,
             20,
             {"process out 0", "process in 1", "cores 0", "cores 1"});
  expectCost(costs, costs.transfers[1], 5, 0, {"host in 0", "cores 0"});  // as in one process
  expectCost(costs, costs.collectives[0], 1 + 2, 0, {"cores 1"});
}

TEST(SimCosts, OfReplicasThatAreDealtOutToProcesses) {
  ToyModel model;
  model.rates.cores = 1;
  model.rates.processes = 2;
  model.rates.process = {.bytesPerSecond = 1e6, .latencySeconds = 20e-6};
  const device::CostModel* models[] = {&model};
  const std::vector<std::string> used = {"process out 0", "process in 0", "cores"};
  const SimCosts two = costsOf(small(), models, 2);
  expectCost(two, two.transfers[0], 9, 3, {"cores"});  // both devices are in one process
  // 16 bytes to the other one, and those of both replicas are read.
  expectCost(two, two.collectives[0], 1 + 16 + 4, 20, used);
  expectCost(two, two.collectives[1], 1 + 8 + 2, 20, used);
  expectCost(two, two.collectives[2], 1 + 8 + 2, 20, used);
  EXPECT_FALSE(two.resources[static_cast<std::size_t>(two.segments[0].resources[0])].shared);
  // With two replicas in each process one of them does the work, 1 + 2 * 16 + 8, and both wait.
  const SimCosts four = costsOf(small(), models, 4);
  expectCost(four, four.collectives[0], 20, 20 + 21, used);
  EXPECT_EQ(four.resources[static_cast<std::size_t>(four.segments[0].resources[0])].capacity, 2);
}

TEST(SimCosts, CountEveryMessageOfASum) {
  ToyModel model;
  model.rates.processes = 8;
  model.rates.process = {.bytesPerSecond = 0, .latencySeconds = 20e-6};
  const device::CostModel* models[] = {&model};
  Program program = small();
  program.collectives.push_back(program.collectives[0]);
  program.collectives.back().type = {DType::F32, Shape{2000}};
  program.collectives.back().operand = program.collectives.back().type;
  const SimCosts before = costsOf(program, models, 8);
  model.rates.messageSeconds = 3e-6;
  const SimCosts after = costsOf(program, models, 8);
  // Seven messages, the first of which is the link's; twice, if the sums of parts come back.
  EXPECT_EQ(after.collectives[3].busy - before.collectives[3].busy, 2 * 6 * 3);
  EXPECT_EQ(after.collectives[3].latency, 40);
  EXPECT_EQ(after.collectives[0].busy - before.collectives[0].busy, 6 * 3);
  EXPECT_EQ(after.collectives[1].busy - before.collectives[1].busy, 6 * 3);
  EXPECT_EQ(after.collectives[0].latency, before.collectives[0].latency);
}

TEST(SimCosts, EveryProcessHasAHost) {
  ToyModel model;
  model.rates.hostStreams = 1;
  const device::CostModel* models[] = {&model};
  const auto hostOf = [&](std::int32_t processes, std::int32_t replicas) {
    model.rates.processes = processes;
    const SimCosts costs = costsOf(small(), models, replicas);
    return costs.resources[static_cast<std::size_t>(costs.feeds[0].resources.back())];
  };
  EXPECT_TRUE(hostOf(1, 4).shared);
  EXPECT_FALSE(hostOf(4, 4).shared);
  EXPECT_EQ(hostOf(2, 4).capacity, 2);  // counted together
  EXPECT_EQ(hostOf(2, 1).name.substr(0, 5), "host ");
}

TEST(SimCosts, RefuseProcessesThatCannotShare) {
  ToyModel model;
  const device::CostModel* models[] = {&model};
  for (const auto& [processes, replicas] : {std::pair(2, 3), {3, 2}, {3, 1}, {6, 2}}) {
    model.rates.processes = processes;
    EXPECT_THAT(
        messageOf<InvalidArgument>([&, count = replicas] { costsOf(small(), models, count); }),
        HasSubstr("cannot share"));
  }
}

TEST(SimCosts, OfRatesThatAreNotKnownAreNothing) {
  ToyModel model;
  model.rates = {};
  const device::CostModel* models[] = {&model};
  const SimCosts costs = costsOf(small(), models);
  EXPECT_EQ(costs.feeds[0].busy, 0);
  EXPECT_EQ(costs.collectives[0].busy, 0);
  EXPECT_EQ(costs.segments[0].busy, 10);
}

TEST(SimCosts, NeedModelsWithOneClock) {
  const ToyModel model;
  ToyModel other;
  other.hertz = 5;
  const device::CostModel* none[] = {&model, nullptr};
  const device::CostModel* both[] = {&model, &other};
  EXPECT_THAT(messageOf<InvalidArgument>([&] { costsOf(small(), {}); }), HasSubstr("kind sim"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { costsOf(small(), none); }), HasSubstr("kind sim"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { costsOf(small(), both); }), HasSubstr("clocks"));
}

}  // namespace
}  // namespace sluice::runtime
