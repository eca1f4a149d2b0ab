// Remote memory: host memory that takes what the devices have no room for, with the addresses of an
// arena. It may lie in a file, so that a model may exceed the memory of the machine, too. What is
// written to an undoable one goes to a second file until keep(): when a disk fails in the middle of
// an update, the one before is still there.
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

#include "sluice/device/memory.h"

namespace sluice::runtime {

class RemoteMemory {
 public:
  enum class Undo : std::uint8_t { No, Yes };

  /// In a file at `path`, which is made anew and removed with the object; empty: in memory, where
  /// nothing fails and nothing is undone.
  explicit RemoteMemory(std::string path = {}, Undo undo = Undo::No);
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  std::size_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  bool isFile() const { return !path_.empty(); }
  /// For queues; of memory only.
  device::Address at(std::size_t offset) const { return view_->at(offset); }
  /// Makes it at least this large; keeps what it holds and is unchanged when it throws. A file
  /// takes its room on the disk now: RecoverableError if there is none.
  void grow(std::size_t bytes);
  /// The bytes must be inside. Any thread may read and write bytes that no other one writes. Throws
  /// RecoverableError that names the file when it cannot be read or written.
  void read(std::size_t offset, std::byte* to, std::size_t bytes) const;
  void write(std::size_t offset, const std::byte* from, std::size_t bytes);

  /// Whether what was written since the last keep() can be undone. Then all accesses to the same
  /// bytes must begin and end at the same places.
  bool isUndoable() const { return files_.size() > 1; }
  void keep();
  void undo();

 private:
  struct File {
    std::string path;
    int handle = -1;
  };
  /// Bytes that were written: which file has them, and since when.
  struct Extent {
    std::size_t bytes = 0;
    std::size_t file = 0;
    bool written = false;  // since the last keep()
  };

  void requireInside(std::size_t offset, std::size_t bytes) const;
  static void makeRoom(File& file, std::size_t bytes);
  const File& fileToRead(std::size_t offset, std::size_t bytes) const;
  const File& fileToWrite(std::size_t offset, std::size_t bytes);

  std::string path_;
  std::vector<File> files_;  // none: in memory
  mutable std::mutex mutex_;
  std::map<std::size_t, Extent> extents_;  // by offset; of undoable ones
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> memory_;
  std::optional<device::HostMemory> view_;  // of memory_
};

}  // namespace sluice::runtime
