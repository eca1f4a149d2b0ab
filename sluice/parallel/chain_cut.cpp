// Dynamic programming over (number of parts, number of items): the best way to cut the first j
// items into d parts is the best way to cut the first i < j items into d - 1 parts, plus the part
// i..j. It runs up to three times: for the most even bytes (with a budget), for the most even work,
// and for the fewest crossing bytes among cuts that are nearly as even. Parts that are far from
// even are skipped: with n items and d devices most parts have about n / d items, so n * n of n * n
// * d parts are examined.
#include "sluice/parallel/chain_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sluice::parallel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// How much more work than in the evenest cut a part may have, to spare bytes.
constexpr double kTolerance = 1.1;
/// What an estimate of bytes may take of a budget: scratch and copies under way come on top.
constexpr double kOfBudget = 0.8;

/// A part and what it comes to.
struct Part {
  std::size_t first = 0;
  std::size_t device = 0;
  double work = 0;  ///< over the device's share
  double bytes = 0;
};

double sum(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

/// What a part may come to; larger ones are not looked at.
struct Most {
  double work = kNever;
  double bytes = kNever;
};

/// Needs as many items as shares, with as many places to cut.
class ChainCutter {
 public:
  ChainCutter(std::span<const ChainItem> items, std::span<const double> shares)
      : items_(items),
        shares_(shares),
        largestShare_(std::ranges::max(shares)),
        ends_(items.size() + 1, 0),
        cells_(shares.size() * (items.size() + 1)) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      ends_[i + 1] = ends_[i] + (mayEnd(i + 1) ? 1 : 0);
    }
  }

  /// What the best cut into parts of at most `most` comes to; kNever if there is none. `worth`
  /// gives the value of the parts so far with one part more, no less than before.
  template <class F>
  double solve(const Most& most, const F& worth) {
    const std::size_t n = items_.size();
    std::ranges::fill(cells_, Cell());
    for (std::size_t last = 1; last <= n; ++last) {
      if (mayEnd(last)) {
        endAt(last, most, worth);
      }
    }
    return cell(shares_.size() - 1, n).value;
  }

  /// The best cut by a worth that is the largest of `amount` of the parts. Long parts are looked at
  /// only if there is no cut into short ones, so the time hardly grows with the number of parts.
  double solveEvenly(double Part::*amount, double Most::*limit, Most most) {
    const auto largest = [&](double before, const Part& part) {
      const bool fits = part.work <= most.work && part.bytes <= most.bytes;
      return fits ? std::max(before, part.*amount) : kNever;
    };
    const bool work = amount == &Part::work;
    double total = 0;
    double largestItem = 0;
    for (const ChainItem& item : items_) {
      const auto own = static_cast<double>(work ? item.work : item.bytes);
      total += own;
      largestItem = std::max(largestItem, own);
    }
    // No cut is below either of these.
    const double average = total / (work ? sum(shares_) : static_cast<double>(shares_.size()));
    const double least = std::max(average, largestItem / (work ? largestShare_ : 1.0));
    for (most.*limit = std::max(1.0, 2 * least);; most.*limit *= 2) {
      if (const double best = solve(most, largest); best < kNever) {
        return best;
      }
    }
  }

  /// Of the last solve that found a cut.
  std::vector<std::int32_t> devices() const {
    std::vector<std::int32_t> devices(items_.size());
    std::size_t last = items_.size();
    for (std::size_t d = shares_.size(); d-- > 0;) {
      const std::size_t first = cells_[d * ends_.size() + last].first;
      std::fill(devices.begin() + static_cast<std::ptrdiff_t>(first),
                devices.begin() + static_cast<std::ptrdiff_t>(last),
                static_cast<std::int32_t>(d));
      last = first;
    }
    return devices;
  }

  std::size_t looks() const { return looks_; }

 private:
  struct Cell {
    double value = kNever;
    std::uint32_t first = 0;  // of the last part
  };

  Cell& cell(std::size_t device, std::size_t last) { return cells_[device * ends_.size() + last]; }

  /// Whether a part may end before the item.
  bool mayEnd(std::size_t item) const { return item == items_.size() || items_[item - 1].mayCut; }

  template <class F>
  void endAt(std::size_t last, const Most& most, const F& worth) {
    const std::size_t later = ends_.back() - ends_[last];  // parts that can come behind it
    const std::size_t lowest = shares_.size() - std::min(shares_.size(), later + 1);
    Part part;
    double work = 0;
    for (part.first = last; part.first-- > 0;) {
      const ChainItem& item = items_[part.first];
      work += static_cast<double>(item.work);
      part.bytes += static_cast<double>(item.bytes);
      for (const ChainItem::Shared& shared : item.shared) {
        part.bytes += shared.next >= last ? static_cast<double>(shared.bytes) : 0.0;
      }
      if (work / largestShare_ > most.work || part.bytes > most.bytes) {
        return;
      }
      if (part.first > 0 && !mayEnd(part.first)) {
        continue;
      }
      const std::size_t highest = std::min(shares_.size() - 1, ends_[part.first]);
      for (part.device = std::max(lowest, std::size_t{part.first > 0}); part.device <= highest;
           ++part.device) {
        part.work = std::min(work / shares_[part.device], std::numeric_limits<double>::max());
        extend(part, last, worth);
      }
    }
  }

  template <class F>
  void extend(const Part& part, std::size_t last, const F& worth) {
    ++looks_;
    const double before = part.device == 0 ? 0.0 : cell(part.device - 1, part.first).value;
    Cell& known = cell(part.device, last);
    if (before < known.value) {
      const double value = worth(before, part);
      known = value < known.value ? Cell{value, static_cast<std::uint32_t>(part.first)} : known;
    }
  }

  std::span<const ChainItem> items_;
  std::span<const double> shares_;
  double largestShare_;
  std::vector<std::size_t> ends_;  // by item: places before or at it where a part may end
  std::vector<Cell> cells_;        // by parts and items
  std::size_t looks_ = 0;
};

}  // namespace

std::size_t mostParts(std::span<const ChainItem> items) {
  if (items.empty()) {
    return 0;
  }
  return 1 + static_cast<std::size_t>(
                 std::ranges::count(items.first(items.size() - 1), true, &ChainItem::mayCut));
}

std::vector<std::int32_t> cutChain(std::span<const ChainItem> items,
                                   std::span<const double> shares,
                                   std::int64_t budget,
                                   std::size_t* looks) {
  shares = shares.first(std::min(shares.size(), mostParts(items)));
  if (shares.empty()) {
    return std::vector<std::int32_t>(items.size(), 0);
  }
  ChainCutter cutter(items, shares);
  Most most;
  if (budget > 0) {
    const double least = cutter.solveEvenly(&Part::bytes, &Most::bytes, {});
    most.bytes = std::max(least, kOfBudget * static_cast<double>(budget));
  }
  most.work = kTolerance * cutter.solveEvenly(&Part::work, &Most::work, most);
  const auto parts = static_cast<double>(shares.size() + 1);
  cutter.solve(most, [&](double before, const Part& part) {
    const bool fits = part.bytes <= most.bytes && part.work <= most.work;
    const std::int64_t over = part.first == 0 ? 0 : items[part.first - 1].crossing;
    // Below one byte in all: where as many go over, the more even cut counts.
    const double uneven = part.work * part.work / (most.work * most.work * parts);
    return fits ? before + static_cast<double>(over) + uneven : kNever;
  });
  if (looks != nullptr) {
    *looks += cutter.looks();
  }
  return cutter.devices();
}

}  // namespace sluice::parallel
