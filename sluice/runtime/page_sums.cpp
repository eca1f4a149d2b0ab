#include "sluice/runtime/page_sums.h"

#include <algorithm>

#include "sluice/base/quick_sum.h"

namespace sluice::runtime {
namespace {

std::uint64_t sumOf(const std::byte* data, std::size_t bytes) {
  return QuickSum().add({data, bytes}).digest();
}

}  // namespace

void PageSums::note(std::size_t offset, const std::byte* data, std::size_t bytes) {
  const std::uint64_t sum = sumOf(data, bytes);
  const std::scoped_lock lock(mutex_);
  const std::size_t first = offset - std::min(offset, longest_);
  for (auto page = pages_.lower_bound(first); page != pages_.end() && page->first < offset + bytes;
       ++page) {
    if (page->first + page->second.bytes > offset) {
      page->second.bytes = 0;
    }
  }
  pages_[offset] = {bytes, sum};
  longest_ = std::max(longest_, bytes);
}

bool PageSums::areKept(std::size_t offset, const std::byte* data, std::size_t bytes) const {
  Page page;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = pages_.find(offset);
    page = found == pages_.end() ? Page{} : found->second;
  }
  return bytes == 0 || page.bytes != bytes || page.sum == sumOf(data, bytes);
}

}  // namespace sluice::runtime
