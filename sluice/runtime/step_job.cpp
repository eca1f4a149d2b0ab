#include "sluice/runtime/step_job.h"

#include <chrono>
#include <cstring>
#include <optional>

#include "sluice/base/error.h"
#include "sluice/runtime/communicator.h"
#include "sluice/runtime/reduce.h"
#include "sluice/runtime/write_log.h"

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
device::Address addressOf(const StepJob& job,
                          const LaneRun& lane,
                          program::BufferId id,
                          const Task& task,
                          std::int32_t round) {
  return job.addressesOf(lane.replica())[id.index()] + slotOffset(*job.program, id, task, round);
}

void runSegment(const StepJob& job,
                LaneRun& lane,
                std::int64_t count,
                std::int64_t microBatchOverReplicas) {
  const Task& task = lane.task(count);
  const std::size_t segment =
      lane.replica() * job.program->segments.size() + static_cast<std::size_t>(task.subject);
  const ir::RunInfo info{.seed = job.args->seed,
                         .microBatch = job.args->firstMicroBatch + microBatchOverReplicas,
                         .microBatchInRound = task.microBatch,
                         .replica = static_cast<std::int32_t>(job.firstReplica() + lane.replica())};
  const bool packs = job.program->segments[static_cast<std::size_t>(task.subject)].kind ==
                     parallel::SegmentKind::Pack;
  if (packs && job.program->keepsPacked && (job.hasPacked || lane.round(count) > 0)) {
    return;
  }
  if (job.checked.empty()) {
    PreparedSegment& prepared = *job.segments[segment];
    static const PreparedSegment::Captures kNone;
    const PreparedSegment::Captures& captures =
        job.records ? kNone : lane.capturesOf(count, prepared);
    prepared.run(lane.queue(), lane.addresses(), info, captures);
  } else {
    job.checked[segment]->run(lane.queue(),
                              lane.addresses(),
                              {.info = info,
                               .microBatch = microBatchOverReplicas,
                               .round = lane.round(count),
                               .program = job.program,
                               .writes = job.args->writes,
                               .kernels = job.args->kernels,
                               .place = {.lane = lane.number(),
                                         .task = static_cast<std::int32_t>(count % lane.perRound()),
                                         .round = lane.round(count),
                                         .replica = static_cast<std::int32_t>(lane.replica())}});
  }
}

/// The step may have been given up while the host's code ran: nothing more is written then.
void requireGoing(const StepJob& job) {
  if (job.stopped->load()) {
    raise<Cancelled>("the step was given up meanwhile");
  }
}

/// Bytes of a file of remote memory and their place on a device.
struct FileMove {
  std::size_t offset = 0;
  device::Address local;
  std::size_t bytes = 0;
  bool fetches = false;
};

/// Through the pinned memory of the lane's device, if the host cannot read that device's own.
void moveFile(const StepJob& job, LaneRun& lane, RemoteMemory& file, const FileMove& move) {
  const auto& [offset, local, bytes, fetches] = move;
  device::Queue& queue = lane.queue();
  const std::optional<std::size_t> staging = lane.plan().staging;
  const device::Address via =
      staging ? job.states[lane.replica()]->staging(lane.plan().device)->at(*staging) : local;
  if (fetches) {
    queue.finish();  // what was fetched before has left the staging memory
    file.read(offset, device::hostPointer(via), bytes);
    if (staging) {
      queue.copy(local, via, bytes);
    }
    return;
  }
  if (staging) {
    queue.copy(via, local, bytes);
  }
  queue.finish();
  requireGoing(job);
  file.write(offset, device::hostPointer(via), bytes);
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
  const bool fetches = from.isRemote();
  RemoteMemory& remote = job.states[lane.replica()]->remote(fetches ? from.region : to.region);
  const std::size_t offset =
      fetches ? from.offset + slotOffset(*job.program, transfer.from, task, round)
              : to.offset + slotOffset(*job.program, transfer.to, task, round);
  const device::Address local =
      addressOf(job, lane, fetches ? transfer.to : transfer.from, task, round);
  if (remote.isFile()) {
    moveFile(job, lane, remote, {offset, local, transfer.bytes, fetches});
  } else if (fetches) {
    lane.queue().copy(local, remote.at(offset), transfer.bytes);
  } else {
    lane.queue().copy(remote.at(offset), local, transfer.bytes);
  }
  job.links->pass(lane.replica(),
                  lane.plan().device,
                  fetches ? RemoteLinks::Direction::In : RemoteLinks::Direction::Out,
                  transfer.bytes,
                  begin);
}

/// The one at the other end of a message.
std::int32_t peerOf(const Peers& peers, const program::Message& message, TaskKind kind) {
  const std::int32_t device = kind == TaskKind::Send ? message.to : message.from;
  return peers.rankOf[static_cast<std::size_t>(device)];
}

/// One end of a message, in a thread that may wait for the other end.
void passMessage(const StepJob& job, LaneRun& lane, const Task& task, std::int32_t round) {
  const program::Message& message = job.program->messages[static_cast<std::size_t>(task.subject)];
  const bool sends = task.kind == TaskKind::Send;
  SLUICE_CHECK(job.args->peers != nullptr, "a part of a program is run without its other owners");
  const Peers& peers = *job.args->peers;
  const std::int32_t rank = peerOf(peers, message, task.kind);
  device::Address address;
  std::size_t bytes = 0;
  if (message.transfer >= 0) {
    const auto number = static_cast<std::size_t>(message.transfer);
    const program::Transfer& transfer = job.program->transfers[number];
    bytes = transfer.bytes;
    address = addressOf(job, lane, sends ? transfer.from : transfer.to, task, round);
    if (!sends && job.written->transfers[number]) {
      job.wrote->store(true, std::memory_order_relaxed);
    }
  }
  if (sends) {
    peers.communicator.send(lane.queue(), rank, task.subject, address, bytes);
  } else {
    peers.communicator.receive(lane.queue(), rank, task.subject, address, bytes);
  }
}

/// With one replica here, whose part is whole, the devices may gather among themselves.
bool gatherApart(const StepJob& job,
                 LaneRun& lane,
                 const program::Collective& collective,
                 std::int64_t message,
                 device::Address source,
                 device::Address to) {
  const Group& group = job.group();
  const std::size_t bytes = collective.operand.bytes();
  return collective.kind == program::CollectiveKind::Gather && job.replicas() == 1 &&
         bytes * group.ranks.size() == collective.type.bytes() &&
         group.communicator->gatherDirectly(lane.queue(), group.ranks, message, source, to, bytes);
}

/// The first replica here meets the other owners, the others get the result from it. The lane has a
/// thread of its own, which may wait. Lanes have the same numbers in all owners of a group.
void joinApart(const StepJob& job,
               LaneRun& lane,
               const program::Collective& collective,
               std::int64_t count,
               std::span<const device::Address> sources,
               device::Address to) {
  const auto number = static_cast<std::size_t>(&lane.plan() - job.program->lanes.data());
  const auto message = static_cast<std::int64_t>(job.program->messages.size() + number);
  if (gatherApart(job, lane, collective, message, sources[0], to)) {
    return;
  }
  if (lane.replica() == 0) {
    job.sums->publish(
        number, count, reduceOver(job.group(), lane.queue(), message, collective, sources));
  }
  const SharedSums::Result result = job.sums->take(number, count, *job.stopped);
  const std::span<const std::byte> share = shareOf(collective, *result, lane.replica());
  if (!share.empty()) {
    lane.queue().finish();
    device::copyIn(lane.queue(), to, share.data(), share.size());
  }
}

/// All replicas run the same task, so their sources have the same slot.
void joinReplicas(const StepJob& job,
                  LaneRun& lane,
                  const program::Collective& collective,
                  std::int64_t count,
                  std::vector<device::Address>& sources) {
  const Task& task = lane.task(count);
  const std::int32_t round = lane.round(count);
  const std::size_t offset = slotOffset(*job.program, collective.from, task, round);
  sources.clear();
  for (std::size_t r = 0; r < job.replicas(); ++r) {
    sources.push_back(job.addressesOf(r)[collective.from.index()] + offset);
  }
  const device::Address to = addressOf(job, lane, collective.to, task, round);
  if (job.isApart()) {
    joinApart(job, lane, collective, count, sources, to);
    return;
  }
  const std::int64_t summed = reduce(lane.queue(), collective, sources, to, lane.replica());
  if (job.watchesFinite && summed > 0) {
    const TensorType terms{collective.type.dtype, Shape{summed}};
    requireFiniteSum(lane.queue(), collective.name, terms, sources, to);
  }
}

/// One micro-batch of an input. Where the host cannot write it to its place, it goes through a slot
/// of pinned memory, which is free once the task that used it last is done.
void feedIn(const StepJob& job,
            LaneRun& lane,
            const Task& task,
            std::int64_t count,
            std::int64_t microBatch) {
  const auto subject = static_cast<std::size_t>(task.subject);
  const program::Port& stream = job.program->feeds[subject];
  const std::size_t bytes = stream.type.bytes();
  const std::int32_t round = lane.round(count);
  const device::Address to = addressOf(job, lane, stream.buffer, task, round);
  const device::Address there = job.args->feed.placeOf(task.subject, microBatch);
  if (there.memory != nullptr) {
    lane.queue().copy(to, there, bytes);
    return;
  }
  const void* data = job.args->feed.take(task.subject, microBatch);
  requireGoing(job);
  if (bytes == 0) {
    return;
  }
  if (!stream.staging) {
    const device::HostMemory source(data, bytes);
    lane.queue().copy(to, source.at(), bytes);
    return;
  }
  const program::Buffer& buffer = job.program->buffer(stream.buffer);
  const std::size_t offset = slotOffset(*job.program, stream.buffer, task, round);
  std::int64_t& lastUse = lane.lastUse(subject, offset / buffer.slotStride());
  while (lastUse >= 0 && lane.done() <= lastUse) {
    lane.event(lastUse).await(std::chrono::milliseconds(10));
    requireGoing(job);
  }
  lastUse = count;
  const device::Address via =
      job.states[lane.replica()]->staging(buffer.device)->at(*stream.staging + offset);
  std::memcpy(device::hostPointer(via), data, bytes);
  lane.queue().copy(to, via, bytes);
}

/// One micro-batch of an output, which is there: the host has waited for it.
void drainOut(const StepJob& job,
              LaneRun& lane,
              const Task& task,
              std::int32_t round,
              std::int64_t microBatch) {
  const program::Port& stream = job.program->drains[static_cast<std::size_t>(task.subject)];
  const bool empty = stream.type.bytes() == 0;
  device::Address from =
      empty ? device::Address() : addressOf(job, lane, stream.buffer, task, round);
  const device::Address room = job.args->sink.roomFor(task.subject, microBatch);
  if (room.memory != nullptr) {
    lane.queue().copy(room, from, stream.type.bytes());
    return;
  }
  if (stream.staging && !empty) {
    const std::int32_t device = job.program->buffer(stream.buffer).device;
    const device::Address via = job.states[lane.replica()]->staging(device)->at(*stream.staging);
    lane.queue().copy(via, from, stream.type.bytes());
    lane.queue().finish();
    requireGoing(job);
    from = via;
  }
  job.args->sink.put(task.subject, microBatch, device::hostPointer(from));
}

/// Notes what a task without kernels has written to a device.
void noteWrite(const StepJob& job, LaneRun& lane, std::int64_t count, std::int64_t microBatch) {
  const Program& program = *job.program;
  const Task& task = lane.task(count);
  const auto subject = static_cast<std::size_t>(task.subject);
  program::BufferId to;
  runtime::WrittenValue written{.op = std::string(program::name(task.kind)),
                                .name = program::subjectName(program, task),
                                .microBatch = microBatch,
                                .round = lane.round(count),
                                .replica = static_cast<std::int32_t>(lane.replica()),
                                .values = {}};
  if (task.kind == TaskKind::Feed) {
    to = program.feeds[subject].buffer;
    written.type = program.feeds[subject].type;
  } else if (task.kind == TaskKind::Reduce) {
    to = program.collectives[subject].to;
    written.type = program.collectives[subject].type;
    written.microBatch = program.collectives[subject].oncePerRound ? -1 : microBatch;
  } else if (task.kind == TaskKind::Transfer) {
    const program::Transfer& transfer = program.transfers[subject];
    to = transfer.to;
    written.type = {DType::U8, Shape{static_cast<std::int64_t>(transfer.bytes)}};
    written.microBatch = transfer.oncePerRound ? -1 : microBatch;
  }
  if (!to.valid() || program.buffer(to).isRemote()) {
    return;
  }
  lane.queue().finish();
  std::vector<std::byte> copy(written.type.bytes());
  device::copyOut(
      lane.queue(), copy.data(), addressOf(job, lane, to, task, lane.round(count)), copy.size());
  job.args->writes->add(std::move(written), device::Layout::plain(), copy);
}

}  // namespace

bool leavesAtOnce(const StepJob& job, const LaneRun& lane) {
  constexpr std::size_t kLarge = std::size_t{256} * 1024;  // takes longer than to wake a thread
  const Task& task = lane.task(lane.issued());
  const program::Message& message = job.program->messages[static_cast<std::size_t>(task.subject)];
  const std::size_t bytes =
      message.transfer < 0
          ? 0
          : job.program->transfers[static_cast<std::size_t>(message.transfer)].bytes;
  if (lane.isAsynchronous() || bytes > kLarge || job.args->peers == nullptr) {
    return false;
  }
  const Peers& peers = *job.args->peers;
  return peers.communicator.leavesAtOnce(peerOf(peers, message, task.kind), task.subject);
}

void runTask(const StepJob& job, LaneRun& lane, std::int64_t count, TaskRoom& room) {
  const Program& program = *job.program;
  const Task& task = lane.task(count);
  const std::int32_t round = lane.round(count);
  const std::int64_t inStep =
      static_cast<std::int64_t>(round) * program.microBatchesPerRound + task.microBatch;
  const auto numbered = [&](std::size_t replicas, std::size_t replica) {
    return inStep * static_cast<std::int64_t>(replicas) + static_cast<std::int64_t>(replica);
  };
  const std::int64_t overReplicas =
      numbered(job.allReplicas(), job.firstReplica() + lane.replica());
  const bool countsHere = job.args->peers != nullptr && !job.args->peers->hostCountsAll;
  const std::int64_t forHost = countsHere ? numbered(job.replicas(), lane.replica()) : overReplicas;
  const auto address = [&](program::BufferId id) { return addressOf(job, lane, id, task, round); };
  const auto subject = static_cast<std::size_t>(task.subject);
  switch (task.kind) {
    case TaskKind::Run:
      if (job.written->segments[subject]) {
        job.wrote->store(true, std::memory_order_relaxed);
      }
      lane.selectSlots(task, round, job.addressesOf(lane.replica()));
      runSegment(job, lane, count, overReplicas);
      break;
    case TaskKind::Feed:
      feedIn(job, lane, task, count, forHost);
      break;
    case TaskKind::Drain: {
      const std::int64_t total =
          static_cast<std::int64_t>(job.args->rounds) * program.microBatchesPerRound;
      if (program.drains[subject].rule.applies(inStep, total)) {
        drainOut(job, lane, task, round, forHost);
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
      joinReplicas(job, lane, program.collectives[subject], count, room.sources);
      break;
    case TaskKind::Barrier:  // its waits were all
      break;
    case TaskKind::Send:
    case TaskKind::Receive:
      passMessage(job, lane, task, round);
      break;
  }
  if (job.args->writes != nullptr && task.kind != TaskKind::Run) {
    noteWrite(job, lane, count, overReplicas);
  }
}

}  // namespace sluice::runtime
