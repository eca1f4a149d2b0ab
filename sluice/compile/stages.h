// The stages of a compilation: the value that flows through them, and the one list of all stages.
// Private to the compile module and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/compile/compile.h"

namespace sluice::compiler {

/// A text that a stage wrote to the folder of dumps.
struct Dump {
  std::string file;
  std::string text;
};

/// The value that flows through the stages. It is copied for every plan that is tried.
struct Compilation {
  /// Takes the graph out of the request, which must outlive this object.
  explicit Compilation(CompileRequest& from)
      : request(from), graph(std::move(from.graph)), lower(from.lower), state(from.state) {}

  const CompileRequest& request;
  ir::Graph graph;
  std::vector<std::string> tensorNames = {};
  std::optional<std::size_t> fetchedLoss = {};
  std::vector<std::string> warnings = {};

  /// The tensors that automatic loss scaling names. From the stage that adds anchors to
  /// differentiation they are the last outputs of the graph.
  std::vector<std::string> tracked = {};
  /// Set from differentiation to the update.
  std::optional<Differentiated> gradients = {};

  // The settings of the plan that is tried. The search for a plan that fits changes them.
  std::optional<parallel::PlanDraft> draft = {};
  program::LowerOptions lower;
  bool checksRules = true;

  parallel::RuleReport report = {};
  std::optional<program::Unplaced> unplaced = {};  ///< set from emitting to the memory plan
  program::StatePlan state;
  program::Program program = {};
  bool proven = false;
  std::vector<Dump> dumps = {};  ///< of the planning stages
};

enum class CompileStageKind : std::uint8_t {
  Pass,     ///< a rewrite that depends only on the graph
  Rewrite,  ///< any other change of the graph
  Step      ///< leaves the graph unchanged
};

struct CompileStage {
  std::string_view name;
  CompilePhase phase = CompilePhase::Trace;
  CompileStageKind kind = CompileStageKind::Rewrite;
  void (*run)(Compilation&) = nullptr;
  bool (*applies)(const Compilation&) = nullptr;      ///< null: always
  std::string (*show)(const Compilation&) = nullptr;  ///< only for a Step; null: it has no dump
};

/// All stages, in the order in which they run.
std::span<const CompileStage> compileStages();

}  // namespace sluice::compiler
