#include "sluice/program/verify.h"

#include "sluice/program/verify_parts.h"

namespace sluice::program {

std::string laneText(const Program& program, std::size_t lane) {
  return fmt::format(
      "lane {} of device {}", name(program.lanes[lane].kind), program.lanes[lane].device);
}

std::string taskText(const Program& program, std::size_t lane, std::size_t task) {
  const Task& t = program.lanes[lane].tasks[task];
  const auto subject = static_cast<std::size_t>(t.subject);
  std::string what;
  switch (t.kind) {
    case TaskKind::Run:
      what = name(program.segments[subject]);
      break;
    case TaskKind::Feed:
      what = fmt::format("'{}'", program.feeds[subject].name);
      break;
    case TaskKind::Drain:
      what = fmt::format("'{}'", program.drains[subject].name);
      break;
    case TaskKind::Transfer:
      what = fmt::format("'{}'", program.transfers[subject].name);
      break;
    case TaskKind::Reduce:
      what = fmt::format("'{}'", program.reductions[subject].name);
      break;
  }
  return fmt::format("{} {} of micro-batch {} (task {} of {})",
                     name(t.kind),
                     what,
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
  verifyExecution(program);
}

}  // namespace sluice::program
