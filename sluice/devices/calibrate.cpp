#include "sluice/devices/calibrate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/base/host_limits.h"
#include "sluice/base/spin.h"

namespace sluice::devices {
namespace {

/// From one thread to another that looks for it, one way: the best of many short games, because
/// another program may have had the core meanwhile.
double handOverSeconds(device::Clock clock) {
  constexpr int kTurns = 2000;
  constexpr int kGame = 20;  // turns
  std::atomic<int> turn{0};
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  const auto play = [&](int first) {
    std::int64_t start = clock();
    for (int i = first; i < 2 * kTurns; i += 2) {
      if (first == 0 && i > 0 && i % (2 * kGame) == 0) {
        const std::int64_t now = clock();
        best = std::min(best, now - std::exchange(start, now));
      }
      while (turn.load() != i) {
        std::this_thread::yield();
      }
      turn.store(i + 1);
    }
  };
  std::thread other = startThread("calibrate", [&] { play(1); });
  play(0);
  other.join();
  return static_cast<double>(best) * 1e-9 / (2 * kGame);
}

/// Until a thread that sleeps goes on, the median. It is left alone for long enough to fall asleep:
/// the library looks around for a moment before it asks the system.
double wakeSeconds(device::Clock clock) {
  constexpr int kTimes = 51;
  constexpr std::int64_t kUntilAsleep = 100'000;  // nanoseconds
  std::atomic<int> call{0};
  std::atomic<int> answer{0};
  std::atomic<std::int64_t> woke{0};
  std::thread sleeper = startThread("calibrate", [&] {
    for (int i = 1; i <= kTimes; ++i) {
      call.wait(i - 1);
      woke.store(clock());
      answer.store(i);
    }
  });
  std::vector<std::int64_t> times;
  for (int i = 1; i <= kTimes; ++i) {
    std::int64_t start = clock();
    while (clock() - start < kUntilAsleep) {  // without a call of the system, which may take long
    }
    start = clock();
    call.store(i);
    call.notify_one();
    while (answer.load() != i) {
      std::this_thread::yield();
    }
    times.push_back(woke.load() - start);
  }
  sleeper.join();
  std::ranges::nth_element(times, times.begin() + kTimes / 2);
  return static_cast<double>(times[kTimes / 2]) * 1e-9;
}

/// Bytes that a sum of four terms reads per second, the best of several.
double sumRate(device::Device& device, const MeasureOptions& options) {
  constexpr int kTimes = 5;
  const auto queue = device.makeQueue();
  std::array<std::unique_ptr<device::Memory>, 4> terms;
  std::vector<device::Address> from;
  const auto elements = static_cast<std::int64_t>(options.copyBytes / sizeof(float) / terms.size());
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  for (auto& term : terms) {
    term = device.allocate(bytes);
    from.push_back(term->at());
    queue->fill(from.back(), std::byte{0x3C}, bytes);
  }
  const auto to = device.allocate(bytes);
  queue->finish();
  std::int64_t best = 0;
  for (int i = 0; i < kTimes; ++i) {
    const std::int64_t start = options.clock();
    queue->sum(to->at(), from, DType::F32, elements);
    queue->finish();
    const std::int64_t took = std::max<std::int64_t>(options.clock() - start, 1);
    best = best == 0 ? took : std::min(best, took);
  }
  return static_cast<double>(bytes * terms.size()) / (static_cast<double>(best) * 1e-9);
}

}  // namespace

sim::SimTarget calibrate(device::Device& device, const MeasureOptions& options) {
  const Measured measured = measureRates(device, options);
  const device::DeviceInfo& info = device.info();
  sim::SimTarget target;
  target.name = "measured";
  target.description = info.kind + ": " + info.description;
  target.memoryBytes = info.memoryBytes;
  target.flops = measured.rates;
  target.memoryBytesPerSecond = measured.memoryBytesPerSecond;
  target.kernelTicks = std::llround(measured.launchSeconds * 1e9);
  // Both sides of a copy within the memory were counted.
  target.machine.peer = {.bytesPerSecond = measured.memoryBytesPerSecond / 2,
                         .latencySeconds = info.peerLink.latencySeconds};
  target.machine.host = {
      .bytesPerSecond = std::min(measured.fromHostBytesPerSecond, measured.toHostBytesPerSecond),
      .latencySeconds = info.hostLink.latencySeconds};
  target.machine.remote = target.machine.host;
  target.machine.sumBytesPerSecond = sumRate(device, options);
  target.machine.taskSeconds = handOverSeconds(options.clock);
  target.machine.wakeSeconds = wakeSeconds(options.clock);
  if (info.copyEngines == 0) {  // devices are threads of the host
    target.machine.cores = std::max(1, availableCores() / std::max(1, info.threads));
    target.machine.hostStreams = 1;
  }
  for (const char* figure : {"flops",
                             "memoryBytesPerSecond",
                             "kernelTicks",
                             "peerLink",
                             "hostLink",
                             "remoteLink",
                             "sumBytesPerSecond",
                             "taskSeconds",
                             "wakeSeconds"}) {
    target.sources[figure] = "measured on this machine";
  }
  target.sources["cores"] = "cores of this machine by threads of a device";
  target.sources["syncSeconds"] = "nothing: devices wait for data";
  return target;
}

}  // namespace sluice::devices
