// onnx_node_tests: runs every case of a folder, a line each, and counts.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tests/onnx/case_runner.h"

int main(int argc, char** argv) {
  CLI::App app("Runs the cases of the ONNX standard that a folder holds.");
  std::string folder;
  std::string only;
  bool failures = false;
  int atLeast = 1;
  app.add_option("folder", folder, "a folder of cases, such as .../libonnx-testdata/data/node")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--only", only, "only cases whose name contains this");
  app.add_flag("--failures", failures, "print only the lines of cases that fail");
  app.add_option("--at-least", atLeast, "fail unless so many cases pass");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::filesystem::exists(entry.path() / "model.onnx") &&
        entry.path().filename().string().find(only) != std::string::npos) {
      cases.push_back(entry.path());
    }
  }
  std::ranges::sort(cases);
  int counts[3] = {0, 0, 0};
  constexpr const char* kWords[3] = {"pass", "FAIL", "skip"};
  for (const auto& path : cases) {
    const sluice::testing::CaseResult result = sluice::testing::runCase(path);
    const auto verdict = static_cast<std::size_t>(result.verdict);
    ++counts[verdict];
    if (!failures || result.verdict == sluice::testing::Verdict::Failed) {
      fmt::print("{} {}{}{}\n",
                 kWords[verdict],
                 path.filename().string(),
                 result.note.empty() ? "" : ": ",
                 result.note);
    }
  }
  fmt::print("{} passed, {} failed, {} skipped\n", counts[0], counts[1], counts[2]);
  if (counts[0] < atLeast) {
    fmt::print("FAIL expected at least {} cases to pass\n", atLeast);
  }
  return counts[1] == 0 && counts[0] >= atLeast ? 0 : 1;
}
