// Remote memory: host memory for data that does not fit the devices, addressed like an arena. It
// may be in a file, so that a model can even exceed the memory of the machine. If it is undoable,
// writes go to a second file until keep(): if a disk fails in the middle of an update, the previous
// state is still there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/runtime/page_sums.h"

namespace sluice::runtime {

class RemoteMemory {
 public:
  enum class Undo : std::uint8_t { No, Yes };

  /// Uses a file at `path`, which is created anew and removed with the object. If `path` is empty,
  /// it is in memory, where nothing fails and nothing is undone.
  explicit RemoteMemory(std::string path = {}, Undo undo = Undo::No);
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  std::size_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  bool isFile() const { return !path_.empty(); }
  /// The address for queues; only for remote memory that is not in a file.
  device::Address at(std::size_t offset) const {
    return pinned_ != nullptr ? pinned_->at(offset) : view_->at(offset);
  }
  /// Lets a device lock it, so that its copies are quick. The device must outlive the memory.
  void copiedBy(device::Device& device);
  /// Makes it at least this large and keeps its content; it is unchanged if this throws. A file
  /// allocates its disk space now and throws RecoverableError if there is none.
  void grow(std::size_t bytes);
  /// The bytes must be inside. Any thread may access bytes that no other thread writes. Throws
  /// RecoverableError naming the file if it cannot be read or written, or if it does not have the
  /// bytes any more that were written there in one piece.
  void read(std::size_t offset, std::byte* to, std::size_t bytes) const;
  void write(std::size_t offset, const std::byte* from, std::size_t bytes);

  /// Whether writes since the last keep() can be undone. If so, all accesses to the same bytes must
  /// have the same begin and end.
  bool isUndoable() const { return files_.size() > 1; }
  void keep();
  void undo();

 private:
  struct File {
    std::string path;
    int handle = -1;
    std::unique_ptr<PageSums> sums = std::make_unique<PageSums>();
  };
  /// Bytes that were written, and the file that has them.
  struct Extent {
    std::size_t bytes = 0;
    std::size_t file = 0;
    bool written = false;  // since the last keep()
  };

  /// Pins memory_ again, wherever it is now.
  void lock();
  void requireInside(std::size_t offset, std::size_t bytes) const;
  static void makeRoom(File& file, std::size_t bytes);
  static void readWhole(const File& file, std::size_t offset, std::byte* to, std::size_t bytes);
  const File& fileToRead(std::size_t offset, std::size_t bytes) const;
  const File& fileToWrite(std::size_t offset, std::size_t bytes);

  std::string path_;
  std::vector<File> files_;  // empty: in memory
  mutable std::mutex mutex_;
  std::map<std::size_t, Extent> extents_;  // by offset; only if undoable
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> memory_;
  std::optional<device::HostMemory> view_;  // of memory_
  device::Device* copier_ = nullptr;
  std::unique_ptr<device::Memory> pinned_;  // memory_, locked by the copier; ends before memory_
};

}  // namespace sluice::runtime
