// A training run that goes on from its newest checkpoint, with one fault in it: what faults.py
// starts. The strategy, where the state lies and what is done about a failure come from `draw`.
//
//   fault_worker <folder> <steps> <draw> <fault> [number]
//
// Faults happen before the task with that number of the whole process: none, recoverable,
// unrecoverable, error (of a kernel), foreign (an exception of a user's function), stall (of a
// lane), flip and cut (of a file of remote memory), kill.
//
// Prints "resumed <updates>", and at the end "weights <hash>". Ends with 1 and one line that says
// what is wrong if training cannot go on.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/core.h>

#include "sluice/api/checkpoint.h"
#include "sluice/api/session.h"
#include "sluice/base/hash.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/runtime/engine.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/strategy_cases.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

/// Changes the files of remote memory, wherever there are bytes.
void damageRemote(const fs::path& folder, bool cut, std::int64_t draw) {
  for (const fs::directory_entry& each : fs::directory_iterator(folder)) {
    const bool remote = each.path().filename().string().starts_with("remote");
    const auto size = remote ? static_cast<std::int64_t>(each.file_size()) : 0;
    if (size == 0) {
      continue;
    }
    if (cut) {
      fs::resize_file(each.path(), static_cast<std::uintmax_t>(draw % size));
      continue;
    }
    std::fstream file(each.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::int64_t at = draw % 64; at < size; at += 64) {  // whichever bytes are used next
      file.seekg(at);
      const auto old = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(old ^ (1 << (draw % 8))));
    }
  }
}

void play(const std::string& fault, const fs::path& folder, std::int64_t draw) {
  const auto action = draw % 2 == 0 ? RecoveryAction::DeviceReset : RecoveryAction::PartitionReset;
  if (fault == "recoverable") {
    throw RecoverableError(action, "a link is down");
  }
  if (fault == "unrecoverable") {
    throw UnrecoverableError("a device is on fire");
  }
  if (fault == "error") {
    throw DeviceError("a kernel failed");
  }
  if (fault == "foreign") {
    throw std::runtime_error("a function of the user failed");
  }
  if (fault == "stall") {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
  }
  if (fault == "flip" || fault == "cut") {
    damageRemote(folder, fault == "cut", draw);
  }
  if (fault == "kill") {
    std::raise(SIGKILL);
  }
}

Options optionsOf(const fs::path& folder, std::int64_t draw, const std::string& fault) {
  Options options = testing::onOneDevice().randomSeed(4);
  const std::vector<testing::StrategyCase> cases = testing::strategyCases();
  cases[static_cast<std::size_t>(draw) % cases.size()].set(options);
  options.remoteMemory((folder / "remote").string());
  options.enableExecutableCaching((folder / "cache").string());
  options.logDir((folder / "log").string());
  options.undoMemory(draw / 16 % 2 == 0 ? 0 : std::size_t{64} << 20U);
  constexpr std::int64_t kEvery[] = {0, 1, 3};
  options.recovery(draw / 32 % 4 == 3 ? 0 : 2, 0, kEvery[draw / 32 % 3]);
  return options.stallTimeout(fault == "stall" ? 0.2 : 20);
}

int train(const fs::path& folder,
          std::int64_t steps,
          std::int64_t draw,
          const std::string& fault,
          std::int64_t number) {
  testing::BlockedGpt net;
  const Options options = optionsOf(folder, draw, fault);
  auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
  const std::int64_t perCall = model.microBatchesPerStep() * options.replicationFactor();
  const std::vector<HostTensor> data =
      testing::makeInputs(testing::BlockedGpt::inputs(), 0, perCall * 5);
  DataLoader loader(options.clone(),
                    data::tensorDataset(data),
                    testing::BlockedGpt::inputs()[0].shape[0],
                    {.shuffle = data::Shuffle::Yes, .seed = 3});
  const std::vector<HostTensor> sample =
      testing::makeInputs(testing::BlockedGpt::inputs(), 0, perCall);
  model.compile(sample);
  std::atomic<std::int64_t> left = number;
  if (fault != "none") {
    model.session().engine().setBeforeTask([&](std::size_t, std::int64_t) {
      if (left.fetch_sub(1) == 1) {
        play(fault, folder, draw);
      }
    });
  }
  const FitResult result = fit(model,
                               loader,
                               {.epochs = steps / 5,
                                .progress = false,
                                .checkpoints = {.folder = folder / "checkpoints", .everySteps = 3},
                                .resume = folder / "checkpoints"});
  fmt::print("resumed {}\n", result.resumed.string());
  Hasher hasher;
  for (const auto& [name, tensor] : model.stateDict()) {
    hasher.add(name).add(tensor.hash());
  }
  fmt::print("updates {}\nweights {:016x}\n", model.updates(), hasher.digest());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    return 2;
  }
  try {
    return train(argv[1],
                 std::atoll(argv[2]),
                 std::atoll(argv[3]),
                 argv[4],
                 argc > 5 ? std::atoll(argv[5]) : 0);
  } catch (const Error& error) {
    fmt::print(stderr, "failed with {}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "failed with std::exception: {}\n", error.what());
  }
  return 1;
}
