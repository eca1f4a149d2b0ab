#include "sluice/api/environment_dumps.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/near_names.h"
#include "sluice/compile/stages.h"

namespace sluice {
namespace {

constexpr const char* kDotChecks = "POPART_DOT_CHECKS";

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    if (!text.substr(0, colon).empty()) {
      parts.emplace_back(text.substr(0, colon));
    }
    if (colon == std::string_view::npos) {
      return parts;
    }
    text = text.substr(colon + 1);
  }
}

/// The stages of the compiler, and the program at the end.
std::vector<std::string_view> knownPoints() {
  std::vector<std::string_view> names = {"program"};
  for (const compiler::CompileStage& stage : compiler::compileStages()) {
    names.push_back(stage.name);
  }
  return names;
}

std::vector<std::string> pointsIn(const std::string& text) {
  const std::vector<std::string_view> known = knownPoints();
  std::vector<std::string> points = split(text);
  for (const std::string& point : points) {
    if (std::ranges::find(known, point) == known.end()) {
      raise<ConfigFileError>(
          "SLUICE_DUMP_POINTS: the compiler has no stage '{}'{}", point, didYouMean(point, known));
    }
  }
  return points;
}

/// What comes nearest to PopART's points.
std::vector<std::string> popartPoints(const std::string& text) {
  struct Meaning {
    std::string_view theirs;
    std::vector<std::string> ours;
  };
  static const std::vector<Meaning> kMeanings = {
      {"FWD0", {"annotate_stages", "annotate_phases", "decompose_all"}},
      {"FWD1", {"decompose_all"}},
      {"BWD0", {"differentiate"}},
      {"PREALIAS", {"fuse_epilogues"}},
      {"MAINLOOPS", {"place"}},
      {"FINAL", {"place", "continuous_updates", "relay_copies", "recompute", "fit_kernels"}},
      {"ALL", {}}};
  std::set<std::string> points;
  for (const std::string& name : split(text)) {
    const auto found = std::ranges::find(kMeanings, name, &Meaning::theirs);
    if (found == kMeanings.end()) {
      raise<ConfigFileError>(
          "{}: expected FWD0, FWD1, BWD0, PREALIAS, MAINLOOPS, FINAL or ALL, got '{}'",
          kDotChecks,
          name);
    }
    if (found->theirs == "ALL") {
      return {};
    }
    points.insert(found->ours.begin(), found->ours.end());
  }
  return {points.begin(), points.end()};
}

}  // namespace

EnvironmentDumps dumpsOfEnvironment() {
  EnvironmentDumps dumps;
  dumps.folder = environmentValue("SLUICE_DUMP", "POPART_IR_DUMP").value_or("");
  if (const auto dot = environmentValue("SLUICE_DUMP_DOT")) {
    dumps.selection.dot = isOn(*dot, "SLUICE_DUMP_DOT");
  }
  if (const auto points = environmentValue("SLUICE_DUMP_POINTS")) {
    dumps.selection.points = pointsIn(*points);
  } else if (const auto checks = environmentValue(kDotChecks)) {
    dumps.selection = {.points = popartPoints(*checks), .dot = true};
    dumps.folder = dumps.folder.empty() ? "." : dumps.folder;
    log::info("environment",
              "{} is set and read as SLUICE_DUMP_POINTS with SLUICE_DUMP_DOT: {}",
              kDotChecks,
              *checks);
  }
  return dumps;
}

}  // namespace sluice
