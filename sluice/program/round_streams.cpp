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
#include "sluice/program/verify_parts.h"

namespace sluice::program {

bool Round::isStreamed(std::size_t buffer) const {
  return emitted_.uses[buffer] == BufferUse::Window ||
         (emitted_.uses[buffer] == BufferUse::Remote &&
          emitted_.buffers[buffer].region == Region::State);
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
      const std::int32_t segment = nodes_[static_cast<std::size_t>(order_[l][i].first)].subject;
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
      group_[static_cast<std::size_t>(spans[s].segment)] = groups;
    }
    // Inside a group, one micro-batch behind the other.
    std::int32_t group = -1;
    std::pair<std::int32_t, std::int32_t> last;
    for (const auto& [n, instance] : order_[l]) {
      const std::int32_t segment = nodes_[static_cast<std::size_t>(n)].subject;
      const std::pair<std::int32_t, std::int32_t> now{instance, segment};
      const std::int32_t own = group_[static_cast<std::size_t>(segment)];
      ordered = ordered && (own != group || last < now);
      group = own;
      last = now;
    }
    grouped_[static_cast<std::size_t>(lanes_[l].device)] = ordered;
  }
}

/// Where in its device's lane of kernels a fetch or flush belongs: at the first one that uses what
/// it brings, or at the last one that writes what it saves.
std::int32_t Round::placeAmongKernels(const Node& node, std::int32_t microBatch) const {
  const auto buffer = static_cast<std::size_t>(node.fetches ? node.writes[0] : node.reads[0]);
  const std::vector<std::int32_t>& writers = touches_[buffer].writers;
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  std::int32_t lastWrite = -1;
  for (const std::int32_t n : kernelsOf(buffer)) {
    const Node& kernels = nodes_[static_cast<std::size_t>(n)];
    const std::size_t at = kernels.at(microBatch);
    first = std::min(first, node.once ? kernels.task.front() : kernels.task[at]);
    if (std::ranges::find(writers, n) != writers.end()) {
      lastWrite = std::max(lastWrite, node.once ? kernels.task.back() : kernels.task[at]);
    }
  }
  return node.flushes && lastWrite >= 0 ? lastWrite : first;
}

/// Planned times do not tell apart what runs once in between; the order of the kernels does.
void Round::layRemoteLanes() {
  std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>> entries;  // place, micro-batch
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    for (std::size_t i = 0; (node.fetches || node.flushes) && i < node.task.size(); ++i) {
      const auto instance = static_cast<std::int32_t>(i);
      entries.emplace_back(
          placeAmongKernels(node, instance), instance, static_cast<std::int32_t>(n));
    }
  }
  std::ranges::sort(entries);
  for (const auto& [place, instance, node] : entries) {
    append(node, instance);
  }
}

bool Round::isOwnKernel(std::size_t buffer, std::int32_t node) const {
  const Node& n = nodes_[static_cast<std::size_t>(node)];
  return n.kind == TaskKind::Run && emitted_.segments[static_cast<std::size_t>(n.subject)].device ==
                                        emitted_.buffers[buffer].device;
}

/// The kernels of its device that use the buffer, and those that it depends on over a sum over
/// replicas: of the update, who reads the sum, for the operand is needed until then; of the loop,
/// who makes the operand, for the result has its place from then on.
std::vector<std::int32_t> Round::kernelsOf(std::size_t buffer) const {
  std::vector<std::int32_t> kernels;
  const auto addOwn = [&](std::int32_t of, const std::vector<std::int32_t> Touch::*list) {
    const auto other = static_cast<std::size_t>(of);
    std::ranges::copy_if(touches_[other].*list, std::back_inserter(kernels), [&](std::int32_t n) {
      return isOwnKernel(other, n);
    });
  };
  const auto self = static_cast<std::int32_t>(buffer);
  addOwn(self, &Touch::readers);
  addOwn(self, &Touch::writers);
  for (const std::int32_t r : touches_[buffer].readers) {
    const Node& node = nodes_[static_cast<std::size_t>(r)];
    if (node.kind == TaskKind::Reduce && node.once) {
      addOwn(node.writes[0], &Touch::readers);
    }
  }
  for (const std::int32_t w : touches_[buffer].writers) {
    const Node& node = nodes_[static_cast<std::size_t>(w)];
    if (node.kind == TaskKind::Reduce && !node.once) {
      addOwn(node.reads[0], &Touch::writers);
    }
  }
  return kernels;
}

bool Round::isWrittenElsewhere(std::size_t buffer) const {
  return std::ranges::any_of(touches_[buffer].writers,
                             [&](std::int32_t node) { return !isOwnKernel(buffer, node); });
}

bool Round::isReadElsewhere(std::size_t buffer) const {
  return std::ranges::any_of(touches_[buffer].readers,
                             [&](std::int32_t node) { return !isOwnKernel(buffer, node); });
}

bool Round::isSummedBehindLoop(std::size_t buffer) const {
  return !phases_ && std::ranges::any_of(touches_[buffer].readers, [&](std::int32_t n) {
    const Node& node = nodes_[static_cast<std::size_t>(n)];
    return node.kind == TaskKind::Reduce && node.once;
  });
}

std::pair<std::int32_t, std::int32_t> Round::segmentsOf(std::size_t buffer) const {
  std::pair<std::int32_t, std::int32_t> found{-1, -1};
  for (const std::int32_t n : kernelsOf(buffer)) {
    const std::int32_t segment = nodes_[static_cast<std::size_t>(n)].subject;
    found.first = found.first < 0 ? segment : std::min(found.first, segment);
    found.second = std::max(found.second, segment);
  }
  return found;
}

std::int32_t Round::segmentAtArrival(std::size_t buffer) const {
  std::optional<std::int64_t> arrival;
  for (const std::int32_t w : touches_[buffer].writers) {
    const Node& writer = nodes_[static_cast<std::size_t>(w)];
    if (!isOwnKernel(buffer, w) && !writer.fetches) {
      arrival = std::min(arrival.value_or(writer.start.front()), writer.start.front());
    }
  }
  const std::int32_t group = groupOf(segmentsOf(buffer).first);
  for (std::size_t s = 0; arrival && s < nodeOfSegment_.size(); ++s) {
    const std::int32_t n = nodeOfSegment_[s];
    if (n < 0 || emitted_.segments[s].device != emitted_.buffers[buffer].device) {
      continue;
    }
    // Of segments that take turns with its reader the first turn counts.
    const Node& kernels = nodes_[static_cast<std::size_t>(n)];
    const bool turns = groupOf(static_cast<std::int32_t>(s)) == group;
    if ((turns ? kernels.end.front() : kernels.end.back()) > *arrival) {
      return static_cast<std::int32_t>(s);
    }
  }
  return -1;
}

bool Round::spansTurns(std::size_t buffer) const {
  const auto [first, last] = segmentsOf(buffer);
  bool once = false;
  bool perMicroBatch = false;
  const Touch& touch = touches_[buffer];
  for (const std::vector<std::int32_t>* list : {&touch.readers, &touch.writers}) {
    for (const std::int32_t n : *list) {
      (nodes_[static_cast<std::size_t>(n)].once ? once : perMicroBatch) = true;
    }
  }
  return (once && perMicroBatch) || groupOf(first) != groupOf(last) ||
         emitted_.buffers[buffer].slots > 1;
}

/// The task of `other` that belongs to the same turn as this one of `node`.
Wait Round::sameTurn(const Node& node, const Node& other, std::int32_t m) const {
  const std::int32_t task = other.once  ? other.task[0]
                            : node.once ? other.task.back()
                                        : other.task[static_cast<std::size_t>(m)];
  return {other.lane, task, 0, other.kind == TaskKind::Reduce};
}

/// That of the turn before: the micro-batch before, or the round before.
Wait Round::turnBefore(const Node& node, const Node& other, std::int32_t m) const {
  const bool sums = other.kind == TaskKind::Reduce;
  if (node.once || other.once || m == 0) {
    return {other.lane, other.task.back(), 1, sums};
  }
  return {other.lane, other.task[static_cast<std::size_t>(m) - 1], 0, sums};
}

void Round::addStreamWaits(const Node& node, std::int32_t m, std::vector<Wait>& waits) const {
  std::vector<std::int32_t> touched = node.reads;
  touched.insert(touched.end(), node.writes.begin(), node.writes.end());
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const std::int32_t b : touched) {
    const auto buffer = static_cast<std::size_t>(b);
    if (emitted_.uses[buffer] == BufferUse::Window) {
      addWindowWaits(node, buffer, m, waits);
    } else if (isStreamed(buffer)) {
      addRemoteWaits(node, buffer, m, waits);
    }
  }
}

/// A turn of a window: it is fetched, kernels use it, it is flushed or summed once it is written.
void Round::addWindowWaits(const Node& node,
                           std::size_t window,
                           std::int32_t m,
                           std::vector<Wait>& waits) const {
  const Touch& touch = touches_[window];
  for (const std::vector<std::int32_t>* list : {&touch.readers, &touch.writers}) {
    for (const std::int32_t t : *list) {
      const Node& other = nodes_[static_cast<std::size_t>(t)];
      if (&other == &node) {
        continue;
      }
      if (node.fetches) {
        waits.push_back(turnBefore(node, other, m));
      } else if (node.kind == TaskKind::Run) {
        if (other.kind != TaskKind::Run) {
          waits.push_back(other.fetches ? sameTurn(node, other, m) : turnBefore(node, other, m));
        }
      } else if (list == &touch.writers) {
        // Kernels that only read do so beside it.
        Wait wait = sameTurn(node, other, m);
        wait.allReplicas = node.kind == TaskKind::Reduce;
        waits.push_back(wait);
      }
    }
  }
}

/// Loop windows come micro-batch by micro-batch, those of the update behind them; all others in the
/// order in which their transfers were made.
void Round::orderRemoteVariables() {
  remoteOrder_.resize(emitted_.buffers.size());
  for (std::size_t b = 0; b < emitted_.buffers.size(); ++b) {
    if (!isStreamed(b) || emitted_.uses[b] != BufferUse::Remote) {
      continue;
    }
    std::vector<std::tuple<bool, std::int32_t, std::int32_t>> entries;  // once, instance, node
    for (const std::vector<std::int32_t>* list : {&touches_[b].readers, &touches_[b].writers}) {
      for (const std::int32_t n : *list) {
        const Node& node = nodes_[static_cast<std::size_t>(n)];
        for (std::size_t i = 0; i < node.task.size(); ++i) {
          entries.emplace_back(node.once, static_cast<std::int32_t>(i), n);
        }
      }
    }
    std::ranges::sort(entries);
    for (const auto& [once, instance, node] : entries) {
      remoteOrder_[b].emplace_back(node, instance);
    }
  }
}

/// A fetch finds what the last flush before it has left; a flush waits for everyone who came since
/// the flush before it.
void Round::addRemoteWaits(const Node& node,
                           std::size_t variable,
                           std::int32_t m,
                           std::vector<Wait>& waits) const {
  const auto& order = remoteOrder_[variable];
  const auto self = static_cast<std::int32_t>(&node - nodes_.data());
  const std::pair<std::int32_t, std::int32_t> entry{self, node.once ? 0 : m};
  const auto at = static_cast<std::size_t>(std::ranges::find(order, entry) - order.begin());
  for (std::size_t back = 1; back <= order.size(); ++back) {
    const std::size_t i = (at + order.size() - back) % order.size();
    const Node& other = nodes_[static_cast<std::size_t>(order[i].first)];
    if (node.flushes || other.flushes) {
      waits.push_back(
          {other.lane, other.task[static_cast<std::size_t>(order[i].second)], back > at ? 1 : 0});
    }
    if (other.flushes) {
      return;
    }
  }
}

/// Whoever touches the buffer first in a round.
std::int32_t Round::firstToucher(std::size_t buffer) const {
  const Touch& touch = touches_[buffer];
  std::int32_t first = -1;
  const auto rank = [&](std::int32_t n) {
    const Node& node = nodes_[static_cast<std::size_t>(n)];
    // What comes from elsewhere comes before the kernels that use it.
    return std::pair(node.kind == TaskKind::Run, node.kind == TaskKind::Run ? node.subject : n);
  };
  const std::vector<std::int32_t>& writers = touch.writers.empty() ? touch.readers : touch.writers;
  for (const std::int32_t n : writers) {
    first = first < 0 || rank(n) < rank(first) ? n : first;
  }
  return first;
}

std::vector<std::vector<Round::MemoryRule>> Round::memoryRules() const {
  std::vector<std::vector<MemoryRule>> rules;
  if (!streams_) {
    return rules;
  }
  rules.resize(nodes_.size());
  struct Entry {
    std::size_t buffer = 0;
    std::pair<std::int32_t, std::int32_t> segments;
    bool elsewhere = false;
  };
  std::map<std::int32_t, std::vector<Entry>> devices;
  for (std::size_t b = 0; b < emitted_.buffers.size(); ++b) {
    const Buffer& buffer = emitted_.buffers[b];
    const auto segments = segmentsOf(b);
    if (buffer.region != Region::Transient || buffer.isRemote() || buffer.bytes == 0 ||
        segments.first < 0) {
      continue;
    }
    devices[buffer.device].push_back({b, segments, isWrittenElsewhere(b) || isReadElsewhere(b)});
  }
  // Of each lane only the last counts.
  using Key = std::tuple<std::int32_t, std::int32_t, bool, bool>;  // node, lane of other, rule
  std::map<Key, std::int32_t> latest;
  const auto add = [&](std::size_t of, std::size_t other, bool earlier, bool alternate) {
    const std::int32_t node = firstToucher(of);
    const Touch& touch = touches_[other];
    for (const std::vector<std::int32_t>* list : {&touch.readers, &touch.writers}) {
      for (const std::int32_t t : *list) {
        const Node& n = nodes_[static_cast<std::size_t>(t)];
        if (n.lane == nodes_[static_cast<std::size_t>(node)].lane && n.kind != TaskKind::Reduce) {
          continue;
        }
        const auto [known, isNew] = latest.emplace(Key{node, n.lane, earlier, alternate}, t);
        if (n.task.back() > nodes_[static_cast<std::size_t>(known->second)].task.back()) {
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
        if (!(a.elsewhere || b.elsewhere) ||
            !overlap(emitted_.buffers[a.buffer], emitted_.buffers[b.buffer])) {
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
    rules[static_cast<std::size_t>(std::get<0>(key))].push_back(
        {other, std::get<2>(key), std::get<3>(key)});
  }
  return rules;
}

void Round::addMemoryWaits(const Node& node,
                           std::span<const MemoryRule> rules,
                           std::int32_t m,
                           std::vector<Wait>& waits) const {
  for (const MemoryRule& rule : rules) {
    const Node& other = nodes_[static_cast<std::size_t>(rule.node)];
    if (rule.alternate) {
      waits.push_back(rule.earlier ? sameTurn(node, other, m) : turnBefore(node, other, m));
    } else if (m == 0) {
      waits.push_back(
          {other.lane, other.task.back(), rule.earlier ? 0 : 1, other.kind == TaskKind::Reduce});
    }
  }
}

}  // namespace sluice::program
