// What `sluice schedule` is asked for, and the pipeline problem that follows from it. Times and
// bytes may have decimals: they are scaled to integers and the scale is kept for printing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/schedule/pipeline.h"

namespace sluice::cli {

/// The options as they were written.
struct ScheduleSettings {
  std::int32_t stages = 0;  ///< 0: not given
  std::int32_t microBatches = 0;
  std::int32_t chunks = 0;  ///< 0: not given
  std::string schedule = "1f1b";
  std::string view = "timeline";
  std::string costs = "1,1,1";
  std::string bytes = "1,0";
  std::string transfer = "0";
  std::string devices;
  std::string slots;
  std::string memoryCap;
  std::int32_t width = 0;  ///< 0: not given
  bool inference = false;
  bool json = false;
  bool summary = false;  ///< no chart and no pieces
  std::string copies;    ///< "busy,latency" of a copy in a simulated run; empty: none
  std::string svg;       ///< file of the picture; empty: none
};

/// More than these are refused, so that every answer comes at once: stages, or devices, in all, and
/// the same times micro-batches.
inline constexpr std::int32_t kMostStages = 1 << 12;
inline constexpr std::int32_t kMostCells = 1 << 17;
/// Without a chart.
inline constexpr std::int32_t kMostSummedCells = 1 << 22;

/// A copy between devices in a simulated run.
struct CopyCost {
  std::int64_t busy = 0;     ///< of the ports of both devices
  std::int64_t latency = 0;  ///< from then until the data is there
};

struct ScheduleRequest {
  schedule::PipelineKind kind = schedule::PipelineKind::OneForwardOneBackward;
  schedule::PipelineProblem problem;
  std::int64_t timeUnit = 1;  ///< integers of the problem per unit of the user
  std::int64_t byteUnit = 1;
  std::optional<CopyCost> copies;  ///< not set: nothing is simulated
};

/// Throws InvalidArgument, naming the option, for text that cannot be read or does not fit.
ScheduleRequest readSchedule(const ScheduleSettings& settings);

}  // namespace sluice::cli
