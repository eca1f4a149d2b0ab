#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/hash.h"
#include "sluice/program/memory_plan.h"
#include "sluice/program/program.h"
#include "sluice/program/program_text.h"

namespace sluice::program {
namespace {

using Text = std::back_insert_iterator<std::string>;

std::string placeText(const Buffer& buffer) {
  return fmt::format("{}{}+{}",
                     buffer.isRemote() ? "R" : "",
                     buffer.region == Region::State ? "S" : "T",
                     buffer.offset);
}

std::string deviceText(const Buffer& buffer) {
  return buffer.isRemote() ? "remote memory" : fmt::format("device {}", buffer.device);
}

void printPort(Text out, const Program& program, std::string_view kind, const Port& stream) {
  const Buffer& buffer = program.buffer(stream.buffer);
  fmt::format_to(out,
                 "  {} \"{}\" {} at {}, {} slot{}",
                 kind,
                 stream.name,
                 stream.type.str(),
                 placeText(buffer),
                 buffer.slots,
                 buffer.slots == 1 ? "" : "s");
  if (stream.staging) {
    fmt::format_to(out, ", staged at {}", *stream.staging);
  }
}

/// What the text of a call does not show.
void addCall(Hasher& hasher, const device::KernelCall& call) {
  hasher.add(ir::structuralHash(call.attrs)).add(std::string_view(call.choice.config));
  for (const std::vector<device::Layout>* layouts : {&call.choice.inputs, &call.choice.outputs}) {
    for (const device::Layout& layout : *layouts) {
      hasher.add(static_cast<int>(layout.kind)).add(std::string_view(layout.blob));
    }
  }
}

void printCall(Text out, const Program& program, const device::KernelCall& call) {
  const auto operand = [&](std::int32_t b) { return placeText(program.buffers[b]); };
  std::vector<std::string> in;
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    in.push_back(fmt::format("{} {}", operand(call.inputs[i]), call.inputTypes[i].str()));
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    outputs.push_back(fmt::format("{} {}", operand(call.outputs[i]), call.outputTypes[i].str()));
  }
  fmt::format_to(out,
                 "    {} [{}] ({}) -> ({}){}  \"{}\"\n",
                 call.def->name,
                 call.choice.implementation,
                 fmt::join(in, ", "),
                 fmt::join(outputs, ", "),
                 call.scratch < 0 ? "" : " scratch " + operand(call.scratch),
                 call.name);
}

void printTask(Text out, const Program& program, const Task& task) {
  fmt::format_to(
      out, "    {} {} m{}", name(task.kind), subjectName(program, task), task.microBatch);
  for (const Wait& w : program.waitsOf(task)) {
    fmt::format_to(out,
                   " after {}{}:{}{}",
                   w.allReplicas ? "all " : "",
                   laneName(program.lanes[w.lane]),
                   w.task,
                   std::string(static_cast<std::size_t>(w.roundsBack), '\''));
  }
  fmt::format_to(out, "\n");
}

/// What moves between devices, replicas and remote memory, and who meets for it.
void printExchanges(Text out, const Program& program) {
  for (const Transfer& transfer : program.transfers) {
    const Buffer& from = program.buffer(transfer.from);
    const Buffer& to = program.buffer(transfer.to);
    fmt::format_to(out,
                   "  transfer \"{}\" of {} from {} at {} to {} at {}, {} slot{}{}\n",
                   transfer.name,
                   formatBytes(transfer.bytes),
                   deviceText(from),
                   placeText(from),
                   deviceText(to),
                   placeText(to),
                   to.slots,
                   to.slots == 1 ? "" : "s",
                   transfer.oncePerRound ? ", once per round" : "");
  }
  for (const Collective& collective : program.collectives) {
    fmt::format_to(out,
                   "  {} \"{}\" {} over replicas from {} to {} of device {}{}\n",
                   name(collective.kind),
                   collective.name,
                   collective.type.str(),
                   placeText(program.buffer(collective.from)),
                   placeText(program.buffer(collective.to)),
                   program.buffer(collective.to).device,
                   collective.oncePerRound ? "" : ", per micro-batch");
  }
  for (std::size_t i = 0; program.barriers && i < program.barriers->groups.size(); ++i) {
    fmt::format_to(
        out, "  barrier {} of devices {}\n", i, fmt::join(program.barriers->groups[i], ", "));
  }
}

}  // namespace

std::string name(const Segment& segment) {
  switch (segment.kind) {
    case SegmentKind::Pack:
      return segment.inLoop ? fmt::format("pack {}", segment.stage) : "pack";
    case SegmentKind::Update:
      return segment.bucket < 0 ? fmt::format("update {}", segment.part)
                                : fmt::format("update {} of {}", segment.part, segment.bucket);
    default:
      return segment.part == 0
                 ? fmt::format("{} {}", parallel::name(segment.kind), segment.stage)
                 : fmt::format(
                       "{} {} part {}", parallel::name(segment.kind), segment.stage, segment.part);
  }
}

std::string subjectName(const Program& program, const Task& task) {
  const auto subject = static_cast<std::size_t>(task.subject);
  switch (task.kind) {
    case TaskKind::Run:
      return name(program.segments[subject]);
    case TaskKind::Feed:
      return program.feeds[subject].name;
    case TaskKind::Drain:
      return program.drains[subject].name;
    case TaskKind::Transfer:
      return program.transfers[subject].name;
    case TaskKind::Reduce:
      return program.collectives[subject].name;
    case TaskKind::Barrier:
      return std::to_string(subject);
    case TaskKind::Send:
    case TaskKind::Receive:
      return program.messages[subject].name;
  }
  return "";
}

std::string_view name(TaskKind kind) {
  static constexpr std::array<std::string_view, kTaskKinds> kNames = {
      "run", "feed", "drain", "transfer", "reduce", "barrier", "send", "receive"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"reduce", "reduce part of", "gather"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(LaneKind kind) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "load", "compute", "store", "exchange", "fetch", "flush", "send", "receive"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string print(const Program& program) {
  std::string text;
  const Text out(text);
  fmt::format_to(out,
                 "program \"{}\": {} micro-batch{} per round{}{}\n",
                 program.name,
                 program.microBatchesPerRound,
                 program.microBatchesPerRound == 1 ? "" : "es",
                 program.training ? ", then an update" : "",
                 program.keepsPacked ? ", keeps packed variables" : "");
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const DevicePlan& plan = program.devices[d];
    fmt::format_to(out,
                   "device {}: state {}, transient {} (bound {})\n",
                   d,
                   formatBytes(plan.stateBytes),
                   formatBytes(plan.transientBytes),
                   formatBytes(plan.transientLowerBound));
    if (plan.ownBytes + plan.stagingBytes > 0) {
      fmt::format_to(out,
                     "  of its own {}, staging on the host {}\n",
                     formatBytes(plan.ownBytes),
                     formatBytes(plan.stagingBytes));
    }
  }
  if (program.remote.totalBytes() > 0) {
    fmt::format_to(out,
                   "remote memory: state {}, transient {}\n",
                   formatBytes(program.remote.stateBytes),
                   formatBytes(program.remote.transientBytes));
  }
  for (const Port& feed : program.feeds) {
    printPort(out, program, "input", feed);
    fmt::format_to(out, "\n");
  }
  for (const Port& drain : program.drains) {
    printPort(out, program, "output", drain);
    if (drain.rule.finalOnly) {
      fmt::format_to(out, ", the last of a step\n");
    } else {
      fmt::format_to(out, ", every {}\n", drain.rule.every);
    }
  }
  for (const Constant& constant : program.constants) {
    fmt::format_to(out,
                   "  constant {} at {}\n",
                   constant.value.type().str(),
                   placeText(program.buffer(constant.buffer)));
  }
  printExchanges(out, program);
  for (const Segment& segment : program.segments) {
    if (segment.calls.empty()) {
      continue;
    }
    fmt::format_to(out, "  segment {} on device {}\n", name(segment), segment.device);
    for (const device::KernelCall& call : segment.calls) {
      printCall(out, program, call);
    }
  }
  for (const Lane& lane : program.lanes) {
    if (lane.tasks.empty()) {
      continue;
    }
    fmt::format_to(out,
                   "  lane {}{}\n",
                   laneName(lane),
                   lane.staging ? fmt::format(", staged at {}", *lane.staging) : "");
    for (const Task& task : lane.tasks) {
      printTask(out, program, task);
    }
  }
  return text;
}

std::uint64_t hash(const Program& program) {
  // The text names every stream, operand, offset, implementation, task and wait.
  Hasher hasher;
  hasher.add(std::string_view(print(program)));
  for (const DevicePlan& plan : program.devices) {
    hasher.add(std::uint64_t{plan.stateBytes}).add(std::uint64_t{plan.transientBytes});
  }
  for (const Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      addCall(hasher, call);
    }
  }
  for (const Constant& constant : program.constants) {
    hasher.add(constant.value.hash());
  }
  return hasher.digest();
}

}  // namespace sluice::program
