#include "sluice/program/verify.h"

#include "sluice/program/verify_parts.h"

namespace sluice::program {

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

bool overlap(const Buffer& a, const Buffer& b) {
  return a.device == b.device && a.region == b.region && a.offset < b.offset + b.totalBytes() &&
         b.offset < a.offset + a.totalBytes();
}

bool readsOutput(const device::KernelCall& call) {
  return call.def == &ir::kAssign && call.attrs.text("mode") != "set";
}

void verify(const Program& program) {
  verifyStructure(program);
  verifyMeetings(program);
  verifyExecution(program);
}

}  // namespace sluice::program
