// mpi_worker <folder> <steps> [share]: trains a small network in several processes, saves a
// checkpoint every third step, goes on from the newest one, and prints the bits of its weights. The
// tests of faults stop and kill it.
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/sluice.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using testing::ResidualMlp;

int train(const std::string& folder, std::int64_t steps, bool shares) {
  Options options;
  options.distributed.shareModel(shares);
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(
      parallel::PipelinedExecution({parallel::Stage("b0", "b1"), "b2", "b3", "b4"}));
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const CheckpointFolder checkpoints(folder);
  fmt::print("process {}\n", getpid());
  std::int64_t step = 0;
  if (const auto resumed = checkpoints.resume(model)) {
    step = resumed->updates;
    fmt::print("resumed at {}\n", step);
  }
  const std::int64_t all = options.allReplicas();
  const std::int64_t first = shares ? 0 : options.distributed.firstReplica(1);
  for (; step < steps; ++step) {
    std::vector<HostTensor> inputs =
        testing::makeInputs(ResidualMlp::inputs(), 4 * (step * all + first), 4);
    model.run(inputs);
    fmt::print("step {}\n", step);
    std::fflush(stdout);
    if (step % 3 == 2) {
      checkpoints.save(model);
    }
  }
  std::uint64_t hash = 0;
  for (const auto& [name, value] : model.stateDict()) {
    hash = hash * 31 + value.hash();
  }
  fmt::print("weights {:016x}\n", hash);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "mpi_worker <folder> <steps> [share]\n");
    return 2;
  }
  try {
    return sluice::train(argv[1], std::atoll(argv[2]), argc > 3);
  } catch (const std::exception& error) {
    fmt::print(stderr, "failed: {}\n", error.what());
    return 1;
  }
}
