#include "sluice/base/near_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLongest = 128;  // a longer name is not a misspelt one
constexpr std::size_t kMost = 3;

bool sameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// What follows the last dot: the name without its group.
std::string_view lastPart(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

/// How many letters may differ.
std::size_t slipsOf(std::string_view wanted) {
  return std::min(std::max<std::size_t>(2, wanted.size() / 4), wanted.size() / 2);
}

}  // namespace

std::size_t editDistance(std::string_view a, std::string_view b) {
  // row[j] is the distance between the letters of a so far and the first j letters of b; `last`
  // and `before` are those of one letter and of two letters less.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> last = row;
  std::vector<std::size_t> before = row;
  for (std::size_t i = 0; i < a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] =
          std::min({last[j] + (sameLetter(a[i], b[j]) ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && sameLetter(a[i], b[j - 1]) && sameLetter(a[i - 1], b[j])) {
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);  // neighbours that changed places
      }
    }
  }
  return row.back();
}

std::vector<std::string_view> nearNames(std::string_view wanted,
                                        std::span<const std::string_view> names) {
  if (wanted.empty() || wanted.size() > kLongest) {
    return {};
  }
  struct Near {
    std::size_t slips;
    std::size_t wholeSlips;  // decides between equal slips: the group may be misspelt, too
    std::string_view name;
  };
  std::vector<Near> near;
  for (const std::string_view name : names) {
    const std::size_t whole = editDistance(wanted, name);
    const std::size_t part = editDistance(lastPart(wanted), lastPart(name));
    if (whole <= slipsOf(wanted) || part <= slipsOf(lastPart(wanted))) {
      near.push_back({std::min(whole, part), whole, name});
    }
  }
  std::ranges::stable_sort(
      near, {}, [](const Near& n) { return std::pair(n.slips, n.wholeSlips); });
  near.resize(std::min(near.size(), kMost));
  std::vector<std::string_view> result;
  result.reserve(near.size());
  for (const Near& each : near) {
    result.push_back(each.name);
  }
  return result;
}

std::string didYouMean(std::string_view wanted, std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : nearNames(wanted, names)) {
    text += (text.empty() ? " (did you mean '" : " or '") + std::string(name) + "'";
  }
  return text.empty() ? text : text + "?)";
}

}  // namespace sluice
