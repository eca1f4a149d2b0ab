// The part of Round for programs that stream. Windows on remote variables have several writers (a
// fetch and kernels), all windows on a remote variable share it, and buffers of a device share
// memory over the course of a round although several lanes touch them. This file finds the waits
// that keep these accesses apart.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "sluice/program/round.h"

namespace sluice::program {
namespace {

/// Whether bytes of any slot of one are bytes of a slot of the other.
bool shareMemory(const Buffer& a, const Buffer& b) {
  return a.device == b.device && a.region == b.region && a.offset < b.offset + b.totalBytes() &&
         b.offset < a.offset + a.totalBytes();
}

}  // namespace

bool Round::isStreamed(BufferId buffer) const {
  return useOf(buffer) == BufferUse::Window ||
         (useOf(buffer) == BufferUse::Remote && bufferOf(buffer).region == Region::State);
}

void Round::findGroups() {
  struct Span {
    std::int32_t segment = 0;
    std::size_t first = 0;
    std::size_t last = 0;
  };
  group_.assign(emitted_.segments.size(), -1);
  grouped_.assign(serial_.size(), true);
  std::int32_t groups = 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    if (lanes_[l].kind != LaneKind::Compute) {
      continue;
    }
    std::vector<Span> spans;  // in the order of their first run
    std::map<std::int32_t, std::size_t> known;
    for (std::size_t i = 0; i < order_[l].size(); ++i) {
      const std::int32_t segment = actions_[order_[l][i].action].subject;
      const auto [at, isNew] = known.emplace(segment, spans.size());
      if (isNew) {
        spans.push_back({segment, i, i});
      }
      spans[at->second].last = i;
    }
    bool ordered = true;
    std::size_t reach = 0;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      if (s == 0 || spans[s].first > reach) {
        ++groups;
      }
      ordered = ordered && (s == 0 || spans[s - 1].segment < spans[s].segment);
      reach = std::max(reach, spans[s].last);
      group_[spans[s].segment] = groups;
    }
    // Inside a group, one micro-batch behind the other.
    std::int32_t group = -1;
    std::pair<std::int32_t, std::int32_t> last;
    for (const auto& [n, instance] : order_[l]) {
      const std::int32_t segment = actions_[n].subject;
      const std::pair<std::int32_t, std::int32_t> now{instance, segment};
      const std::int32_t own = group_[segment];
      ordered = ordered && (own != group || last < now);
      group = own;
      last = now;
    }
    grouped_[lanes_[l].device] = ordered;
  }
}

/// Where in its device's lane of kernels a fetch or flush belongs: at the first one that uses what
/// it brings, or at the last one that writes what it saves.
std::int32_t Round::placeAmongKernels(const Action& action, std::int32_t microBatch) const {
  const BufferId buffer = action.fetches ? action.writes[0] : action.reads[0];
  const std::vector<ActionId>& writers = touches_[buffer].writers;
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  std::int32_t lastWrite = -1;
  for (const ActionId n : kernelsOf(buffer)) {
    const Action& kernels = actions_[n];
    const std::size_t at = kernels.at(microBatch);
    first = std::min(first, action.once ? kernels.task.front() : kernels.task[at]);
    if (std::ranges::find(writers, n) != writers.end()) {
      lastWrite = std::max(lastWrite, action.once ? kernels.task.back() : kernels.task[at]);
    }
  }
  return action.flushes && lastWrite >= 0 ? lastWrite : first;
}

/// Planned times do not tell apart what runs once in between; the order of the kernels does.
void Round::layRemoteLanes() {
  std::vector<std::tuple<std::int32_t, std::int32_t, ActionId>> entries;  // place, micro-batch
  for (const ActionId n : actions_.ids()) {
    const Action& action = actions_[n];
    for (std::int32_t i = 0; (action.fetches || action.flushes) && i < action.instances(); ++i) {
      entries.emplace_back(placeAmongKernels(action, i), i, n);
    }
  }
  std::ranges::sort(entries);
  for (const auto& [place, instance, action] : entries) {
    append(action, instance);
  }
}

bool Round::isOwnKernel(BufferId buffer, ActionId action) const {
  const Action& n = actions_[action];
  return n.kind == TaskKind::Run && segmentOf(n).device == bufferOf(buffer).device;
}

/// The kernels of its device that use the buffer, and those that it depends on over a sum over
/// replicas: of the update, who reads the sum, for the operand is needed until then; of the loop,
/// who makes the operand, for the result has its place from then on.
std::vector<ActionId> Round::kernelsOf(BufferId buffer) const {
  std::vector<ActionId> kernels;
  const auto addOwn = [&](BufferId of, const std::vector<ActionId> Touch::*list) {
    std::ranges::copy_if(touches_[of].*list, std::back_inserter(kernels), [&](ActionId n) {
      return isOwnKernel(of, n);
    });
  };
  addOwn(buffer, &Touch::readers);
  addOwn(buffer, &Touch::writers);
  for (const ActionId r : touches_[buffer].readers) {
    const Action& action = actions_[r];
    if (action.kind == TaskKind::Reduce && action.once) {
      addOwn(action.writes[0], &Touch::readers);
    }
  }
  for (const ActionId w : touches_[buffer].writers) {
    const Action& action = actions_[w];
    if (action.kind == TaskKind::Reduce && !action.once) {
      addOwn(action.reads[0], &Touch::writers);
    }
  }
  return kernels;
}

bool Round::isWrittenElsewhere(BufferId buffer) const {
  return std::ranges::any_of(touches_[buffer].writers,
                             [&](ActionId action) { return !isOwnKernel(buffer, action); });
}

bool Round::isReadElsewhere(BufferId buffer) const {
  return std::ranges::any_of(touches_[buffer].readers,
                             [&](ActionId action) { return !isOwnKernel(buffer, action); });
}

bool Round::isSummedBehindLoop(BufferId buffer) const {
  return !phases_ && std::ranges::any_of(touches_[buffer].readers, [&](ActionId n) {
    const Action& action = actions_[n];
    return action.kind == TaskKind::Reduce && action.once;
  });
}

std::pair<std::int32_t, std::int32_t> Round::segmentsOf(BufferId buffer) const {
  std::pair<std::int32_t, std::int32_t> found{-1, -1};
  for (const ActionId n : kernelsOf(buffer)) {
    const std::int32_t segment = actions_[n].subject;
    found.first = found.first < 0 ? segment : std::min(found.first, segment);
    found.second = std::max(found.second, segment);
  }
  return found;
}

std::int32_t Round::segmentAtArrival(BufferId buffer) const {
  std::optional<std::int64_t> arrival;
  for (const ActionId w : touches_[buffer].writers) {
    const Action& writer = actions_[w];
    if (!isOwnKernel(buffer, w) && !writer.fetches) {
      arrival = std::min(arrival.value_or(writer.start.front()), writer.start.front());
    }
  }
  const std::int32_t group = groupOf(segmentsOf(buffer).first);
  for (std::size_t s = 0; arrival && s < actionOfSegment_.size(); ++s) {
    const ActionId n = actionOfSegment_[s];
    if (!n.valid() || emitted_.segments[s].device != bufferOf(buffer).device) {
      continue;
    }
    // Of segments that take turns with its reader the first turn counts.
    const Action& kernels = actions_[n];
    const bool turns = groupOf(static_cast<std::int32_t>(s)) == group;
    if ((turns ? kernels.end.front() : kernels.end.back()) > *arrival) {
      return static_cast<std::int32_t>(s);
    }
  }
  return -1;
}

bool Round::spansTurns(BufferId buffer) const {
  const auto [first, last] = segmentsOf(buffer);
  bool once = false;
  bool perMicroBatch = false;
  const Touch& touch = touches_[buffer];
  for (const std::vector<ActionId>* list : {&touch.readers, &touch.writers}) {
    for (const ActionId n : *list) {
      (actions_[n].once ? once : perMicroBatch) = true;
    }
  }
  return (once && perMicroBatch) || groupOf(first) != groupOf(last) || bufferOf(buffer).slots > 1;
}

/// The task of `other` that belongs to the same turn as this one of `action`.
Wait Round::sameTurn(const Action& action, const Action& other, std::int32_t m) const {
  const std::int32_t task = other.once    ? other.task[0]
                            : action.once ? other.task.back()
                                          : other.task[other.at(m)];
  return {other.lane, task, 0, other.kind == TaskKind::Reduce};
}

/// That of the turn before: the micro-batch before, or the round before.
Wait Round::turnBefore(const Action& action, const Action& other, std::int32_t m) const {
  const bool sums = other.kind == TaskKind::Reduce;
  if (action.once || other.once || m == 0) {
    return {other.lane, other.task.back(), 1, sums};
  }
  return {other.lane, other.task[other.at(m - 1)], 0, sums};
}

void Round::addStreamWaits(const Action& action, std::int32_t m, Table<Wait>& waits) const {
  std::vector<BufferId> touched = action.reads;
  touched.insert(touched.end(), action.writes.begin(), action.writes.end());
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const BufferId buffer : touched) {
    if (useOf(buffer) == BufferUse::Window) {
      addWindowWaits(action, buffer, m, waits);
    } else if (isStreamed(buffer)) {
      addRemoteWaits(action, buffer, m, waits);
    }
  }
}

/// A turn of a window: it is fetched, kernels use it, it is flushed or summed once it is written.
void Round::addWindowWaits(const Action& action,
                           BufferId window,
                           std::int32_t m,
                           Table<Wait>& waits) const {
  const Touch& touch = touches_[window];
  for (const std::vector<ActionId>* list : {&touch.readers, &touch.writers}) {
    for (const ActionId t : *list) {
      const Action& other = actions_[t];
      if (&other == &action) {
        continue;
      }
      if (action.fetches) {
        waits.push_back(turnBefore(action, other, m));
      } else if (action.kind == TaskKind::Run) {
        if (other.kind != TaskKind::Run) {
          waits.push_back(other.fetches ? sameTurn(action, other, m)
                                        : turnBefore(action, other, m));
        }
      } else if (list == &touch.writers) {
        // Kernels that only read do so beside it.
        Wait wait = sameTurn(action, other, m);
        wait.allReplicas = action.kind == TaskKind::Reduce;
        waits.push_back(wait);
      }
    }
  }
}

/// Loop windows come micro-batch by micro-batch, those of the update behind them; all others in the
/// order in which their transfers were made.
void Round::orderRemoteVariables() {
  remoteOrder_.assign(emitted_.buffers.size(), {});
  for (const BufferId b : touches_.ids()) {
    if (!isStreamed(b) || useOf(b) != BufferUse::Remote) {
      continue;
    }
    std::vector<std::tuple<bool, std::int32_t, ActionId>> entries;  // once, instance, action
    for (const std::vector<ActionId>* list : {&touches_[b].readers, &touches_[b].writers}) {
      for (const ActionId n : *list) {
        for (std::int32_t i = 0; i < actions_[n].instances(); ++i) {
          entries.emplace_back(actions_[n].once, i, n);
        }
      }
    }
    std::ranges::sort(entries);
    for (const auto& [once, instance, action] : entries) {
      remoteOrder_[b].push_back({action, instance});
    }
  }
}

/// A fetch finds what the last flush before it has left; a flush waits for everyone who came since
/// the flush before it.
void Round::addRemoteWaits(const Action& action,
                           BufferId variable,
                           std::int32_t m,
                           Table<Wait>& waits) const {
  const auto& order = remoteOrder_[variable];
  const auto isSelf = [&](const Instance& each) {
    return &actions_[each.action] == &action && (action.once || each.number == m);
  };
  const auto at = static_cast<std::size_t>(std::ranges::find_if(order, isSelf) - order.begin());
  for (std::size_t back = 1; back <= order.size(); ++back) {
    const std::size_t i = (at + order.size() - back) % order.size();
    const Action& other = actions_[order[i].action];
    if (action.flushes || other.flushes) {
      waits.push_back({other.lane, other.task[other.at(order[i].number)], back > at ? 1 : 0});
    }
    if (other.flushes) {
      return;
    }
  }
}

/// The action that touches the buffer first in a round.
ActionId Round::firstToucher(BufferId buffer) const {
  const Touch& touch = touches_[buffer];
  const auto rank = [&](ActionId n) {
    const Action& action = actions_[n];
    // What comes from elsewhere comes before the kernels that use it.
    const bool runs = action.kind == TaskKind::Run;
    return std::pair(runs, runs ? action.subject : n.value);
  };
  return *std::ranges::min_element(touch.writers.empty() ? touch.readers : touch.writers, {}, rank);
}

ById<ActionId, std::vector<Round::MemoryRule>> Round::memoryRules() const {
  ById<ActionId, std::vector<MemoryRule>> rules(actions_.size());
  if (!streams_) {
    return rules;
  }
  struct Entry {
    BufferId buffer;
    std::pair<std::int32_t, std::int32_t> segments;
    bool elsewhere = false;
  };
  std::map<std::int32_t, std::vector<Entry>> devices;
  for (const BufferId b : touches_.ids()) {
    const Buffer& buffer = bufferOf(b);
    const auto segments = segmentsOf(b);
    if (buffer.region != Region::Transient || buffer.isRemote() || buffer.bytes == 0 ||
        segments.first < 0) {
      continue;
    }
    devices[buffer.device].push_back({b, segments, isWrittenElsewhere(b) || isReadElsewhere(b)});
  }
  // Of each lane only the last counts.
  using Key = std::tuple<ActionId, std::int32_t, bool, bool>;  // action, lane of other, rule
  std::map<Key, ActionId> latest;
  const auto add = [&](BufferId of, BufferId other, bool earlier, bool alternate) {
    const ActionId action = firstToucher(of);
    const Touch& touch = touches_[other];
    for (const std::vector<ActionId>* list : {&touch.readers, &touch.writers}) {
      for (const ActionId t : *list) {
        const Action& n = actions_[t];
        if (n.lane == actions_[action].lane && n.kind != TaskKind::Reduce) {
          continue;
        }
        const auto [known, isNew] = latest.emplace(Key{action, n.lane, earlier, alternate}, t);
        if (n.task.back() > actions_[known->second].task.back()) {
          known->second = t;
        }
      }
    }
  };
  for (auto& [device, entries] : devices) {
    std::ranges::stable_sort(entries, {}, [](const Entry& e) { return e.segments; });
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (std::size_t j = i + 1; j < entries.size(); ++j) {
        const Entry& a = entries[i];
        const Entry& b = entries[j];
        if (!(a.elsewhere || b.elsewhere) || !shareMemory(bufferOf(a.buffer), bufferOf(b.buffer))) {
          continue;
        }
        const std::int32_t group = groupOf(a.segments.first);
        const bool alternate = group == groupOf(a.segments.second) &&
                               group == groupOf(b.segments.first) &&
                               group == groupOf(b.segments.second);
        add(b.buffer, a.buffer, true, alternate);
        add(a.buffer, b.buffer, false, alternate);
      }
    }
  }
  for (const auto& [key, other] : latest) {
    rules[std::get<0>(key)].push_back({other, std::get<2>(key), std::get<3>(key)});
  }
  return rules;
}

void Round::addMemoryWaits(const Action& action,
                           std::span<const MemoryRule> rules,
                           std::int32_t m,
                           Table<Wait>& waits) const {
  for (const MemoryRule& rule : rules) {
    const Action& other = actions_[rule.action];
    if (rule.alternate) {
      waits.push_back(rule.earlier ? sameTurn(action, other, m) : turnBefore(action, other, m));
    } else if (m == 0) {
      waits.push_back(
          {other.lane, other.task.back(), rule.earlier ? 0 : 1, other.kind == TaskKind::Reduce});
    }
  }
}

}  // namespace sluice::program
