#include "sluice/transforms/pipeline.h"

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "sluice/base/atomic_file.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/transforms/decompose.h"
#include "sluice/transforms/eliminate_common.h"
#include "sluice/transforms/eliminate_dead.h"
#include "sluice/transforms/fold_constants.h"
#include "sluice/transforms/fuse_elementwise.h"
#include "sluice/transforms/shard_updates.h"

namespace sluice::transforms {
namespace {

bool runDecompose(ir::Graph& graph, const TransformOptions& options) {
  return decompose(graph, [&](const ir::Op& op) {
    // Those that devices can run as they are have parts only to be differentiated through.
    return op.def->reference != nullptr || (options.keepComposite && options.keepComposite(op));
  });
}

/// A pass that needs no options.
template <bool (*kPass)(ir::Graph&)>
bool plain(ir::Graph& graph, const TransformOptions&) {
  return kPass(graph);
}

constexpr std::array<PassInfo, 8> kPasses = {{
    {"decompose", runDecompose},
    {"shard_updates", plain<shardUpdates>},
    {"fold_constants", plain<foldConstants>},
    {"eliminate_common", plain<eliminateCommon>},
    {"eliminate_dead", plain<eliminateDead>},
    {"fuse_elementwise", plain<fuseElementwise>, true},
    {"fuse_epilogues", plain<fuseEpilogues>, true},
    {"eliminate_dead", plain<eliminateDead>, true},  // constants that moved into bodies
}};

void dump(const ir::Graph& graph, const std::string& directory, int number, std::string_view name) {
  const std::filesystem::path path =
      std::filesystem::path(directory) / fmt::format("{:02}_{}.txt", number, name);
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  writeFileAtomically(path, ir::print(graph));
}

}  // namespace

std::span<const PassInfo> passes() {
  return kPasses;
}

void runPasses(ir::Graph& graph, const TransformOptions& options) {
  int number = 0;
  bool verified = false;
  for (const PassInfo& pass : passes()) {
    if (pass.isFusion && !options.fusion) {
      continue;
    }
    try {
      const bool changed = pass.run(graph, options);
      // Takes longer than most passes: a graph that none has changed is not looked at again.
      if (options.verify && (changed || !verified)) {
        ir::verify(graph);
        verified = true;
      }
      if (!options.dumpDirectory.empty()) {
        dump(graph, options.dumpDirectory, number, pass.name);
      }
    } catch (Error& error) {
      error.at(fmt::format("pass {}", pass.name));
      throw;
    }
    ++number;
  }
}

}  // namespace sluice::transforms
