// Session: the devices, state and engine that the models of one module or Builder share. All their
// programs (training, validation, another batch size) are compiled and run here and use the same
// variables, so a training and an inference model share their weights without a second copy.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/compiled_program.h"
#include "sluice/api/options.h"
#include "sluice/api/target_record.h"
#include "sluice/device/device.h"
#include "sluice/devices/pool.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/parameter.h"
#include "sluice/program/lower.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/turn.h"

namespace sluice {

class CompileProgress;
struct CacheUse;
class Processes;
class VirtualTime;
namespace runtime {
struct SimBound;
struct SimRun;
}  // namespace runtime

namespace compiler {
class PassedGraph;
struct Compiled;
struct CompileRequest;
}  // namespace compiler
namespace data {
class InfeedQueue;
}

/// Any thread may call a session: every function that uses the devices or the state waits for the
/// turn of its thread. While a step runs in another thread (start), that thread has the turn.
class Session : public nn::StateStore {
 public:
  /// Makes the devices that the options ask for and freezes the options.
  Session(const Options& options, std::uint64_t seed);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::uint64_t seed() const { return seed_; }
  /// The caller that has the turn is the only one that uses the session.
  const std::shared_ptr<runtime::Turn>& turn() const { return turn_; }
  /// The devices of one replica.
  std::size_t numDevices() const { return replicas_[0].devices.size(); }
  std::size_t numReplicas() const { return replicas_.size(); }
  /// The processes that run the model together; null: this one alone.
  const Processes* processes() const { return processes_.get(); }
  const device::Device& device(std::size_t i = 0, std::size_t replica = 0) const {
    return *replicas_[replica].devices[i];
  }
  /// Throws InvalidArgument unless the options ask for the devices, tuning table, stallTimeout,
  /// broadcastBuffers and (if set) seed that this session has.
  void requireSameDevices(const Options& options) const;
  /// Says in which of these the options differ; empty: in none.
  std::string otherDevices(const Options& options) const;

  /// Whether a model uses the session.
  bool hasModels();
  /// Takes over the values of another session's variables, for each replica, except for variables
  /// that every model resets. A variable that is torn there is torn here, too.
  void continueFrom(Session& other);

  /// Called when a model begins to use the session. Throws InvalidArgument for a second training
  /// model.
  void join(bool training);
  /// Called when a model no longer uses the session. Returns true if no other model uses it.
  bool leave(bool training);
  using ProgramPtr = std::shared_ptr<runtime::LoadedProgram>;
  /// The same for a model that is destroyed in code which a step of this session calls, where it
  /// cannot wait for the turn. When the step has ended, the model leaves and its programs are
  /// freed.
  void leaveAfterStep(std::vector<ProgramPtr> programs, bool training);

  /// Compiles for the devices and state of the session and loads the program; with
  /// ConnectionType::Never it does not load. `request` must be made from the same options. Throws
  /// what compileGraph throws, and OutOfMemory if the state of all programs and the largest
  /// transient arena together exceed the memory limit. Logs warnings once per compile. A failed
  /// compile leaves the session unchanged. `progress` is told about every phase. If `cache` is
  /// given, the program is taken from there or left there.
  CompiledProgram compile(compiler::CompileRequest request,
                          const Options& options,
                          CompileProgress* progress = nullptr,
                          const CacheUse* cache = nullptr);
  /// Loads a program that was compiled before, for instance by another process, as compile does. It
  /// must be sound (program/loaded.h), and mayInstall must hold for its state.
  CompiledProgram install(compiler::Compiled made, const Options& options);
  /// What programs are compiled for here.
  TargetRecord target();
  /// What lowering has to know about the devices of this session; the last one is for all others.
  std::vector<program::Target> targets();
  /// Whether the variables of both plans that have one name have one place, and one plan has all
  /// variables of the other.
  bool mayInstall(const program::StatePlan& plan) const;
  /// Throws what compile would throw for the request before it plans memory. Changes, loads and
  /// logs nothing.
  void check(compiler::CompileRequest request);
  /// Logs each warning at most Options::maxRepeatLogs times.
  void warn(const std::vector<std::string>& warnings, const Options& options);
  /// Attaches the devices first if necessary. If a step ends early, its program lives until the
  /// step's threads have returned.
  void run(const ProgramPtr& program, const runtime::StepArgs& args);
  /// Makes a call in another thread, which takes over the turn. `call` is destroyed when it has
  /// ended, not with the future.
  static std::shared_future<void> start(std::function<void()> call,
                                        std::shared_ptr<runtime::Turn::Baton> turn);
  /// Whether no thread is left in a step that has failed.
  bool isIdle() const { return engine_->isIdle(); }

  /// The target of simulated devices; empty: times are real.
  const std::string& simulatedOn() const;
  /// The next step of a program in virtual time; nothing is computed. Only for simulated devices.
  /// Appends the times of tasks to `times`, if not null; returns the step's cycles.
  std::int64_t simulate(const ProgramPtr& program,
                        std::int32_t rounds,
                        std::size_t replicas,
                        std::vector<runtime::TaskTime>* times);
  /// How long a step of any program would take on the simulated devices.
  double simulatedSeconds(const program::Program& program,
                          std::int32_t rounds,
                          std::int32_t replicas) const;
  /// Compiles for the devices, as if the model had no state yet, and loads nothing. Throws what
  /// compileGraph throws.
  program::Program plan(compiler::CompileRequest request);
  /// Prepares a graph for plans like that, whose OutOfMemory proposes nothing.
  std::unique_ptr<compiler::PassedGraph> passed(compiler::CompileRequest request);
  /// A step of any program in virtual time, with the times of its tasks in ticks.
  runtime::SimRun simulatedRun(const program::Program& program,
                               std::int32_t rounds,
                               std::int32_t replicas) const;
  /// What no plan of its model can do without.
  runtime::SimBound simulatedBound(const program::Program& program) const;
  /// Kernels that so many simulated devices can run at the same time.
  std::int64_t simulatedParallel(std::int64_t devices) const;
  /// Bytes of a device that programs may use; 0: not limited.
  std::size_t memoryBudget() const;
  /// The cycles of the newest step in virtual time.
  std::int64_t virtualCycles() const { return virtualCycles_; }
  std::int64_t virtualHertz() const;

  /// Waits for threads that were still in host code when a step ended early. Call it before a
  /// program or the session is destroyed.
  void endSteps();
  /// Repairs the state after a failed step: undoes what the step wrote, or marks it as torn. Throws
  /// DeviceError while a thread is still in that step. Every function that uses the devices or
  /// their memory calls it first.
  void settle();
  /// Throws Cancelled if the call that has the turn was cancelled.
  void requireGoing() const;
  /// Lets the caller look around while a call waits for other processes; throws as requireGoing.
  void lookAround() const;
  /// The types of the queue's elements. Waits for the first element as a step would: throws
  /// Cancelled once the call is cancelled, and DeviceError after stallTimeout.
  const std::vector<TensorType>& typesOf(data::InfeedQueue& infeed);
  /// Whether a failed step has written a part of the variable and its whole value was not written
  /// since.
  bool isTorn(std::string_view variable) const { return torn_.contains(variable); }
  /// Declares that each call writes the variables whose names begin with this prefix before it
  /// reads them. They are never torn, and a new session does not take over their values.
  void addTemporaries(std::string prefix) { temporaries_.insert(std::move(prefix)); }
  runtime::Engine& engine() { return *engine_; }

  /// Logs a warning, but only the first time.
  void warnOnce(const std::string& text);

  /// detach moves the state of all replicas to the host and frees the memory of the devices; attach
  /// moves it back.
  void detach();
  void attach();
  bool isAttached() const { return state().isAttached(); }

  /// The variable's value in the first replica; weights and optimizer state are the same in all
  /// replicas. Throws RecoverableError for a variable that is torn.
  HostTensor read(std::string_view variable) override;
  HostTensor read(std::string_view variable, std::size_t replica);
  /// Writes the variable in all replicas.
  void write(std::string_view variable, const HostTensor& value) override;
  /// The same, but the variable need not exist yet: if no program has it, it will start with this
  /// value.
  void set(const std::string& variable, const HostTensor& value);
  /// Sets the variable in one replica, or as soon as both exist.
  void set(const std::string& variable, const HostTensor& value, std::size_t replica);
  /// Sets every element of a variable. Does nothing if the variable was last filled with this
  /// value.
  void fill(const std::string& variable, double value);
  /// Whether a program has the variable or it was set before one exists.
  bool contains(std::string_view variable) override;
  const runtime::ModelState& state() const { return *replicas_[0].state; }
  /// Called by all processes before they make constants of these variables: gives those that no
  /// program has the values that they have in the first process.
  void shareConstants(std::span<const ir::Variable> variables);

  /// Grows whenever a value of a variable may have changed: as long as it is the same, so are they.
  std::uint64_t writes() const { return writes_; }

  /// The values of all variables, by replica.
  using Values = std::vector<std::map<std::string, HostTensor>>;
  Values copyValues();
  void restoreValues(const Values& values);

 private:
  /// Adds what the session knows to a request: devices, state, and how a compilation is cancelled.
  void complete(compiler::CompileRequest& request);
  /// The result of the compiler, or what the cache has of it; then sets `cached`.
  compiler::Compiled compiled(compiler::CompileRequest request,
                              const CacheUse* cache,
                              bool& cached);
  std::size_t replicasHere(const Options& options) const;
  void requireRoom(const program::Program& lowered) const;
  std::vector<ir::Variable> newParts(const program::StatePlan& plan) const;
  std::unique_ptr<runtime::LoadedProgram> load(program::Program lowered,
                                               const program::StatePlan& plan,
                                               const Options& options);
  void runStep(const ProgramPtr& program, const runtime::StepArgs& args);
  void endLeavers();
  bool isTemporary(std::string_view variable) const;
  void requireWhole(std::string_view variable) const;
  [[noreturn]] void throwTorn() const;
  void makeDevices(std::size_t count);
  void makeReplicas(std::size_t count);
  std::string remoteFile(std::size_t replica) const;
  void broadcastBuffers(std::size_t replicas);
  void writePresets();
  /// What several processes do together: they agree on a program, begin with the values of the
  /// first, and read what only one of them has.
  void agree(const program::Program& whole, const Options& options);
  program::Program ownPart(program::Program whole);
  void shareNew(const program::StatePlan& plan);
  void shareFirst(const ir::Variable& variable);
  void shareBuffers(const program::Program& program);
  HostTensor readShared(const program::PlacedVariable& placed);

  /// One copy of the model: its devices and what they hold.
  struct Replica {
    std::vector<std::unique_ptr<device::Device>> devices;
    std::unique_ptr<runtime::ModelState> state;
  };

  std::uint64_t seed_;
  std::uint64_t writes_ = 0;
  std::unique_ptr<Processes> processes_;
  std::string tuningTable_;
  devices::DevicePool pool_;
  std::vector<std::size_t> largestTransient_;          // by device, over the programs so far
  std::map<std::string, double, std::less<>> filled_;  // the value that fill wrote last
  /// Values of variables and replicas that do not exist yet.
  std::map<std::string, HostTensor, std::less<>> presets_;
  std::map<std::pair<std::size_t, std::string>, HostTensor> replicaPresets_;
  std::map<std::string, std::int32_t> warned_;  // how often each warning was logged
  bool broadcastBuffers_ = true;
  double stallTimeout_ = 0;  // seconds
  std::string remotePath_;
  std::size_t remoteBytes_ = 0;
  double remoteBandwidth_ = 0;
  std::set<std::string, std::less<>> torn_;
  std::set<std::string> temporaries_;  // prefixes of names
  std::int32_t models_ = 0;
  std::int32_t trainingModels_ = 0;  // those that train, at most 1
  std::vector<Replica> replicas_;
  std::unique_ptr<VirtualTime> virtual_;  // null: the time of the devices is not modelled
  std::int64_t virtualCycles_ = 0;
  std::unique_ptr<runtime::Engine> engine_;
  ProgramPtr failed_;                // the program whose step failed and is not settled yet
  std::vector<ProgramPtr> retired_;  // programs of models that left while a thread may be in a step
  std::shared_ptr<runtime::Turn> turn_ = std::make_shared<runtime::Turn>();  // guards all above

  struct Leaver {
    std::vector<ProgramPtr> programs;
    bool training = false;
  };
  std::mutex mutex_;  // guards the members below, which threads without the turn use
  std::vector<Leaver> leavers_;
  data::InfeedQueue* awaited_ = nullptr;  // the queue that typesOf waits for
};

}  // namespace sluice
