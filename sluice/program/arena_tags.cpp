#include "sluice/program/arena_tags.h"

#include <algorithm>

namespace sluice::program {

ArenaTags::Ranges::iterator ArenaTags::cut(std::size_t begin, std::size_t end) {
  auto first = --ranges_.upper_bound(begin);
  if (first->first < begin) {
    const auto rest = ranges_.emplace_hint(std::next(first), begin, first->second);
    first->second.end = begin;
    first = rest;
  }
  auto last = first;
  while (last->second.end < end) {
    ++last;
  }
  if (last->second.end > end) {
    ranges_.emplace_hint(std::next(last), end, last->second);
    last->second.end = end;
  }
  return first;
}

void ArenaTags::read(std::size_t begin, std::size_t end, Access access) {
  for (auto at = cut(begin, end); at != ranges_.end() && at->first < end; ++at) {
    std::vector<Access>& readers = at->second.readers;
    const auto same =
        std::ranges::find_if(readers, [&](const Access& a) { return a.lane == access.lane; });
    if (same != readers.end()) {
      *same = access;
    } else {
      readers.push_back(access);
    }
  }
}

void ArenaTags::write(std::size_t begin, std::size_t end, const Tag& tag, Access access) {
  const auto first = cut(begin, end);
  ranges_.erase(std::next(first), ranges_.lower_bound(end));
  Range& range = first->second;
  range.end = end;
  range.tag = tag;
  range.writer = access;
  range.readers.clear();
}

}  // namespace sluice::program
