#include "sluice/profile/trace_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "sluice/base/atomic_file.h"
#include "sluice/base/byte_code.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "sluice/profile/replay.h"
#include "sluice/profile/trace_values.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using program::TaskKind;
using runtime::TaskTime;

constexpr std::string_view kMagic = "SLUICEtr";
constexpr std::uint32_t kVersion = 4;
constexpr std::size_t kHeader = 8 + 4 + 8 + 8;
constexpr std::int64_t kMostTime = std::int64_t{1} << 61;  // so that sums of two fit
constexpr double kMostSum = 1e18;                          // of times, so that sums of all fit
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;
constexpr std::int64_t kMostRounds = std::int64_t{1} << 30;
constexpr std::int64_t kMostReplicas = 1 << 16;
constexpr std::int64_t kMostDevices = 1 << 22;
constexpr std::int64_t kLaneKinds = 8;
// Reports have the names and the touches of every task that ran: so many for a file, and for each
// of its bytes.
constexpr std::size_t kNamesOfFile = std::size_t{64} << 20U;  // characters
constexpr std::size_t kNamesOfByte = 256;
constexpr std::size_t kTouchesOfFile = std::size_t{16} << 20U;
constexpr std::size_t kTouchesOfByte = 16;
constexpr std::size_t kUsesOfFile = std::size_t{1} << 20U;  // of a device in a step
constexpr std::size_t kUsesOfByte = 4;

std::uint64_t fixedAt(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

// --- writing -----------------------------------------------------------------

void writeSubject(ByteWriter& out, const TracedSubject& subject) {
  out.number(static_cast<std::int32_t>(subject.kind));
  out.text(subject.name);
  out.text(subject.category);
  out.number(subject.stage);
  out.flag(subject.oncePerRound);
  out.number(subject.bytes);
  out.number(subject.rule.every);
  out.flag(subject.rule.finalOnly);
  out.number(subject.workBytes);
  out.number(std::uint64_t{subject.touches.size()});
  for (const Touch& touch : subject.touches) {
    out.number(touch.buffer);
    out.flag(touch.reads);
    out.flag(touch.writes);
  }
}

void writeLane(ByteWriter& out, const TracedLane& lane) {
  out.number(lane.device);
  out.number(static_cast<std::int32_t>(lane.kind));
  out.text(lane.name);
  out.number(lane.peer);
  out.number(std::uint64_t{lane.tasks.size()});
  for (const TracedTask& task : lane.tasks) {
    out.number(task.subject);
    out.number(task.microBatch);
    out.number(std::uint64_t{task.waits.size()});
    for (const program::Wait& wait : task.waits) {
      out.number(wait.lane);
      out.number(wait.task);
      out.number(wait.roundsBack);
      out.flag(wait.allReplicas);
    }
    out.number(std::uint64_t{task.slots.size()});
    for (const program::Slot& slot : task.slots) {
      out.number(static_cast<std::int32_t>(slot.buffer.index()));
      out.number(slot.slot);
    }
  }
}

/// Kernels by subject, then the times by step; nothing if no kernels were recorded.
void writeKernels(ByteWriter& out, const Trace& trace) {
  out.flag(!trace.kernels.empty());
  if (trace.kernels.empty()) {
    return;
  }
  for (const TracedSubject& subject : trace.subjects) {
    out.number(std::uint64_t{subject.kernels.size()});
    for (const TracedKernel& kernel : subject.kernels) {
      out.text(kernel.name);
      out.number(kernel.flops);
      out.number(kernel.bytes);
      out.number(kernel.limit);
    }
  }
  std::vector<std::vector<runtime::KernelSpan>> kernels = trace.kernels;
  kernels.resize(trace.steps.size());
  for (const std::vector<runtime::KernelSpan>& step : kernels) {
    out.number(std::uint64_t{step.size()});
    std::int64_t before = 0;
    for (const runtime::KernelSpan& time : step) {
      out.number(time.lane);
      out.number(time.task);
      out.number(time.round);
      out.number(time.replica);
      out.number(time.kernel);
      out.number(time.start - before);
      out.number(static_cast<std::uint64_t>(time.end - time.start));
      before = time.start;
    }
  }
}

/// Place of a task in its lane, over all rounds.
std::int64_t placeOf(const Trace& trace, const TaskTime& time) {
  return std::int64_t{time.round} * static_cast<std::int64_t>(trace.laneOf(time).tasks.size()) +
         time.task;
}

std::string bodyOf(const Trace& trace) {
  ByteWriter out;
  out.text(trace.name);
  out.flag(trace.training);
  out.number(trace.microBatchesPerRound);
  out.number(trace.replicas);
  out.number(trace.toUnix);
  out.text(trace.simulated);
  out.number(std::uint64_t{trace.devices.size()});
  for (const TracedDevice& device : trace.devices) {
    out.number(device.ownBytes);
    out.number(device.stateBytes);
    out.number(device.transientBytes);
  }
  out.number(std::uint64_t{trace.buffers.size()});
  for (const TracedBuffer& buffer : trace.buffers) {
    out.text(buffer.name);
    out.number(buffer.device);
    out.flag(buffer.state);
    out.number(buffer.bytes);
    out.number(buffer.slots);
  }
  out.number(std::uint64_t{trace.subjects.size()});
  for (const TracedSubject& subject : trace.subjects) {
    writeSubject(out, subject);
  }
  out.number(std::uint64_t{trace.lanes.size()});
  for (const TracedLane& lane : trace.lanes) {
    writeLane(out, lane);
  }
  out.number(std::uint64_t{trace.steps.size()});
  for (const Trace::Step& step : trace.steps) {
    writeTimes(out, trace, step);
  }
  std::vector<StepWrites> writes = trace.writes;
  writes.resize(trace.steps.size());
  writeValues(out, writes);
  writeKernels(out, trace);
  return out.bytes();
}

std::uint64_t checksumOf(std::string_view body) {
  return Hasher().add(body).digest();
}

// --- reading -----------------------------------------------------------------

class TraceReader {
 public:
  TraceReader(std::string_view body, std::string_view file)
      : in_(body, fmt::format("trace file '{}'", file)),
        namesLeft_(kNamesOfFile + kNamesOfByte * body.size()),
        touchesLeft_(kTouchesOfFile + kTouchesOfByte * body.size()),
        usesLeft_(kUsesOfFile + kUsesOfByte * body.size()) {}

  Trace read() {
    t_.name = in_.text();
    t_.training = in_.flag();
    t_.microBatchesPerRound = in_.index(1, kMostRounds, "the number of micro-batches");
    t_.replicas = in_.index(1, kMostReplicas, "the number of replicas");
    t_.toUnix = in_.within(-kMostTime, kMostTime, "the time");
    t_.simulated = in_.text();
    t_.devices.resize(in_.count("devices"));
    for (TracedDevice& device : t_.devices) {
      device = {bytes(), bytes(), bytes()};
    }
    t_.buffers.resize(in_.count("buffers"));
    for (TracedBuffer& buffer : t_.buffers) {
      readBuffer(buffer);
    }
    t_.subjects.resize(in_.count("subjects"));
    for (TracedSubject& subject : t_.subjects) {
      readSubject(subject);
    }
    t_.lanes.resize(in_.count("lanes"));
    for (TracedLane& lane : t_.lanes) {
      readLane(lane);
    }
    requireWaits();
    const std::size_t steps = in_.count("steps");
    for (std::size_t s = 0; s < steps; ++s) {
      readStep();
    }
    requireReplicas();
    t_.writes = readValues(in_, steps);
    if (in_.flag()) {
      readKernels();
    }
    in_.end();
    return std::move(t_);
  }

 private:
  std::int64_t bytes() { return in_.within(0, kMostBytes, "a number of bytes"); }
  std::int32_t device() {
    return in_.index(0, static_cast<std::int64_t>(t_.devices.size()), "a device");
  }
  std::int32_t buffer() {
    return in_.index(0, static_cast<std::int64_t>(t_.buffers.size()), "a buffer");
  }

  void readBuffer(TracedBuffer& buffer) {
    buffer.name = in_.text();
    buffer.device = device();
    buffer.state = in_.flag();
    buffer.bytes = bytes();
    buffer.slots = in_.index(1, kMostRounds, "the number of slots");
  }

  void readSubject(TracedSubject& subject) {
    subject.kind = static_cast<TaskKind>(
        in_.index(0, static_cast<std::int64_t>(program::kTaskKinds), "the kind of a task"));
    subject.name = in_.text();
    subject.category = in_.text();
    subject.stage = in_.index(-1, kMostRounds, "a stage");
    subject.oncePerRound = in_.flag();
    subject.bytes = bytes();
    subject.rule.every = in_.index(1, kMostRounds, "the period of an output");
    subject.rule.finalOnly = in_.flag();
    subject.workBytes = bytes();
    subject.touches.resize(in_.count("touches"));
    for (Touch& touch : subject.touches) {
      touch.buffer = buffer();
      touch.reads = in_.flag();
      touch.writes = in_.flag();
    }
  }

  void readLane(TracedLane& lane) {
    lane.device = device();
    lane.kind = static_cast<LaneKind>(in_.index(0, kLaneKinds, "the kind of a lane"));
    lane.name = in_.text();
    lane.peer = in_.index(-1, kMostRounds, "the peer of a lane");
    lane.tasks.resize(in_.count("tasks"));
    for (TracedTask& task : lane.tasks) {
      task.subject = in_.index(0, static_cast<std::int64_t>(t_.subjects.size()), "a subject");
      task.microBatch = in_.index(0, t_.microBatchesPerRound, "a micro-batch");
      countNames(lane, task);
      task.waits.resize(in_.count("waits"));
      for (program::Wait& wait : task.waits) {
        wait.lane = in_.index(0, kMostRounds, "a lane");
        wait.task = in_.index(0, kMostRounds, "a task");
        wait.roundsBack = in_.index(0, kMostRounds, "a round");
        wait.allReplicas = in_.flag();
      }
      task.slots.resize(in_.count("slots"));
      for (program::Slot& slot : task.slots) {
        slot.buffer = program::BufferId(buffer());
        slot.slot = in_.index(0, t_.buffers[slot.buffer.index()].slots, "a slot");
      }
    }
  }

  /// Of a task or a kernel that is named once more.
  void countNames(const TracedLane& lane, const TracedTask& task, std::size_t more = 0) {
    const TracedSubject& subject = t_.subjectOf(task);
    const std::size_t size =
        t_.name.size() + lane.name.size() + subject.name.size() + subject.category.size() + more;
    if (size > namesLeft_) {
      in_.fail("its names are too long for as many tasks");
    }
    namesLeft_ -= size;
  }

  void countRun(const TracedLane& lane, const TracedTask& task) {
    countNames(lane, task);
    const std::size_t touches = t_.subjectOf(task).touches.size();
    if (touches > touchesLeft_) {
      in_.fail("its tasks touch too many buffers");
    }
    touchesLeft_ -= touches;
  }

  void requireWaits() {
    for (const TracedLane& lane : t_.lanes) {
      for (const TracedTask& task : lane.tasks) {
        for (const program::Wait& wait : task.waits) {
          const auto other = static_cast<std::size_t>(wait.lane);
          if (other >= t_.lanes.size() ||
              static_cast<std::size_t>(wait.task) >= t_.lanes[other].tasks.size()) {
            in_.fail(fmt::format(
                "a task waits for task {} of lane {}, which is not there", wait.task, wait.lane));
          }
        }
      }
    }
    try {
      replay(t_, Durations(t_.subjects.size(), 0), 1);
    } catch (const InternalError&) {
      in_.fail("its tasks wait for each other in a circle");
    }
  }

  /// As many as have run, so that a small file asks for little memory.
  void requireReplicas() {
    std::int32_t seen = 0;
    for (const Trace::Step& step : t_.steps) {
      for (const TaskTime& time : step) {
        seen = std::max(seen, time.replica);
      }
    }
    if (seen + 1 != t_.replicas) {
      in_.fail(fmt::format("it has {} replicas, {} of which have run", t_.replicas, seen + 1));
    }
    const std::int64_t devices = static_cast<std::int64_t>(t_.devices.size()) * t_.replicas;
    if (devices > kMostDevices) {
      in_.fail(fmt::format("it has more than {} devices", kMostDevices));
    }
    if (static_cast<std::size_t>(devices) * t_.steps.size() > usesLeft_) {
      in_.fail(
          fmt::format("{} steps of {} devices do not fit in the file", t_.steps.size(), devices));
    }
  }

  void readStep() {
    Trace::Step step;
    for (std::int32_t replica = 0; replica < t_.replicas; ++replica) {
      for (std::size_t lane = 0; lane < t_.lanes.size(); ++lane) {
        readTimes(step, replica, static_cast<std::int32_t>(lane));
      }
    }
    t_.addStep(step);
    if (!step.empty()) {
      const auto span =
          static_cast<double>(Trace::endOf(t_.steps.back()) - Trace::beginOf(t_.steps.back()));
      spanned_ += span * static_cast<double>(t_.numDevices() + 1);
      if (spanned_ > kMostSum) {
        in_.fail("its steps are impossibly long");
      }
    }
  }

  void readTimes(Trace::Step& step, std::int32_t replica, std::int32_t lane) {
    const auto tasks =
        static_cast<std::int64_t>(t_.lanes[static_cast<std::size_t>(lane)].tasks.size());
    const std::size_t count = in_.count("times");
    if (count > 0 && tasks == 0) {
      in_.fail("there are times of a lane without tasks");
    }
    std::int64_t place = -1;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < count; ++i) {
      place += 1 + in_.within(0, kMostTime, "the place of a task");
      const std::int64_t start = end + in_.within(-kMostTime, kMostTime, "the begin of a task");
      const std::uint64_t length = in_.number();
      if (place / tasks >= kMostRounds || start < -kMostTime || start > kMostTime ||
          length > static_cast<std::uint64_t>(kMostTime)) {
        in_.fail("a task has an impossible round or time");
      }
      end = start + static_cast<std::int64_t>(length);
      worked_ += static_cast<double>(length);
      if (end > kMostTime || worked_ > kMostSum) {
        in_.fail("a task has an impossible end");
      }
      step.push_back({.lane = lane,
                      .task = static_cast<std::int32_t>(place % tasks),
                      .round = static_cast<std::int32_t>(place / tasks),
                      .start = start,
                      .end = end,
                      .replica = replica});
      countRun(t_.laneOf(step.back()), t_.taskOf(step.back()));
    }
  }

  void readKernels() {
    for (TracedSubject& subject : t_.subjects) {
      subject.kernels.resize(in_.count("kernels"));
      for (TracedKernel& kernel : subject.kernels) {
        kernel.name = in_.text();
        kernel.flops = in_.within(0, kMostTime, "the arithmetic of a kernel");
        kernel.bytes = bytes();
        kernel.limit = in_.within(0, kMostTime, "the limit of a kernel");
      }
    }
    t_.kernels.resize(t_.steps.size());
    for (std::vector<runtime::KernelSpan>& step : t_.kernels) {
      step.resize(in_.count("times of kernels"));
      std::int64_t before = 0;
      for (runtime::KernelSpan& time : step) {
        readKernel(time, before);
        before = time.start;
      }
    }
  }

  void readKernel(runtime::KernelSpan& time, std::int64_t before) {
    time.lane = in_.index(0, static_cast<std::int64_t>(t_.lanes.size()), "a lane");
    const TracedLane& lane = t_.lanes[static_cast<std::size_t>(time.lane)];
    time.task = in_.index(0, static_cast<std::int64_t>(lane.tasks.size()), "a task");
    time.round = in_.index(0, kMostRounds, "a round");
    time.replica = in_.index(0, t_.replicas, "a replica");
    const TracedTask& task = t_.taskOf(time);
    const std::vector<TracedKernel>& kernels = t_.subjectOf(task).kernels;
    time.kernel = in_.index(0, std::ssize(kernels), "a kernel");
    countNames(lane, task, kernels[static_cast<std::size_t>(time.kernel)].name.size());
    time.start = before + in_.within(-kMostTime, kMostTime, "the begin of a kernel");
    const std::uint64_t length = in_.number();
    worked_ += static_cast<double>(length);
    if (time.start < -kMostTime || time.start > kMostTime ||
        length > static_cast<std::uint64_t>(kMostTime) || worked_ > kMostSum) {
      in_.fail("a kernel has an impossible time");
    }
    time.end = time.start + static_cast<std::int64_t>(length);
  }

  ByteReader in_;
  std::size_t namesLeft_;
  std::size_t touchesLeft_;
  std::size_t usesLeft_;
  Trace t_;
  double worked_ = 0;   // by all tasks
  double spanned_ = 0;  // by all steps on all devices
};

}  // namespace

void writeTimes(ByteWriter& out, const Trace& trace, const Trace::Step& step, std::int64_t origin) {
  const std::size_t lanes = trace.lanes.size();
  std::vector<Trace::Step> byLane(lanes * static_cast<std::size_t>(trace.replicas));
  for (const TaskTime& time : step) {
    byLane[static_cast<std::size_t>(time.replica) * lanes + static_cast<std::size_t>(time.lane)]
        .push_back(time);
  }
  for (Trace::Step& times : byLane) {
    std::ranges::sort(times, {}, [&](const TaskTime& time) { return placeOf(trace, time); });
    out.number(std::uint64_t{times.size()});
    std::int64_t place = -1;
    std::int64_t end = origin;
    for (const TaskTime& time : times) {
      out.number(placeOf(trace, time) - place - 1);
      out.number(time.start - end);
      out.number(static_cast<std::uint64_t>(time.end - time.start));
      place = placeOf(trace, time);
      end = time.end;
    }
  }
}

std::string sealedTrace(std::string_view body) {
  ByteWriter header;
  header.fixed(kVersion, 4);
  header.fixed(body.size(), 8);
  header.fixed(checksumOf(body), 8);
  return std::string(kMagic).append(header.bytes()).append(body);
}

std::string traceBytes(const Trace& trace) {
  return sealedTrace(bodyOf(trace));
}

Trace parseTrace(std::string_view bytes, std::string_view file) {
  if (!bytes.starts_with(kMagic.substr(0, std::min(bytes.size(), kMagic.size()))) ||
      bytes.empty()) {
    raise<FileError>(
        "'{}' is not a trace file (*.slt): it does not begin with '{}'; "
        "Options::enableProfiling makes one",
        file,
        kMagic);
  }
  if (bytes.size() < kHeader) {
    raise<FileError>("trace file '{}' is truncated: it has {} bytes, its header alone needs {}",
                     file,
                     bytes.size(),
                     kHeader);
  }
  const std::uint64_t version = fixedAt(bytes, 8, 4);
  if (version != kVersion) {
    raise<FileError>(
        "trace file '{}' has version {} of the format; this library reads version {}: "
        "use the library that wrote it, or record the run again",
        file,
        version,
        kVersion);
  }
  const std::uint64_t size = fixedAt(bytes, 12, 8);
  const std::string_view body = bytes.substr(kHeader);
  if (body.size() != size) {
    raise<FileError>("trace file '{}' is {}: {} bytes should follow its header, there are {}",
                     file,
                     body.size() < size ? "truncated" : "too long",
                     size,
                     body.size());
  }
  if (checksumOf(body) != fixedAt(bytes, 20, 8)) {
    raise<FileError>("trace file '{}' is damaged: its checksum does not fit its content", file);
  }
  return TraceReader(body, file).read();
}

void writeTrace(const std::filesystem::path& path, const Trace& trace) {
  writeFileAtomically(path, traceBytes(trace));
}

Trace readTrace(const std::filesystem::path& path) {
  return parseTrace(readFile(path), path.string());
}

}  // namespace sluice::profile
