// The cache of executables: the second model with the same graph, options and devices compiles
// nothing and has the same bits; whatever happens to the folder, models run.
#include "sluice/api/executable_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/api/compiled_program.h"
#include "sluice/base/input_file.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::bitsOf;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using testing::makeInputs;
using testing::Mlp;
using testing::onOneDevice;
using testing::StrategyCase;
using testing::strategyCases;
using testing::TempFolder;

struct CachedRun {
  bool hit = false;
  Bits bits;
};

template <class Net>
CachedRun trainedWith(const Options& options, double lr = 0.01) {
  Net net;
  auto model = trainingModel(net, options.clone(), optim::AdamW(lr));
  const std::int64_t perRun = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t step = 0; step < 2; ++step) {
    model.run(makeInputs(Net::inputs(), step * perRun, perRun));
  }
  return {model.compiled().cached, bitsOf(model.session())};
}

class CachedExecutable : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(CachedExecutable, HasTheBitsOfTheCompiledOne) {
  const TempFolder folder;
  for (const char* devices : {"cpu", "far"}) {
    Options options = onOneDevice();
    GetParam().set(options.device(devices));
    const CachedRun without = trainedWith<BlockedCnn>(options);
    options.enableExecutableCaching(folder.path().string());
    const CachedRun first = trainedWith<BlockedCnn>(options);
    const CachedRun second = trainedWith<BlockedCnn>(options);
    EXPECT_FALSE(without.hit);
    EXPECT_FALSE(first.hit);
    EXPECT_TRUE(second.hit);
    EXPECT_EQ(differenceBetweenRounds(without.bits, first.bits), "");
    EXPECT_EQ(differenceBetweenRounds(without.bits, second.bits), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         CachedExecutable,
                         ::testing::ValuesIn(strategyCases()),
                         [](const auto& tested) { return tested.param.name; });

Options cachedIn(const TempFolder& folder) {
  return onOneDevice().enableExecutableCaching(folder.path().string());
}

ExecutableCache cacheOf(const TempFolder& folder) {
  return {folder.path(), 1U << 30U};
}

TEST(ExecutableCaching, MissesWhatIsNotTheSame) {
  const TempFolder folder;
  EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder)).hit);
  EXPECT_TRUE(trainedWith<BlockedGpt>(cachedIn(folder)).hit);
  EXPECT_TRUE(trainedWith<BlockedGpt>(cachedIn(folder), 0.5).hit);  // a variable attribute
  EXPECT_TRUE(trainedWith<BlockedGpt>(cachedIn(folder).threads(2)).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder).device("far")).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder).fusion(false)).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder).deviceIterations(2)).hit);
  EXPECT_FALSE(trainedWith<BlockedCnn>(cachedIn(folder)).hit);
  EXPECT_EQ(cacheOf(folder).files().size(), 5U);
}

TEST(ExecutableCaching, TakesItsFolderFromTheEnvironment) {
  const TempFolder folder;
  ASSERT_EQ(::setenv("SLUICE_CACHE_DIR", folder.path().c_str(), 1), 0);
  EXPECT_FALSE(trainedWith<BlockedGpt>(onOneDevice()).hit);
  EXPECT_TRUE(trainedWith<BlockedGpt>(onOneDevice()).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(onOneDevice().enableExecutableCaching("")).hit);
  ASSERT_EQ(::unsetenv("SLUICE_CACHE_DIR"), 0);
  EXPECT_FALSE(trainedWith<BlockedGpt>(onOneDevice()).hit);
  for (const char* original : {"POPTORCH_CACHE_DIR", "POPART_CACHE_DIR"}) {  // ours is absent
    ASSERT_EQ(::setenv(original, folder.path().c_str(), 1), 0);
    EXPECT_TRUE(trainedWith<BlockedGpt>(onOneDevice()).hit);
    EXPECT_EQ(std::system(SLUICE_PROGRAM " cache size"), 0) << original;  // NOLINT
    ASSERT_EQ(::unsetenv(original), 0);
  }
}

/// An entry that was read ahead is found although its file is gone; one that was written later is
/// read from the disk.
TEST(ExecutableCaching, ReadsAheadWhereTheEnvironmentAsks) {
  for (const auto& [variable, value] : {std::pair("SLUICE_CACHE_PRELOAD", "1"),
                                        std::pair("POPART_PRELOAD_POPEF", "full-preload")}) {
    const TempFolder folder;
    EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder)).hit);
    setenv(variable, value, 1);
    const Options options = cachedIn(folder);
    EXPECT_TRUE(trainedWith<BlockedGpt>(options).hit);
    EXPECT_EQ(ExecutableCache(folder.path(), 1 << 20).clear(), 1U);
    EXPECT_TRUE(trainedWith<BlockedGpt>(options).hit);
    EXPECT_FALSE(trainedWith<BlockedGpt>(options.clone().deviceIterations(2)).hit);
    EXPECT_TRUE(trainedWith<BlockedGpt>(options.clone().deviceIterations(2)).hit);
    unsetenv(variable);
    EXPECT_FALSE(trainedWith<BlockedGpt>(options).hit);
  }
}

TEST(ExecutableCaching, ReadsAheadNothingThatIsDamaged) {
  const TempFolder folder;
  EXPECT_FALSE(trainedWith<BlockedGpt>(cachedIn(folder)).hit);
  const auto file = ExecutableCache(folder.path(), 1 << 20).files().at(0).path;
  std::string bytes = readFile(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  writeFileAtomically(file, bytes);
  setenv("SLUICE_CACHE_PRELOAD", "yes", 1);
  const CachedRun healed = trainedWith<BlockedGpt>(cachedIn(folder));
  EXPECT_FALSE(healed.hit);
  EXPECT_EQ(differenceBetweenRounds(healed.bits, trainedWith<BlockedGpt>(onOneDevice()).bits), "");
  setenv("SLUICE_CACHE_PRELOAD", "perhaps", 1);
  EXPECT_THAT(
      testing::messageOf<InvalidArgument>([&] { trainedWith<BlockedGpt>(cachedIn(folder)); }),
      ::testing::HasSubstr("SLUICE_CACHE_PRELOAD"));
  unsetenv("SLUICE_CACHE_PRELOAD");
  EXPECT_TRUE(trainedWith<BlockedGpt>(cachedIn(folder)).hit);
}

TEST(ExecutableCaching, HealsItself) {
  const TempFolder folder;
  const CachedRun first = trainedWith<BlockedGpt>(cachedIn(folder));
  const std::filesystem::path file = cacheOf(folder).files().at(0).path;
  const std::string sound = readFile(file);
  for (std::size_t at = 0; at < sound.size(); at += sound.size() / 16) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    writeFileAtomically(file, damaged);
    const CachedRun again = trainedWith<BlockedGpt>(cachedIn(folder));
    EXPECT_FALSE(again.hit) << at;
    EXPECT_EQ(differenceBetweenRounds(first.bits, again.bits), "");
    EXPECT_EQ(readFile(file), sound);  // removed and made anew
  }
  writeFileAtomically(file, sound.substr(0, sound.size() / 2));
  EXPECT_EQ(cacheOf(folder).verify().size(), 1U);
  EXPECT_TRUE(cacheOf(folder).files().empty());
}

TEST(ExecutableCaching, KeepsItsSizeAndWhatWasUsedLast) {
  const TempFolder folder;
  trainedWith<BlockedGpt>(cachedIn(folder));
  const std::uint64_t one = cacheOf(folder).bytes();
  const std::string room = fmt::format("{}", one * 5 / 2);  // for two
  const auto options = [&](int rows) {
    Options made = onOneDevice().enableExecutableCaching(folder.path().string(), room);
    made.deviceIterations(rows);
    return made;
  };
  EXPECT_FALSE(trainedWith<BlockedGpt>(options(2)).hit);
  EXPECT_TRUE(trainedWith<BlockedGpt>(options(1)).hit);   // used last
  EXPECT_FALSE(trainedWith<BlockedGpt>(options(3)).hit);  // pushes out that of 2
  EXPECT_LE(cacheOf(folder).bytes(), one * 5 / 2);
  EXPECT_TRUE(trainedWith<BlockedGpt>(options(1)).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(options(2)).hit);
  EXPECT_EQ(cacheOf(folder).clear(), 2U);
  EXPECT_TRUE(cacheOf(folder).files().empty());
}

TEST(ExecutableCaching, ThatCannotBeWrittenDoesNoHarm) {
  const TempFolder folder;
  writeFileAtomically(folder / "file", "");
  Options options = onOneDevice();
  options.enableExecutableCaching((folder / "file" / "cache").string());
  EXPECT_FALSE(trainedWith<BlockedGpt>(options).hit);
  EXPECT_FALSE(trainedWith<BlockedGpt>(options).hit);
}

/// Several processes use one small cache: nobody fails, nobody gets a wrong program, the size is
/// kept.
TEST(ExecutableCaching, IsSharedByProcesses) {
  const TempFolder folder;
  trainedWith<BlockedGpt>(cachedIn(folder));
  const std::uint64_t most = cacheOf(folder).bytes() * 5 / 2;
  std::map<int, Bits> expected;
  for (int rows = 1; rows <= 4; ++rows) {
    expected[rows] = trainedWith<BlockedGpt>(onOneDevice().deviceIterations(rows)).bits;
  }
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      int wrong = 0;
      for (int i = 0; i < 24; ++i) {
        const int rows = 1 + (i * (child + 2) + child) % 4;
        Options options = onOneDevice().deviceIterations(rows);
        options.enableExecutableCaching(folder.path().string(), fmt::format("{}", most));
        const CachedRun run = trainedWith<BlockedGpt>(options);
        wrong += differenceBetweenRounds(expected[rows], run.bits).empty() ? 0 : 1;
        wrong += cacheOf(folder).bytes() <= most ? 0 : 1;
      }
      ::_exit(wrong);
    }
    children.push_back(pid);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_TRUE(cacheOf(folder).verify().empty());
}

}  // namespace
}  // namespace sluice
