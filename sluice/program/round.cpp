#include "sluice/program/round.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sluice/base/error.h"

namespace sluice::program {
namespace {

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
  addNodes();
  addTouches();
  setTimes(schedule);
  layLanes(schedule);
  findEnds();
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
                      .reads = {transfer.from.value},
                      .writes = {transfer.to.value}});
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

bool Round::isComputeOnly(std::size_t buffer) const {
  const auto runs = [&](std::int32_t n) {
    return nodes_[static_cast<std::size_t>(n)].kind == TaskKind::Run;
  };
  return std::ranges::all_of(touches_[buffer].writers, runs) &&
         std::ranges::all_of(touches_[buffer].readers, runs);
}

bool Round::isSerial(std::int32_t device) const {
  return serial_[static_cast<std::size_t>(device)];
}

void Round::setRunTimes(const schedule::PipelineSchedule& schedule) {
  std::map<std::pair<SegmentKind, std::int32_t>, std::int32_t> loop;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    const parallel::SegmentInfo& info = emitted_.segments[s];
    const std::int32_t n = nodeOfSegment_[s];
    if (n < 0) {
      continue;
    }
    Node& node = nodes_[static_cast<std::size_t>(n)];
    if (info.kind == SegmentKind::Pack) {
      node.start = {-2};
      node.end = {-1};
    } else if (info.kind == SegmentKind::Update) {
      node.start = {makespan_ + 2 * info.part + 1};
      node.end = {makespan_ + 2 * info.part + 2};
    } else {
      loop.emplace(std::pair(info.kind, info.stage), n);
    }
  }
  for (const std::vector<schedule::Work>& device : schedule.devices) {
    for (const schedule::Work& work : device) {
      const auto found = loop.find({kindOf(work.kind), work.stage});
      if (found != loop.end()) {
        Node& node = nodes_[static_cast<std::size_t>(found->second)];
        node.start[static_cast<std::size_t>(work.microBatch)] = work.start;
        node.end[static_cast<std::size_t>(work.microBatch)] = work.end;
      }
    }
  }
}

void Round::setTimes(const schedule::PipelineSchedule& schedule) {
  setRunTimes(schedule);
  // Feeds come just before their first reader, transfers and drains right behind their writer.
  for (const TaskKind kind : {TaskKind::Feed, TaskKind::Transfer, TaskKind::Drain}) {
    for (Node& node : nodes_) {
      if (node.kind != kind) {
        continue;
      }
      const bool feed = kind == TaskKind::Feed;
      const auto buffer = static_cast<std::size_t>(feed ? node.writes[0] : node.reads[0]);
      const bool mirror = kind == TaskKind::Transfer && emitted_.uses[buffer] == BufferUse::State;
      for (std::size_t i = 0; i < node.start.size(); ++i) {
        const auto m = static_cast<std::int32_t>(i);
        std::int64_t time = mirror ? -3 : makespan_;
        if (feed) {
          for (const std::int32_t r : touches_[buffer].readers) {
            const Node& reader = nodes_[static_cast<std::size_t>(r)];
            if (reader.kind == TaskKind::Run) {
              time = std::min(time, reader.start[reader.at(m)]);
            }
          }
        } else if (!mirror) {
          const Node& writer = nodes_[static_cast<std::size_t>(touches_[buffer].writers.at(0))];
          time = writer.end[writer.at(m)];
        }
        node.start[i] = node.end[i] = time;
      }
    }
  }
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
  using Entry = std::tuple<std::int64_t, std::int32_t, std::int32_t, std::int32_t>;
  std::vector<Entry> entries;  // start, rank of equal starts, node, instance
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    const auto subject = static_cast<std::size_t>(node.subject);
    switch (node.kind) {
      case TaskKind::Run:
        node.lane = laneOf(emitted_.segments[subject].device, LaneKind::Compute);
        break;
      case TaskKind::Feed:
        node.lane =
            laneOf(emitted_.buffers[emitted_.feeds[subject].buffer.index()].device, LaneKind::Load);
        break;
      case TaskKind::Drain:
        node.lane = laneOf(emitted_.buffers[emitted_.drains[subject].buffer.index()].device,
                           LaneKind::Store);
        break;
      case TaskKind::Transfer:
        node.lane = laneOf(emitted_.buffers[emitted_.transfers[subject].to.index()].device,
                           LaneKind::Exchange,
                           emitted_.buffers[emitted_.transfers[subject].from.index()].device);
        break;
    }
    if (node.kind == TaskKind::Run && !node.once) {
      continue;
    }
    for (std::size_t i = 0; i < node.start.size(); ++i) {
      const auto instance = static_cast<std::int32_t>(i);
      entries.emplace_back(node.start[i], instance, static_cast<std::int32_t>(n), instance);
    }
  }
  std::ranges::sort(entries);
  const auto appendAll = [&](auto wanted) {
    for (const auto& [start, rank, node, instance] : entries) {
      if (wanted(nodes_[static_cast<std::size_t>(node)], start)) {
        append(node, instance);
      }
    }
  };
  appendAll(
      [](const Node& node, std::int64_t start) { return node.kind == TaskKind::Run && start < 0; });
  serial_.assign(static_cast<std::size_t>(devices), true);
  std::map<std::pair<SegmentKind, std::int32_t>, std::int32_t> loop;
  for (std::size_t s = 0; s < emitted_.segments.size(); ++s) {
    loop.emplace(std::pair(emitted_.segments[s].kind, emitted_.segments[s].stage),
                 nodeOfSegment_[s]);
  }
  for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
    std::pair<std::int32_t, std::int32_t> last{-1, -1};
    for (const schedule::Work& work : schedule.devices[d]) {
      const auto found = loop.find({kindOf(work.kind), work.stage});
      if (found == loop.end() || found->second < 0) {
        continue;
      }
      append(found->second, work.microBatch);
      const std::pair<std::int32_t, std::int32_t> now{
          work.microBatch, nodes_[static_cast<std::size_t>(found->second)].subject};
      serial_[d] = serial_[d] && last < now;
      last = now;
    }
  }
  appendAll([](const Node& node, std::int64_t start) {
    return node.kind != TaskKind::Run || start >= 0;
  });
}

std::int32_t Round::depthOf(std::size_t buffer) const {
  const Touch& touch = touches_[buffer];
  if (emitted_.buffers[buffer].region == Region::State || touch.writers.size() != 1) {
    return 1;
  }
  const Node& writer = nodes_[static_cast<std::size_t>(touch.writers[0])];
  if (writer.once || !isShared(buffer)) {
    return 1;
  }
  std::vector<std::int64_t> release = writer.end;
  bool crossesLanes = false;
  for (const std::int32_t r : touch.readers) {
    const Node& reader = nodes_[static_cast<std::size_t>(r)];
    crossesLanes = crossesLanes || reader.lane != writer.lane;
    for (std::size_t m = 0; m < release.size(); ++m) {
      release[m] = std::max(release[m], reader.end[reader.at(static_cast<std::int32_t>(m))]);
    }
  }
  std::size_t depth = 1;
  for (std::size_t m = 0; m < release.size(); ++m) {
    while (m >= depth && release[m - depth] > writer.start[m]) {
      ++depth;
    }
  }
  return static_cast<std::int32_t>(depth) + (crossesLanes ? options_.lookahead : 0);
}

std::vector<std::int32_t> Round::ringDepths() const {
  std::vector<std::int32_t> depths;
  for (std::size_t b = 0; b < emitted_.buffers.size(); ++b) {
    depths.push_back(depthOf(b));
  }
  return depths;
}

void Round::waitForSlot(const Node& node,
                        const Node& reader,
                        std::int32_t slots,
                        std::int32_t microBatch,
                        std::vector<Wait>& waits) const {
  if (node.once) {
    waits.push_back({reader.lane, reader.task.back(), 1});
    return;
  }
  const std::int32_t count = options_.microBatches;
  const std::int32_t roundsBack =
      microBatch >= slots ? 0 : (slots - microBatch + count - 1) / count;
  const std::int32_t earlier = microBatch - slots + roundsBack * count;
  waits.push_back({reader.lane, reader.task[reader.at(earlier)], roundsBack});
}

void Round::findEnds() {
  firstRun_.assign(static_cast<std::size_t>(options_.microBatches), -1);
  lastRun_ = firstRun_;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.kind != TaskKind::Run || node.once) {
      continue;
    }
    for (std::size_t m = 0; m < node.start.size(); ++m) {
      std::int32_t& first = firstRun_[m];
      std::int32_t& last = lastRun_[m];
      if (first < 0 || node.start[m] < nodes_[static_cast<std::size_t>(first)].start[m]) {
        first = static_cast<std::int32_t>(n);
      }
      if (last < 0 || node.end[m] > nodes_[static_cast<std::size_t>(last)].end[m]) {
        last = static_cast<std::int32_t>(n);
      }
    }
  }
}

void Round::waitForMicroBatchBefore(const Node& node,
                                    std::int32_t microBatch,
                                    std::vector<Wait>& waits) const {
  const auto m = static_cast<std::size_t>(microBatch);
  const Node& first = nodes_[static_cast<std::size_t>(firstRun_[m])];
  if (first.start[m] < node.start[m]) {
    return;  // not the first of its micro-batch
  }
  const auto before = m == 0 ? static_cast<std::size_t>(options_.microBatches) - 1 : m - 1;
  const Node& last = nodes_[static_cast<std::size_t>(lastRun_[before])];
  waits.push_back({last.lane, last.task[before], m == 0 ? 1 : 0});
}

void Round::addWaits(const Node& node, std::int32_t m, std::vector<Wait>& waits) const {
  for (const std::int32_t b : node.reads) {
    const auto buffer = static_cast<std::size_t>(b);
    const bool state = emitted_.buffers[buffer].region == Region::State;
    for (const std::int32_t w : touches_[buffer].writers) {
      const Node& writer = nodes_[static_cast<std::size_t>(w)];
      if (state && node.kind == TaskKind::Transfer) {
        waits.push_back({writer.lane, writer.task.back(), 1});
      } else if (!state && &writer != &node) {
        waits.push_back({writer.lane, writer.task[writer.at(m)], 0});
      }
    }
  }
  for (const std::int32_t b : node.writes) {
    const auto buffer = static_cast<std::size_t>(b);
    const bool state = emitted_.buffers[buffer].region == Region::State;
    for (const std::int32_t r : touches_[buffer].readers) {
      const Node& reader = nodes_[static_cast<std::size_t>(r)];
      if (state && reader.kind == TaskKind::Transfer) {
        waits.push_back({reader.lane, reader.task[0], 0});
      } else if (!state && &reader != &node) {
        waitForSlot(node, reader, emitted_.buffers[buffer].slots, m, waits);
      }
    }
  }
  if (options_.sequential && node.kind == TaskKind::Run && !node.once) {
    waitForMicroBatchBefore(node, m, waits);
  }
}

namespace {

/// Of each lane only the latest wait counts, and a lane need not wait for itself.
void reduceWaits(std::int32_t lane, std::vector<Wait>& waits) {
  std::ranges::sort(
      waits, {}, [](const Wait& w) { return std::tuple(w.lane, w.roundsBack, -w.task); });
  std::vector<Wait> kept;
  for (const Wait& wait : waits) {
    if (wait.lane != lane && (kept.empty() || kept.back().lane != wait.lane)) {
      kept.push_back(wait);
    }
  }
  waits = std::move(kept);
}

}  // namespace

void Round::write(Program& program) const {
  program.lanes = lanes_;
  std::vector<Wait> waits;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    for (const auto& [n, instance] : order_[l]) {
      const Node& node = nodes_[static_cast<std::size_t>(n)];
      // Pack counts as the first micro-batch, everything of the update as the last.
      const bool last = node.once && node.start[0] >= 0;
      const std::int32_t m = last ? options_.microBatches - 1 : instance;
      Task task{.kind = node.kind,
                .subject = node.subject,
                .microBatch = m,
                .plannedStart = node.start[static_cast<std::size_t>(instance)]};
      waits.clear();
      addWaits(node, m, waits);
      reduceWaits(node.lane, waits);
      task.firstWait = static_cast<std::int32_t>(program.waits.size());
      task.numWaits = static_cast<std::int32_t>(waits.size());
      program.waits.insert(program.waits.end(), waits.begin(), waits.end());
      task.firstSlot = static_cast<std::int32_t>(program.slots.size());
      for (const std::vector<std::int32_t>* list : {&node.reads, &node.writes}) {
        for (const std::int32_t b : *list) {
          const std::int32_t slots = program.buffers[static_cast<std::size_t>(b)].slots;
          const bool named =
              list == &node.writes && std::ranges::find(node.reads, b) != node.reads.end();
          if (slots > 1 && !named) {
            program.slots.push_back({BufferId(b), m % slots});
          }
        }
      }
      task.numSlots = static_cast<std::int32_t>(program.slots.size()) - task.firstSlot;
      program.lanes[l].tasks.push_back(task);
    }
  }
}

}  // namespace sluice::program
