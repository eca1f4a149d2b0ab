#include "tests/support/staged_models.h"

#include <string>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/tensor_types.h"

namespace sluice::testing {
namespace {

using ir::GraphBuilder;
using ir::Value;

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kWidth = 6;

std::string weightOf(std::int32_t block) {
  return "w" + std::to_string(block);
}

void addTraining(GraphBuilder& b, Value loss, std::span<const Value> weights, bool clipped) {
  ir::Graph& graph = b.graph();
  const std::vector<Value> grads = transforms::differentiate(graph, loss, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string name = "g." + graph.op(weights[i].op).attrs.text("var");
    graph.addVariable(
        {.name = name, .type = graph.type(weights[i]), .role = ir::VariableRole::Accumulator});
    b.place = graph.op(grads[i].op).place;
    b.place.pass = ir::Pass::Backward;
    b.assign(name, grads[i], "sum");
  }
  b.place = {};
  b.place.pass = ir::Pass::Update;
  Value scale = b.scalar(DType::F32, 0.1);
  if (clipped) {
    Value total;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Value g = b.variable("g." + graph.op(weights[i].op).attrs.text("var"));
      const Value sum = ops::reduceSum(b, ops::square(b, g), {});
      total = i == 0 ? sum : ops::add(b, total, sum);
    }
    scale = ops::div(b, scale, ops::sqrt(b, total));
  }
  for (const Value weight : weights) {
    const std::string& name = graph.op(weight.op).attrs.text("var");
    const Value step = ops::mul(b, b.variable("g." + name), scale);
    b.assign(name, ops::sub(b, b.variable(name), step));
  }
}

}  // namespace

ir::Graph chainModel(const ChainOptions& options) {
  ir::Graph graph("chain");
  GraphBuilder b(graph);
  Value y = b.input("x", f32({kRows, kWidth}));
  Value early;
  std::vector<Value> weights;
  for (std::int32_t i = 0; i < options.blocks; ++i) {
    const bool last = i + 1 == options.blocks;
    b.place.block = graph.blockIndex("b" + std::to_string(i));
    if (!(last && options.tied)) {
      graph.addVariable({.name = weightOf(i),
                         .type = f32({kWidth, kWidth}),
                         .initializer = ir::Initializer::uniform(-1, 1)});
      weights.push_back(b.variable(weightOf(i)));
    }
    y = ops::tanh(b, ops::matmul(b, y, last && options.tied ? weights[0] : weights.back()));
    if (options.dropout) {
      y = ops::dropout(b, y, 0.5);
    }
    early = i == 0 ? y : early;
    if (last && options.skip) {
      y = ops::add(b, y, early);
    }
  }
  if (options.training) {
    const Value target = b.input("target", f32({kRows, kWidth}));
    const Value loss = ops::reduceMean(b, ops::square(b, ops::sub(b, y, target)), {});
    addTraining(b, loss, weights, options.clipped);
    graph.addOutput("loss", loss);
  }
  graph.addOutput("y", y);
  return graph;
}

Chain lowerChain(const ir::Graph& graph,
                 const ChainRun& run,
                 std::vector<program::Target> targets) {
  Chain chain{
      .graph = graph, .homes = {}, .segments = {}, .schedule = {}, .state = {}, .program = {}};
  parallel::StageMap map{.deviceOfStage = run.deviceOfStage};
  bool training = false;
  for (const ir::OpId id : graph.order()) {
    training = training || graph.op(id).place.pass == ir::Pass::Backward;
  }
  for (std::size_t block = 0; block < graph.blocks().size(); ++block) {
    map.stageOfBlock.push_back(static_cast<std::int32_t>(block));
  }
  parallel::placeByBlocks(chain.graph, map, chain.homes);
  chain.segments =
      parallel::cutSegments(chain.graph, {.splitBackward = schedule::splitsBackward(run.kind)});
  chain.schedule = schedule::schedulePipeline(run.kind,
                                              {.deviceOfStage = run.deviceOfStage,
                                               .microBatches = run.microBatches,
                                               .training = training,
                                               .costs = run.costs});
  chain.program = program::lower(
      program::Placed{chain.graph, chain.segments, chain.homes, chain.schedule},
      chain.state,
      {.microBatchesPerRound = run.microBatches,
       .lookahead = run.lookahead,
       .sequential = run.kind == schedule::PipelineKind::Sequential && chain.segments.devices > 1,
       .targets = std::move(targets)});
  return chain;
}

}  // namespace sluice::testing
