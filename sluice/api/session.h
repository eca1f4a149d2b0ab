// Session: one model's devices, state and engine. Every program of the model (training, validation,
// another batch size) is compiled and run here and uses the same variables, so a training and an
// inference model of one module share their weights without a second copy.
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
#include "sluice/device/device.h"
#include "sluice/devices/pool.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/parameter.h"
#include "sluice/program/lower.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/turn.h"

namespace sluice {

class CompileProgress;

namespace compiler {
struct CompileRequest;
}
namespace data {
class InfeedQueue;
}

/// Any thread may call it: every function that uses the devices or the state waits for the turn of
/// its thread. While a step runs in a thread of its own (start), that thread has the turn.
class Session : public nn::StateStore {
 public:
  /// Makes the devices that the options ask for and freezes the options.
  Session(const Options& options, std::uint64_t seed);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::uint64_t seed() const { return seed_; }
  /// Whoever has it uses the session alone.
  const std::shared_ptr<runtime::Turn>& turn() const { return turn_; }
  /// Of one replica.
  std::size_t numDevices() const { return replicas_[0].devices.size(); }
  std::size_t numReplicas() const { return replicas_.size(); }
  const device::Device& device(std::size_t i = 0, std::size_t replica = 0) const {
    return *replicas_[replica].devices[i];
  }
  /// Throws InvalidArgument unless the options want the devices, tuning table, stallTimeout,
  /// broadcastBuffers and (if set) seed of this session.
  void requireSameDevices(const Options& options) const;
  /// In which of these the options differ, as text; empty: in none.
  std::string otherDevices(const Options& options) const;

  /// Whether a model uses the session.
  bool hasModels();
  /// Starts from the values of another session's variables, of each replica: all but those that
  /// begin anew with a model. What is torn there is torn here.
  void continueFrom(Session& other);

  /// A model uses the session from now on. Throws InvalidArgument for a second one that trains.
  void join(bool training);
  /// It does no longer; true if no other one does.
  bool leave(bool training);
  using ProgramPtr = std::shared_ptr<runtime::LoadedProgram>;
  /// The same for a model that ends in a function which a step of this session calls and so cannot
  /// wait for the turn: it leaves, and its programs go, when the step is over.
  void leaveAfterStep(std::vector<ProgramPtr> programs, bool training);

  /// Compiles for the devices and state of the session and loads; with ConnectionType::Never it
  /// does not load. `request` is of the same options. Throws what compileGraph throws, and
  /// OutOfMemory when the state of all programs and the largest transient arena are over the
  /// budget. Warnings are logged once per compile. A failed compile leaves the session as it was.
  /// `progress` hears of every phase.
  CompiledProgram compile(compiler::CompileRequest request,
                          const Options& options,
                          CompileProgress* progress = nullptr);
  /// Logs each at most Options::maxRepeatLogs times.
  void warn(const std::vector<std::string>& warnings, const Options& options);
  /// Attaches first if need be. A program whose step ends early lives until its threads have come
  /// back.
  void run(const ProgramPtr& program, const runtime::StepArgs& args);
  /// The same in another thread, which takes the turn on. What `args` refers to must live until the
  /// step has ended; `done` is called there after a step without an error, and ends with the step.
  std::shared_future<void> start(ProgramPtr program,
                                 const runtime::StepArgs& args,
                                 std::function<void()> done,
                                 std::shared_ptr<runtime::Turn::Baton> turn);

  /// Waits for threads that were left behind in the host's code when a step ended early: whoever
  /// ends a program or the session calls it first.
  void endSteps();
  /// Puts the state in order that a failed step has left. Throws DeviceError while a thread is left
  /// behind in it: what uses the devices or their memory calls it first.
  void settle();
  /// Throws Cancelled once somebody has cancelled the call that has the turn.
  void requireGoing() const;
  /// The types of the queue's elements. Waits for the first as a step would: throws Cancelled once
  /// the call is cancelled, DeviceError after stallTimeout.
  const std::vector<TensorType>& typesOf(data::InfeedQueue& infeed);
  /// A step that failed has written a part of the variable, and nobody has written it anew.
  bool isTorn(std::string_view variable) const { return torn_.contains(variable); }
  /// Variables whose names begin so are written by each call before it reads them: they are never
  /// torn, and begin anew with a session.
  void addTemporaries(std::string prefix) { temporaries_.insert(std::move(prefix)); }
  runtime::Engine& engine() { return *engine_; }

  /// Logs a warning the first time.
  void warnOnce(const std::string& text);

  /// Moves the state of all replicas to the host and frees the memory of the devices, or back.
  void detach();
  void attach();
  bool isAttached() const { return state().isAttached(); }

  /// Of the first replica: weights and optimizer state are the same in all. Throws RecoverableError
  /// for a variable that is torn.
  HostTensor read(std::string_view variable) override;
  HostTensor read(std::string_view variable, std::size_t replica);
  /// In all replicas.
  void write(std::string_view variable, const HostTensor& value) override;
  /// The same, also of a variable that no program has yet: then it is what it starts from.
  void set(const std::string& variable, const HostTensor& value);
  /// In one replica, or once it is there.
  void set(const std::string& variable, const HostTensor& value, std::size_t replica);
  /// Sets every element of a variable; does nothing while it has the value that was set last.
  void fill(const std::string& variable, double value);
  /// Variables of programs, and those that were set before there is one.
  bool contains(std::string_view variable) override;
  const runtime::ModelState& state() const { return *replicas_[0].state; }

  /// The values of all variables, by replica.
  using Values = std::vector<std::map<std::string, HostTensor>>;
  Values copyValues();
  void restoreValues(const Values& values);

 private:
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
  void broadcastBuffers(std::size_t replicas);
  void writePresets();

  /// One copy of the model: its devices and what they hold.
  struct Replica {
    std::vector<std::unique_ptr<device::Device>> devices;
    std::unique_ptr<runtime::ModelState> state;
  };

  std::uint64_t seed_;
  std::string tuningTable_;
  devices::DevicePool pool_;
  std::vector<std::size_t> largestTransient_;          // by device, of the programs so far
  std::map<std::string, double, std::less<>> filled_;  // what fill wrote last
  /// Values of variables and of replicas that no program has yet.
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
  std::int32_t trainingModels_ = 0;  // of them, at most 1
  std::vector<Replica> replicas_;
  std::unique_ptr<runtime::Engine> engine_;
  ProgramPtr failed_;                // whose step failed and is not settled yet
  std::vector<ProgramPtr> retired_;  // of models that have left, while a thread may be in a step
  std::shared_ptr<runtime::Turn> turn_ = std::make_shared<runtime::Turn>();  // guards all the above

  struct Leaver {
    std::vector<ProgramPtr> programs;
    bool training = false;
  };
  std::mutex mutex_;  // guards what follows, which threads without the turn use
  std::vector<Leaver> leavers_;
  data::InfeedQueue* awaited_ = nullptr;  // by typesOf
};

}  // namespace sluice
