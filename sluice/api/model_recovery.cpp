// Calls that are made again after a recoverable error, and what is left of an unrecoverable one.
#include <algorithm>
#include <limits>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "sluice/api/model_core.h"
#include "sluice/api/step_recovery.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/runtime/engine.h"

namespace sluice {
namespace {

/// A number that changes whenever the host has changed a variable or added one.
std::uint64_t changesOf(const Session& session) {
  return session.state().writes() + session.state().generation();
}

/// The last tasks of every lane, in microseconds before the last of these times.
std::string textOf(const std::vector<runtime::TaskEvent>& events) {
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const runtime::TaskEvent& event : events) {
    last = std::max({last, event.began.value_or(last), event.ended.value_or(last)});
  }
  const auto shown = [&](std::optional<std::int64_t> time) {
    return time ? fmt::format("{:.1f}", static_cast<double>(*time - last) * 1e-3) : "-";
  };
  std::string text =
      "The last tasks of every lane of the step that failed: when each began and ended, in "
      "microseconds\nbefore the last of these times. A task with '-' did not come to its end.\n";
  std::string lane;
  for (const runtime::TaskEvent& event : events) {
    if (std::string name = fmt::format("{}, replica {}", event.lane, event.replica); name != lane) {
      text += fmt::format("{}\n", name);
      lane = std::move(name);
    }
    text += fmt::format("{:>14} {:>14}  {}{}\n",
                        shown(event.began),
                        shown(event.ended),
                        event.task,
                        event.failed ? ": failed" : "");
  }
  return text;
}

}  // namespace

void ModelCore::forgetCalls() {
  if (recovery_) {
    recovery_->forget();
  }
}

std::function<void()> ModelCore::repeated(const std::vector<HostTensor>& inputs, Entry& entry) {
  std::vector<HostTensor> kept;  // the caller may change its own
  kept.reserve(inputs.size());
  for (const HostTensor& input : inputs) {
    kept.push_back(input.clone());
  }
  return [this, kept, &entry] { runStep(prepare(kept, entry), entry); };
}

UnrecoverableError ModelCore::unrecoverable(const Error& error, std::string_view why) const {
  return UnrecoverableError(
      fmt::format("{}{}; {}", error.message(), why, whereToLook(writeDiagnostics(error))));
}

std::vector<HostTensor> ModelCore::runTensors(std::vector<HostTensor> inputs, Entry& entry) {
  if (!recovery_) {
    return runStep(prepare(std::move(inputs), entry), entry);
  }
  // An asynchronous call goes on if the model ends in a function that it calls, but only once.
  const std::weak_ptr<const int> life = life_;
  const std::shared_ptr<Session> session = session_;
  const std::shared_ptr<StepRecovery> recovery = recovery_;
  const bool toCheckpoint = training() && !recovery->copies();
  const bool behind = recovery->isBehind(changesOf(*session));
  if (training() && !behind && recovery->copies() && recovery->isDue(changesOf(*session))) {
    recovery->take({session->copyValues(), counts_->updates, counts_->microBatches});
  }
  for (std::int32_t attempt = 0;; ++attempt) {
    try {
      if (attempt > 0 || behind) {
        recover();
      }
      std::vector<HostTensor> results = runStep(prepare(inputs, entry), entry);
      if (!life.expired()) {
        recovery->note(recovery->isLogged() ? repeated(inputs, entry) : nullptr,
                       changesOf(*session));
      }
      return results;
    } catch (const UnrecoverableError& error) {
      if (!session->isIdle() || life.expired()) {
        throw;
      }
      throw unrecoverable(error, "");
    } catch (const RecoverableError& error) {
      if (!session->isIdle() || life.expired()) {
        throw;
      }
      if (error.recoveryAction() == RecoveryAction::FullReset) {
        throw unrecoverable(error, " (only a reset of the machine helps)");
      }
      if (toCheckpoint) {
        throw;
      }
      if (attempt == recovery->options().retries) {
        throw unrecoverable(error, fmt::format(" (after {} retries)", attempt));
      }
      log::warn("model", "call fails and is made again: {}", error.message());
    }
    waitForRetry(recovery->options(), attempt, [&] { session->requireGoing(); });
  }
}

void ModelCore::recover() {
  const std::shared_ptr<Session> session = session_;  // a call that is made again may end the model
  const std::shared_ptr<StepRecovery> recovery = recovery_;
  session_->settle();
  session_->detach();  // frees the memory of the devices, which are then loaded anew
  session_->attach();
  if (const std::optional<StepRecovery::Snapshot>& before = recovery_->snapshot()) {
    try {
      session_->restoreValues(before->values);
      counts_->updates = before->updates;
      counts_->microBatches = before->microBatches;
      recovery_->repeat();
    } catch (...) {
      if (session->isIdle()) {
        session->settle();
        recovery->fallBehind(changesOf(*session));
      }
      throw;
    }
  }
}

std::filesystem::path ModelCore::writeDiagnostics(const Error& error) const {
  const runtime::Turn::Hold turn = enter();
  std::filesystem::path folder =
      std::filesystem::path(options_.report().logDir) / fmt::format("diagnostics-{}", runId_);
  try {
    std::filesystem::create_directories(folder);
    const TargetRecord target = session_->target();
    writeFileAtomically(folder / "error.txt", fmt::format("{}\n", error.what()));
    writeFileAtomically(folder / "options.txt", options_.str());
    if (hasPrograms()) {
      writeFileAtomically(folder / "program.txt",
                          program::print(programs_.back()->compiled.program->program()));
    }
    writeFileAtomically(folder / "events.txt", textOf(session_->engine().lastEvents()));
    writeFileAtomically(folder / "versions.txt",
                        fmt::format("Sluice {}\ndevices {}\n{}\n",
                                    target.library,
                                    target.devices,
                                    fmt::join(target.descriptions, "\n")));
    writeFileAtomically(folder / "counts.txt",
                        fmt::format("updates {}\nmicro-batches {}\nrun {}\n",
                                    counts_->updates,
                                    counts_->microBatches,
                                    runId_));
  } catch (const std::exception& problem) {  // the error itself matters more
    log::write("model", log::Level::Error, problem.what());
    return {};
  }
  return folder;
}

}  // namespace sluice
