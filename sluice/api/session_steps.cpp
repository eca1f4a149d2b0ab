// The steps of a session: one at a time, and each either happens as a whole or not at all. Where
// the state that a step writes is too large for a copy of it, a step that fails while it writes
// leaves the state torn: then nothing reads it until it was written anew.
#include <algorithm>
#include <ranges>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/session.h"
#include "sluice/base/cancelled.h"
#include "sluice/base/recoverable_error.h"

namespace sluice {

void Session::run(runtime::LoadedProgram& program, const runtime::StepArgs& args) {
  const runtime::Turn::Hold turn(turn_);
  attach();
  runStep(program, args);
}

std::shared_future<void> Session::start(runtime::LoadedProgram& program,
                                        const runtime::StepArgs& args,
                                        std::function<void()> done,
                                        std::shared_ptr<runtime::Turn::Baton> turn) {
  const auto run = [this, &program, args, done = std::move(done), turn = std::move(turn)] {
    const runtime::Turn::Hold mine = turn->takeOn();
    attach();
    runStep(program, args);
    done();
  };
  try {
    return std::async(std::launch::async, run).share();
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

void Session::settle() {
  engine_->requireIdle();
  if (failed_ == nullptr) {
    return;
  }
  const runtime::LoadedProgram& program = *std::exchange(failed_, nullptr);
  if (!engine_->wroteState()) {
    return;
  }
  for (std::size_t r = 0; r < program.replicas(); ++r) {
    if (replicas_[r].state->canUndo()) {
      replicas_[r].state->undoStep(program.written());
      continue;
    }
    for (const runtime::WrittenSlice& slice : program.written().slices) {
      torn_.insert(slice.variable);
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
  throw RecoverableError(
      RecoveryAction::DeviceReset,
      fmt::format(
          "the state of the model is torn: a step failed after it had written a part of "
          "its update, and there was no room for a copy of the {} variables that it writes "
          "(Options::undoMemory); load a state, for instance a checkpoint, before the model "
          "is used again; not loaded yet: {}{}",
          torn_.size(),
          fmt::join(torn_ | std::views::take(4), ", "),
          torn_.size() > 4 ? ", ..." : ""));
}

void Session::runStep(runtime::LoadedProgram& program, const runtime::StepArgs& args) {
  settle();
  if (!torn_.empty()) {
    throwTorn();
  }
  engine_->prepare(program);
  const std::span<Replica> used(replicas_.data(), program.replicas());
  const bool room = program.written().bytes * used.size() <= args.undoBytes;
  for (Replica& replica : used) {
    replica.state->beginStep(
        program.written(),
        room ? runtime::ModelState::Copies::Yes : runtime::ModelState::Copies::No);
  }
  try {
    engine_->run(program, args);
  } catch (...) {
    failed_ = &program;
    if (engine_->isIdle()) {
      settle();
    }
    throw;
  }
  for (Replica& replica : used) {
    replica.state->keepStep();
  }
  if (broadcastBuffers_ && program.replicas() > 1) {
    broadcastBuffers(program.replicas());
  }
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
