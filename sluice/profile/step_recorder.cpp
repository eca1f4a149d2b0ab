#include "sluice/profile/step_recorder.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <fmt/format.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"

namespace sluice::profile {

StepRecorder::StepRecorder(std::filesystem::path folder, std::int32_t tracedSteps)
    : folder_(std::move(folder)), tracedSteps_(tracedSteps) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) {
    raise<FileError>("cannot make the profile folder '{}': {}", folder_.string(), code.message());
  }
}

std::vector<runtime::TaskTime>* StepRecorder::begin() {
  times_.clear();
  if (kernels_ != nullptr) {
    kernels_->take();  // of a step that failed
  }
  return &times_;
}

std::size_t StepRecorder::numberOf(const ProgramPtr& program, const std::string& simulated) {
  const auto placeOf = [&](const auto& isIt) {
    return static_cast<std::size_t>(std::ranges::find_if(programs_, isIt) - programs_.begin());
  };
  // By owner, because an address may be that of a program before.
  const std::size_t known = placeOf(
      [&](const auto& each) { return !each.owner_before(program) && !program.owner_before(each); });
  if (known < programs_.size()) {
    return known;
  }
  const std::size_t number = placeOf([](const auto& each) { return each.expired(); });
  if (number == programs_.size()) {
    programs_.emplace_back();
    traces_.emplace_back();
  }
  const program::Program& traced = program->program();
  programs_[number] = program;
  TracedRun& run = traces_[number];
  run = TracedRun{number == 0 ? traced.name : fmt::format("{} {}", traced.name, number + 1),
                  Trace(traced, limit_)};
  const auto unix = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  run.trace.toUnix = simulated.empty() ? unix.count() - device::steadyNanoseconds() : 0;
  run.trace.simulated = simulated;
  return number;
}

void StepRecorder::end(const ProgramPtr& program, const std::string& simulated) {
  const std::size_t number = numberOf(program, simulated);
  std::vector<runtime::WrittenValue> written;
  if (writes_ != nullptr) {
    written = writes_->take();
  }
  std::vector<runtime::KernelSpan> kernels;
  if (kernels_ != nullptr) {
    kernels = kernels_->take();
  }
  newest_ = number;
  TracedRun& run = traces_[number];
  if (run.trace.numSteps() >= tracedSteps_) {
    return;
  }
  run.trace.addStep(times_);
  if (writes_ != nullptr) {
    run.trace.writes.push_back(std::move(written));
  }
  if (kernels_ != nullptr) {
    run.trace.addKernels(std::move(kernels));
  }
  const std::string suffix = number == 0 ? "" : fmt::format("_{}", number + 1);
  const auto file = [&](std::string_view name, std::string_view ending) {
    return folder_ / fmt::format("{}{}.{}", name, suffix, ending);
  };
  writeTrace(file("run", "slt"), run.trace);
  writeFileAtomically(file("trace", "json"), perfettoJson(std::span(&run.trace, 1)));
  writeFileAtomically(file("summary", "txt"), run.trace.summary());
  if (!times_.empty()) {
    writeReport(file("report", "html"), std::span(&run, 1));
  }
}

std::optional<Latencies> StepRecorder::latencies() const {
  return newest_ ? std::optional(measureLatencies(traces_[*newest_].trace, times_)) : std::nullopt;
}

}  // namespace sluice::profile
