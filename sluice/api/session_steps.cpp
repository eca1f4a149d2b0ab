// The steps of a session: one at a time, and each either happens as a whole or not at all. Where
// the state that a step writes is too large for a copy of it, a step that fails while it writes
// leaves the state torn: then nothing reads it until it was written anew.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/processes.h"
#include "sluice/api/session.h"
#include "sluice/api/virtual_time.h"
#include "sluice/base/error.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/base/wait_watch.h"
#include "sluice/compile/compile.h"
#include "sluice/data/queues.h"

namespace sluice {

void Session::run(const ProgramPtr& program, const runtime::StepArgs& args) {
  const runtime::Turn::Hold turn(turn_);
  attach();
  runStep(program, args);
}

std::shared_future<void> Session::start(std::function<void()> call,
                                        std::shared_ptr<runtime::Turn::Baton> turn) {
  auto run = [call = std::move(call),
              turn = std::move(turn),
              marks = runtime::Turn::Work::handedOn()]() mutable {
    const std::function<void()> mine = std::move(call);
    const runtime::Turn::Work work(marks);
    const runtime::Turn::Hold hold = turn->takeOn();
    mine();
  };
  try {
    return std::async(std::launch::async, std::move(run)).share();
  } catch (const std::system_error& error) {
    raise<DeviceError>("cannot start the thread of an asynchronous call: {}",
                       error.code().message());
  }
}

void Session::detach() {
  const runtime::Turn::Hold turn(turn_);
  settle();
  for (Replica& replica : replicas_) {
    replica.state->detach();
  }
}

void Session::attach() {
  const runtime::Turn::Hold turn(turn_);
  settle();
  for (Replica& replica : replicas_) {
    replica.state->attach();
  }
}

void Session::requireGoing() const {
  if (turn_->isCancelled()) {
    raise<Cancelled>("the call was cancelled");
  }
}

void Session::lookAround() const {
  {
    const runtime::Turn::Mark mark{turn_.get(), 0};  // the call waits for what this calls
    const runtime::Turn::Work work({&mark, 1});
    WaitWatch::look();
  }
  requireGoing();
}

const std::vector<TensorType>& Session::typesOf(data::InfeedQueue& infeed) {
  const runtime::Turn::Hold turn(turn_);
  const auto await = [&](data::InfeedQueue* queue) {
    const std::scoped_lock lock(mutex_);
    awaited_ = queue;
    infeed.resume();
  };
  const std::chrono::milliseconds atMost(static_cast<std::int64_t>(1e3 * stallTimeout_));
  bool arrived = false;
  await(&infeed);
  try {
    requireGoing();  // cancelled before the queue could be interrupted
    arrived = infeed.awaitTypes(atMost);
  } catch (...) {
    await(nullptr);
    throw;
  }
  await(nullptr);
  if (!arrived) {
    raise<DeviceError>(
        "stall: the infeed of the step has given no first element for {} ms (stallTimeout)",
        atMost.count());
  }
  return infeed.types();
}

bool Session::isTemporary(std::string_view variable) const {
  return std::ranges::any_of(
      temporaries_, [&](const std::string& prefix) { return variable.starts_with(prefix); });
}

void Session::settle() {
  const runtime::Turn::Hold turn(turn_);
  engine_->requireIdle();
  endLeavers();
  if (failed_ == nullptr) {
    return;
  }
  const ProgramPtr kept = std::exchange(failed_, nullptr);
  const runtime::LoadedProgram& program = *kept;
  if (!engine_->wroteState()) {
    return;
  }
  for (std::size_t r = 0; r < program.replicas(); ++r) {
    if (replicas_[r].state->canUndo()) {
      replicas_[r].state->undoStep(program.written());
      continue;
    }
    for (const runtime::WrittenSlice& slice : program.written().slices) {
      if (!isTemporary(slice.variable)) {
        torn_.insert(slice.variable);
      }
    }
  }
}

void Session::endSteps() {
  const runtime::Turn::Hold turn(turn_);
  engine_->awaitIdle();
  settle();
}

void Session::requireWhole(std::string_view variable) const {
  if (torn_.contains(variable)) {
    throwTorn();
  }
}

void Session::throwTorn() const {
  constexpr std::size_t kShown = 4;
  const auto end =
      std::next(torn_.begin(), static_cast<std::ptrdiff_t>(std::min(kShown, torn_.size())));
  throw RecoverableError(
      RecoveryAction::DeviceReset,
      fmt::format(
          "the state of the model is torn: a step failed after it had written a part of "
          "its update, and there was no room for a copy of the {} variables that it writes "
          "(Options::undoMemory); load a state, for instance a checkpoint, before the model "
          "is used again; not loaded yet: {}{}",
          torn_.size(),
          fmt::join(torn_.begin(), end, ", "),
          torn_.size() > kShown ? ", ..." : ""));
}

void Session::runStep(const ProgramPtr& owned, const runtime::StepArgs& args) {
  runtime::LoadedProgram& program = *owned;
  settle();
  if (!torn_.empty()) {
    throwTorn();
  }
  engine_->prepare(program);
  if (!program.written().slices.empty()) {
    ++writes_;
    program.noteWritingStep();
  }
  const std::span<Replica> used(replicas_.data(), program.replicas());
  const bool room = program.written().bytes * used.size() <= args.undoBytes;
  for (Replica& replica : used) {
    replica.state->beginStep(
        program.written(),
        room ? runtime::ModelState::Copies::Yes : runtime::ModelState::Copies::No);
  }
  runtime::StepArgs given = args;
  given.times = virtual_ != nullptr ? nullptr : args.times;
  given.peers = processes_ != nullptr ? &processes_->peers() : nullptr;
  try {
    engine_->run(program, given);
  } catch (...) {
    failed_ = owned;
    if (engine_->isIdle()) {
      settle();
    }
    throw;
  }
  for (Replica& replica : used) {
    replica.state->keepStep();
  }
  if (virtual_ != nullptr && args.times != nullptr) {
    simulate(owned, args.rounds, program.replicas(), args.times);
  }
  endLeavers();
  if (broadcastBuffers_) {
    shareBuffers(program.program());
    if (program.replicas() > 1) {
      broadcastBuffers(program.replicas());
    }
  }
}

std::int64_t Session::simulate(const ProgramPtr& program,
                               std::int32_t rounds,
                               std::size_t replicas,
                               std::vector<runtime::TaskTime>* times) {
  virtualCycles_ = virtual_->step(program, rounds, static_cast<std::int32_t>(replicas), times);
  return virtualCycles_;
}

double Session::simulatedSeconds(const program::Program& program,
                                 std::int32_t rounds,
                                 std::int32_t replicas) const {
  return virtual_->seconds(program, rounds, replicas);
}

program::Program Session::plan(compiler::CompileRequest request) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  complete(request);
  request.state = {};
  request.dumpFolder.clear();
  request.proves = false;
  return compiler::compileGraph(std::move(request)).program;
}

std::unique_ptr<compiler::PassedGraph> Session::passed(compiler::CompileRequest request) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  complete(request);
  request.state = {};
  request.dumpFolder.clear();
  request.proposes = false;
  return std::make_unique<compiler::PassedGraph>(std::move(request));
}

runtime::SimRun Session::simulatedRun(const program::Program& program,
                                      std::int32_t rounds,
                                      std::int32_t replicas) const {
  return virtual_->run(program, rounds, replicas);
}

runtime::SimBound Session::simulatedBound(const program::Program& program) const {
  return virtual_->bound(program);
}

std::int64_t Session::simulatedParallel(std::int64_t devices) const {
  const std::int64_t cores = virtual_->cores();
  return cores > 0 ? std::min(cores, devices) : devices;
}

std::int64_t Session::virtualHertz() const {
  return virtual_->ticksPerSecond();
}

/// Statistics differ between replicas, because each sees its own data; the first one's count.
void Session::broadcastBuffers(std::size_t replicas) {
  for (const program::PlacedVariable& placed : state().plan().variables()) {
    if (placed.variable.role == ir::VariableRole::Buffer &&
        !placed.variable.name.starts_with(kSyntheticPrefix)) {
      const HostTensor value = state().read(placed.variable.name);
      for (std::size_t r = 1; r < replicas; ++r) {
        replicas_[r].state->write(placed.variable.name, value);
      }
    }
  }
}

}  // namespace sluice
