// Random networks, run in random ways, with a fault at a random task of a step: the model has the
// state of the step before, and goes on as one without faults does.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "tests/e2e/random_models.h"
#include "tests/support/soak_seed.h"

namespace sluice {
namespace {

using testing::Dice;
using testing::RandomNet;
using testing::RandomTraining;

/// A random network and a model that trains it; the same for the same seed.
class Trained {
 public:
  Trained(std::uint64_t seed, bool streams) : net_(seed), training_(seed) {
    const Options options = streams ? testing::randomStreaming(seed, net_, training_)
                                    : testing::randomOptions(seed, net_, training_);
    model_.emplace(trainingModel(net_, options, Rule{*training_.optimizer}));
  }

  Model& model() { return *model_; }

  void step(std::int64_t number) {
    const std::int64_t count = model_->microBatchesPerStep();
    model_->run(testing::makeInputs(net_.inputs(), number * count, count));
  }

  std::map<std::string, std::uint64_t> state() const {
    const TrainingState state = model_->trainingState();
    std::map<std::string, std::uint64_t> hashes;
    for (const NamedTensors& part : {state.model, flattened(state.optimizer)}) {
      for (const auto& [name, tensor] : part) {
        hashes[name] = tensor.hash();
      }
    }
    return hashes;
  }

 private:
  struct Rule {
    const optim::Optimizer& optimizer;
    std::unique_ptr<optim::Optimizer> clone() const { return optimizer.clone(); }
  };

  RandomNet net_;
  RandomTraining training_;
  std::optional<Model> model_;
};

/// The tasks that a step begins; the one of number `fault` fails.
class Tasks {
 public:
  Tasks(Model& model, std::int64_t fault) : model_(model) {
    model_.session().engine().setBeforeTask([this, fault](std::size_t, std::int64_t) {
      if (seen_++ == fault) {
        raise<DeviceError>("fault at task {}", fault);
      }
    });
  }
  ~Tasks() { model_.session().engine().setBeforeTask(nullptr); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  std::int64_t seen() const { return seen_; }

 private:
  Model& model_;
  std::atomic<std::int64_t> seen_{0};
};

void expectWholeStates(std::uint64_t seed, bool streams) {
  SCOPED_TRACE(fmt::format("seed {}, {}", seed, streams ? "streaming" : "devices"));
  Trained whole(seed, streams);
  whole.step(0);
  whole.step(1);
  Trained broken(seed, streams);
  broken.step(0);
  const auto before = broken.state();
  Dice dice(seed);
  std::int64_t tasks = 0;
  {
    const Tasks count(whole.model(), -1);
    whole.step(2);
    tasks = count.seen();
  }
  ASSERT_GT(tasks, 0);
  for (int round = 0; round < 5; ++round) {
    const std::int64_t fault = dice.below(tasks);
    const Tasks faulty(broken.model(), fault);
    EXPECT_THROW(broken.step(1), DeviceError) << "fault at task " << fault << " of " << tasks;
    ASSERT_EQ(broken.state(), before) << "after a fault at task " << fault << " of " << tasks;
  }
  broken.step(1);
  broken.step(2);
  EXPECT_EQ(broken.state(), whole.state());
}

class RandomFaults : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomFaults, LeaveTheStateOfTheStepBefore) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 3; ++seed) {
    expectWholeStates(seed, false);
    expectWholeStates(seed, true);
  }
}

#define WITH_SEEDS_OF_FAULTS(prefix) \
  INSTANTIATE_TEST_SUITE_P(          \
      prefix, RandomFaults, ::testing::Range<std::uint64_t>(RANDOM_FIRST, RANDOM_END, 10))
WITH_SEEDS_OF_FAULTS(RANDOM_SEEDS);

}  // namespace
}  // namespace sluice
