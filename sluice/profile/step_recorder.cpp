#include "sluice/profile/step_recorder.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"

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
  return &times_;
}

StepRecorder::Traced& StepRecorder::tracedOf(const program::Program& program) {
  const auto known = std::ranges::find(traced_, &program, &Traced::program);
  return known != traced_.end() ? *known : traced_.emplace_back(Traced{&program, Trace(program)});
}

void StepRecorder::end(const program::Program& program) {
  latencies_ = measureLatencies(program, times_);
  Traced& traced = tracedOf(program);
  if (traced.trace.steps() >= tracedSteps_) {
    return;
  }
  traced.trace.addStep(times_);
  const auto number = &traced - traced_.data() + 1;
  const std::string suffix = number == 1 ? "" : fmt::format("_{}", number);
  writeFileAtomically(folder_ / fmt::format("trace{}.json", suffix), traced.trace.json());
  writeFileAtomically(folder_ / fmt::format("summary{}.txt", suffix), traced.trace.summary());
}

}  // namespace sluice::profile
