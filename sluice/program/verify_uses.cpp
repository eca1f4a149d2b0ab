#include "sluice/program/verify_uses.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "sluice/program/verify_parts.h"

namespace sluice::program {
namespace {

Use wholeUse(BufferId buffer, std::size_t bytes, bool write) {
  return {.buffer = buffer, .begin = 0, .end = bytes, .write = write};
}

/// Every operand of every call, in order.
std::vector<Use> operandsOf(const Segment& segment) {
  std::vector<Use> uses;
  for (const device::KernelCall& call : segment.calls) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      uses.push_back(wholeUse(
          BufferId(call.inputs[i]), call.choice.inputs[i].bytes(call.inputTypes[i]), false));
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const BufferId out(call.outputs[i]);
      const std::size_t bytes = call.choice.outputs[i].bytes(call.outputTypes[i]);
      if (readsOutput(call)) {
        uses.push_back(wholeUse(out, bytes, false));
        uses.back().accumulates = true;
      }
      uses.push_back(wholeUse(out, bytes, true));
    }
    if (call.scratch >= 0) {
      uses.push_back(wholeUse(BufferId(call.scratch), call.choice.scratchBytes, true));
    }
  }
  return uses;
}

/// One run of a segment, byte by byte. All of its accesses have the same place in the order of
/// tasks, so a read of what the run itself has written adds nothing to order, and finds the same
/// value in every run; the same goes for bytes that the run writes again later.
class SegmentRun {
 public:
  SegmentRun(const Program& program, const std::vector<bool>& constant)
      : p_(program), constant_(constant) {}

  /// What is left of the operands; nothing if it could differ between slots, or if there is
  /// something wrong: then the walk over all tasks has to look at every operand.
  std::optional<std::vector<Use>> outside(const std::vector<Use>& operands) {
    if (!ringsLieApart(operands)) {
      return std::nullopt;
    }
    for (const Use& use : operands) {
      const Buffer& buffer = p_.buffer(use.buffer);
      if (use.begin == use.end) {
        if (buffer.slots > 1) {
          left_.push_back(use);  // it must still name a slot
        }
      } else if (use.write ? constant_[use.buffer.index()] : !take(use)) {
        return std::nullopt;
      } else if (use.write) {
        put(use);
      }
    }
    for (const Written& region : written_) {
      for (const auto& [begin, piece] : region) {
        const std::size_t offset = p_.buffer(piece.buffer).offset;
        left_.push_back({.buffer = piece.buffer,
                         .begin = begin - offset,
                         .end = piece.end - offset,
                         .write = true});
      }
    }
    return std::move(left_);
  }

 private:
  struct Piece {
    std::size_t end = 0;
    BufferId buffer;
  };
  using Written = std::map<std::size_t, Piece>;  // by begin; disjoint

  /// Then it does not matter which slot of a ring a run uses.
  bool ringsLieApart(const std::vector<Use>& operands) const {
    std::vector<BufferId> touched;
    touched.reserve(operands.size());
    for (const Use& use : operands) {
      if (p_.buffer(use.buffer).totalBytes() > 0) {
        touched.push_back(use.buffer);
      }
    }
    std::ranges::sort(touched, {}, [&](BufferId id) {
      const Buffer& buffer = p_.buffer(id);
      return std::tuple(buffer.device, buffer.region, buffer.offset, id.value);
    });
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    // Going up in memory, each has to begin behind the rings below it, a ring behind everything.
    const Buffer* below = nullptr;
    std::size_t end = 0;
    std::size_t endOfRings = 0;
    for (const BufferId id : touched) {
      const Buffer& buffer = p_.buffer(id);
      if (below == nullptr || below->device != buffer.device || below->region != buffer.region) {
        end = endOfRings = 0;
      }
      const bool ring = buffer.slots > 1;
      if (buffer.offset < (ring ? end : endOfRings)) {
        return false;
      }
      end = std::max(end, buffer.offset + buffer.totalBytes());
      endOfRings = ring ? end : endOfRings;
      below = &buffer;
    }
    return true;
  }

  Written& writtenOf(const Buffer& buffer) {
    return written_[static_cast<std::size_t>(buffer.region)];
  }

  /// The first piece that ends behind this byte.
  static Written::iterator behind(Written& written, std::size_t byte) {
    auto at = written.upper_bound(byte);
    return at != written.begin() && std::prev(at)->second.end > byte ? std::prev(at) : at;
  }

  /// A read: true if the run has written all of it as this buffer, or none of it.
  bool take(const Use& use) {
    const Buffer& buffer = p_.buffer(use.buffer);
    const std::size_t begin = buffer.offset + use.begin;
    const std::size_t end = buffer.offset + use.end;
    Written& written = writtenOf(buffer);
    std::size_t own = 0;
    for (auto at = behind(written, begin); at != written.end() && at->first < end; ++at) {
      if (at->second.buffer != use.buffer) {
        return false;
      }
      own += std::min(end, at->second.end) - std::max(begin, at->first);
    }
    if (own == 0) {
      left_.push_back(use);
    }
    return own == 0 || own == end - begin;
  }

  void put(const Use& use) {
    const Buffer& buffer = p_.buffer(use.buffer);
    const std::size_t begin = buffer.offset + use.begin;
    const std::size_t end = buffer.offset + use.end;
    Written& written = writtenOf(buffer);
    auto at = behind(written, begin);
    if (at != written.end() && at->first < begin) {
      const Piece old = at->second;
      at->second.end = begin;
      at = std::next(at);
      if (old.end > end) {
        at = written.emplace_hint(at, end, old);
      }
    }
    while (at != written.end() && at->second.end <= end) {
      at = written.erase(at);
    }
    if (at != written.end() && at->first < end) {
      const Piece rest = at->second;
      at = written.emplace_hint(written.erase(at), end, rest);
    }
    written.emplace_hint(at, begin, Piece{end, use.buffer});
  }

  const Program& p_;
  const std::vector<bool>& constant_;  // by buffer
  std::array<Written, 2> written_;     // by Region
  std::vector<Use> left_;
};

std::size_t arenaOf(const Buffer& buffer) {
  return 2 * static_cast<std::size_t>(buffer.device - kRemote) +
         static_cast<std::size_t>(buffer.region);
}

std::size_t slotBegin(const Buffer& buffer, std::int32_t slot) {
  return buffer.offset + buffer.slotStride() * static_cast<std::size_t>(slot);
}

}  // namespace

std::vector<bool> loadedBuffers(const Program& program) {
  std::vector<bool> loaded;
  loaded.reserve(program.buffers.size());
  for (const Buffer& buffer : program.buffers) {
    loaded.push_back(buffer.region == Region::State);
  }
  for (const Constant& constant : program.constants) {
    loaded[constant.buffer.index()] = true;
  }
  return loaded;
}

Uses::Uses(const Program& program) : p_(program) {
  listTasks();
  mergePrivate();
  cutCells();
}

void Uses::listTasks() {
  const auto add = [&](TaskKind kind, List uses) {
    lists_[static_cast<std::size_t>(kind)].push_back(std::move(uses));
  };
  std::vector<bool> constant(p_.buffers.size(), false);
  for (const Constant& c : p_.constants) {
    constant[c.buffer.index()] = true;
  }
  for (const Segment& segment : p_.segments) {
    List operands = operandsOf(segment);
    std::optional<List> outside = SegmentRun(p_, constant).outside(operands);
    add(TaskKind::Run, outside ? std::move(*outside) : std::move(operands));
  }
  for (const Port& feed : p_.feeds) {
    add(TaskKind::Feed, {wholeUse(feed.buffer, feed.type.bytes(), true)});
  }
  for (const Port& drain : p_.drains) {
    add(TaskKind::Drain, {wholeUse(drain.buffer, drain.type.bytes(), false)});
  }
  for (const Transfer& transfer : p_.transfers) {
    add(TaskKind::Transfer,
        {wholeUse(transfer.from, transfer.bytes, false),
         wholeUse(transfer.to, transfer.bytes, true)});
  }
  for (const Collective& collective : p_.collectives) {
    add(TaskKind::Reduce,
        {wholeUse(collective.from, collective.operand.bytes(), false),
         wholeUse(collective.to, collective.type.bytes(), true)});
  }
  if (p_.barriers) {
    lists_[static_cast<std::size_t>(TaskKind::Barrier)].resize(p_.barriers->groups.size());
  }
}

/// Neighbouring bytes that a run of a segment leaves behind and nobody reads become one write. A
/// gap of less than kAlignment bytes between two buffers belongs to the one in front: who touches
/// the gap touches the first byte of the last kAlignment bytes of that buffer, too, because all
/// accesses begin at multiples of kAlignment.
void Uses::mergePrivate() {
  std::vector<bool> isRead(p_.buffers.size(), false);
  for (const Table<List>& lists : lists_) {
    for (const List& list : lists) {
      for (const Use& use : list) {
        isRead[use.buffer.index()] = isRead[use.buffer.index()] || !use.write;
      }
    }
  }
  const auto isPrivate = [&](const Use& use) {
    const Buffer& buffer = p_.buffer(use.buffer);
    return use.write && use.begin < use.end && buffer.slots == 1 && !isRead[use.buffer.index()];
  };
  for (List& list : lists_[static_cast<std::size_t>(TaskKind::Run)]) {
    List merged;
    for (const Use& use : list) {
      if (!merged.empty() && isPrivate(merged.back()) && isPrivate(use)) {
        const Buffer& front = p_.buffer(merged.back().buffer);
        const Buffer& buffer = p_.buffer(use.buffer);
        const std::size_t end = front.offset + merged.back().end;
        const std::size_t begin = buffer.offset + use.begin;
        if (front.region == buffer.region && end <= begin &&
            begin <= (end + kAlignment - 1) / kAlignment * kAlignment) {
          merged.back().end = buffer.offset + use.end - front.offset;
          continue;
        }
      }
      merged.push_back(use);
    }
    list = std::move(merged);
  }
}

void Uses::cutCells() {
  std::vector<std::vector<std::size_t>> cuts(2 * (p_.devices.size() + 1));
  struct Bytes {
    std::size_t arena;
    std::size_t begin;
    std::size_t end;
  };
  Table<Bytes> all;
  const auto add = [&](const Buffer& buffer, std::size_t begin, std::size_t end) {
    all.push_back({arenaOf(buffer), begin, end});
    cuts[all.back().arena].insert(cuts[all.back().arena].end(), {begin, end});
  };
  for (Table<List>& lists : lists_) {
    for (List& list : lists) {
      for (Use& use : list) {
        const Buffer& buffer = p_.buffer(use.buffer);
        use.ranges = all.count();
        for (std::int32_t slot = 0; slot < buffer.slots; ++slot) {
          const std::size_t begin = slotBegin(buffer, slot);
          add(buffer, begin + use.begin, begin + use.end);
        }
      }
    }
  }
  const std::vector<bool> loaded = loadedBuffers(p_);
  loaded_.assign(p_.buffers.size(), 0);
  for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
    const Buffer& buffer = p_.buffers[b];
    if (loaded[b]) {
      loaded_[b] = all.size();
      add(buffer, buffer.offset, buffer.offset + buffer.bytes);
    }
  }
  std::vector<std::size_t> firstCell;
  for (std::vector<std::size_t>& arena : cuts) {
    std::ranges::sort(arena);
    arena.erase(std::unique(arena.begin(), arena.end()), arena.end());
    firstCell.push_back(numCells_);
    numCells_ += arena.size();
  }
  const auto cellAt = [&](std::size_t arena, std::size_t byte) {
    const auto at = std::ranges::lower_bound(cuts[arena], byte) - cuts[arena].begin();
    return static_cast<std::int32_t>(firstCell[arena]) + static_cast<std::int32_t>(at);
  };
  ranges_.reserve(all.size());
  for (const Bytes& bytes : all) {
    ranges_.push_back({cellAt(bytes.arena, bytes.begin), cellAt(bytes.arena, bytes.end)});
  }
}

}  // namespace sluice::program
