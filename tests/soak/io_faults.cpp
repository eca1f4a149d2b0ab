// A library that a program is started with (LD_PRELOAD), to see what it does when its files fail.
// It stands in front of the system's calls on files whose paths begin with SLUICE_FAULT_PATH and
// counts them; from the call with the number SLUICE_FAULT_AT on it plays one fault:
//
//   SLUICE_FAULT_KIND  eio     that call fails as a broken disk does
//                      full    that call and all writes after it fail as on a full disk
//                      short   that call and all after it transfer half of what was asked for
//                      broken  that call and all after it fail as a broken disk does
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

enum class Fault { None, Error, Full, Short };
enum class Call { Read, Write, Other };

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));  // NOLINT: how the system gives functions
}

const char* setting(const char* name) {
  const char* value = std::getenv(name);  // NOLINT: nobody sets variables any more
  return value == nullptr ? "" : value;
}

bool isWatched(const char* path) {
  static const char* const prefix = setting("SLUICE_FAULT_PATH");
  return *prefix != '\0' && std::strncmp(path, prefix, std::strlen(prefix)) == 0;
}

bool isWatched(int descriptor) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) {
    return false;
  }
  path[length] = '\0';
  return isWatched(path);
}

/// What happens to the next call on a watched file.
Fault nextFault(Call call) {
  static std::atomic<long> count{0};
  static const long at = std::atol(setting("SLUICE_FAULT_AT"));
  static const char* const kind = setting("SLUICE_FAULT_KIND");
  const long number = ++count;
  if (at <= 0 || number < at) {
    return Fault::None;
  }
  if (std::strcmp(kind, "eio") == 0) {
    return number == at ? Fault::Error : Fault::None;
  }
  if (std::strcmp(kind, "broken") == 0) {
    return Fault::Error;
  }
  if (std::strcmp(kind, "full") == 0) {
    return call == Call::Write ? Fault::Full : Fault::None;
  }
  return std::strcmp(kind, "short") == 0 ? Fault::Short : Fault::None;
}

/// Runs a call that transfers bytes, or lets it fail.
template <class F>
ssize_t transfer(int descriptor, Call call, size_t bytes, const F& run) {
  switch (isWatched(descriptor) ? nextFault(call) : Fault::None) {
    case Fault::Error:
      errno = EIO;
      return -1;
    case Fault::Full:
      errno = ENOSPC;
      return -1;
    case Fault::Short:
      return run(bytes > 1 ? bytes / 2 : bytes);
    case Fault::None:
      break;
  }
  return run(bytes);
}

/// Runs a call that succeeds or not.
template <class F>
int settle(bool watched, Call call, const F& run) {
  const Fault fault = watched ? nextFault(call) : Fault::None;
  if (fault == Fault::Error || fault == Fault::Full) {
    errno = fault == Fault::Error ? EIO : ENOSPC;
    return -1;
  }
  return run();
}

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* to, size_t bytes) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  return transfer(descriptor, Call::Read, bytes, [&](size_t n) { return real(descriptor, to, n); });
}

ssize_t pread64(int descriptor, void* to, size_t bytes, off64_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off64_t)>("pread64");
  return transfer(
      descriptor, Call::Read, bytes, [&](size_t n) { return real(descriptor, to, n, offset); });
}

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  return pread64(descriptor, to, bytes, offset);
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  return transfer(
      descriptor, Call::Write, bytes, [&](size_t n) { return real(descriptor, from, n); });
}

ssize_t pwrite64(int descriptor, const void* from, size_t bytes, off64_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return transfer(
      descriptor, Call::Write, bytes, [&](size_t n) { return real(descriptor, from, n, offset); });
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  return pwrite64(descriptor, from, bytes, offset);
}

int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  return settle(isWatched(descriptor), Call::Write, [&] { return real(descriptor); });
}

int ftruncate64(int descriptor, off64_t length) {
  static const auto real = next<int (*)(int, off64_t)>("ftruncate64");
  return settle(isWatched(descriptor), Call::Other, [&] { return real(descriptor, length); });
}

int ftruncate(int descriptor, off_t length) {
  return ftruncate64(descriptor, length);
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t length) {
  static const auto real = next<int (*)(int, off64_t, off64_t)>("posix_fallocate64");
  int result = 0;
  const int failed = settle(isWatched(descriptor), Call::Write, [&] {
    result = real(descriptor, offset, length);
    return 0;
  });
  return failed == 0 ? result : errno;
}

int posix_fallocate(int descriptor, off_t offset, off_t length) {
  return posix_fallocate64(descriptor, offset, length);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return settle(isWatched(to), Call::Write, [&] { return real(from, to); });
}

}  // extern "C"
