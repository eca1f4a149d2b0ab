// What the lanes of a Program do, as text that a test compares with a table of a guide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "sluice/program/program.h"

namespace sluice::testing {

/// The passes that a device runs in a round, in their order. "F0(2)" is the forward pass of stage 0
/// on micro-batch 2, "B0(2)" its backward pass. Work that a round does once is left out.
inline std::string passesOf(const program::Program& program, std::int32_t device) {
  std::string text;
  for (const program::Lane& lane : program.lanes) {
    if (lane.device != device || lane.kind != program::LaneKind::Compute) {
      continue;
    }
    for (const program::Task& task : lane.tasks) {
      if (task.kind != program::TaskKind::Run) {
        continue;
      }
      const program::Segment& segment = program.segments[static_cast<std::size_t>(task.subject)];
      if (!segment.oncePerRound()) {
        text += fmt::format("{}{}{}({})",
                            text.empty() ? "" : " ",
                            segment.kind == program::SegmentKind::Forward ? 'F' : 'B',
                            segment.stage,
                            task.microBatch);
      }
    }
  }
  return text;
}

}  // namespace sluice::testing
