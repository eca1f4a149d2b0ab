// bench_processes: what several processes cost (mpirun -n 2 bench_processes). A pipeline of two
// stages and two replicas in two processes against one process with two devices, and a sum over
// replicas against a plain copy of its bytes. MPI's own sum is timed by bench_allreduce, which
// knows nothing of Sluice.
#include <algorithm>
#include <chrono>
#include <functional>
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

/// The median of seconds that a call takes.
double secondsOf(int times, const std::function<void()>& f) {
  std::vector<double> seconds;
  f();
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + times / 2);
  return seconds[static_cast<std::size_t>(times / 2)];
}

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

double stepOf(const Options& options) {
  Net net;
  auto model = trainingModel(net, options, optim::AdamW(0.001));
  const std::int64_t rows = 64 * model.microBatchesPerStep() * options.replicationFactor();
  const HostTensor x = testing::randomTensor(1, {DType::F32, Shape{rows, Net::kWidth}}, -1, 1);
  const HostTensor y = testing::randomTensor(2, {DType::I64, Shape{rows}}, 0, 8);
  return secondsOf(15, [&] { model.run({x, y}); });
}

void compareSteps(const std::string& name, Options options) {
  options.threads(1);
  Options alone = options.clone();
  alone.distributed.disable();
  options.distributed.shareModel(true);
  const auto world = runtime::ProcessWorld::open();
  const auto all = world->makeCommunicator();
  const double apart = stepOf(options);
  // One after the other, so that a process alone has all cores.
  double one = 0;
  if (world->rank() == 0) {
    one = stepOf(alone);
    for (std::int32_t r = 1; r < world->size(); ++r) {
      all->post(r, 1, {});
    }
    fmt::print("{:<10} {:8.2f} ms in one process, {:8.2f} ms in {}, ratio {:.2f}\n",
               name,
               1e3 * one,
               1e3 * apart,
               world->size(),
               apart / one);
  } else {
    all->take(0, 1);
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
  const double seconds = secondsOf(5, [&] {
    static_cast<void>(runtime::sumOf(group, *queue, 1, sources, DType::F32, kElements));
  });
  if (all->rank() == 0) {
    fmt::print("sum of 25 M floats: {:.1f} ms\n", 1e3 * seconds);
  }
}

}  // namespace
}  // namespace sluice

int main() {
  using sluice::Options;
  using sluice::parallel::PipelinedExecution;
  using sluice::parallel::Stage;
  try {
    Options pipeline;
    pipeline.training.gradientAccumulation(8);
    pipeline.setExecutionStrategy(PipelinedExecution{"b0", "b1"});
    sluice::compareSteps("pipeline", pipeline);
    Options replicas;
    replicas.replicationFactor(2).training.gradientAccumulation(4);
    replicas.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1").device(0)});
    sluice::compareSteps("replicas", replicas);
    sluice::timeSum();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
