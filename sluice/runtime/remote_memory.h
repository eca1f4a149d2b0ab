// Remote memory: host memory that takes what the devices have no room for, with the addresses of an
// arena. It may lie in a file, so that a model may exceed the memory of the machine, too.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace sluice::runtime {

class RemoteMemory {
 public:
  /// In a file at `path`, which is made anew and removed with the object; empty: in memory.
  explicit RemoteMemory(std::string path = {});
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  std::size_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  /// Makes it at least this large; keeps what it holds and is unchanged when it throws. A file
  /// takes its room on the disk now: RecoverableError if there is none.
  void grow(std::size_t bytes);
  /// The bytes must be inside. Any thread may read and write bytes that no other one writes. Throws
  /// RecoverableError that names the file when it cannot be read or written.
  void read(std::size_t offset, std::byte* to, std::size_t bytes) const;
  void write(std::size_t offset, const std::byte* from, std::size_t bytes);

 private:
  void requireInside(std::size_t offset, std::size_t bytes) const;

  std::string path_;
  int file_ = -1;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> memory_;
};

}  // namespace sluice::runtime
