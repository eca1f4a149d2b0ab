// Runner: runs the stages of a list, so that stages stay short. It times each stage, verifies the
// graph after each rewrite, writes the dumps, and asks between two stages whether to continue.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/compile/stages.h"

namespace sluice::compiler {

class Runner {
 public:
  using Clock = std::chrono::steady_clock;

  /// The list must outlive the Runner. Dumps go to `dumpFolder`; empty: no dumps.
  Runner(std::span<const CompileStage> list,
         CompileHooks hooks,
         std::string dumpFolder,
         std::function<Clock::time_point()> now = Clock::now);

  /// Writes only these dumps; all, as text, unless this is called.
  void select(DumpSelection dumps) { dumps_ = std::move(dumps); }

  /// Runs the stages of these phases that apply. Errors of a pass have "pass <name>" in their
  /// location; InternalErrors of other stages have "stage <name>". A dump that cannot be written is
  /// a FileError.
  void run(Compilation& c, CompilePhase first, CompilePhase last);

  /// A Runner for plans that are only tried: reports no phases, writes no dumps, takes no times.
  Runner silent() const;

  /// Writes the dumps of a plan again, after other plans were tried.
  void dumpAgain(const Compilation& c) const;
  /// Does nothing if there is no folder.
  void dump(std::string_view file, const std::string& text) const;

  /// The times of the stages that ran, in the order of the list.
  std::vector<StageTime> times() const;

 private:
  struct Timed {
    int runs = 0;
    double seconds = 0;
  };

  void runOne(std::size_t index, Compilation& c);
  void dumpStage(std::size_t index, Compilation& c) const;
  void keepDump(Dump made, const CompileStage& stage, Compilation& c) const;

  std::span<const CompileStage> stages_;
  CompileHooks hooks_;
  std::string dumpFolder_;
  DumpSelection dumps_;
  std::function<Clock::time_point()> now_;
  std::vector<Timed> timed_;                  // by stage
  CompilePhase phase_ = CompilePhase::Trace;  // the caller, which traced the graph, began it
};

}  // namespace sluice::compiler
