// bench_processes: what several processes cost (mpirun -n 2
// bench_processes [turns]). A pipeline of two
// stages and two replicas in two processes against one process with two devices, and a sum over
// replicas against a plain copy of its bytes. MPI's own sum is timed by bench_allreduce, which
// knows nothing of Sluice.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/devices/registry.h"
#include "sluice/runtime/group.h"
#include "sluice/runtime/process_world.h"
#include "sluice/sluice.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double medianOf(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Processor time of all threads of this process so far.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Calls of one kind: seconds by the clock, and of processors.
struct Times {
  std::vector<double> wall;
  std::vector<double> processor;

  void add(int times, const std::function<void()>& f) {
    for (int i = 0; i < times; ++i) {
      const double used = processorSeconds();
      const auto begin = Clock::now();
      f();
      wall.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      processor.push_back(processorSeconds() - used);
    }
  }
};

struct Net : nn::Module {
  static constexpr std::int64_t kWidth = 512;
  nn::Linear a{*this, "a", kWidth, kWidth};
  nn::Linear b{*this, "b", kWidth, kWidth};
  nn::Linear c{*this, "c", kWidth, kWidth};
  nn::Linear d{*this, "d", kWidth, 8};

  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    {
      const nn::Block block("b0", 0);
      x = nn::relu(b(nn::relu(a(x))));
    }
    const nn::Block block("b1", 1);
    return nn::crossEntropy(d(nn::relu(c(x))), y);
  }
};

/// A model and what it is called with.
class Trained {
 public:
  explicit Trained(const Options& options)
      : model_(trainingModel(net_, options, optim::AdamW(0.001))) {
    const std::int64_t rows = 64 * model_.microBatchesPerStep() * options.replicationFactor();
    x_ = testing::randomTensor(1, {DType::F32, Shape{rows, Net::kWidth}}, -1, 1);
    y_ = testing::randomTensor(2, {DType::I64, Shape{rows}}, 0, 8);
    step();
  }
  void step() { model_.run({x_, y_}); }

 private:
  Net net_;
  TypedModel<Net> model_;
  HostTensor x_;
  HostTensor y_;
};

/// The sum over all processes, in all of them.
double sumOver(runtime::Communicator& all, double mine) {
  runtime::MessageBytes bytes(sizeof(double));
  std::memcpy(bytes.data(), &mine, sizeof(double));
  for (std::int32_t r = 0; r < all.size(); ++r) {
    if (r != all.rank()) {
      all.post(r, 2, bytes);
    }
  }
  double sum = mine;
  for (std::int32_t r = 0; r < all.size(); ++r) {
    if (r != all.rank()) {
      double other = 0;
      std::memcpy(&other, all.take(r, 2, sizeof(double)).data(), sizeof(double));
      sum += other;
    }
  }
  return sum;
}

/// Alternates between both, so that whoever else uses the machine disturbs both; while one process
/// steps alone, the others wait and leave it all cores.
void compareSteps(const std::string& name, Options options, int turns) {
  constexpr int kSteps = 5;
  options.threads(1);
  Options alone = options.clone();
  alone.distributed.disable();
  options.distributed.shareModel(true);
  const auto world = runtime::ProcessWorld::open();
  const auto all = world->makeCommunicator();
  Trained apart(options);
  std::optional<Trained> whole;
  if (world->rank() == 0) {
    whole.emplace(alone);
  }
  Times several;
  Times one;
  for (int turn = 0; turn < turns; ++turn) {
    several.add(kSteps, [&] { apart.step(); });
    if (world->rank() == 0) {
      one.add(kSteps, [&] { whole->step(); });
    }
    sumOver(*all, 0);
  }
  const double used = sumOver(*all, medianOf(several.processor));
  if (world->rank() == 0) {
    const double wall = medianOf(several.wall);
    fmt::print("{:<10} {:6.2f} ms in one process, {:6.2f} ms in {}, ratio {:.2f}; ",
               name,
               1e3 * medianOf(one.wall),
               1e3 * wall,
               world->size(),
               wall / medianOf(one.wall));
    fmt::print("of processors {:6.2f} and {:6.2f} ms, ratio {:.2f}\n",
               1e3 * medianOf(one.processor),
               1e3 * used,
               used / medianOf(one.processor));
  }
}

void timeSum() {
  constexpr std::int64_t kElements = 25'000'000;
  const auto world = runtime::ProcessWorld::open();
  const auto all = world->makeCommunicator();
  runtime::Group group{.communicator = all.get(), .me = static_cast<std::size_t>(all->rank())};
  for (std::int32_t r = 0; r < all->size(); ++r) {
    group.ranks.push_back(r);
  }
  const auto device = devices::makeDevice({});
  const auto memory = device->allocate(kElements * sizeof(float));
  const auto queue = device->makeQueue();
  queue->fill(memory->at(), std::byte{0}, kElements * sizeof(float));
  const std::vector<device::Address> sources = {memory->at()};
  Times times;
  times.add(6, [&] {
    static_cast<void>(runtime::sumOf(group, *queue, 1, sources, DType::F32, kElements));
  });
  if (all->rank() == 0) {
    fmt::print("sum of 25 M floats: {:.1f} ms\n", 1e3 * medianOf(times.wall));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 12;
  using sluice::Options;
  using sluice::parallel::PipelinedExecution;
  using sluice::parallel::Stage;
  try {
    Options pipeline;
    pipeline.training.gradientAccumulation(8);
    pipeline.setExecutionStrategy(PipelinedExecution{"b0", "b1"});
    sluice::compareSteps("pipeline", pipeline, turns);
    Options replicas;
    replicas.replicationFactor(2).training.gradientAccumulation(4);
    replicas.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1").device(0)});
    sluice::compareSteps("replicas", replicas, turns);
    sluice::timeSum();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
