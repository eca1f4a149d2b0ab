// Dynamic programming over (parts so far, items so far): the best way to cut the first j items into
// d parts follows from the best way to cut the first i < j into d - 1 and the part i..j. It runs up
// to three times: for the evenest bytes (with a budget), the evenest work, and the fewest bytes
// over cuts that are nearly as even.
#include "sluice/parallel/chain_cut.h"

#include <algorithm>
#include <limits>

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

class ChainCutter {
 public:
  ChainCutter(std::span<const ChainItem> items, std::span<const double> shares)
      : items_(items), shares_(shares) {}

  /// What the best cut comes to; kNever if there is none. `worth` gives the value of the parts so
  /// far with one part more, no less than before.
  template <class F>
  double solve(const F& worth) {
    const std::size_t n = items_.size();
    cells_.assign(shares_.size(), std::vector<Cell>(n + 1));
    for (std::size_t last = 1; last <= n; ++last) {
      if (last < n && !items_[last - 1].mayCut) {
        continue;
      }
      Part part;
      double work = 0;
      for (part.first = last; part.first-- > 0;) {
        const ChainItem& item = items_[part.first];
        work += static_cast<double>(item.work);
        part.bytes += static_cast<double>(item.bytes);
        for (const ChainItem::Shared& shared : item.shared) {
          part.bytes += shared.next >= last ? static_cast<double>(shared.bytes) : 0.0;
        }
        for (part.device = 0; part.device < shares_.size(); ++part.device) {
          part.work = work / shares_[part.device];
          extend(part, last, worth);
        }
      }
    }
    return cells_.back()[n].value;
  }

  /// Of the last solve that found a cut.
  std::vector<std::int32_t> devices() const {
    std::vector<std::int32_t> devices(items_.size());
    std::size_t last = items_.size();
    for (std::size_t d = shares_.size(); d-- > 0;) {
      const std::size_t first = cells_[d][last].first;
      std::fill(devices.begin() + static_cast<std::ptrdiff_t>(first),
                devices.begin() + static_cast<std::ptrdiff_t>(last),
                static_cast<std::int32_t>(d));
      last = first;
    }
    return devices;
  }

 private:
  struct Cell {
    double value = kNever;
    std::size_t first = 0;  // of the last part
  };

  template <class F>
  void extend(const Part& part, std::size_t last, const F& worth) {
    const bool starts = part.device == 0;
    if (starts != (part.first == 0)) {
      return;
    }
    const double before = starts ? 0.0 : cells_[part.device - 1][part.first].value;
    Cell& cell = cells_[part.device][last];
    if (before < cell.value) {
      const double value = worth(before, part);
      cell = value < cell.value ? Cell{value, part.first} : cell;
    }
  }

  std::span<const ChainItem> items_;
  std::span<const double> shares_;
  std::vector<std::vector<Cell>> cells_;  // by parts and items
};

}  // namespace

std::vector<std::int32_t> cutChain(std::span<const ChainItem> items,
                                   std::span<const double> shares,
                                   std::int64_t budget) {
  ChainCutter cutter(items, shares);
  double cap = kNever;
  if (budget > 0) {
    const double least =
        cutter.solve([](double before, const Part& part) { return std::max(before, part.bytes); });
    cap = std::max(least, kOfBudget * static_cast<double>(budget));
  }
  const double even = cutter.solve([&](double before, const Part& part) {
    return part.bytes > cap ? kNever : std::max(before, part.work);
  });
  if (even == kNever) {
    return shares.size() > 1 ? cutChain(items, shares.first(shares.size() - 1), budget)
                             : std::vector<std::int32_t>(items.size(), 0);
  }
  const double limit = kTolerance * even;
  const auto parts = static_cast<double>(shares.size() + 1);
  cutter.solve([&](double before, const Part& part) {
    const bool fits = part.bytes <= cap && part.work <= limit;
    const std::int64_t over = part.first == 0 ? 0 : items[part.first - 1].crossing;
    // Below one byte in all: where as many go over, the more even cut counts.
    const double uneven = part.work * part.work / (limit * limit * parts);
    return fits ? before + static_cast<double>(over) + uneven : kNever;
  });
  return cutter.devices();
}

}  // namespace sluice::parallel
