// StepRecorder: what profiling a model does at every step. The first few steps of each of its
// programs are traced into files, and the latencies of the newest step are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "sluice/profile/latency.h"
#include "sluice/profile/trace.h"

namespace sluice::profile {

class StepRecorder {
 public:
  /// Makes the folder. Throws FileError.
  explicit StepRecorder(std::filesystem::path folder, std::int32_t tracedSteps = 3);

  /// For StepArgs::times of the step that begins.
  std::vector<runtime::TaskTime>* begin();
  std::span<const runtime::TaskTime> times() const { return times_; }
  /// The step is over. While it is one of the first of this program (known by its address), writes
  /// trace.json and summary.txt with all steps so far; a second program's are trace_2.json and
  /// summary_2.txt. Throws FileError.
  void end(const program::Program& program);

  /// Of the newest step; not set before the first.
  const std::optional<Latencies>& latencies() const { return latencies_; }

 private:
  struct Traced {
    const program::Program* program;
    Trace trace;
  };
  Traced& tracedOf(const program::Program& program);

  std::filesystem::path folder_;
  std::int32_t tracedSteps_;
  std::vector<runtime::TaskTime> times_;
  std::vector<Traced> traced_;
  std::optional<Latencies> latencies_;
};

}  // namespace sluice::profile
