// Calls that are made again after a recoverable error, and what is left of an unrecoverable one.
#include <system_error>

#include <fmt/format.h>

#include "sluice/api/model_core.h"
#include "sluice/api/step_recovery.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/recoverable_error.h"

namespace sluice {
namespace {

/// A number that changes whenever the host has changed a variable or added one.
std::uint64_t changesOf(const Session& session) {
  return session.state().writes() + session.state().generation();
}

}  // namespace

void ModelCore::forgetCalls() {
  if (recovery_) {
    recovery_->forget();
  }
}

std::function<void()> ModelCore::repeated(const std::vector<HostTensor>& inputs, Entry& entry) {
  std::vector<HostTensor> kept;  // the caller may change its own
  for (const HostTensor& input : inputs) {
    kept.push_back(input.clone());
  }
  return [this, kept, &entry] { runStep(prepare(kept, entry), entry); };
}

std::vector<HostTensor> ModelCore::runTensors(std::vector<HostTensor> inputs, Entry& entry) {
  if (!recovery_) {
    return runStep(prepare(std::move(inputs), entry), entry);
  }
  if (training() && recovery_->isDue(changesOf(*session_))) {
    recovery_->take({session_->copyValues(), counts_->updates, counts_->microBatches});
  }
  for (std::int32_t attempt = 0;; ++attempt) {
    try {
      if (attempt > 0) {
        recover();
      }
      std::vector<HostTensor> results = runStep(prepare(inputs, entry), entry);
      recovery_->note(recovery_->isLogged() ? repeated(inputs, entry) : nullptr,
                      changesOf(*session_));
      return results;
    } catch (const UnrecoverableError& error) {
      throw UnrecoverableError(
          fmt::format("{}; see '{}'", error.message(), writeDiagnostics(error, entry).string()));
    } catch (const RecoverableError& error) {
      const bool beyond = error.recoveryAction() == RecoveryAction::FullReset;
      if (beyond || attempt == recovery_->options().retries) {
        throw UnrecoverableError(fmt::format("{} {}; see '{}'",
                                             error.message(),
                                             beyond ? "(only a reset of the machine helps)"
                                                    : fmt::format("(after {} retries)", attempt),
                                             writeDiagnostics(error, entry).string()));
      }
      log::warn("model", "call fails and is made again: {}", error.message());
    }
    recovery_->wait(attempt, [this] { session_->requireGoing(); });
  }
}

void ModelCore::recover() {
  session_->settle();
  session_->detach();  // frees the memory of the devices, which are then loaded anew
  session_->attach();
  if (const std::optional<StepRecovery::Snapshot>& before = recovery_->snapshot()) {
    session_->restoreValues(before->values);
    counts_->updates = before->updates;
    counts_->microBatches = before->microBatches;
    recovery_->repeat();
  }
}

std::filesystem::path ModelCore::writeDiagnostics(const Error& error, const Entry& entry) const {
  const std::filesystem::path folder =
      std::filesystem::path(options_.report().logDir) / fmt::format("diagnostics-{}", runId_);
  try {
    std::filesystem::create_directories(folder);
    const TargetRecord target = session_->target();
    writeFileAtomically(folder / "error.txt", fmt::format("{}\n", error.what()));
    writeFileAtomically(folder / "options.txt", options_.str());
    writeFileAtomically(folder / "program.txt", program::print(entry.compiled.program->program()));
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
  }
  return folder;
}

}  // namespace sluice
