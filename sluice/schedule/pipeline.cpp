#include "sluice/schedule/pipeline.h"

#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/schedule/checked_problem.h"
#include "sluice/schedule/orders.h"
#include "sluice/schedule/run.h"
#include "sluice/schedule/search.h"

namespace sluice::schedule {
namespace {

constexpr std::array kKinds{PipelineKind::Sequential,
                            PipelineKind::Grouped,
                            PipelineKind::Interleaved,
                            PipelineKind::Popart,
                            PipelineKind::GPipe,
                            PipelineKind::OneForwardOneBackward,
                            PipelineKind::Chunked,
                            PipelineKind::ZeroBubbleH1,
                            PipelineKind::ZeroBubble};

bool isSearched(PipelineKind kind) {
  return kind == PipelineKind::Chunked || splitsBackward(kind);
}

/// Of the kinds that follow a rule.
Orders ordersOf(PipelineKind kind, const CheckedProblem& checked) {
  switch (kind) {
    case PipelineKind::Sequential:
    case PipelineKind::Grouped:
    case PipelineKind::Interleaved:
    case PipelineKind::Popart:
      return lockStepOrders(kind, checked);
    case PipelineKind::GPipe:
      return gpipeOrders(checked);
    case PipelineKind::OneForwardOneBackward:
      return oneForwardOneBackwardOrders(checked);
    case PipelineKind::Chunked:
    case PipelineKind::ZeroBubbleH1:
    case PipelineKind::ZeroBubble:
      break;
  }
  SLUICE_CHECK(false, "{} follows no rule", name(kind));
}

void checkByteCap(const CheckedProblem& checked, const PipelineSchedule& schedule) {
  for (std::int32_t d = 0; checked.hasByteCap() && d < checked.numDevices(); ++d) {
    const std::int64_t peak = schedule.peakBytes[static_cast<std::size_t>(d)];
    if (peak > checked.byteCap(d)) {
      raise<InvalidArgument>(
          "schedule: {} holds {} bytes on device {}, whose cap is {}; zero-bubble orders within a "
          "cap",
          name(schedule.kind),
          peak,
          d,
          checked.byteCap(d));
    }
  }
}

}  // namespace

std::span<const PipelineKind> allPipelineKinds() {
  return kKinds;
}

std::string_view name(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::Sequential:
      return "sequential";
    case PipelineKind::Grouped:
      return "grouped";
    case PipelineKind::Interleaved:
      return "interleaved";
    case PipelineKind::Popart:
      return "popart";
    case PipelineKind::GPipe:
      return "gpipe";
    case PipelineKind::OneForwardOneBackward:
      return "1f1b";
    case PipelineKind::Chunked:
      return "chunked";
    case PipelineKind::ZeroBubbleH1:
      return "zb-h1";
    case PipelineKind::ZeroBubble:
      return "zero-bubble";
  }
  SLUICE_CHECK(false, "no such kind of schedule");
}

bool splitsBackward(PipelineKind kind) {
  return kind == PipelineKind::ZeroBubbleH1 || kind == PipelineKind::ZeroBubble;
}

namespace {

PipelineSchedule sequentialSchedule(const CheckedProblem& checked, PipelineProblem problem) {
  problem.microBatches = 1;
  const CheckedProblem single(problem, false);
  return repeatSchedule(checked, runOrders(single, ordersOf(PipelineKind::Sequential, single)));
}

}  // namespace

PipelineSchedule schedulePipeline(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, splitsBackward(kind));
  const std::int64_t bound = lowerBound(problem, splitsBackward(kind));
  PipelineSchedule schedule = kind == PipelineKind::Sequential
                                  ? sequentialSchedule(checked, problem)
                              : isSearched(kind) ? searchOrders(kind, checked, bound)
                                                 : runOrders(checked, ordersOf(kind, checked));
  schedule.kind = kind;
  schedule.bound = bound;
  checkByteCap(checked, schedule);
  return schedule;
}

std::vector<std::int32_t> roundRobinPlacement(std::int32_t devices, std::int32_t chunks) {
  std::vector<std::int32_t> placement;
  for (std::int32_t c = 0; c < chunks; ++c) {
    for (std::int32_t d = 0; d < devices; ++d) {
      placement.push_back(d);
    }
  }
  return placement;
}

std::vector<std::int32_t> vPlacement(std::int32_t devices) {
  std::vector<std::int32_t> placement = roundRobinPlacement(devices, 1);
  placement.insert(placement.end(), placement.rbegin(), placement.rend());
  return placement;
}

}  // namespace sluice::schedule
