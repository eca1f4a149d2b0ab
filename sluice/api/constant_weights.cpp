#include "sluice/api/constant_weights.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "sluice/api/compile_plan.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"

namespace sluice {
namespace {

std::set<std::string> writtenBy(const ir::Graph& graph) {
  std::set<std::string> written;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).is(ir::kAssign)) {
      written.insert(graph.op(id).attrs.text("var"));
    }
  }
  return written;
}

/// What stays a variable: the buffers that the options name, and those that replicas may have
/// apart.
std::vector<std::string> keptVariables(const Options& options, const ir::Graph& graph) {
  std::vector<std::string> kept = options.state().updatableNamedBuffers;
  if (options.state().broadcastBuffers || options.allReplicas() == 1) {
    return kept;
  }
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.role == ir::VariableRole::Buffer) {
      kept.push_back(variable.name);
    }
  }
  return kept;
}

}  // namespace

void requireConstantWeights(const Options& options, bool training, bool sourceHas) {
  const CompileOptions& compile = options.compile();
  if (compile.constantWeights && training) {
    raise<InvalidArgument>(
        "constantWeights: a training model changes its weights; set the option for the inference "
        "model alone");
  }
  if (compile.foldBatchNorm && training) {
    raise<InvalidArgument>(
        "foldBatchNorm: a training model changes its weights and the statistics of its norms; set "
        "the option for the inference model alone");
  }
  if (compile.foldBatchNorm && !compile.constantWeights && !sourceHas) {
    raise<InvalidArgument>(
        "foldBatchNorm computes new weights when a model is compiled, and the weights of this one "
        "are read at every call: set constantWeights(true), too, or make the session with "
        "constantWeights = true");
  }
  if (compile.constantWeights) {
    requireWeightsOnDevices(options);
  }
}

void requireWeightsOnDevices(const Options& options) {
  const Strategy strategy = cutIntoPhases(options).value_or(options.executionStrategy());
  if (parallel::isPhased(strategy.kind()) ||
      !options.tensorLocations.plan().weight.onChip.value_or(true)) {
    raise<InvalidArgument>(
        "constantWeights: constants cannot be off the devices, and these options keep weights in "
        "remote memory; set constantWeights(false), or make the session with constantWeights = "
        "false");
  }
}

std::vector<std::string> fixVariables(TracedGraph& traced,
                                      const ValueOfVariable& valueOf,
                                      const Options& options) {
  ir::Graph& graph = traced.graph;
  std::set<std::string> variables = writtenBy(graph);
  const std::vector<std::string> kept = keptVariables(options, graph);
  variables.insert(kept.begin(), kept.end());
  std::set<std::string> fixed;
  std::unordered_map<ir::Value, ir::Value> constants;
  std::vector<ir::OpId> reads;
  for (const ir::OpId id : std::vector(graph.order().begin(), graph.order().end())) {
    const ir::Op& op = graph.op(id);
    if (!op.is(ir::kVariable) || variables.contains(op.attrs.text("var"))) {
      continue;
    }
    const std::string& name = op.attrs.text("var");
    const ir::OpId constant =
        graph.insertBefore(id,
                           {.def = ir::kConstant,
                            .attrs = {{"value", valueOf(*graph.findVariable(name))}},
                            .name = op.name,
                            .place = op.place});
    constants.emplace(op.out(), graph.op(constant).out());
    reads.push_back(id);
    fixed.insert(name);
  }
  for (const std::string& name : fixed) {
    const auto located = options.tensorLocations.tensors().find(name);
    if (located != options.tensorLocations.tensors().end() && !located->second) {
      raise<InvalidArgument>(
          "constantWeights: constants cannot be off the devices, and setTensorLocation keeps '{}' "
          "in remote memory; leave it on the devices, or set constantWeights(false)",
          name);
    }
  }
  graph.replaceUses(constants);
  graph.remove(reads);
  for (NamedTensor& tensor : traced.tensors) {
    const auto found = constants.find(tensor.value);
    tensor.value = found == constants.end() ? tensor.value : found->second;
  }
  return {fixed.begin(), fixed.end()};
}

std::uint64_t hashOf(std::span<const std::string> variables, Session& session) {
  Hasher hasher;
  for (const std::string& name : variables) {
    hasher.add(name);
    if (session.contains(name)) {
      hasher.add(session.read(name).hash());
    }
  }
  return hasher.digest();
}

std::uint64_t hashOfConstants(const ir::Graph& graph) {
  Hasher hasher;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).is(ir::kConstant)) {
      hasher.add(graph.op(id).attrs.tensor("value").hash());
    }
  }
  return hasher.digest();
}

}  // namespace sluice
