// StepRecorder: profiles the steps of a model. It traces the first few steps of each of the model's
// programs into files, and keeps the times of the newest step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sluice/profile/latency.h"
#include "sluice/profile/report.h"
#include "sluice/profile/trace.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/kernel_log.h"
#include "sluice/runtime/write_log.h"

namespace sluice::profile {

class StepRecorder {
 public:
  /// Creates the folder. Throws FileError.
  explicit StepRecorder(std::filesystem::path folder, std::int32_t tracedSteps = 3);
  /// Traces from now on have the values that tasks write, or their hashes.
  void keepWrites(bool values) { writes_ = std::make_unique<runtime::WriteLog>(values); }

  /// Traces from now on have the times of kernels, and what they would take at the rates of their
  /// device.
  void keepKernels(KernelLimit limit) {
    kernels_ = std::make_unique<runtime::KernelLog>();
    limit_ = std::move(limit);
  }

  /// Called when a step begins; use the result as its StepArgs::times.
  std::vector<runtime::TaskTime>* begin();
  /// Use this as its StepArgs::writes; null: none are kept.
  runtime::WriteLog* writes() const { return writes_.get(); }
  /// Use this as its StepArgs::kernels; null: none are kept.
  runtime::KernelLog* kernels() const { return kernels_.get(); }
  std::span<const runtime::TaskTime> times() const { return times_; }
  using ProgramPtr = std::shared_ptr<const runtime::LoadedProgram>;
  /// Called when the step has ended. If it is one of the first steps of this program, writes
  /// run.slt, report.html, trace.json and summary.txt with all steps so far. A second program has
  /// run_2.slt and so on; one that comes after another has ended (a model that is compiled again
  /// for other weights) takes the place of that one. `simulated` is the target if the times are
  /// virtual. Throws FileError.
  void end(const ProgramPtr& program, const std::string& simulated = {});

  /// The traced steps of all programs so far.
  std::span<const TracedRun> traces() const { return traces_; }
  /// The program of one of these; null: it has ended.
  ProgramPtr program(std::size_t trace) const { return programs_[trace].lock(); }
  /// The latencies of the newest step; not set before the first step.
  std::optional<Latencies> latencies() const;

 private:
  std::size_t numberOf(const ProgramPtr& program, const std::string& simulated);

  std::filesystem::path folder_;
  std::int32_t tracedSteps_;
  std::vector<runtime::TaskTime> times_;
  std::unique_ptr<runtime::WriteLog> writes_;
  std::unique_ptr<runtime::KernelLog> kernels_;
  KernelLimit limit_;
  std::vector<std::weak_ptr<const runtime::LoadedProgram>> programs_;
  std::vector<TracedRun> traces_;      // of these programs
  std::optional<std::size_t> newest_;  // the program of times_
};

}  // namespace sluice::profile
