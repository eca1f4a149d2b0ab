// mpi_worker <folder> <steps> [share|cancel]: trains a small network in several processes, saves a
// checkpoint every third step, goes on from the newest one, and prints the bits of its weights. The
// tests of faults stop and kill it. With `cancel` the first process cancels a call in which it
// waits for the others.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

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

/// The others make the call once the first one has given it up.
int cancelOne(const std::string& folder) {
  Options options;
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::filesystem::path given = std::filesystem::path(folder) / "given up";
  std::thread canceller;
  if (options.distributed.processId() == 0) {
    canceller = std::thread([&] {
      while (!model.cancel()) {
        std::this_thread::yield();
      }
    });
  }
  while (options.distributed.processId() != 0 && !std::filesystem::exists(given)) {
    std::this_thread::yield();
  }
  std::string error = "none";
  try {
    model.largestInAllProcesses("a number", 1);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  std::ofstream(given.string()) << "given up";
  if (canceller.joinable()) {
    canceller.join();
  }
  fmt::print("error: {}\n", error);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "mpi_worker <folder> <steps> [share|cancel]\n");
    return 2;
  }
  try {
    const std::string mode = argc > 3 ? argv[3] : "";
    return mode == "cancel" ? sluice::cancelOne(argv[1])
                            : sluice::train(argv[1], std::atoll(argv[2]), mode == "share");
  } catch (const std::exception& error) {
    fmt::print(stderr, "failed: {}\n", error.what());
    return 1;
  }
}
