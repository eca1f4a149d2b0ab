// Engine: runs Programs. A lane is a list of tasks, not a thread: as many workers as there are
// devices, at most one per core, take the ready task with the earliest planned start, one more
// thread serves the host's lanes, whose callbacks may block, and some wait for remote memory. A
// task is issued to the queue of its lane once all tasks that it waits for have been issued; queues
// of one kind wait for each other by themselves, and the host waits only where kinds meet. In
// steady state the Engine allocates nothing, looks nothing up by name and takes no lock; who finds
// nothing to do sleeps. The first exception stops all lanes and is rethrown to the caller; the
// Engine stays usable. A thread that is inside of the host's code when a step ends early is left
// there; the Engine refuses to run until it has come back.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/host_io.h"
#include "sluice/runtime/model_state.h"
#include "sluice/runtime/turn.h"
#include "sluice/runtime/written_state.h"

namespace sluice::runtime {

class CheckedSegment;
class Communicator;
class Laggards;
class LaneRun;
class PreparedSegment;
struct LanePlans;

/// When one task of a lane ran, in nanoseconds of the Engine's clock.
struct TaskTime {
  std::int32_t lane = 0;  ///< of the program
  std::int32_t task = 0;
  std::int32_t round = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int32_t replica = 0;
};

/// A Program with its kernels made; belongs to the Engine that loaded it.
class LoadedProgram {
 public:
  explicit LoadedProgram(program::Program program);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  const program::Program& program() const { return program_; }
  std::size_t replicas() const { return replicas_; }
  /// What a step writes of the state; known once the program was prepared.
  const WrittenState& written() const { return written_; }
  /// Entries of the tables that it is run with: addresses, waiters, sources of sums.
  std::size_t tableEntries() const;
  /// Launches that devices have captured so far.
  std::size_t captures() const;

 private:
  friend class Engine;
  program::Program program_;
  WrittenState written_;
  std::uint64_t serial_ = 0;  // tells programs of one Engine apart
  std::unique_ptr<const LanePlans> plans_;
  std::vector<std::vector<device::KernelCall>> calls_;  // by segment, if it is checked
  // One replica behind the other:
  std::vector<std::unique_ptr<PreparedSegment>> segments_;  // or, if it is checked:
  std::vector<std::unique_ptr<CheckedSegment>> checked_;
  std::vector<device::Address> addresses_;  // of every buffer's slot 0
  std::unique_ptr<Laggards> laggards_;
  std::vector<std::unique_ptr<LaneRun>> lanes_;
  std::size_t replicas_ = 1;
  std::uint64_t generation_ = 0;  // of the states when the addresses were taken
};

/// The other owners of a Program that was cut: who has which device.
struct Peers {
  Communicator& communicator;
  std::vector<std::int32_t> rankOf;  ///< by device
};

/// Micro-batches are numbered over the replicas of the program: number m of replica r of R is
/// m R + r, for feed, sink and random numbers.
struct StepArgs {
  HostFeed& feed;
  HostSink& sink;
  std::int32_t rounds = 1;
  std::uint64_t seed = 0;
  std::int64_t firstMicroBatch = 0;  ///< counted over the whole training
  /// Set: filled with the times of all tasks of the step, lane by lane, one replica behind the
  /// other.
  std::vector<TaskTime>* times = nullptr;
  /// The session keeps a copy of the state that the step writes if it has at most so many bytes.
  std::size_t undoBytes = 0;
  /// What the step belongs to: its functions may not take this turn, and it may be cancelled before
  /// the step begins. Null: nothing.
  const Turn* turn = nullptr;
  /// Set: the program is a part, whose messages go this way. A step that fails ends those of the
  /// other owners, too.
  const Peers* peers = nullptr;
  /// Keeps feed and sink alive while a thread is in one of them, possibly after run() has thrown.
  std::shared_ptr<const void> owner = nullptr;
};

/// Yes: kernels run one by one, and the first that makes a NaN or an infinity ends the step with a
/// FloatingPointError (non_finite.h).
enum class CheckFinite : std::uint8_t { No, Yes };

struct EngineOptions {
  int workers = 0;  ///< 0: one per device, at most one per core
  /// A step in which no task ends for this long is given up with a report of all lanes; 0: never.
  std::chrono::milliseconds stallTimeout{0};
  /// How long a step that ends early waits for its threads; those that are still in a kernel or in
  /// the host's code then are left behind.
  std::chrono::milliseconds stopGrace{1000};
  double remoteBandwidth = 0;  ///< bytes per second of a device's way in and out; 0: not limited
  device::Clock clock = device::steadyNanoseconds;  ///< of the times of tasks
  /// For tests: called before every task, in the thread that issues it.
  std::function<void(std::size_t lane, std::int64_t count)> beforeTask = nullptr;
};

class Engine {
 public:
  /// The state, and with it the devices, must outlive the Engine.
  explicit Engine(ModelState& state, const EngineOptions& options = {});
  /// The state of one more replica, for programs loaded from now on.
  void addReplica(ModelState& state);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes notice of devices added to a state: more of them may mean more workers.
  void growWorkers();

  /// Makes the kernels for the first `replicas` states. Their variables must be in the states.
  std::unique_ptr<LoadedProgram> load(program::Program program,
                                      std::size_t replicas = 1,
                                      CheckFinite check = CheckFinite::No);

  /// Brings what the program uses to its places; run() does it, too. Throws DeviceError while a
  /// thread is left behind in an earlier step.
  void prepare(LoadedProgram& loaded);
  /// One step: `rounds` rounds of the program. Returns when everything is done, rethrows the first
  /// error of a lane. One caller at a time. Throws as prepare().
  void run(LoadedProgram& loaded, const StepArgs& args);
  /// Whether the newest step has begun to write state.
  bool wroteState() const;

  /// Ends the step that runs, whose caller gets this error; false: none runs. Any thread.
  bool stop(std::exception_ptr error);
  /// Whether no thread is in a step any more.
  bool isIdle() const;
  /// Throws DeviceError unless it is, after stopGrace at the latest.
  void requireIdle();
  /// Waits for it.
  void awaitIdle();

  /// For tests, between steps: as in the options.
  void setBeforeTask(std::function<void(std::size_t lane, std::int64_t count)> hook);

 private:
  struct Impl;
  void makeKernels(LoadedProgram& loaded, CheckFinite check);
  void refreshAddresses(LoadedProgram& loaded);
  std::uint64_t generation(const LoadedProgram& loaded) const;
  void makeCurrent(const LoadedProgram& loaded);

  std::vector<ModelState*> states_;  // by replica
  std::uint64_t lastSerial_ = 0;
  std::uint64_t currentSerial_ = 0;  // whose constants and variables are in their places
  std::uint64_t currentGeneration_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::runtime
