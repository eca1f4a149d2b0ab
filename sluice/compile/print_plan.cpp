#include "sluice/compile/print_plan.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace sluice::compiler {
namespace {

std::string segmentText(const parallel::SegmentInfo& info) {
  std::string text =
      fmt::format("{} of stage {} on device {}", name(info.kind), info.stage, info.device);
  if (info.part > 0) {
    text += fmt::format(", part {}", info.part);
  }
  if (info.bucket >= 0) {
    text += fmt::format(", bucket {}", info.bucket);
  }
  return text + (info.inLoop ? ", in the loop" : "");
}

}  // namespace

std::string printSegments(const Compilation& c) {
  const parallel::SegmentPlan& plan = c.draft->plan.segments;
  std::vector<std::string> texts;
  for (const parallel::SegmentInfo& info : plan.segments) {
    texts.push_back(segmentText(info) + "\n");
  }
  for (const ir::OpId id : c.graph.order()) {
    const std::int32_t segment = plan.of(id);
    if (segment >= 0) {
      const ir::Op& op = c.graph.op(id);
      texts[static_cast<std::size_t>(segment)] +=
          fmt::format("  %{} {} \"{}\"\n", id.value, op.def->name, op.name);
    }
  }
  return fmt::format("{}", fmt::join(texts, ""));
}

std::string printSchedule(const Compilation& c) {
  const schedule::PipelineSchedule& plan = c.draft->plan.schedule;
  const bool phased = c.draft->plan.streaming.order == parallel::StreamOrder::PhaseMajor;
  std::string text = fmt::format("schedule {}: {} ns per round, no order is below {} ns\n",
                                 phased ? "phase by phase" : schedule::name(plan.kind),
                                 plan.makespan,
                                 plan.bound);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    text += fmt::format("device {}\n", d);
    for (const schedule::Work& work : plan.devices[d]) {
      text += fmt::format("  {:>12} to {:>12}  stage {}: {}{}\n",
                          work.start,
                          work.end,
                          work.stage,
                          letter(work.kind),
                          work.microBatch);
    }
  }
  return text;
}

std::string printMemory(const Compilation& c) {
  const program::Program& program = c.program;
  std::vector<const program::Buffer*> buffers;
  for (const program::Buffer& buffer : program.buffers) {
    buffers.push_back(&buffer);
  }
  std::ranges::stable_sort(buffers, {}, [](const program::Buffer* b) {
    return std::tuple(b->device, b->region, b->offset);
  });
  std::string text;
  const auto add = [&](std::string_view place,
                       std::int32_t device,
                       std::size_t stateBytes,
                       std::size_t transientBytes) {
    text += fmt::format("{}: state {} B, transient {} B\n", place, stateBytes, transientBytes);
    for (const program::Buffer* buffer : buffers) {
      if (buffer->device == device) {
        text += fmt::format("  {}+{:<10} {:>10} B x {:<3} {}\n",
                            buffer->region == program::Region::State ? "S" : "T",
                            buffer->offset,
                            buffer->bytes,
                            buffer->slots,
                            buffer->name);
      }
    }
  };
  if (program.remote.totalBytes() > 0) {
    add("remote memory",
        program::kRemote,
        program.remote.stateBytes,
        program.remote.transientBytes);
  }
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const program::DevicePlan& plan = program.devices[d];
    add(fmt::format("device {}", d),
        static_cast<std::int32_t>(d),
        plan.stateBytes,
        plan.transientBytes);
  }
  return text;
}

}  // namespace sluice::compiler
