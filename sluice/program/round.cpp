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
  addNodes();
  addTouches();
  setTimes(schedule);
  layLanes(schedule);
  findEnds();
  orderRemoteVariables();
}

void Round::addNodes() {
  const auto instances = [&](Node& node) {
    const auto count = static_cast<std::size_t>(node.once ? 1 : options_.microBatches);
    node.task.assign(count, -1);
    node.start.assign(count, 0);
    node.end.assign(count, 0);
  };
  nodeOfSegment_.assign(emitted_.segments.size(), -1);
  // Calls come segment by segment: the last node that touched a buffer is all there is to know.
  std::vector<std::int32_t> lastReader(emitted_.buffers.size(), -1);
  std::vector<std::int32_t> lastWriter(emitted_.buffers.size(), -1);
  for (const EmittedCall& e : emitted_.calls) {
    std::int32_t& index = nodeOfSegment_[static_cast<std::size_t>(e.segment)];
    if (index < 0) {
      index = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back(
          {.kind = TaskKind::Run,
           .subject = e.segment,
           .once = emitted_.segments[static_cast<std::size_t>(e.segment)].oncePerRound()});
    }
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto add = [&](std::int32_t b, bool write) {
      std::int32_t& last = (write ? lastWriter : lastReader)[static_cast<std::size_t>(b)];
      if (last != index) {
        last = index;
        (write ? node.writes : node.reads).push_back(b);
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
  for (std::size_t i = 0; i < emitted_.feeds.size(); ++i) {
    nodes_.push_back({.kind = TaskKind::Feed,
                      .subject = static_cast<std::int32_t>(i),
                      .writes = {emitted_.feeds[i].buffer.value}});
  }
  for (std::size_t i = 0; i < emitted_.transfers.size(); ++i) {
    const Transfer& transfer = emitted_.transfers[i];
    nodes_.push_back({.kind = TaskKind::Transfer,
                      .subject = static_cast<std::int32_t>(i),
                      .once = transfer.oncePerRound,
                      .fetches = emitted_.buffers[transfer.from.index()].isRemote(),
                      .flushes = emitted_.buffers[transfer.to.index()].isRemote(),
                      .reads = {transfer.from.value},
                      .writes = {transfer.to.value}});
  }
  for (std::size_t i = 0; i < emitted_.reductions.size(); ++i) {
    nodes_.push_back({.kind = TaskKind::Reduce,
                      .subject = static_cast<std::int32_t>(i),
                      .once = emitted_.reductions[i].oncePerRound,
                      .reads = {emitted_.reductions[i].from.value},
                      .writes = {emitted_.reductions[i].to.value}});
  }
  for (std::size_t i = 0; i < emitted_.drains.size(); ++i) {
    nodes_.push_back({.kind = TaskKind::Drain,
                      .subject = static_cast<std::int32_t>(i),
                      .reads = {emitted_.drains[i].buffer.value}});
  }
  for (Node& node : nodes_) {
    instances(node);
  }
}

void Round::addTouches() {
  touches_.resize(emitted_.buffers.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const auto node = static_cast<std::int32_t>(n);
    for (const std::int32_t b : nodes_[n].writes) {
      touches_[static_cast<std::size_t>(b)].writers.push_back(node);
    }
    for (const std::int32_t b : nodes_[n].reads) {
      touches_[static_cast<std::size_t>(b)].readers.push_back(node);
    }
  }
}

bool Round::isShared(std::size_t buffer) const {
  const Touch& touch = touches_[buffer];
  const std::vector<std::int32_t>& any = touch.writers.empty() ? touch.readers : touch.writers;
  const auto other = [&](std::int32_t node) { return node != any[0]; };
  return std::ranges::any_of(touch.writers, other) || std::ranges::any_of(touch.readers, other);
}

bool Round::isSerial(std::int32_t device) const {
  return serial_[static_cast<std::size_t>(device)];
}

Round::LoopNodes Round::loopNodes() const {
  LoopNodes nodes;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    if (!info.oncePerRound() && nodeOfSegment_[s] >= 0) {
      nodes[{info.kind, info.stage}].push_back(nodeOfSegment_[s]);
    }
  }
  return nodes;
}

void Round::setRunTimes(const schedule::PipelineSchedule& schedule) {
  const LoopNodes loop = loopNodes();
  std::vector<std::int32_t> inLoop;
  const parallel::SegmentInfo* last = nullptr;  // of the update
  std::int64_t turn = 0;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    const std::int32_t n = nodeOfSegment_[s];
    if (n < 0) {
      continue;
    }
    Node& node = nodes_[static_cast<std::size_t>(n)];
    if (info.inLoop) {
      inLoop.push_back(n);
    } else if (info.kind == SegmentKind::Pack) {
      node.start = {kBeforePack + 1};
      node.end = {kBeforePack + 2};
    } else if (info.kind == SegmentKind::Update) {
      // One behind the other, in the order of their parts and buckets.
      turn += last != nullptr && (last->part != info.part || last->bucket != info.bucket) ? 1 : 0;
      last = &info;
      node.start = {makespan_ + 2 * turn + 1};
      node.end = {node.start[0] + 1};
    }
  }
  for (const std::vector<schedule::Work>& device : schedule.devices) {
    for (const schedule::Work& work : device) {
      const auto found = loop.find({kindOf(work.kind), work.stage});
      if (found == loop.end()) {
        continue;
      }
      const auto parts = static_cast<std::int64_t>(found->second.size());
      const std::int64_t length = (work.end - work.start) * timeScale();
      for (std::int64_t p = 0; p < parts; ++p) {
        Node& node = nodes_[static_cast<std::size_t>(found->second[static_cast<std::size_t>(p)])];
        const std::int64_t start = work.start * timeScale();
        node.start[static_cast<std::size_t>(work.microBatch)] = start + length * p / parts;
        node.end[static_cast<std::size_t>(work.microBatch)] = start + length * (p + 1) / parts;
      }
    }
  }
  // Of a phase: when its loop begins, or has ended.
  for (const std::int32_t n : inLoop) {
    Node& node = nodes_[static_cast<std::size_t>(n)];
    const parallel::SegmentInfo& info = emitted_.segments[static_cast<std::size_t>(node.subject)];
    const bool forward = info.kind == SegmentKind::Pack && info.part == 0;
    const auto found =
        loop.find({forward ? SegmentKind::Forward : SegmentKind::Backward, info.stage});
    if (found == loop.end() || (info.kind == SegmentKind::Update && info.bucket < 0)) {
      node.start = {0};
    } else {
      const Node& begin = nodes_[static_cast<std::size_t>(found->second.front())];
      const Node& end = nodes_[static_cast<std::size_t>(found->second.back())];
      node.start = {info.kind == SegmentKind::Pack ? begin.start.front() - 1 : end.end.back() + 1};
    }
    node.end = node.start;
  }
}

std::int64_t Round::firstRead(const Node& feed, std::int32_t microBatch) const {
  std::int64_t time = makespan_;
  for (const std::int32_t r : touches_[static_cast<std::size_t>(feed.writes[0])].readers) {
    const Node& reader = nodes_[static_cast<std::size_t>(r)];
    if (reader.kind == TaskKind::Run) {
      time = std::min(time, reader.start[reader.at(microBatch)]);
    }
  }
  return time;
}

std::int64_t Round::firstUse(const Node& fetch, std::int32_t microBatch) const {
  std::int64_t time = std::numeric_limits<std::int64_t>::max();
  for (const std::int32_t n : kernelsOf(static_cast<std::size_t>(fetch.writes[0]))) {
    const Node& kernels = nodes_[static_cast<std::size_t>(n)];
    time =
        std::min(time, fetch.once ? kernels.start.front() : kernels.start[kernels.at(microBatch)]);
  }
  return time;
}

std::int64_t Round::lastWrite(const Node& copy, std::int32_t microBatch) const {
  const auto buffer = static_cast<std::size_t>(copy.reads[0]);
  if (copy.kind == TaskKind::Transfer && emitted_.uses[buffer] == BufferUse::State) {
    return kBeforePack;  // a variable as it is when the round begins
  }
  std::int64_t time = kBeforePack;
  const bool sumsOnce = copy.kind == TaskKind::Reduce && copy.once;
  if (sumsOnce && streams_ && !kernelsOf(static_cast<std::size_t>(copy.writes[0])).empty()) {
    // In the turn of the kernels that read it: what they need is there only then.
    time = std::max(time, firstUse(copy, microBatch));
  }
  for (const std::int32_t w : touches_[buffer].writers) {
    const Node& writer = nodes_[static_cast<std::size_t>(w)];
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
    for (Node& node : nodes_) {
      for (std::size_t i = 0; node.kind == kind && node.flushes == flushes && i < node.start.size();
           ++i) {
        const auto m = static_cast<std::int32_t>(i);
        node.start[i] = kind == TaskKind::Feed ? firstRead(node, m)
                        : node.fetches         ? firstUse(node, m)
                                               : lastWrite(node, m);
        node.end[i] = node.start[i];
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
  const auto [found, added] =
      laneIndex_.emplace(std::tuple(device, kind, peer), static_cast<std::int32_t>(lanes_.size()));
  if (added) {
    lanes_.push_back({.device = device, .kind = kind, .tasks = {}, .peer = peer});
    order_.emplace_back();
  }
  return found->second;
}

void Round::append(std::int32_t node, std::int32_t instance) {
  Node& n = nodes_[static_cast<std::size_t>(node)];
  std::vector<std::pair<std::int32_t, std::int32_t>>& lane =
      order_[static_cast<std::size_t>(n.lane)];
  n.task[static_cast<std::size_t>(instance)] = static_cast<std::int32_t>(lane.size());
  lane.emplace_back(node, instance);
}

std::int32_t Round::laneFor(const Node& node) {
  const auto subject = static_cast<std::size_t>(node.subject);
  const auto deviceOf = [&](BufferId id) { return emitted_.buffers[id.index()].device; };
  switch (node.kind) {
    case TaskKind::Run:
      return laneOf(emitted_.segments[subject].device, LaneKind::Compute);
    case TaskKind::Feed:
      return laneOf(deviceOf(emitted_.feeds[subject].buffer), LaneKind::Load);
    case TaskKind::Drain:
      return laneOf(deviceOf(emitted_.drains[subject].buffer), LaneKind::Store);
    case TaskKind::Reduce: {
      const std::int32_t device = deviceOf(emitted_.reductions[subject].to);
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
  const std::int32_t way = node.once ? 0 : 1;
  return node.fetches   ? laneOf(to, LaneKind::Fetch, way)
         : node.flushes ? laneOf(from, LaneKind::Flush, way)
                        : laneOf(to, LaneKind::Exchange, from);
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
  using Entry = std::tuple<std::int64_t, std::int32_t, std::int32_t>;
  std::vector<Entry> entries;  // start, instance, node
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    node.lane = laneFor(node);
    const bool byTime = node.kind != TaskKind::Run && !node.fetches && !node.flushes;
    for (std::size_t i = 0; byTime && i < node.start.size(); ++i) {
      entries.emplace_back(
          node.start[i], static_cast<std::int32_t>(i), static_cast<std::int32_t>(n));
    }
  }
  std::ranges::sort(entries);
  layKernels(schedule, static_cast<std::size_t>(devices));
  for (const auto& [start, instance, node] : entries) {
    append(node, instance);
  }
  layRemoteLanes();
  findGroups();
}

/// The kernels of a device: by its schedule, and what runs once per round before the first run of a
/// segment that comes behind it.
void Round::layKernels(const schedule::PipelineSchedule& schedule, std::size_t devices) {
  std::vector<std::vector<std::int32_t>> once(devices);
  const LoopNodes loop = loopNodes();
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    if (info.oncePerRound() && nodeOfSegment_[s] >= 0) {
      once[static_cast<std::size_t>(info.device)].push_back(nodeOfSegment_[s]);
    }
  }
  serial_.assign(devices, true);
  for (std::size_t d = 0; d < devices; ++d) {
    std::size_t nextOnce = 0;
    const auto appendOnceBefore = [&](std::int32_t segment) {
      while (nextOnce < once[d].size() &&
             nodes_[static_cast<std::size_t>(once[d][nextOnce])].subject < segment) {
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
      for (const std::int32_t n : found->second) {
        const std::int32_t segment = nodes_[static_cast<std::size_t>(n)].subject;
        appendOnceBefore(segment);
        append(n, work.microBatch);
        const std::pair<std::int32_t, std::int32_t> now{work.microBatch, segment};
        serial_[d] = serial_[d] && last < now;
        last = now;
      }
    }
    appendOnceBefore(static_cast<std::int32_t>(emitted_.segments.size()));
  }
}

}  // namespace sluice::program
