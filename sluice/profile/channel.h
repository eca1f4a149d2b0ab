// Trace points in the user's own code: when data was loaded, when a batch was prepared. They become
// a trace file of their own, which `sluice report model.slt host.slt --format perfetto` puts on one
// absolute time with the traces of models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#pragma GCC visibility push(default)

namespace sluice::profiling {

/// Something that takes time, from when it is made until it is destroyed or moved from.
class Tracepoint {
 public:
  Tracepoint(std::string channel, std::string name);
  ~Tracepoint();
  Tracepoint(Tracepoint&& other) noexcept;
  Tracepoint(const Tracepoint&) = delete;
  Tracepoint& operator=(const Tracepoint&) = delete;
  Tracepoint& operator=(Tracepoint&&) = delete;

 private:
  struct Open;
  std::unique_ptr<Open> open_;  // null: nothing is recorded
};

/// A named line of a report. Any thread may use it.
class Channel {
 public:
  explicit Channel(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  [[nodiscard]] Tracepoint tracepoint(std::string name) const { return {name_, std::move(name)}; }

 private:
  std::string name_;
};

/// Whether trace points are recorded: after record(), or from the start with SLUICE_PROFILE or
/// PVTI_OPTIONS='{"enable": "true"}' in the environment. Then the process writes host.slt into that
/// folder when it ends.
bool isRecording();
void record(bool on);
/// Writes all that has ended so far, of all threads. Throws InvalidArgument if there is nothing,
/// and FileError.
void writeHostTrace(const std::filesystem::path& file);

}  // namespace sluice::profiling

#pragma GCC visibility pop
