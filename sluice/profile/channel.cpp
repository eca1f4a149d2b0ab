#include "sluice/profile/channel.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/device/queue.h"
#include "sluice/profile/trace_file.h"

namespace sluice::profiling {
namespace {

struct HostEvent {
  std::string channel;
  std::string name;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

constexpr std::size_t kMostEvents = 1 << 20;  // further ones are counted, not kept

/// Of the whole process.
struct HostLog {
  std::mutex mutex;  // guards all below
  bool on = false;
  std::vector<HostEvent> events;
  std::size_t dropped = 0;
  std::optional<std::filesystem::path> folder;  // written when the process ends

  HostLog() {
    folder = folderOfEnvironment();
    on = folder.has_value();
  }
  HostLog(const HostLog&) = delete;
  HostLog& operator=(const HostLog&) = delete;
  ~HostLog();

 private:
  static std::optional<std::filesystem::path> folderOfEnvironment();
};

HostLog& hostLog() {
  static HostLog log;
  return log;
}

/// Wrong texts are reported where models read them.
std::optional<std::filesystem::path> HostLog::folderOfEnvironment() {
  const std::optional<std::string> text = environmentValue("SLUICE_PROFILE", "PVTI_OPTIONS");
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  const bool ours = std::getenv("SLUICE_PROFILE") != nullptr;
  const auto found = json.find("enable");
  const std::string enabled = found == json.end()  ? (ours ? "true" : "false")
                              : found->is_string() ? found->get<std::string>()
                                                   : found->dump();
  if (enabled != "true" && enabled != "1") {
    return std::nullopt;
  }
  const auto directory = json.find("directory");
  return directory != json.end() && directory->is_string() ? directory->get<std::string>() : ".";
}

/// A lane for each channel; what happens at the same time stands in the same one.
profile::Trace traceOf(const std::vector<HostEvent>& events) {
  profile::Trace trace;
  trace.name = "host";
  trace.devices.resize(1);
  std::map<std::string, std::int32_t> lanes;
  std::map<std::string, std::int32_t> subjects;
  std::vector<runtime::TaskTime> times;
  for (const HostEvent& event : events) {
    const auto [lane, isNewLane] =
        lanes.try_emplace(event.channel, static_cast<std::int32_t>(trace.lanes.size()));
    if (isNewLane) {
      trace.lanes.push_back({.kind = program::LaneKind::Load, .name = event.channel, .tasks = {}});
    }
    const auto [subject, isNew] =
        subjects.try_emplace(event.name, static_cast<std::int32_t>(trace.subjects.size()));
    if (isNew) {
      trace.subjects.push_back({.kind = program::TaskKind::Feed,
                                .name = event.name,
                                .category = "host",
                                .oncePerRound = true,
                                .touches = {}});
    }
    auto& tasks = trace.lanes[static_cast<std::size_t>(lane->second)].tasks;
    times.push_back({.lane = lane->second,
                     .task = static_cast<std::int32_t>(tasks.size()),
                     .start = event.start,
                     .end = event.end});
    tasks.push_back({.subject = subject->second, .waits = {}, .slots = {}});
  }
  trace.addStep(times);
  const auto unix = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  trace.toUnix = unix.count() - device::steadyNanoseconds();
  return trace;
}

HostLog::~HostLog() {
  if (!folder || events.empty()) {
    return;
  }
  try {
    std::filesystem::create_directories(*folder);
    profile::writeTrace(*folder / "host.slt", traceOf(events));
  } catch (const std::exception& error) {
    // stderr may be closed by now.
    std::fputs(fmt::format("sluice: the trace of the host is lost: {}\n", error.what()).c_str(),
               stderr);
  }
}

}  // namespace

struct Tracepoint::Open {
  std::string channel;
  std::string name;
  std::int64_t start = 0;
};

Tracepoint::Tracepoint(std::string channel, std::string name) {
  if (isRecording()) {
    open_ = std::make_unique<Open>(
        Open{std::move(channel), std::move(name), device::steadyNanoseconds()});
  }
}

Tracepoint::Tracepoint(Tracepoint&& other) noexcept = default;

Tracepoint::~Tracepoint() {
  if (!open_) {
    return;
  }
  HostEvent event{
      std::move(open_->channel), std::move(open_->name), open_->start, device::steadyNanoseconds()};
  HostLog& log = hostLog();
  const std::scoped_lock lock(log.mutex);
  if (log.events.size() < kMostEvents) {
    log.events.push_back(std::move(event));
  } else {
    ++log.dropped;
  }
}

bool isRecording() {
  HostLog& log = hostLog();
  const std::scoped_lock lock(log.mutex);
  return log.on;
}

void record(bool on) {
  HostLog& log = hostLog();
  const std::scoped_lock lock(log.mutex);
  log.on = on;
}

void writeHostTrace(const std::filesystem::path& file) {
  std::vector<HostEvent> events;
  std::size_t dropped = 0;
  {
    HostLog& log = hostLog();
    const std::scoped_lock lock(log.mutex);
    events = log.events;
    dropped = log.dropped;
  }
  if (events.empty()) {
    raise<InvalidArgument>(
        "no trace point has ended: call profiling::record(true) first, or set SLUICE_PROFILE");
  }
  if (dropped > 0) {
    log::warn("profile", "{} trace points came after the first {}", dropped, kMostEvents);
  }
  profile::writeTrace(file, traceOf(events));
}

}  // namespace sluice::profiling
