// Engine: runs Programs. A lane is a list of tasks, not a thread. There are as many workers as
// devices, but at most one per core; they take the ready task with the earliest planned start. One
// more thread serves the host's lanes, whose callbacks may block, and some threads wait for remote
// memory. A task is issued to the queue of its lane once all tasks that it waits for have been
// issued. Queues of one kind wait for each other by themselves; the host waits only between
// different kinds.
//
// In steady state the Engine allocates nothing, looks nothing up by name and takes no lock; an idle
// thread sleeps. The first exception stops all lanes and is rethrown to the caller; the Engine
// stays usable. If a thread is inside the host's code when a step ends early, it is left there, and
// the Engine refuses to run until the thread has returned.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/group.h"
#include "sluice/runtime/host_io.h"
#include "sluice/runtime/model_state.h"
#include "sluice/runtime/turn.h"
#include "sluice/runtime/written_state.h"

namespace sluice::runtime {

class CheckedSegment;
class Laggards;
class KernelLog;
class LaneRun;
class PreparedSegment;
class SharedSums;
class StepCapture;
class StepCaptures;
class WriteLog;
struct EngineThreads;
struct LanePlans;

/// When one task of a lane ran, in nanoseconds of the Engine's clock.
struct TaskTime {
  std::int32_t lane = 0;  ///< number in the program
  std::int32_t task = 0;
  std::int32_t round = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int32_t replica = 0;
};

/// One of the last tasks that a lane began before its step failed.
struct TaskEvent {
  std::string lane;  ///< such as "compute0", as the text of the Program has it
  std::string task;  ///< such as "run forward 0 of micro-batch 1, round 0"
  std::int32_t replica = 0;
  std::optional<std::int64_t> began = std::nullopt;  ///< nanoseconds of the Engine's clock
  std::optional<std::int64_t> ended = std::nullopt;  ///< empty: it did not come to its end
  bool failed = false;                               ///< it ended with an error
};

/// How a program is watched. If it is, kernels run one by one, with the same bits.
struct Watch {
  /// The first kernel that makes a NaN or an infinity ends the step with a FloatingPointError
  /// (non_finite.h).
  bool finite = false;
  bool writes = false;   ///< what tasks write goes to StepArgs::writes
  bool kernels = false;  ///< when each kernel ran goes to StepArgs::kernels
  bool any() const { return finite || writes || kernels; }
};

/// A Program and its kernels; belongs to the Engine that loaded it.
class LoadedProgram {
 public:
  explicit LoadedProgram(program::Program program);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  const program::Program& program() const { return program_; }
  std::size_t replicas() const { return replicas_; }
  /// The state that a step writes; known once the program is prepared.
  const WrittenState& written() const { return written_; }
  /// How many of its steps may have written state; who runs them counts.
  std::uint64_t writingSteps() const { return writingSteps_; }
  void noteWritingStep() { ++writingSteps_; }
  /// Number of entries in the tables that it runs with: addresses, waiters, sources of sums.
  std::size_t tableEntries() const;
  /// Number of launches that devices have captured so far.
  std::size_t captures() const;
  /// Whether a whole step is captured.
  bool isStepCaptured() const;

 private:
  friend class Engine;
  program::Program program_;
  WrittenState written_;
  std::uint64_t writingSteps_ = 0;
  Watch watch_;
  std::uint64_t serial_ = 0;  // tells programs of one Engine apart
  std::unique_ptr<const LanePlans> plans_;
  std::vector<std::vector<device::KernelCall>> calls_;  // by segment, if it is watched
  // Replica after replica:
  std::vector<std::unique_ptr<PreparedSegment>> segments_;  // or, if the program is watched:
  std::vector<std::unique_ptr<CheckedSegment>> checked_;
  std::vector<device::Address> addresses_;  // of every buffer's slot 0
  std::unique_ptr<Laggards> laggards_;
  std::unique_ptr<SharedSums> sums_;  // null: all replicas are here
  std::vector<std::unique_ptr<LaneRun>> lanes_;
  std::unique_ptr<StepCaptures> steps_;  // ends before the lanes
  std::size_t replicas_ = 1;
  std::uint64_t generation_ = 0;  // generation of the states when the addresses were taken
};

/// The other owners of a Program: of devices, if it was cut, and of replicas, if not all are here.
struct Peers {
  Communicator& communicator;
  std::vector<std::int32_t> rankOf;  ///< by device; only for a part
  Group group = {};                  ///< who has the other replicas of these devices
  /// Whether feed and sink count micro-batches over the replicas of all owners or over those here.
  bool hostCountsAll = true;
};

/// Whether a program's replicas are all in this process. If not, sums over replicas wait for other
/// processes, in threads of their own.
enum class Replicas : std::uint8_t { Here, Apart };

/// Micro-batches are numbered over the replicas of the program, those of other processes included:
/// number m of replica r of R is m R + r. Feed, sink and random numbers use this number (see also
/// Peers::hostCountsAll).
struct StepArgs {
  HostFeed& feed;
  HostSink& sink;
  std::int32_t rounds = 1;
  std::uint64_t seed = 0;
  std::int64_t firstMicroBatch = 0;  ///< counted over the whole training
  /// If set, receives the times of all tasks of the step, lane by lane, replica after replica.
  std::vector<TaskTime>* times = nullptr;
  /// Whether the times of the last tasks of every lane are kept, for Engine::lastEvents.
  bool keepsEvents = false;
  /// If set, and the program is watched for writes, receives all values that tasks write.
  WriteLog* writes = nullptr;
  /// If set, and the program is watched for kernels, receives the times of all kernels.
  KernelLog* kernels = nullptr;
  /// The session keeps a copy of the state that the step writes if it has at most this many bytes.
  std::size_t undoBytes = 0;
  /// The turn that the step belongs to. Functions that the step calls may not take this turn, and
  /// the turn may be cancelled before the step begins. Null: none.
  const Turn* turn = nullptr;
  /// If set, the program is a part, and its messages go to these peers. A step that fails also ends
  /// the steps of the other owners.
  const Peers* peers = nullptr;
  /// Keeps feed and sink alive while a thread uses one of them, possibly after run() has thrown.
  std::shared_ptr<const void> owner = nullptr;
};

struct EngineOptions {
  int workers = 0;  ///< 0: one per device, at most one per core
  /// If no task ends for this long, the step is aborted with a report of all lanes; 0: never.
  std::chrono::milliseconds stallTimeout{0};
  /// How long a step that ends early waits for its threads. Threads that are then still in a kernel
  /// or in the host's code are left behind.
  std::chrono::milliseconds stopGrace{1000};
  double remoteBandwidth = 0;  ///< bytes per second in each direction of a device; 0: not limited
  device::Clock clock = device::steadyNanoseconds;  ///< measures the times of tasks
  /// For tests: called before every task, in the thread that issues it.
  std::function<void(std::size_t lane, std::int64_t count)> beforeTask = nullptr;
};

class Engine {
 public:
  /// The state and its devices must outlive the Engine.
  explicit Engine(ModelState& state, const EngineOptions& options = {});
  /// Adds the state of one more replica, for programs that are loaded from now on.
  void addReplica(ModelState& state);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Call this after devices were added to a state: more devices may mean more workers.
  void growWorkers();

  /// Makes the kernels for the first `replicas` states, which must contain the program's variables.
  std::unique_ptr<LoadedProgram> load(program::Program program,
                                      std::size_t replicas = 1,
                                      const Watch& watch = {},
                                      Replicas where = Replicas::Here);

  /// Brings the program's variables and constants to their places; run() does this, too. Throws
  /// DeviceError while a thread of an earlier step is left behind.
  void prepare(LoadedProgram& loaded);
  /// Runs one step: `rounds` rounds of the program. Returns when everything is done; rethrows the
  /// first error of a lane. One caller at a time. Throws as prepare() does.
  void run(LoadedProgram& loaded, const StepArgs& args);
  /// The last tasks of every lane of the newest step, if that failed and was to keep them.
  const std::vector<TaskEvent>& lastEvents() const { return lastEvents_; }
  /// Whether the newest step has begun to write state.
  bool wroteState() const;
  /// How many lanes its threads looked at to find their tasks.
  std::int64_t lanesLookedAt() const;

  /// Ends the running step, whose caller gets `error`; false if none runs. Any thread may call it.
  bool stop(std::exception_ptr error);
  /// Whether no thread is in a step any more.
  bool isIdle() const;
  /// Throws DeviceError unless the Engine is idle within stopGrace.
  void requireIdle();
  /// Waits until the Engine is idle.
  void awaitIdle();

  /// For tests, between steps: sets EngineOptions::beforeTask.
  void setBeforeTask(std::function<void(std::size_t lane, std::int64_t count)> hook);

 private:
  void makeKernels(LoadedProgram& loaded, const Watch& watch);
  void refreshAddresses(LoadedProgram& loaded);
  std::uint64_t generation(const LoadedProgram& loaded) const;
  std::uint64_t writes(const LoadedProgram& loaded) const;
  void makeCurrent(const LoadedProgram& loaded);
  void keepEvents(const LoadedProgram& loaded);
  void beginLanes(const LoadedProgram& loaded, const StepArgs& args);
  StepCapture* captureOf(LoadedProgram& loaded, const StepArgs& args);

  std::vector<ModelState*> states_;  // by replica
  std::uint64_t lastSerial_ = 0;
  std::uint64_t currentSerial_ = 0;  // program whose constants and variables are in their places
  std::uint64_t currentGeneration_ = 0;
  /// The writes of the states when the current program made its packed copies; empty: they are not
  /// there.
  std::optional<std::uint64_t> packedWrites_;
  std::vector<TaskEvent> lastEvents_;
  std::unique_ptr<EngineThreads> threads_;
};

}  // namespace sluice::runtime
