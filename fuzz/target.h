// What the fuzz targets share: how they begin, the invariant that only errors of ours come out, and
// bytes as a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "sluice/base/error.h"

/// Begins the function of a target, which gets `data` and `size`. The fuzzer calls it under its own
/// name; tests replay inputs of all targets in one program (replay_test.cpp).
#ifdef SLUICE_FUZZ_REPLAY
#define SLUICE_FUZZ_TARGET(name) \
  extern "C" void replay_##name(const std::uint8_t* data, std::size_t size)
#else
#define SLUICE_FUZZ_TARGET(name)                                                      \
  static void fuzz_##name(const std::uint8_t* data, std::size_t size);                \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    fuzz_##name(data, size);                                                          \
    return 0;                                                                         \
  }                                                                                   \
  static void fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif

namespace sluice::fuzz {

inline std::string_view textOf(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A finding, with what is wrong.
[[noreturn]] inline void report(std::string_view what) {
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

inline void require(bool condition, std::string_view what) {
  if (!condition) {
    report(what);
  }
}

/// Whether `attempt` went through. An Error refuses, which is right; InternalError is a finding,
/// and so is any other exception, which nobody catches.
template <class Attempt>
bool accepts(const Attempt& attempt) {
  try {
    attempt();
    return true;
  } catch (const InternalError& error) {
    report(error.what());
  } catch (const Error&) {
    return false;
  }
}

/// A file without a place on a disk, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(::memfd_create(name, 0)) {
    require(file_ >= 0, "no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(file_);
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  void write(std::string_view bytes) const {
    require(::ftruncate(file_, 0) == 0 && ::pwrite(file_, bytes.data(), bytes.size(), 0) ==
                                              static_cast<ssize_t>(bytes.size()),
            "cannot write the file in memory");
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace sluice::fuzz
