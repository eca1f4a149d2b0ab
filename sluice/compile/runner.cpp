#include "sluice/compile/runner.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/ir/dot.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"

namespace sluice::compiler {

Runner::Runner(std::span<const CompileStage> list,
               CompileHooks hooks,
               std::string dumpFolder,
               std::function<Clock::time_point()> now)
    : stages_(list),
      hooks_(std::move(hooks)),
      dumpFolder_(std::move(dumpFolder)),
      now_(std::move(now)),
      timed_(list.size()) {}

Runner Runner::silent() const {
  return {stages_, {.requireGoing = hooks_.requireGoing}, "", now_};
}

void Runner::run(Compilation& c, CompilePhase first, CompilePhase last) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const CompileStage& stage = stages_[i];
    if (stage.phase < first || stage.phase > last) {
      continue;
    }
    if (hooks_.requireGoing) {
      hooks_.requireGoing();
    }
    // A plan that is tried again does not begin its phases again.
    if (stage.phase > phase_) {
      phase_ = stage.phase;
      if (hooks_.onPhase) {
        hooks_.onPhase(stage.phase);
      }
    }
    if (stage.applies == nullptr || stage.applies(c)) {
      runOne(i, c);
    }
  }
}

void Runner::runOne(std::size_t index, Compilation& c) {
  const CompileStage& stage = stages_[index];
  const Clock::time_point start = now_();
  try {
    const std::size_t before = c.graph.changes();
    stage.run(c);
    if (stage.kind != CompileStageKind::Step && c.graph.changes() != before) {
      ir::verify(c.graph);
    }
    dumpStage(index, c);
  } catch (Error& error) {
    if (stage.kind == CompileStageKind::Pass) {
      error.at(fmt::format("pass {}", stage.name));
    } else if (dynamic_cast<InternalError*>(&error) != nullptr) {
      error.at(fmt::format("stage {}", stage.name));  // errors of users name their own things
    }
    throw;
  }
  const double took = std::chrono::duration<double>(now_() - start).count();
  log::debug("compile", "{} {}: {:.3f} ms", name(stage.phase), stage.name, 1e3 * took);
  ++timed_[index].runs;
  timed_[index].seconds += took;
}

void Runner::dumpStage(std::size_t index, Compilation& c) const {
  const CompileStage& stage = stages_[index];
  const bool shown = stage.kind != CompileStageKind::Step || stage.show != nullptr;
  if (dumpFolder_.empty() || !shown || !dumps_.has(stage.name)) {
    return;
  }
  const bool isGraph = stage.kind != CompileStageKind::Step;
  keepDump({fmt::format("{:02}_{}.txt", index, stage.name),
            isGraph ? ir::print(c.graph) : stage.show(c)},
           stage,
           c);
  if (isGraph && dumps_.dot) {
    keepDump({fmt::format("{:02}_{}.dot", index, stage.name), ir::printDot(c.graph)}, stage, c);
  }
}

void Runner::keepDump(Dump made, const CompileStage& stage, Compilation& c) const {
  dump(made.file, made.text);
  if (stage.phase >= CompilePhase::Plan) {
    c.dumps.push_back(std::move(made));
  }
}

void Runner::dumpAgain(const Compilation& c) const {
  for (const Dump& made : c.dumps) {
    dump(made.file, made.text);
  }
}

void Runner::dump(std::string_view file, const std::string& text) const {
  if (dumpFolder_.empty()) {
    return;
  }
  std::error_code failed;
  std::filesystem::create_directories(dumpFolder_, failed);
  writeFileAtomically(std::filesystem::path(dumpFolder_) / file, text);
}

std::vector<StageTime> Runner::times() const {
  std::vector<StageTime> times;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (timed_[i].runs > 0) {
      times.push_back({stages_[i].name, stages_[i].phase, timed_[i].seconds});
    }
  }
  return times;
}

}  // namespace sluice::compiler
