#include "sluice/program/program_text.h"

#include <fmt/format.h>

namespace sluice::program {

std::string laneName(const Lane& lane) {
  if (lane.kind == LaneKind::Fetch || lane.kind == LaneKind::Flush) {
    return fmt::format("{}{}.{}", name(lane.kind), lane.device, lane.peer);
  }
  if (lane.kind == LaneKind::Send) {
    return fmt::format("{}{}>{}", name(lane.kind), lane.device, lane.peer);
  }
  return lane.kind == LaneKind::Exchange || lane.kind == LaneKind::Receive
             ? fmt::format("{}{}>{}", name(lane.kind), lane.peer, lane.device)
             : fmt::format("{}{}", name(lane.kind), lane.device);
}

std::string laneText(const Program& program, std::size_t lane) {
  return fmt::format(
      "lane {} of device {}", name(program.lanes[lane].kind), program.lanes[lane].device);
}

std::string taskText(const Program& program, std::size_t lane, std::size_t task) {
  const Task& t = program.lanes[lane].tasks[task];
  const bool quoted = t.kind != TaskKind::Run && t.kind != TaskKind::Barrier;
  const std::string_view quote = quoted ? "'" : "";
  return fmt::format("{} {}{}{} of micro-batch {} (task {} of {})",
                     name(t.kind),
                     quote,
                     subjectName(program, t),
                     quote,
                     t.microBatch,
                     task,
                     laneText(program, lane));
}

}  // namespace sluice::program
