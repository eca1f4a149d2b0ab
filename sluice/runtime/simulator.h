// Simulator: the third reader of a Program, after the Engine and the verifier. It runs the lanes of
// all replicas in virtual time: a task starts when its lane is free, all that it waits for has
// ended, and the resources that it uses (cores, ports of devices, links to the host) have room. Of
// several tasks that want the same resource, the one that the Engine would take goes first.
// Nothing is computed. Times are whole ticks and depend on nothing but Program and costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

namespace sluice::runtime {

/// What only some tasks can use at a time.
struct SimResource {
  std::string name;           ///< for people: "cores", "out 0"
  std::int32_t capacity = 1;  ///< tasks at a time, at least 1
  bool shared = false;        ///< one for all replicas; otherwise each replica has its own
};

/// What one task takes if no other task is in its way.
struct SimCost {
  std::int64_t busy = 0;     ///< ticks for which it holds its resources
  std::int64_t latency = 0;  ///< ticks from then to its end
  std::vector<std::int32_t> resources = {};

  bool operator==(const SimCost&) const = default;
};

/// A clock of 9 GHz; times in nanoseconds are then exact to the last one.
inline constexpr std::int64_t kMostTicksPerSecond = 9'000'000'000;

/// By subject of the tasks. Tasks of a kind whose list is empty take no time.
struct SimCosts {
  std::int64_t ticksPerSecond = 1'000'000'000;
  std::vector<SimResource> resources = {};
  std::vector<SimCost> segments = {};
  std::vector<SimCost> feeds = {};
  std::vector<SimCost> drains = {};
  std::vector<SimCost> transfers = {};
  std::vector<SimCost> collectives = {};
  std::vector<SimCost> messages = {};
  SimCost barrier = {};
  /// From the end of the last task that a task waits for until it can start, if one of the two
  /// lanes has threads of its own that sleep (fetch, flush, send, receive). A lane that had not to
  /// wait is awake.
  std::int64_t wake = 0;
};

struct SimOptions {
  std::int32_t rounds = 1;
  std::int32_t replicas = 1;
  /// An earlier step has packed the variables of a program that keeps them packed.
  bool hasPacked = false;
  bool keepsTimes = true;  ///< without them SimRun::times is empty, for millions of tasks
};

/// A resource of one replica, or of all.
struct ResourceUse {
  std::int32_t resource = 0;
  std::int32_t replica = -1;  ///< -1: shared by all
  std::int64_t busy = 0;      ///< ticks in which tasks held it, summed over these tasks
  std::int64_t waited = 0;    ///< ticks in which tasks waited for it, summed over these tasks
};

struct SimRun {
  std::vector<TaskTime> times;  ///< in ticks, ordered as the Engine's
  std::int64_t end = 0;         ///< of the last task; the first one starts at 0
  std::int64_t ticksPerSecond = 1'000'000'000;
  std::vector<ResourceUse> resources;
  std::vector<std::int64_t> laneTicks;  ///< by lane: what its tasks took, over all replicas

  /// The same times in nanoseconds, rounded down: no two change their order.
  std::vector<TaskTime> nanoseconds() const;
  double seconds() const { return static_cast<double>(end) / static_cast<double>(ticksPerSecond); }
};

/// Throws InvalidArgument if rounds or replicas are less than 1 or a cost does not fit its program,
/// and InternalError, naming a task, if the lanes block each other.
SimRun simulate(const program::Program& program,
                const SimCosts& costs,
                const SimOptions& options = {});

}  // namespace sluice::runtime
