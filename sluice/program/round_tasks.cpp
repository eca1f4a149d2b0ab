// The second half of Round: the depths of rings, the waits of tasks, and the tasks themselves.
#include <algorithm>
#include <tuple>

#include "sluice/program/round.h"

namespace sluice::program {

std::int32_t Round::depthOf(BufferId buffer) const {
  const Touch& touch = touches_[buffer];
  if (bufferOf(buffer).region == Region::State || touch.writers.size() != 1 ||
      useOf(buffer) == BufferUse::Window) {
    return 1;
  }
  const Action& writer = actions_[touch.writers[0]];
  if (writer.once || !isShared(buffer)) {
    return 1;
  }
  std::vector<std::int64_t> release = writer.end;
  bool crossesLanes = false;
  for (const ActionId r : touch.readers) {
    const Action& reader = actions_[r];
    crossesLanes = crossesLanes || reader.lane != writer.lane;
    for (std::int32_t m = 0; m < writer.instances(); ++m) {
      std::int64_t& released = release[writer.at(m)];
      released = std::max(released, reader.end[reader.at(m)]);
    }
  }
  std::size_t depth = 1;
  for (std::size_t m = 0; m < release.size(); ++m) {
    while (m >= depth && release[m - depth] > writer.start[m]) {
      ++depth;
    }
  }
  const bool ahead = crossesLanes && !emitted_.withoutLookahead.contains(buffer);
  return static_cast<std::int32_t>(depth) + (ahead ? options_.lookahead : 0);
}

std::vector<std::int32_t> Round::ringDepths() const {
  std::vector<std::int32_t> depths;
  for (const BufferId b : touches_.ids()) {
    depths.push_back(depthOf(b));
  }
  return depths;
}

void Round::waitForSlot(const Action& action,
                        const Action& reader,
                        std::int32_t slots,
                        std::int32_t microBatch,
                        Table<Wait>& waits) const {
  const bool sums = reader.kind == TaskKind::Reduce;
  if (action.once) {
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
  firstRun_.assign(static_cast<std::size_t>(options_.microBatches), ActionId());
  lastRun_ = firstRun_;
  for (const ActionId n : actions_.ids()) {
    const Action& action = actions_[n];
    if (action.kind != TaskKind::Run || action.once) {
      continue;
    }
    for (std::size_t m = 0; m < action.start.size(); ++m) {
      ActionId& first = firstRun_[m];
      ActionId& last = lastRun_[m];
      if (!first.valid() || action.start[m] < actions_[first].start[m]) {
        first = n;
      }
      if (!last.valid() || action.end[m] > actions_[last].end[m]) {
        last = n;
      }
    }
  }
}

void Round::waitForMicroBatchBefore(const Action& action,
                                    std::int32_t microBatch,
                                    Table<Wait>& waits) const {
  const auto m = static_cast<std::size_t>(microBatch);
  const Action& first = actions_[firstRun_[m]];
  if (first.start[m] < action.start[m]) {
    return;  // not the first of its micro-batch
  }
  const auto before = m == 0 ? static_cast<std::size_t>(options_.microBatches) - 1 : m - 1;
  const Action& last = actions_[lastRun_[before]];
  waits.push_back({last.lane, last.task[before], m == 0 ? 1 : 0});
}

void Round::addWaits(const Action& action, std::int32_t m, Table<Wait>& waits) const {
  for (const BufferId b : action.reads) {
    if (isStreamed(b)) {
      continue;
    }
    const bool state = bufferOf(b).region == Region::State;
    for (const ActionId w : touches_[b].writers) {
      const Action& writer = actions_[w];
      if (state && action.kind == TaskKind::Transfer) {
        waits.push_back({writer.lane, writer.task.back(), 1});
      } else if (action.kind == TaskKind::Reduce) {
        const std::int32_t made = action.once ? writer.task.back() : writer.task[writer.at(m)];
        waits.push_back({writer.lane, made, 0, true});
      } else if (!state && &writer != &action) {
        waits.push_back({writer.lane, writer.task[writer.at(m)], 0});
      }
    }
  }
  for (const BufferId b : action.writes) {
    if (isStreamed(b)) {
      continue;
    }
    const bool state = bufferOf(b).region == Region::State;
    for (const ActionId r : touches_[b].readers) {
      const Action& reader = actions_[r];
      if (state && reader.kind == TaskKind::Transfer) {
        waits.push_back({reader.lane, reader.task[0], 0});
      } else if (state && reader.kind == TaskKind::Reduce) {
        waits.push_back({reader.lane, reader.task[0], 1, true});
      } else if (!state && &reader != &action) {
        waitForSlot(action, reader, bufferOf(b).slots, m, waits);
      }
    }
  }
  addStreamWaits(action, m, waits);
  if (options_.sequential && action.kind == TaskKind::Run && !action.once) {
    waitForMicroBatchBefore(action, m, waits);
  }
}

namespace {

/// Of each lane only the latest wait counts, and a lane need not wait for itself, unless it waits
/// for all replicas.
void reduceWaits(std::int32_t lane, Table<Wait>& waits) {
  std::ranges::sort(waits, {}, [](const Wait& w) {
    return std::tuple(w.lane, w.allReplicas, w.roundsBack, -w.task);
  });
  Table<Wait> kept;
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

/// Of each action the rings that it touches: those that it reads, then those that it only writes.
ById<ActionId, Table<BufferId>> Round::ringsOfActions() const {
  ById<ActionId, Table<BufferId>> rings(actions_.size());
  ById<BufferId, ActionId> seenBy(emitted_.buffers.size());
  for (const ActionId n : actions_.ids()) {
    for (const std::vector<BufferId>* list : {&actions_[n].reads, &actions_[n].writes}) {
      for (const BufferId b : *list) {
        if (bufferOf(b).slots > 1 && seenBy[b] != n) {
          seenBy[b] = n;
          rings[n].push_back(b);
        }
      }
    }
  }
  return rings;
}

void Round::write(Program& program) const {
  program.lanes = lanes_;
  const ById<ActionId, std::vector<MemoryRule>> rules = memoryRules();
  const ById<ActionId, Table<BufferId>> rings = ringsOfActions();
  Table<Wait> waits;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    for (const auto& [n, instance] : order_[l]) {
      const Action& action = actions_[n];
      // Pack counts as the first micro-batch, everything of the update as the last.
      const bool last = action.once && action.start[0] >= 0;
      const std::int32_t m = last ? options_.microBatches - 1 : instance;
      waits.clear();
      addWaits(action, m, waits);
      addMemoryWaits(action, rules[n], instance, waits);
      reduceWaits(action.lane, waits);
      const Table<BufferId>& touched = rings[n];
      program.lanes[l].tasks.push_back({.kind = action.kind,
                                        .subject = action.subject,
                                        .microBatch = m,
                                        .plannedStart = action.start[action.at(instance)],
                                        .firstWait = program.waits.count(),
                                        .numWaits = waits.count(),
                                        .firstSlot = program.slots.count(),
                                        .numSlots = touched.count()});
      program.waits.insert(program.waits.end(), waits.begin(), waits.end());
      for (const BufferId ring : touched) {
        program.slots.push_back({ring, m % bufferOf(ring).slots});
      }
    }
  }
}

}  // namespace sluice::program
