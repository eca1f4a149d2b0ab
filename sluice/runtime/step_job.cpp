#include "sluice/runtime/step_job.h"

#include "sluice/base/cancelled.h"
#include "sluice/runtime/reduce.h"

namespace sluice::runtime {
namespace {

using program::Program;
using program::Task;
using program::TaskKind;

/// How far into a buffer the slot begins that the task uses in this round.
std::size_t slotOffset(const Program& program,
                       program::BufferId id,
                       const Task& task,
                       std::int32_t round) {
  for (const program::Slot& slot : program.slotsOf(task)) {
    if (slot.buffer == id) {
      return program.buffer(id).slotStride() *
             static_cast<std::size_t>(program.slotIn(slot, round));
    }
  }
  return 0;
}

/// Where a buffer is for the task.
std::byte* addressOf(const StepJob& job,
                     const LaneRun& lane,
                     program::BufferId id,
                     const Task& task,
                     std::int32_t round) {
  return job.addressesOf(lane.replica())[id.index()] + slotOffset(*job.program, id, task, round);
}

void runSegment(const StepJob& job,
                LaneRun& lane,
                const Task& task,
                std::int64_t microBatchOverReplicas) {
  const std::size_t segment =
      lane.replica() * job.program->segments.size() + static_cast<std::size_t>(task.subject);
  const ir::RunInfo info{.seed = job.args->seed,
                         .microBatch = job.args->firstMicroBatch + microBatchOverReplicas,
                         .microBatchInRound = task.microBatch,
                         .replica = static_cast<std::int32_t>(lane.replica())};
  if (job.checked.empty()) {
    lane.queue().launch(*job.segments[segment], lane.addresses(), info);
  } else {
    job.checked[segment]->run(lane.queue(), lane.addresses(), info, microBatchOverReplicas);
  }
}

/// The step may have been given up while the host's code ran: nothing more is written then.
void requireGoing(const StepJob& job) {
  if (job.stopped->load()) {
    raise<Cancelled>("the step was given up meanwhile");
  }
}

/// A fetch or a flush.
void moveRemote(const StepJob& job,
                LaneRun& lane,
                const program::Transfer& transfer,
                const Task& task,
                std::int32_t round) {
  const auto begin = RemoteLinks::Clock::now();
  const program::Buffer& from = job.program->buffer(transfer.from);
  const program::Buffer& to = job.program->buffer(transfer.to);
  ModelState& state = *job.states[lane.replica()];
  if (from.isRemote()) {
    state.remote(from.region)
        .read(from.offset + slotOffset(*job.program, transfer.from, task, round),
              addressOf(job, lane, transfer.to, task, round),
              transfer.bytes);
  } else {
    state.remote(to.region).write(to.offset + slotOffset(*job.program, transfer.to, task, round),
                                  addressOf(job, lane, transfer.from, task, round),
                                  transfer.bytes);
  }
  job.links->pass(lane.replica(),
                  lane.plan().device,
                  from.isRemote() ? RemoteLinks::Direction::In : RemoteLinks::Direction::Out,
                  transfer.bytes,
                  begin);
}

/// All replicas run the same task, so their sources have the same slot.
void joinReplicas(const StepJob& job,
                  LaneRun& lane,
                  const program::Reduction& reduction,
                  const Task& task,
                  std::int32_t round,
                  std::vector<const void*>& sources) {
  const std::size_t offset = slotOffset(*job.program, reduction.from, task, round);
  sources.clear();
  for (std::size_t r = 0; r < job.replicas(); ++r) {
    sources.push_back(job.addressesOf(r)[reduction.from.index()] + offset);
  }
  std::byte* const to = addressOf(job, lane, reduction.to, task, round);
  const std::int64_t summed = reduce(lane.queue(), reduction, sources, to, lane.replica());
  if (!job.checked.empty() && summed > 0) {
    const TensorType terms{reduction.type.dtype, Shape{summed}};
    requireFiniteSum(reduction.name, terms, sources, to);
  }
}

}  // namespace

void runTask(
    const StepJob& job, LaneRun& lane, const Task& task, std::int32_t round, TaskRoom& room) {
  const Program& program = *job.program;
  const std::int64_t inStep =
      static_cast<std::int64_t>(round) * program.microBatchesPerRound + task.microBatch;
  const std::int64_t overReplicas = inStep * static_cast<std::int64_t>(job.replicas()) +
                                    static_cast<std::int64_t>(lane.replica());
  const auto address = [&](program::BufferId id) { return addressOf(job, lane, id, task, round); };
  const auto subject = static_cast<std::size_t>(task.subject);
  switch (task.kind) {
    case TaskKind::Run:
      if (job.written->segments[subject]) {
        job.wrote->store(true, std::memory_order_relaxed);
      }
      lane.selectSlots(task, round, job.addressesOf(lane.replica()));
      runSegment(job, lane, task, overReplicas);
      break;
    case TaskKind::Feed: {
      const program::Stream& stream = program.feeds[subject];
      const void* data = job.args->feed.take(task.subject, overReplicas);
      requireGoing(job);
      lane.queue().copy(address(stream.buffer), data, stream.type.bytes());
      break;
    }
    case TaskKind::Drain: {
      const program::Stream& stream = program.drains[subject];
      const std::int64_t total =
          static_cast<std::int64_t>(job.args->rounds) * program.microBatchesPerRound;
      if (stream.rule.applies(inStep, total)) {
        job.args->sink.put(task.subject, overReplicas, address(stream.buffer));
      }
      break;
    }
    case TaskKind::Transfer: {
      const program::Transfer& transfer = program.transfers[subject];
      if (job.written->transfers[subject]) {
        job.wrote->store(true, std::memory_order_relaxed);
      }
      if (lane.laneClass() == LaneClass::Remote) {
        moveRemote(job, lane, transfer, task, round);
      } else {
        lane.queue().copy(address(transfer.to), address(transfer.from), transfer.bytes);
      }
      break;
    }
    case TaskKind::Reduce:
      joinReplicas(job, lane, program.reductions[subject], task, round, room.sources);
      break;
    case TaskKind::Barrier:  // its waits were all
      break;
  }
  lane.queue().finish();
}

}  // namespace sluice::runtime
