// A checkpoint that cannot be saved at first. The calls of the system that write files are this
// program's own: one of them fails as a full or broken disk does, each in turn. Training goes on
// with the bits of an undisturbed run, or ends with a clear error and the older checkpoints.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sluice/api/session.h"
#include "sluice/base/input_file.h"
#include "sluice/runtime/engine.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace {

/// The disk below one folder: it counts calls that write, and lets some of them fail.
struct Disk {
  static constexpr std::int64_t kNever = -1;

  bool fails(const char* path) {
    if (folder.empty() || std::string_view(path).find(folder) == std::string_view::npos) {
      return false;
    }
    const std::int64_t call = calls.fetch_add(1);
    if (first == kNever || call < first || call >= first + times) {
      return false;
    }
    errno = error;
    return true;
  }
  bool fails(int descriptor) {
    char path[4096];
    const ssize_t length =
        ::readlink(fmt::format("/proc/self/fd/{}", descriptor).c_str(), path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return fails(path);
  }

  std::string folder;  // empty: nothing is counted
  std::int64_t first = kNever;
  std::int64_t times = 1;
  int error = ENOSPC;
  std::atomic<std::int64_t> calls{0};
};
Disk disk;

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* from, size_t bytes) {
  return !disk.folder.empty() && disk.fails(descriptor)
             ? -1
             : ::syscall(SYS_write, descriptor, from, bytes);
}

int fsync(int descriptor) {
  return !disk.folder.empty() && disk.fails(descriptor)
             ? -1
             : static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  return disk.fails(to)
             ? -1
             : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

}  // extern "C"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::bitsOf;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;
using testing::Mlp;
using testing::onOneDevice;
using testing::TempFolder;

/// Lets writes below a folder fail while it lives.
class DiskFault {
 public:
  DiskFault(const std::filesystem::path& folder,
            std::int64_t first,
            std::int64_t times = 1,
            int error = ENOSPC) {
    disk.calls = 0;
    disk.first = first;
    disk.times = times;
    disk.error = error;
    disk.folder = folder.string();
  }
  ~DiskFault() { disk.folder.clear(); }
  DiskFault(const DiskFault&) = delete;
  DiskFault& operator=(const DiskFault&) = delete;

  static std::int64_t calls() { return disk.calls; }
};

constexpr std::int64_t kForever = std::int64_t{1} << 40;
constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kEvery = 2;

/// Runs something after every step and notes what it is told.
class Watcher : public Callback {
 public:
  explicit Watcher(std::function<void(std::int64_t updates)> act = [](std::int64_t) {})
      : act_(std::move(act)) {}
  void onStep(const Progress& progress) override {
    told.push_back(fmt::format("{}: {}", progress.updates, progress.metrics[0].second));
    act_(progress.updates);
  }
  std::vector<std::string> told;

 private:
  std::function<void(std::int64_t)> act_;
};

/// A short training that saves.
struct Training {
  explicit Training(const Options& options)
      : model(trainingModel(net, options.clone(), optim::AdamW(0.01))) {}
  void fit(std::int64_t everySteps = kEvery) {
    sluice::fit(model,
                loader,
                {.epochs = 2,
                 .callbacks = {watcher},
                 .progress = false,
                 .checkpoints = {.folder = folder.path(), .everySteps = everySteps}});
  }
  /// Whole checkpoints by their numbers of updates; temporary files are none.
  std::vector<std::int64_t> checkpoints() const {
    std::vector<std::int64_t> updates;
    std::size_t files = 0;
    for (const std::filesystem::path& file : CheckpointFolder(folder.path()).files()) {
      updates.push_back(readCheckpoint(file).updates);
    }
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path())) {
      ++files;
    }
    EXPECT_EQ(files, updates.size()) << "a temporary file is left";
    return updates;
  }

  TempFolder folder;
  Mlp net;
  decltype(trainingModel(net, Options(), optim::AdamW(0.01))) model;
  DataLoader loader{Options(),
                    data::tensorDataset(makeInputs(Mlp::inputs(), 0, kSteps / 2)),
                    Mlp::inputs()[0].shape[0],
                    {.shuffle = data::Shuffle::Yes, .seed = 3}};
  std::shared_ptr<Watcher> watcher = std::make_shared<Watcher>();
};

/// Of a run without faults.
struct Calm {
  Calm() : training(Options()) {
    const DiskFault counted(training.folder.path(), Disk::kNever);
    training.fit();
    writes = DiskFault::calls();
  }
  Training training;
  std::int64_t writes = 0;
};

TEST(SavesThatFail, AreTriedAgainAndTrainingEndsWithTheSameBits) {
  Calm calm;
  ASSERT_EQ(calm.training.checkpoints(), (std::vector<std::int64_t>{2, 4, 6}));
  ASSERT_GE(calm.writes, 3 * 3) << "a save writes, syncs and renames";
  const Bits expected = bitsOf(calm.training.model.session());
  for (const int error : {ENOSPC, EIO}) {
    for (std::int64_t call = 0; call < calm.writes; ++call) {
      SCOPED_TRACE(fmt::format("call {} of {}: {}", call, calm.writes, std::strerror(error)));
      Training training(Options().recovery(2, 0));
      const DiskFault fault(training.folder.path(), call, 1, error);
      training.fit();
      EXPECT_EQ(training.checkpoints(), (std::vector<std::int64_t>{2, 4, 6}));
      EXPECT_EQ(training.watcher->told, calm.training.watcher->told);
      EXPECT_EQ(differenceBetweenRounds(expected, bitsOf(training.model.session())), "");
    }
  }
}

/// The disk stays full: the error says so after as many retries as were asked for, and what was
/// saved before is whole.
TEST(SavesThatFail, ForGoodEndWithAnErrorAndTheOlderCheckpoints) {
  const Calm calm;
  for (const std::int32_t retries : {0, 2}) {
    // The last call syncs the folder, which some disks cannot: the file is whole all the same.
    for (std::int64_t call = 0; call + 1 < calm.writes; ++call) {
      SCOPED_TRACE(fmt::format("call {} of {}, {} retries", call, calm.writes, retries));
      Training training(retries == 0 ? Options() : Options().recovery(retries, 0));
      std::string message;
      {
        const DiskFault fault(training.folder.path(), call, kForever);
        message = messageOf<FileError>([&] { training.fit(); });
      }
      EXPECT_THAT(message, AllOf(HasSubstr("checkpoint-"), HasSubstr("No space left")));
      EXPECT_EQ(message.find("(after 2 retries)") != std::string::npos, retries == 2) << message;
      const std::vector<std::int64_t> all = {2, 4, 6};
      const std::vector<std::int64_t> saved = training.checkpoints();
      const auto count = static_cast<std::ptrdiff_t>(training.watcher->told.size()) / kEvery - 1;
      EXPECT_EQ(saved, std::vector<std::int64_t>(all.begin(), all.begin() + count));
    }
  }
}

/// A state in a file that is damaged when a checkpoint is saved.
struct RemoteTraining {
  explicit RemoteTraining(Options options, const std::filesystem::path& file) {
    for (const testing::StrategyCase& strategy : testing::strategyCases()) {
      if (strategy.name == "StateInRemoteMemory") {
        strategy.set(options);
      }
    }
    options.remoteMemory(file.string());
    model.emplace(trainingModel(net, options, optim::AdamW(0.01)));
  }
  /// Damages the state after the given update; every time that it is made, if `always`.
  void fit(const std::filesystem::path& file,
           std::int64_t victim,
           std::int64_t everySteps,
           bool always = false) {
    const auto damage = [file] {
      for (const char* end : {".state", ".state.next"}) {
        const std::filesystem::path path = file.string() + end;
        if (std::filesystem::exists(path)) {
          const std::string noise(std::filesystem::file_size(path), '\x5a');
          std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << noise;
        }
      }
    };
    watcher = std::make_shared<Watcher>([=, this](std::int64_t updates) {
      if (updates == victim) {
        damage();
        if (always) {
          model->session().engine().setBeforeTask([](std::size_t, std::int64_t) {
            throw RecoverableError(RecoveryAction::DeviceReset, "the link is down");
          });
        }
      }
    });
    const std::vector<HostTensor> all = makeInputs(BlockedGpt::inputs(), 0, 10);
    DataLoader loader(Options(), data::tensorDataset(all), 4, {.shuffle = data::Shuffle::Yes});
    sluice::fit(*model,
                loader,
                {.epochs = 2,
                 .callbacks = {watcher},
                 .progress = false,
                 .checkpoints = {.folder = folder.path(), .everySteps = everySteps}});
  }

  TempFolder folder;
  BlockedGpt net;
  std::optional<Model> model;
  std::shared_ptr<Watcher> watcher;
};

constexpr std::int64_t kNone = -1;

TEST(StatesThatCannotBeSaved, AreMadeAgainFromTheNewestCheckpoint) {
  const TempFolder disks;
  RemoteTraining calm(onOneDevice(), disks / "calm");
  calm.fit(disks / "calm", kNone, 3);
  const Bits expected = bitsOf(calm.model->session());
  ASSERT_EQ(calm.model->updates(), 10);
  for (const std::int64_t every : {0, 1}) {
    // In the middle of an epoch, at its end, and in the save that ends the training.
    for (const auto& [victim, everySteps] :
         std::map<std::int64_t, std::int64_t>{{4, 2}, {5, 1}, {10, 4}}) {
      SCOPED_TRACE(fmt::format("every {}, after update {}", every, victim));
      const std::filesystem::path file = disks / fmt::format("disk-{}-{}", every, victim);
      RemoteTraining training(onOneDevice().recovery(2, 0, every), file);
      training.fit(file, victim, everySteps);
      EXPECT_EQ(training.watcher->told, calm.watcher->told);
      EXPECT_EQ(differenceBetweenRounds(expected, bitsOf(training.model->session())), "");
      EXPECT_EQ(readCheckpoint(*CheckpointFolder(training.folder.path()).latest()).updates, 10);
    }
  }
}

TEST(StatesThatCannotBeSaved, EndTheTrainingIfTheyCannotBeMadeAgain) {
  const TempFolder disks;
  const TempFolder logs;
  const std::filesystem::path file = disks / "disk";
  RemoteTraining training(onOneDevice().recovery(2, 0, 0).logDir(logs.path().string()), file);
  EXPECT_THAT(messageOf<UnrecoverableError>([&] { training.fit(file, 4, 2, true); }),
              AllOf(HasSubstr("the link is down"),
                    HasSubstr("while a checkpoint was saved, after 2 retries"),
                    HasSubstr("diagnostics-")));
  EXPECT_EQ(readCheckpoint(*CheckpointFolder(training.folder.path()).latest()).updates, 2);
}

TEST(StatesThatCannotBeSaved, ReachTheCallerWithoutRecovery) {
  const TempFolder disks;
  RemoteTraining training(onOneDevice(), disks / "disk");
  EXPECT_THAT(messageOf<RecoverableError>([&] { training.fit(disks / "disk", 4, 2); }),
              HasSubstr("disk.state"));
  EXPECT_EQ(readCheckpoint(*CheckpointFolder(training.folder.path()).latest()).updates, 2);
}

}  // namespace
}  // namespace sluice
