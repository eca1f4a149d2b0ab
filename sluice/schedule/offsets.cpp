// Best fit by decreasing size: the largest buffers are placed first, each into the smallest gap
// between the already placed buffers that live at the same time.
//
//   bytes ^     +-----------+       A is placed first, at offset 0. C lives at the same time
//         |     |     C     |       as A, so it is placed above A. B lives after A, so it fits
//         |  +--+----+------+       into the gap below C.
//         |  |   A   |  B   |
//         +--+-------+------+--> time
#include "sluice/schedule/offsets.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace sluice::schedule {
namespace {

std::size_t roundUp(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t mostAlive(std::span<const Lifetime> buffers, std::size_t alignment) {
  std::map<std::int64_t, std::int64_t> changes;
  std::int64_t alive = 0;
  for (const Lifetime& b : buffers) {
    const auto bytes = static_cast<std::int64_t>(roundUp(b.bytes, alignment));
    changes[b.begin] += bytes;
    changes[b.end] -= bytes;
    alive += b.wraps() ? bytes : 0;
  }
  std::int64_t most = alive;
  for (const auto& [time, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return static_cast<std::size_t>(most);
}

/// Bytes [begin, end) of the arena.
struct Bytes {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Bytes that are taken, as the fewest disjoint pieces that cover them, by offset.
class TakenBytes {
 public:
  std::span<const Bytes> pieces() const { return pieces_; }

  void add(Bytes bytes, std::size_t& looks) {
    const auto first = std::ranges::lower_bound(pieces_, bytes.begin, {}, &Bytes::end);
    auto last = first;
    for (; last != pieces_.end() && last->begin <= bytes.end; ++last, ++looks) {
      bytes = {std::min(bytes.begin, last->begin), std::max(bytes.end, last->end)};
    }
    if (first == last) {
      pieces_.insert(first, bytes);
      return;
    }
    *first = bytes;
    pieces_.erase(first + 1, last);
  }

 private:
  std::vector<Bytes> pieces_;
};

/// What is taken when, in a tree over time. A node stands for a span of time and knows what is
/// taken throughout it and what is taken at any time in it; both are few pieces, because buffers
/// that live together lie side by side. So a question looks at a few pieces per level of the tree,
/// not at every buffer that is alive.
class TakenOverTime {
 public:
  TakenOverTime(std::span<const Lifetime> buffers, std::size_t& looks) : looks_(looks) {
    for (const Lifetime& buffer : buffers) {
      times_.insert(times_.end(), {buffer.begin, buffer.end});
    }
    std::ranges::sort(times_);
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    while (leaves_ < 2 * times_.size()) {
      leaves_ *= 2;
    }
    throughout_.resize(2 * leaves_);
    anywhere_.resize(2 * leaves_);
  }

  void take(const Lifetime& when, Bytes bytes) {
    forEachSpan(when, [&](Span span) {
      visit(span, 1, {0, leaves_}, [&](std::size_t node, bool whole) {
        anywhere_[node].add(bytes, looks_);
        if (whole) {
          throughout_[node].add(bytes, looks_);
        }
      });
    });
  }

  /// What is taken at some time of `when`.
  TakenBytes during(const Lifetime& when) {
    TakenBytes taken;
    const auto add = [&](const TakenBytes& more) {
      for (const Bytes& bytes : more.pieces()) {
        ++looks_;
        taken.add(bytes, looks_);
      }
    };
    forEachSpan(when, [&](Span span) {
      visit(span, 1, {0, leaves_}, [&](std::size_t node, bool whole) {
        add(whole ? anywhere_[node] : throughout_[node]);
      });
    });
    return taken;
  }

 private:
  /// Leaves [first, last): leaf 2 i is the time times_[i] itself, leaf 2 i + 1 what is between it
  /// and the next one.
  struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  std::size_t leafOf(std::int64_t time) const {
    return 2 * static_cast<std::size_t>(std::ranges::lower_bound(times_, time) - times_.begin());
  }

  /// Two lifetimes meet exactly if their spans do. Where a lifetime begins or ends another one may
  /// end or begin, so its span leaves these out; one without any extent is that time alone.
  template <class F>
  void forEachSpan(const Lifetime& when, const F& f) const {
    const std::size_t begin = leafOf(when.begin);
    const std::size_t end = leafOf(when.end);
    if (when.wraps()) {
      f(Span{0, end});
      f(Span{begin + 1, 2 * times_.size()});
    } else {
      f(when.begin == when.end ? Span{begin, begin + 1} : Span{begin + 1, end});
    }
  }

  /// Calls f(node, whole) for the fewest nodes that make up the span and for those above them.
  template <class F>
  void visit(Span span, std::size_t node, Span own, const F& f) {
    if (span.first >= own.last || own.first >= span.last || span.first >= span.last) {
      return;
    }
    const bool whole = span.first <= own.first && own.last <= span.last;
    f(node, whole);
    if (!whole) {
      const std::size_t middle = (own.first + own.last) / 2;
      visit(span, 2 * node, {own.first, middle}, f);
      visit(span, 2 * node + 1, {middle, own.last}, f);
    }
  }

  std::vector<std::int64_t> times_;
  std::size_t leaves_ = 1;
  std::vector<TakenBytes> throughout_;  // by node; the children of node n are 2 n and 2 n + 1
  std::vector<TakenBytes> anywhere_;
  std::size_t& looks_;
};

/// The start of the smallest gap of at least `bytes` between what is taken, or the first free byte
/// above all of it.
std::size_t bestGap(std::span<const Bytes> taken, std::size_t bytes) {
  std::size_t best = 0;
  std::size_t bestSize = 0;
  bool found = false;
  std::size_t top = 0;
  for (const auto& [begin, end] : taken) {
    if (begin > top && begin - top >= bytes && (!found || begin - top < bestSize)) {
      found = true;
      best = top;
      bestSize = begin - top;
    }
    top = std::max(top, end);
  }
  return found ? best : top;
}

}  // namespace

OffsetPlan planOffsets(std::span<const Lifetime> buffers, std::size_t alignment) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const Lifetime& x = buffers[a];
    const Lifetime& y = buffers[b];
    return x.bytes != y.bytes ? x.bytes > y.bytes : x.end - x.begin > y.end - y.begin;
  });
  OffsetPlan plan;
  plan.offsets.resize(buffers.size());
  plan.lowerBound = mostAlive(buffers, alignment);
  TakenOverTime taken(buffers, plan.looks);
  for (const std::size_t i : order) {
    const Lifetime& buffer = buffers[i];
    const std::size_t bytes = roundUp(buffer.bytes, alignment);
    const TakenBytes others = taken.during(buffer);
    plan.offsets[i] = bestGap(others.pieces(), bytes);
    plan.peak = std::max(plan.peak, plan.offsets[i] + bytes);
    if (bytes > 0 && buffer.begin != buffer.end) {
      taken.take(buffer, {plan.offsets[i], plan.offsets[i] + bytes});
    }
  }
  return plan;
}

}  // namespace sluice::schedule
