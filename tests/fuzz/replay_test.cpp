// Inputs of the fuzz targets, again: what fuzzing has found, and one of what it begins with.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/input_file.h"

#define SLUICE_TARGETS(X) \
  X(checkpoint)           \
  X(command_line)         \
  X(csv)                  \
  X(executable)           \
  X(idx)                  \
  X(loader)               \
  X(npy)                  \
  X(onnx)                 \
  X(onnx_export)          \
  X(onnx_run)             \
  X(options)              \
  X(parser)               \
  X(program)              \
  X(safetensors)          \
  X(sim_target)           \
  X(tokens)               \
  X(torch_state)          \
  X(trace)                \
  X(tuning)

#define SLUICE_DECLARE(name) \
  extern "C" void replay_##name(const std::uint8_t* data, std::size_t size);
SLUICE_TARGETS(SLUICE_DECLARE)

namespace sluice {
namespace {

struct Target {
  std::string name;
  void (*run)(const std::uint8_t*, std::size_t);
};
void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}

std::vector<Target> allTargets() {
#define SLUICE_ENTRY(name) {#name, replay_##name},
  return {SLUICE_TARGETS(SLUICE_ENTRY)};
}

std::vector<std::filesystem::path> casesOf(const Target& target) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder = std::filesystem::path(SLUICE_FUZZ_CASES) / target.name;
  if (std::filesystem::exists(folder)) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      paths.push_back(file.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

class FuzzCases : public ::testing::TestWithParam<Target> {};

/// A target ends the program if something is wrong. Each input is also given cut short, because
/// most of what a reader has to refuse ends too early.
TEST_P(FuzzCases, AreWhatTheTargetExpects) {
  const std::vector<std::filesystem::path> cases = casesOf(GetParam());
  ASSERT_FALSE(cases.empty()) << "tests/fuzz/cases/" << GetParam().name << " has no input";
  for (const std::filesystem::path& path : cases) {
    SCOPED_TRACE(path.string());
    const std::string bytes = readFile(path);
    constexpr std::size_t kCuts = 8;
    for (std::size_t i = 0; i <= kCuts; ++i) {
      const std::string input = bytes.substr(0, bytes.size() * i / kCuts);
      GetParam().run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets,
                         FuzzCases,
                         ::testing::ValuesIn(allTargets()),
                         [](const auto& tested) { return tested.param.name; });

TEST(FuzzTargets, AreAllReplayed) {
  const std::string listed = readFile(std::filesystem::path(SLUICE_FUZZ_FOLDER) / "CMakeLists.txt");
  const std::regex name("sluice_fuzz\\(NAME fuzz_(\\w+)");
  std::set<std::string> built;
  for (std::sregex_iterator it(listed.begin(), listed.end(), name), end; it != end; ++it) {
    built.insert((*it)[1]);
  }
  std::set<std::string> replayed;
  for (const Target& target : allTargets()) {
    replayed.insert(target.name);
  }
  EXPECT_EQ(built, replayed);
}

}  // namespace
}  // namespace sluice
