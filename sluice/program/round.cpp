#include "sluice/program/round.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sluice/base/error.h"

namespace sluice::program {
namespace {

/// Planned times of the loop begin at 0; Pack and the mirrors of variables come before.
constexpr std::int64_t kBeforePack = -3;

SegmentKind kindOf(schedule::WorkKind kind) {
  switch (kind) {
    case schedule::WorkKind::Forward:
      return SegmentKind::Forward;
    case schedule::WorkKind::Backward:
      return SegmentKind::Backward;
    case schedule::WorkKind::BackwardInput:
      return SegmentKind::BackwardInput;
    case schedule::WorkKind::BackwardWeight:
      return SegmentKind::BackwardWeight;
  }
  return SegmentKind::Forward;
}

}  // namespace

Round::Round(const Emitted& emitted,
             const schedule::PipelineSchedule& schedule,
             const RoundOptions& options)
    : emitted_(emitted), options_(options), makespan_(schedule.makespan) {
  for (const parallel::SegmentInfo& info : emitted.segments) {
    phases_ = phases_ || info.inLoop;
    mostParts_ = std::max<std::int64_t>(mostParts_, info.oncePerRound() ? 1 : info.part + 1);
  }
  makespan_ *= timeScale();
  for (const BufferUse use : emitted.uses) {
    streams_ = streams_ || use == BufferUse::Remote;
  }
  addActions();
  addTouches();
  setTimes(schedule);
  layLanes(schedule);
  findEnds();
  orderRemoteVariables();
}

void Round::addActions() {
  const auto instances = [&](Action& action) {
    const auto count = static_cast<std::size_t>(action.once ? 1 : options_.microBatches);
    action.task.assign(count, -1);
    action.start.assign(count, 0);
    action.end.assign(count, 0);
  };
  actionOfSegment_.assign(emitted_.segments.size(), ActionId());
  // Calls come segment by segment: the last action that touched a buffer is all there is to know.
  ById<BufferId, ActionId> lastReader(emitted_.buffers.size());
  ById<BufferId, ActionId> lastWriter(emitted_.buffers.size());
  for (const EmittedCall& e : emitted_.calls) {
    const auto segment = static_cast<std::size_t>(e.segment);
    ActionId& own = actionOfSegment_[segment];
    if (!own.valid()) {
      own = actions_.add({.kind = TaskKind::Run,
                          .subject = e.segment,
                          .once = emitted_.segments[segment].oncePerRound()});
    }
    Action& action = actions_[own];
    const auto add = [&](std::int32_t number, bool write) {
      const BufferId b(number);
      ActionId& last = (write ? lastWriter : lastReader)[b];
      if (last != own) {
        last = own;
        (write ? action.writes : action.reads).push_back(b);
      }
    };
    for (const std::int32_t b : e.call.inputs) {
      add(b, false);
    }
    for (const std::int32_t b : e.call.outputs) {
      add(b, true);
    }
    if (e.call.scratch >= 0) {
      add(e.call.scratch, true);
    }
  }
  std::int32_t subject = 0;
  for (const Port& feed : emitted_.feeds) {
    actions_.add({.kind = TaskKind::Feed, .subject = subject++, .writes = {feed.buffer}});
  }
  subject = 0;
  for (const Transfer& transfer : emitted_.transfers) {
    actions_.add({.kind = TaskKind::Transfer,
                  .subject = subject++,
                  .once = transfer.oncePerRound,
                  .fetches = bufferOf(transfer.from).isRemote(),
                  .flushes = bufferOf(transfer.to).isRemote(),
                  .reads = {transfer.from},
                  .writes = {transfer.to}});
  }
  subject = 0;
  for (const Collective& collective : emitted_.collectives) {
    actions_.add({.kind = TaskKind::Reduce,
                  .subject = subject++,
                  .once = collective.oncePerRound,
                  .reads = {collective.from},
                  .writes = {collective.to}});
  }
  subject = 0;
  for (const Port& drain : emitted_.drains) {
    actions_.add({.kind = TaskKind::Drain, .subject = subject++, .reads = {drain.buffer}});
  }
  for (Action& action : actions_) {
    instances(action);
  }
}

void Round::addTouches() {
  touches_.assign(emitted_.buffers.size(), {});
  for (const ActionId n : actions_.ids()) {
    for (const BufferId b : actions_[n].writes) {
      touches_[b].writers.push_back(n);
    }
    for (const BufferId b : actions_[n].reads) {
      touches_[b].readers.push_back(n);
    }
  }
}

bool Round::isShared(BufferId buffer) const {
  const Touch& touch = touches_[buffer];
  const std::vector<ActionId>& any = touch.writers.empty() ? touch.readers : touch.writers;
  const auto other = [&](ActionId action) { return action != any[0]; };
  return std::ranges::any_of(touch.writers, other) || std::ranges::any_of(touch.readers, other);
}

bool Round::isSerial(std::int32_t device) const {
  return serial_[device];
}

Round::LoopActions Round::loopActions() const {
  LoopActions actions;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    if (!info.oncePerRound() && actionOfSegment_[s].valid()) {
      actions[{info.kind, info.stage}].push_back(actionOfSegment_[s]);
    }
  }
  return actions;
}

void Round::setRunTimes(const schedule::PipelineSchedule& schedule) {
  const LoopActions loop = loopActions();
  std::vector<ActionId> inLoop;
  const parallel::SegmentInfo* last = nullptr;  // of the update
  std::int64_t turn = 0;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    const ActionId n = actionOfSegment_[s];
    if (!n.valid()) {
      continue;
    }
    Action& action = actions_[n];
    if (info.inLoop) {
      inLoop.push_back(n);
    } else if (info.kind == SegmentKind::Pack) {
      action.start = {kBeforePack + 1};
      action.end = {kBeforePack + 2};
    } else if (info.kind == SegmentKind::Update) {
      // One behind the other, in the order of their parts and buckets.
      turn += last != nullptr && (last->part != info.part || last->bucket != info.bucket) ? 1 : 0;
      last = &info;
      action.start = {makespan_ + 2 * turn + 1};
      action.end = {action.start[0] + 1};
    }
  }
  for (const std::vector<schedule::Work>& device : schedule.devices) {
    for (const schedule::Work& work : device) {
      const auto found = loop.find({kindOf(work.kind), work.stage});
      if (found == loop.end()) {
        continue;
      }
      const std::int64_t parts = std::ssize(found->second);
      const std::int64_t start = work.start * timeScale();
      const std::int64_t length = (work.end - work.start) * timeScale();
      std::int64_t part = 0;
      for (const ActionId n : found->second) {
        Action& action = actions_[n];
        const std::size_t at = action.at(work.microBatch);
        action.start[at] = start + length * part / parts;
        action.end[at] = start + length * ++part / parts;
      }
    }
  }
  // Of a phase: when its loop begins, or has ended.
  for (const ActionId n : inLoop) {
    Action& action = actions_[n];
    const parallel::SegmentInfo& info = segmentOf(action);
    const bool forward = info.kind == SegmentKind::Pack && info.part == 0;
    const auto found =
        loop.find({forward ? SegmentKind::Forward : SegmentKind::Backward, info.stage});
    if (found == loop.end() || (info.kind == SegmentKind::Update && info.bucket < 0)) {
      action.start = {0};
    } else {
      const Action& begin = actions_[found->second.front()];
      const Action& end = actions_[found->second.back()];
      action.start = {info.kind == SegmentKind::Pack ? begin.start.front() - 1
                                                     : end.end.back() + 1};
    }
    action.end = action.start;
  }
}

std::int64_t Round::firstRead(BufferId buffer, std::int32_t microBatch) const {
  std::int64_t time = makespan_;
  for (const ActionId r : touches_[buffer].readers) {
    const Action& reader = actions_[r];
    if (reader.kind == TaskKind::Run) {
      time = std::min(time, reader.start[reader.at(microBatch)]);
    } else if (reader.kind == TaskKind::Transfer) {
      // Another device may need its copy before this one: a concurrent stage that is ahead.
      time = std::min(time, firstRead(reader.writes[0], microBatch));
    }
  }
  return time;
}

std::int64_t Round::firstUse(const Action& fetch, std::int32_t microBatch) const {
  std::int64_t time = std::numeric_limits<std::int64_t>::max();
  for (const ActionId n : kernelsOf(fetch.writes[0])) {
    const Action& kernels = actions_[n];
    time =
        std::min(time, fetch.once ? kernels.start.front() : kernels.start[kernels.at(microBatch)]);
  }
  return time;
}

std::int64_t Round::lastWrite(const Action& copy, std::int32_t microBatch) const {
  const BufferId buffer = copy.reads[0];
  if (copy.kind == TaskKind::Transfer && useOf(buffer) == BufferUse::State) {
    return kBeforePack;  // a variable as it is when the round begins
  }
  std::int64_t time = kBeforePack;
  const bool sumsOnce = copy.kind == TaskKind::Reduce && copy.once;
  if (sumsOnce && streams_ && !kernelsOf(copy.writes[0]).empty()) {
    // In the turn of the kernels that read it: what they need is there only then.
    time = std::max(time, firstUse(copy, microBatch));
  }
  for (const ActionId w : touches_[buffer].writers) {
    const Action& writer = actions_[w];
    if (sumsOnce && !phases_) {
      time = std::max(time, makespan_);
    }
    time = std::max(time, copy.once ? writer.end.back() : writer.end[writer.at(microBatch)]);
  }
  return time;
}

void Round::setTimes(const schedule::PipelineSchedule& schedule) {
  setRunTimes(schedule);
  // Feeds and fetches come just before their first reader, copies and drains right behind their
  // writer, which may be a copy itself.
  const auto set = [&](TaskKind kind, bool flushes) {
    for (Action& action : actions_) {
      const bool isNext = action.kind == kind && action.flushes == flushes;
      for (std::int32_t m = 0; isNext && m < action.instances(); ++m) {
        const std::size_t i = action.at(m);
        action.start[i] = kind == TaskKind::Feed ? firstRead(action.writes[0], m)
                          : action.fetches       ? firstUse(action, m)
                                                 : lastWrite(action, m);
        action.end[i] = action.start[i];
      }
    }
  };
  set(TaskKind::Feed, false);
  set(TaskKind::Reduce, false);
  set(TaskKind::Transfer, false);
  set(TaskKind::Transfer, true);
  set(TaskKind::Drain, false);
}

std::int32_t Round::laneOf(std::int32_t device, LaneKind kind, std::int32_t peer) {
  const auto [found, added] = laneIndex_.emplace(std::tuple(device, kind, peer), lanes_.count());
  if (added) {
    lanes_.push_back({.device = device, .kind = kind, .tasks = {}, .peer = peer});
    order_.emplace_back();
  }
  return found->second;
}

void Round::append(ActionId id, std::int32_t instance) {
  Action& action = actions_[id];
  Table<Instance>& lane = order_[action.lane];
  action.task[action.at(instance)] = lane.count();
  lane.push_back({id, instance});
}

std::int32_t Round::laneFor(const Action& action) {
  const auto subject = static_cast<std::size_t>(action.subject);
  const auto deviceOf = [&](BufferId id) { return bufferOf(id).device; };
  switch (action.kind) {
    case TaskKind::Run:
      return laneOf(emitted_.segments[subject].device, LaneKind::Compute);
    case TaskKind::Feed:
      return laneOf(deviceOf(emitted_.feeds[subject].buffer), LaneKind::Load);
    case TaskKind::Drain:
      return laneOf(deviceOf(emitted_.drains[subject].buffer), LaneKind::Store);
    case TaskKind::Reduce: {
      const std::int32_t device = deviceOf(emitted_.collectives[subject].to);
      return laneOf(device, LaneKind::Exchange, device);
    }
    case TaskKind::Transfer:
    case TaskKind::Barrier:  // added later, like messages
    case TaskKind::Send:
    case TaskKind::Receive:
      break;
  }
  const std::int32_t from = deviceOf(emitted_.transfers[subject].from);
  const std::int32_t to = deviceOf(emitted_.transfers[subject].to);
  // What comes with every micro-batch is small and urgent; it does not queue behind the rest.
  const std::int32_t way = action.once ? 0 : 1;
  return action.fetches   ? laneOf(to, LaneKind::Fetch, way)
         : action.flushes ? laneOf(from, LaneKind::Flush, way)
                          : laneOf(to, LaneKind::Exchange, from);
}

/// An input comes right before the kernels that start at its time, into memory that may have been
/// that of a result which ended at this time: the copy of the result goes first.
bool Round::copiesFed(const Action& action) const {
  return action.kind == TaskKind::Transfer &&
         std::ranges::any_of(touches_[action.reads[0]].writers, [&](ActionId writer) {
           return actions_[writer].kind == TaskKind::Feed;
         });
}

void Round::layLanes(const schedule::PipelineSchedule& schedule) {
  std::int32_t devices = 1;
  for (const parallel::SegmentInfo& info : emitted_.segments) {
    devices = std::max(devices, info.device + 1);
  }
  for (std::int32_t d = 0; d < devices; ++d) {
    laneOf(d, LaneKind::Load);
    laneOf(d, LaneKind::Compute);
    laneOf(d, LaneKind::Store);
  }
  // Start, whether it begins what starts then, instance, action.
  using Entry = std::tuple<std::int64_t, bool, std::int32_t, ActionId>;
  std::vector<Entry> entries;
  for (const ActionId n : actions_.ids()) {
    Action& action = actions_[n];
    action.lane = laneFor(action);
    const bool byTime = action.kind != TaskKind::Run && !action.fetches && !action.flushes;
    for (std::int32_t i = 0; byTime && i < action.instances(); ++i) {
      entries.emplace_back(action.start[action.at(i)], copiesFed(action), i, n);
    }
  }
  std::ranges::sort(entries);
  layKernels(schedule, static_cast<std::size_t>(devices));
  for (const auto& [start, begins, instance, action] : entries) {
    append(action, instance);
  }
  layRemoteLanes();
  findGroups();
}

/// The kernels of a device: by its schedule, and what runs once per round before the first run of a
/// segment that comes behind it.
void Round::layKernels(const schedule::PipelineSchedule& schedule, std::size_t devices) {
  Table<std::vector<ActionId>> once(devices);
  const LoopActions loop = loopActions();
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    if (info.oncePerRound() && actionOfSegment_[s].valid()) {
      once[info.device].push_back(actionOfSegment_[s]);
    }
  }
  serial_.assign(devices, true);
  for (std::size_t d = 0; d < devices; ++d) {
    std::size_t nextOnce = 0;
    const auto appendOnceBefore = [&](std::int32_t segment) {
      while (nextOnce < once[d].size() && actions_[once[d][nextOnce]].subject < segment) {
        append(once[d][nextOnce++], 0);
      }
    };
    std::pair<std::int32_t, std::int32_t> last{-1, -1};
    const std::vector<schedule::Work> none;
    for (const schedule::Work& work : d < schedule.devices.size() ? schedule.devices[d] : none) {
      const auto found = loop.find({kindOf(work.kind), work.stage});
      if (found == loop.end()) {
        continue;
      }
      for (const ActionId n : found->second) {
        const std::int32_t segment = actions_[n].subject;
        appendOnceBefore(segment);
        append(n, work.microBatch);
        const std::pair<std::int32_t, std::int32_t> now{work.microBatch, segment};
        serial_[d] = serial_[d] && last < now;
        last = now;
      }
    }
    appendOnceBefore(emitted_.segments.count());
  }
}

}  // namespace sluice::program
