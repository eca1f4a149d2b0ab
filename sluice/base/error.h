// The exceptions of Sluice. Every error that a user can cause is one of the types below. A message
// says what was expected, what was found, where, and what to do. `InternalError` means a bug in
// Sluice and is thrown only by SLUICE_CHECK. Layer boundaries add context to a passing exception
// with `Error::at`; no code logs an exception and rethrows it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#pragma GCC visibility push(default)

namespace sluice {

class Error : public std::exception {
 public:
  explicit Error(std::string message, std::string_view type = "Error");

  const std::string& message() const noexcept { return message_; }
  const std::string& type() const noexcept { return type_; }
  const std::string& location() const noexcept { return location_; }
  const char* what() const noexcept override { return what_.c_str(); }

  /// Adds the place where the error happened; the innermost place comes first.
  void at(std::string_view place);

 private:
  void compose();

  std::string message_;
  std::string type_;
  std::string location_;
  std::string what_;
};

/// A value given by the caller cannot be used: its shape, type, name or range is wrong.
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(std::string message) : Error(std::move(message), "InvalidArgument") {}
};

/// A file of settings or a setting's text could not be read.
class ConfigFileError : public Error {
 public:
  explicit ConfigFileError(std::string message) : Error(std::move(message), "ConfigFileError") {}
};

/// The request is sound, but this build or device cannot do it.
class Unsupported : public Error {
 public:
  explicit Unsupported(std::string message) : Error(std::move(message), "Unsupported") {}
};

/// The plan does not fit the byte budget of a device.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(std::string message) : Error(std::move(message), "OutOfMemory") {}
};

/// A device failed or could not be acquired.
class DeviceError : public Error {
 public:
  explicit DeviceError(std::string message, std::string_view type = "DeviceError")
      : Error(std::move(message), type) {}
};

/// A file could not be read or written, or does not hold what it should.
class FileError : public Error {
 public:
  explicit FileError(std::string message) : Error(std::move(message), "FileError") {}
};

/// A bug in Sluice; never reachable by user input.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message) : Error(std::move(message), "InternalError") {}
};

/// Throws E with a formatted message: raise<InvalidArgument>("axis {} of {}", axis, shape).
template <class E, class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void checkFailed(const char* condition,
                              const char* file,
                              int line,
                              std::string message);
}  // namespace detail

}  // namespace sluice

/// Always on. Checks an invariant of Sluice itself; the other arguments form an fmt message.
#define SLUICE_CHECK(condition, ...)            \
  ((condition) ? static_cast<void>(0)           \
               : ::sluice::detail::checkFailed( \
                     #condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))

// Cancelled: thrown when a call is cancelled (Model::cancel) or when the work that it is part of
// ends early.

namespace sluice {

class Cancelled : public Error {
 public:
  explicit Cancelled(std::string message) : Error(std::move(message), "Cancelled") {}
};

}  // namespace sluice

#pragma GCC visibility pop
