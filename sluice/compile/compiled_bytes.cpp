#include "sluice/compile/compiled_bytes.h"

#include <limits>
#include <utility>

#include "sluice/program/byte_form.h"

namespace sluice::compiler {
namespace {

using parallel::ExecutionPlan;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t kMostIndex = std::numeric_limits<std::int32_t>::max();

template <class T>
void writeNumbers(ByteWriter& out, const std::vector<T>& list) {
  out.number(std::uint64_t{list.size()});
  for (const T value : list) {
    out.number(std::int64_t{value});
  }
}

template <class T>
void readNumbers(ByteReader& in, std::vector<T>& list) {
  const std::size_t count = in.count("numbers");
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::int64_t kEnd = sizeof(T) == 4 ? kMostIndex : kMost;
    list.push_back(static_cast<T>(in.within(-kEnd, kEnd, "a number of the plan")));
  }
}

void writeTexts(ByteWriter& out, const std::vector<std::string>& list) {
  out.number(std::uint64_t{list.size()});
  for (const std::string& text : list) {
    out.text(text);
  }
}

std::vector<std::string> readTexts(ByteReader& in) {
  std::vector<std::string> list;
  const std::size_t count = in.count("texts");
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(in.text());
  }
  return list;
}

void writePlan(ByteWriter& out, const ExecutionPlan& plan) {
  out.flag(plan.sequential);
  out.flag(plan.pipelined);
  out.flag(plan.training);
  out.flag(plan.recomputed);
  out.number(static_cast<std::int32_t>(plan.streaming.order));
  out.number(std::uint64_t{plan.work.size()});
  for (const parallel::StageWork& work : plan.work) {
    out.number(work.forward);
    out.number(work.backwardInput);
    out.number(work.backwardWeight);
    out.number(work.stashBytes);
  }
  out.number(std::uint64_t{plan.blocks.size()});
  for (const std::vector<std::string>& blocks : plan.blocks) {
    writeTexts(out, blocks);
  }
  writeNumbers(out, plan.slotOfStage);
  writeNumbers(out, plan.phaseOfStage);
  writeNumbers(out, plan.segments.deviceOfStage);
  out.number(plan.segments.devices);
  out.number(static_cast<std::int32_t>(plan.schedule.kind));
  out.number(plan.schedule.makespan);
  out.number(plan.schedule.bound);
  writeNumbers(out, plan.schedule.busy);
  writeNumbers(out, plan.schedule.bubble);
  writeNumbers(out, plan.schedule.stashDepth);
  out.real(plan.schedule.rampShare);
}

parallel::StageWork readWork(ByteReader& in) {
  const auto number = [&] { return in.within(0, kMost, "the work of a stage"); };
  parallel::StageWork work;
  work.forward = number();
  work.backwardInput = number();
  work.backwardWeight = number();
  work.stashBytes = number();
  return work;
}

ExecutionPlan readPlan(ByteReader& in) {
  ExecutionPlan plan;
  plan.sequential = in.flag();
  plan.pipelined = in.flag();
  plan.training = in.flag();
  plan.recomputed = in.flag();
  plan.streaming.order = static_cast<parallel::StreamOrder>(in.index(0, 3, "an order"));
  const std::size_t stages = in.count("stages");
  for (std::size_t s = 0; s < stages; ++s) {
    plan.work.push_back(readWork(in));
  }
  const std::size_t blocks = in.count("blocks");
  for (std::size_t b = 0; b < blocks; ++b) {
    plan.blocks.push_back(readTexts(in));
  }
  readNumbers(in, plan.slotOfStage);
  readNumbers(in, plan.phaseOfStage);
  readNumbers(in, plan.segments.deviceOfStage);
  plan.segments.devices = in.index(0, kMostIndex, "the number of devices");
  plan.schedule.kind = schedule::allPipelineKinds()[static_cast<std::size_t>(
      in.index(0, static_cast<std::int64_t>(schedule::allPipelineKinds().size()), "a schedule"))];
  plan.schedule.makespan = in.within(0, kMost, "the time of a round");
  plan.schedule.bound = in.within(0, kMost, "the bound of a round");
  readNumbers(in, plan.schedule.busy);
  readNumbers(in, plan.schedule.bubble);
  readNumbers(in, plan.schedule.stashDepth);
  plan.schedule.rampShare = in.real();
  // Reports index all of them by stage or device.
  if (plan.slotOfStage.size() < stages || plan.segments.deviceOfStage.size() < stages ||
      plan.schedule.stashDepth.size() < stages ||
      plan.schedule.bubble.size() < plan.schedule.busy.size()) {
    in.fail("the plan has fewer numbers than stages");
  }
  return plan;
}

}  // namespace

void writeCompiled(ByteWriter& out, const Compiled& compiled) {
  program::writeProgram(out, compiled.program);
  program::writeStatePlan(out, compiled.state);
  writePlan(out, compiled.plan);
  writeTexts(out, compiled.tensorNames);
  out.number(compiled.fetchedLoss ? static_cast<std::int64_t>(*compiled.fetchedLoss) : -1);
  writeTexts(out, compiled.warnings);
  out.number(compiled.devices);
}

Compiled readCompiled(ByteReader& in, const ir::OpSet& ops) {
  Compiled compiled{.graph = ir::Graph(""), .program = program::readProgram(in, ops)};
  compiled.state = program::readStatePlan(in);
  compiled.plan = readPlan(in);
  compiled.tensorNames = readTexts(in);
  const std::int64_t loss = in.within(
      -1, static_cast<std::int64_t>(compiled.program.drains.size()) - 1, "the output of the loss");
  if (loss >= 0) {
    compiled.fetchedLoss = static_cast<std::size_t>(loss);
  }
  compiled.warnings = readTexts(in);
  compiled.devices = in.within(1, kMostIndex, "the number of devices");
  return compiled;
}

}  // namespace sluice::compiler
