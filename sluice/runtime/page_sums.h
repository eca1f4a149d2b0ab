// PageSums: checksums of what was written to a file of remote memory. A disk, or another program,
// may change the bytes while a model runs; the model then stops instead of training on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::runtime {

class PageSums {
 public:
  /// These bytes are being written. Whatever was noted for any of them no longer holds.
  void note(std::size_t offset, const std::byte* data, std::size_t bytes);
  /// Whether these bytes are those that were written. Bytes that were not written in one piece,
  /// with this begin and end, are taken as they are.
  bool areKept(std::size_t offset, const std::byte* data, std::size_t bytes) const;

 private:
  struct Page {
    std::size_t bytes = 0;  // 0: does not hold any more
    std::uint64_t sum = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::size_t, Page> pages_;  // by offset
  std::size_t longest_ = 0;            // of all pages that there ever were
};

}  // namespace sluice::runtime
