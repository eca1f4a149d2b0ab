// The passes that every graph goes through before it is placed, as one visible list. The runner
// verifies and dumps between them, so that passes stay short.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

struct TransformOptions {
  bool fusion = true;
  bool verify = true;  ///< check the graph's invariants after each pass that changes it
  std::string dumpDirectory =
      {};  ///< not empty: the text after each pass goes into NN_name.txt there
  /// Composites that stay whole because a device has a kernel for them; empty: none.
  std::function<bool(const ir::Op&)> keepComposite = {};
};

struct PassInfo {
  std::string_view name;
  bool (*run)(ir::Graph&, const TransformOptions&);
  bool isFusion = false;  ///< skipped without options.fusion
};

/// All passes, in the order they run.
std::span<const PassInfo> passes();

/// Runs the list. What a pass throws has "pass <name>" in its location; a dump that cannot be
/// written is a FileError.
void runPasses(ir::Graph& graph, const TransformOptions& options = {});

}  // namespace sluice::transforms
