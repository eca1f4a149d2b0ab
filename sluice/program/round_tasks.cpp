// The second half of Round: the depths of rings, the waits of tasks, and the tasks themselves.
#include <algorithm>
#include <tuple>

#include "sluice/program/round.h"

namespace sluice::program {

std::int32_t Round::depthOf(std::size_t buffer) const {
  const Touch& touch = touches_[buffer];
  if (emitted_.buffers[buffer].region == Region::State || touch.writers.size() != 1 ||
      emitted_.uses[buffer] == BufferUse::Window) {
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
  const bool sums = reader.kind == TaskKind::Reduce;
  if (node.once) {
    waits.push_back({reader.lane, reader.task.back(), 1, sums});
    return;
  }
  const std::int32_t count = options_.microBatches;
  const std::int32_t roundsBack =
      microBatch >= slots ? 0 : (slots - microBatch + count - 1) / count;
  const std::int32_t earlier = microBatch - slots + roundsBack * count;
  waits.push_back({reader.lane, reader.task[reader.at(earlier)], roundsBack, sums});
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
    if (isStreamed(buffer)) {
      continue;
    }
    const bool state = emitted_.buffers[buffer].region == Region::State;
    for (const std::int32_t w : touches_[buffer].writers) {
      const Node& writer = nodes_[static_cast<std::size_t>(w)];
      if (state && node.kind == TaskKind::Transfer) {
        waits.push_back({writer.lane, writer.task.back(), 1});
      } else if (node.kind == TaskKind::Reduce) {
        const std::int32_t made = node.once ? writer.task.back() : writer.task[writer.at(m)];
        waits.push_back({writer.lane, made, 0, true});
      } else if (!state && &writer != &node) {
        waits.push_back({writer.lane, writer.task[writer.at(m)], 0});
      }
    }
  }
  for (const std::int32_t b : node.writes) {
    const auto buffer = static_cast<std::size_t>(b);
    if (isStreamed(buffer)) {
      continue;
    }
    const bool state = emitted_.buffers[buffer].region == Region::State;
    for (const std::int32_t r : touches_[buffer].readers) {
      const Node& reader = nodes_[static_cast<std::size_t>(r)];
      if (state && reader.kind == TaskKind::Transfer) {
        waits.push_back({reader.lane, reader.task[0], 0});
      } else if (state && reader.kind == TaskKind::Reduce) {
        waits.push_back({reader.lane, reader.task[0], 1, true});
      } else if (!state && &reader != &node) {
        waitForSlot(node, reader, emitted_.buffers[buffer].slots, m, waits);
      }
    }
  }
  addStreamWaits(node, m, waits);
  if (options_.sequential && node.kind == TaskKind::Run && !node.once) {
    waitForMicroBatchBefore(node, m, waits);
  }
}

namespace {

/// Of each lane only the latest wait counts, and a lane need not wait for itself, unless it waits
/// for all replicas.
void reduceWaits(std::int32_t lane, std::vector<Wait>& waits) {
  std::ranges::sort(waits, {}, [](const Wait& w) {
    return std::tuple(w.lane, w.allReplicas, w.roundsBack, -w.task);
  });
  std::vector<Wait> kept;
  for (const Wait& wait : waits) {
    const bool covered = !kept.empty() && kept.back().lane == wait.lane &&
                         kept.back().allReplicas == wait.allReplicas;
    if ((wait.lane != lane || wait.allReplicas) && !covered) {
      kept.push_back(wait);
    }
  }
  waits = std::move(kept);
}

}  // namespace

/// Of each node the rings that it touches: those that it reads, then those that it only writes.
std::vector<std::vector<BufferId>> Round::ringsOfNodes() const {
  std::vector<std::vector<BufferId>> rings(nodes_.size());
  std::vector<std::size_t> seenBy(emitted_.buffers.size(), nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const std::vector<std::int32_t>* list : {&nodes_[n].reads, &nodes_[n].writes}) {
      for (const std::int32_t b : *list) {
        const auto buffer = static_cast<std::size_t>(b);
        if (emitted_.buffers[buffer].slots > 1 && seenBy[buffer] != n) {
          seenBy[buffer] = n;
          rings[n].push_back(BufferId(b));
        }
      }
    }
  }
  return rings;
}

void Round::write(Program& program) const {
  program.lanes = lanes_;
  const std::vector<std::vector<MemoryRule>> rules = memoryRules();
  const std::vector<std::vector<BufferId>> rings = ringsOfNodes();
  std::vector<Wait> waits;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    for (const auto& [n, instance] : order_[l]) {
      const Node& node = nodes_[static_cast<std::size_t>(n)];
      // Pack counts as the first micro-batch, everything of the update as the last.
      const bool last = node.once && node.start[0] >= 0;
      const std::int32_t m = last ? options_.microBatches - 1 : instance;
      waits.clear();
      addWaits(node, m, waits);
      if (!rules.empty()) {
        addMemoryWaits(node, rules[static_cast<std::size_t>(n)], instance, waits);
      }
      reduceWaits(node.lane, waits);
      const std::vector<BufferId>& touched = rings[static_cast<std::size_t>(n)];
      program.lanes[l].tasks.push_back(
          {.kind = node.kind,
           .subject = node.subject,
           .microBatch = m,
           .plannedStart = node.start[static_cast<std::size_t>(instance)],
           .firstWait = static_cast<std::int32_t>(program.waits.size()),
           .numWaits = static_cast<std::int32_t>(waits.size()),
           .firstSlot = static_cast<std::int32_t>(program.slots.size()),
           .numSlots = static_cast<std::int32_t>(touched.size())});
      program.waits.insert(program.waits.end(), waits.begin(), waits.end());
      for (const BufferId ring : touched) {
        program.slots.push_back({ring, m % emitted_.buffers[ring.index()].slots});
      }
    }
  }
}

}  // namespace sluice::program
