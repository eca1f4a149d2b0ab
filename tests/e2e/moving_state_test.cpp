// Programs of one module under different strategies: variables that the loop writes (running
// statistics, gradient accumulators) are brought to the device where the next program writes them.
#include <memory>

#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;
using testing::Bits;
using testing::bitsOf;
using testing::BlockedGpt;
using testing::makeInputs;

constexpr std::int64_t kMovingAccumulation = 4;

Strategy one() {
  return PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")});
}

/// The batch norm of b2 is on device 1.
Strategy two() {
  return PipelinedExecution(Stage("b0", "b1"), Stage("b2", "b3", "b4"));
}

/// The batch norm of b2 is on device 0, its neighbours elsewhere.
Strategy turned() {
  return ShardedExecution(
      Stage("b0", "b1").device(2), Stage("b2").device(0), Stage("b3", "b4").device(1));
}

/// What a sequence of calls does, one letter each: t and u train by two strategies, v validates.
struct Sequence {
  const char* calls;
  Strategy t = one();
  Strategy u = one();
  Strategy v = one();
};

/// The bits of all variables and outputs after every call.
std::vector<Bits> run(const Sequence& sequence) {
  const auto options = [](const Strategy& strategy, bool training) {
    Options made;
    made.setExecutionStrategy(strategy).outputMode(OutputMode::All);
    if (training) {
      made.training.gradientAccumulation(kMovingAccumulation);
    }
    return made;
  };
  BlockedGpt net;
  auto v = inferenceModel(net, options(sequence.v, false));
  std::unique_ptr<TypedModel<BlockedGpt>> training;
  char trained = 'v';
  std::vector<Bits> all;
  std::int64_t microBatch = 0;
  for (const char* call = sequence.calls; *call != '\0'; ++call) {
    const std::int64_t count = *call == 'v' ? 1 : kMovingAccumulation;
    const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), microBatch, count);
    microBatch += count;
    if (*call != 'v' && *call != trained) {
      training.reset();  // a module has one training model at a time
      trained = *call;
      const Strategy& strategy = trained == 't' ? sequence.t : sequence.u;
      training = std::make_unique<TypedModel<BlockedGpt>>(
          net, options(strategy, true), optim::AdamW(0.01).clone());
    }
    const std::vector<HostTensor> out = *call == 'v' ? v.run(inputs) : training->run(inputs);
    all.push_back(bitsOf(v.session()));
    all.back()["output"] = out.back().hash();
  }
  return all;
}

/// Strategies change nothing in any of the calls.
void expectSameBits(Sequence sequence) {
  const std::vector<Bits> got = run(sequence);
  const std::vector<Bits> expected = run({sequence.calls});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i], expected[i]) << "after call " << i << " of " << sequence.calls;
  }
}

TEST(MovingState, TrainingGoesOnAfterValidatingOnAnotherDevice) {
  expectSameBits({.calls = "ttvttv", .t = two()});
}

TEST(MovingState, ValidationMayComeBeforeTheFirstTraining) {
  expectSameBits({.calls = "vtvtt", .t = two()});
  expectSameBits({.calls = "vtvtt", .t = turned(), .v = two()});
}

TEST(MovingState, TrainingMayChangeItsStrategy) {
  expectSameBits({.calls = "tuttvuut", .t = one(), .u = two()});
  expectSameBits({.calls = "tuvtu", .t = two(), .u = turned(), .v = two()});
}

TEST(MovingState, IsReadAndWrittenWhereItIs) {
  BlockedGpt net;
  Options first;
  first.setExecutionStrategy(one());
  Options second;
  second.setExecutionStrategy(two());
  second.training.gradientAccumulation(kMovingAccumulation);
  auto v = inferenceModel(net, first);
  auto t = trainingModel(net, second, optim::SGD(0.1));
  const std::vector<HostTensor> one = makeInputs(BlockedGpt::inputs(), 0, 1);
  const std::vector<HostTensor> four = makeInputs(BlockedGpt::inputs(), 0, kMovingAccumulation);
  v.run(one);
  t.run(four);
  Session& session = t.session();
  const std::string name = "norm.running_mean";
  const HostTensor trained = session.read(name);
  EXPECT_NE(trained.hash(), HostTensor(trained.type()).hash());
  // A value of the host's is seen by both programs, and the next step counts on from it.
  const HostTensor zeros(trained.type());
  session.write(name, zeros);
  const std::uint64_t validated = v.run(one).back().hash();
  EXPECT_EQ(session.read(name).hash(), zeros.hash());
  t.run(four);
  EXPECT_NE(session.read(name).hash(), zeros.hash());
  // Detached and back, on both sides.
  const HostTensor before = session.read(name);
  session.detach();
  EXPECT_EQ(session.read(name).hash(), before.hash());
  session.attach();
  EXPECT_EQ(session.read(name).hash(), before.hash());
  EXPECT_NE(v.run(one).back().hash(), validated);
}

}  // namespace
}  // namespace sluice
