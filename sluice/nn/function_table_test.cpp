// Every op of the table can be reached by a function of this module, except those that kWithout
// lists with a reason.
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"

namespace sluice::nn {
namespace {

/// A trace with the operands that functions need.
struct Operands {
  Tensor input(const char* name, DType dtype, const Shape& shape) {
    return tracer.input(name, {dtype, shape});
  }

  ir::Graph graph;
  Tracer tracer{graph, TraceMode::Training};
  Tensor x = input("x", DType::F32, {2, 3});
  Tensor square = input("square", DType::F32, {3, 3});
  Tensor image = input("image", DType::F32, {1, 2, 4, 4});
  Tensor kernel = input("kernel", DType::F32, {2, 2, 3, 3});
  Tensor steps = input("steps", DType::F32, {4, 2, 3});
  Tensor row = input("row", DType::F32, {2});
  Tensor whole = input("whole", DType::I64, {2});
  Tensor flags = input("flags", DType::Bool, {2, 3});
  Tensor flag = input("flag", DType::Bool, {});
  Tensor places = input("places", DType::I64, {2, 1});
  Tensor at = input("at", DType::I64, {1});
};

// Of the list of simple functions: what each makes of x and y.
struct Simple {
  const ir::OpDef* op;
  std::function<Tensor(const Tensor&, const Tensor&)> call;
  int operands;
};

std::vector<Simple> simpleFunctions() {
  std::vector<Simple> all;
#define SLUICE_ONE(function, torch, name) \
  all.push_back({&ops::k##name, [](const Tensor& x, const Tensor&) { return function(x); }, 1});
#define SLUICE_TWO(function, torch, name) \
  all.push_back(                          \
      {&ops::k##name, [](const Tensor& x, const Tensor& y) { return function(x, y); }, 2});
  SLUICE_NN_FUNCTIONS(SLUICE_ONE, SLUICE_TWO)
#undef SLUICE_ONE
#undef SLUICE_TWO
  return all;
}

using Call = std::function<void(Operands&)>;

std::map<std::string_view, Call> shapeCalls() {
  return {
      {"argmax", [](Operands& o) { argMax(o.x); }},
      {"broadcast_to",
       [](Operands& o) {
         expand(o.x, {4, -1, -1});
       }},
      {"bucketize", [](Operands& o) { bucketize(o.x, o.row); }},
      {"cast", [](Operands& o) { cast(o.x, DType::F64); }},
      {"concat",
       [](Operands& o) {
         concat({o.x, o.x});
       }},
      {"constant", [](Operands&) { scalar(1.0); }},
      {"cumsum", [](Operands& o) { cumsum(o.x, 1); }},
      {"dynamic_slice", [](Operands& o) { dynamicSlice(o.x, 1, o.at, 2); }},
      {"dynamic_update", [](Operands& o) { dynamicUpdate(o.square, o.x, 0, o.at); }},
      {"gather", [](Operands& o) { gather(o.x, o.whole); }},
      {"gather_elements", [](Operands& o) { takeAlongDim(o.x, o.places, 1); }},
      {"gather_nd", [](Operands& o) { gatherNd(o.x, o.places); }},
      {"iota", [](Operands&) { arange(4); }},
      {"one_hot", [](Operands& o) { oneHot(o.whole, 5); }},
      {"pad",
       [](Operands& o) {
         pad(o.x, {1, 2});
       }},
      {"reduce_log_sum_exp", [](Operands& o) { logsumexp(o.x); }},
      {"reduce_max", [](Operands& o) { max(o.x); }},
      {"reduce_mean", [](Operands& o) { mean(o.x); }},
      {"reduce_min", [](Operands& o) { min(o.x); }},
      {"reduce_prod", [](Operands& o) { prod(o.x); }},
      {"reduce_sum", [](Operands& o) { sum(o.x); }},
      {"replica_gather", [](Operands& o) { allGather(o.x, 2); }},
      {"replica_sum", [](Operands& o) { allReduce(o.x); }},
      {"replica_sum_scatter", [](Operands& o) { reduceScatter(o.x, 2); }},
      {"reshape", [](Operands& o) { reshape(o.x, {6}); }},
      {"reverse", [](Operands& o) { flip(o.x, {0}); }},
      {"reverse_sequence", [](Operands& o) { reverseSequence(o.steps, o.whole); }},
      {"scatter_add", [](Operands& o) { indexAdd(o.x, 0, o.whole, o.x); }},
      {"scatter_elements", [](Operands& o) { scatter(o.x, 1, o.places, slice(o.x, 1, 0, 1)); }},
      {"scatter_nd", [](Operands& o) { scatterNd(o.x, o.places, o.x); }},
      {"slice", [](Operands& o) { slice(o.x, 0, 0, 1); }},
      {"split",
       [](Operands& o) {
         split(o.x, {1, 2}, 1);
       }},
      {"tensor_location", [](Operands& o) { tensorLocation(o.x, true); }},
      {"tile",
       [](Operands& o) {
         tile(o.x, {2, 2});
       }},
      {"top_k", [](Operands& o) { topk(o.x, 2); }},
      {"transpose", [](Operands& o) { transpose(o.x, 0, 1); }},
      {"trilu", [](Operands& o) { triu(o.square); }},
      {"where", [](Operands& o) { where(o.flags, o.x, o.x); }},
  };
}

std::map<std::string_view, Call> computingCalls() {
  return {
      {"avg_pool", [](Operands& o) { avgPool2d(o.image, 2); }},
      {"batch_norm", [](Operands& o) { batchNorm(o.image, o.row, o.row); }},
      {"batch_norm_inference",
       [](Operands& o) {
         batchNorm(o.image, o.row, o.row, {o.row, o.row});
       }},
      {"bce_loss", [](Operands& o) { bceLoss(o.x, o.x); }},
      {"bce_with_logits_loss", [](Operands& o) { bceWithLogits(o.x, o.x); }},
      {"bit_shift",
       [](Operands& o) { bitwiseLeftShift(cast(o.whole, DType::U8), cast(o.whole, DType::U8)); }},
      {"branch",
       [](Operands& o) {
         const Body same = [](std::vector<Tensor> in) { return in; };
         cond(o.flag, same, {o.x}, same, {o.x});
       }},
      {"celu", [](Operands& o) { celu(o.x); }},
      {"clamp", [](Operands& o) { clamp(o.x, 0, 1); }},
      {"conv", [](Operands& o) { conv2d(o.image, o.kernel); }},
      {"conv_grad_input", [](Operands& o) { convTranspose2d(o.image, o.kernel); }},
      {"cross_entropy", [](Operands& o) { crossEntropy(o.x, o.whole); }},
      {"ctc_beam_search_decoder", [](Operands& o) { ctcBeamSearchDecoder(o.steps, o.whole); }},
      {"ctc_loss",
       [](Operands& o) {
         ctcLoss(o.steps, o.places, {o.whole, o.whole});
       }},
      {"dft",
       [](Operands& o) {
         fft(reshape(o.x, {3, 2}), 0);
       }},
      {"dropout", [](Operands& o) { dropout(o.x, 0.5); }},
      {"einsum",
       [](Operands& o) {
         einsum("ij,jk->ik", {o.x, o.square});
       }},
      {"elu", [](Operands& o) { elu(o.x); }},
      {"gelu", [](Operands& o) { gelu(o.x); }},
      {"grid_sample",
       [](Operands& o) {
         gridSample(o.image, zeros({1, 2, 2, 2}));
       }},
      {"group_norm", [](Operands& o) { groupNorm(o.image, o.row, o.row, 1); }},
      {"hard_sigmoid", [](Operands& o) { hardsigmoid(o.x); }},
      {"hardmax", [](Operands& o) { hardmax(o.x); }},
      {"identity_loss", [](Operands& o) { identityLoss(o.x); }},
      {"is_inf", [](Operands& o) { isinf(o.x); }},
      {"l1_loss", [](Operands& o) { l1Loss(o.x, o.x); }},
      {"layer_norm", [](Operands& o) { layerNorm(transpose(o.x, 0, 1), o.row, o.row); }},
      {"leaky_relu", [](Operands& o) { leakyRelu(o.x); }},
      {"log_softmax", [](Operands& o) { logSoftmax(o.x); }},
      {"loop",
       [](Operands& o) {
         forLoop(20, [](std::vector<Tensor> in) { return std::vector{sin(in[0])}; }, {o.x});
       }},
      {"matmul", [](Operands& o) { matmul(o.x, o.square); }},
      {"max_pool", [](Operands& o) { maxPool2d(o.image, 2); }},
      {"mod", [](Operands& o) { remainder(o.x, o.x); }},
      {"mse_loss", [](Operands& o) { mseLoss(o.x, o.x); }},
      {"nll_loss", [](Operands& o) { nllLoss(o.x, o.whole); }},
      {"prelu", [](Operands& o) { prelu(o.image, o.row); }},
      {"print_tensor", [](Operands& o) { printTensor(o.x); }},
      {"random_normal", [](Operands&) { randn({2}); }},
      {"random_uniform", [](Operands&) { rand({2}); }},
      {"resize", [](Operands& o) { interpolate(o.image, {.size = {8}}); }},
      {"rms_norm", [](Operands& o) { rmsNorm(transpose(o.x, 0, 1), o.row); }},
      {"roi_align",
       [](Operands& o) {
         roiAlign(o.image, zeros({2, 4}), o.whole, {});
       }},
      {"scaled_dot_product_attention",
       [](Operands& o) { scaledDotProductAttention(o.steps, o.steps, o.steps); }},
      {"shaped_dropout", [](Operands& o) { dropout2d(o.image, 0.5); }},
      {"shrink", [](Operands& o) { softshrink(o.x); }},
      {"softmax", [](Operands& o) { softmax(o.x); }},
      {"thresholded_relu", [](Operands& o) { threshold(o.x, 0.1); }},
  };
}

/// Ops that models do not call. Those whose names end in _grad are made by gradients.
const std::map<std::string_view, std::string_view> kWithout = {
    {"abort", "of the vendor's domain: aiGraphcore"},
    {"assign", "Parameter::assign"},
    {"cast_then_pow2_scale", "of the vendor's domain: aiGraphcore"},
    {"conv_grad_weight", "made by the gradient of conv"},
    {"fused", "made by the compiler"},
    {"gradient_statistics", "made by automatic loss scaling"},
    {"host_call", "CPU, which inference models alone may call"},
    {"input", "made by the trace"},
    {"pow2_scale_then_cast", "of the vendor's domain: aiGraphcore"},
    {"replica_scatter", "made for sharded state"},
    {"sequence_rows", "of the vendor's domain: aiGraphcore"},
    {"slice_scatter", "made by the gradient of slice"},
    {"spline_basis", "of the vendor's domain: aiGraphcore"},
    {"spline_weighting", "of the vendor's domain: aiGraphcore"},
    {"stochastic_cast", "made by optimizers"},
    {"variable", "Parameter::use"},
};

std::set<std::string_view> opsIn(const ir::Graph& graph) {
  std::set<std::string_view> names;
  for (const ir::OpId id : graph.order()) {
    names.insert(graph.op(id).def->name);
  }
  return names;
}

TEST(FunctionTable, EveryOpHasAFunctionOrAReason) {
  std::set<std::string_view> reached;
  for (const Simple& simple : simpleFunctions()) {
    EXPECT_TRUE(reached.insert(simple.op->name).second) << simple.op->name << " is listed twice";
  }
  for (const auto& calls : {shapeCalls(), computingCalls()}) {
    for (const auto& [name, call] : calls) {
      Operands operands;
      call(operands);
      EXPECT_TRUE(opsIn(operands.graph).contains(name)) << name << " is not made";
      EXPECT_TRUE(reached.insert(name).second) << name << " is listed twice";
    }
  }
  for (const ir::OpDef* def : ops::opSet().all()) {
    const bool without = kWithout.contains(def->name) || def->name.ends_with("_grad");
    EXPECT_NE(reached.contains(def->name), without)
        << def->name << ": add a line to functional.h, or a function and a line here";
  }
}

TEST(FunctionTable, SimpleFunctionsMakeTheirOpOfTheirOperandsInOrder) {
  for (const Simple& simple : simpleFunctions()) {
    Operands o;
    const std::string_view name = simple.op->name;
    const bool logic = name.starts_with("logical");
    const bool bits = name.starts_with("bitwise");
    const Tensor x = logic ? o.flags : bits ? o.whole : o.square;
    const Tensor y = logic  ? o.input("b", DType::Bool, {2, 3})
                     : bits ? o.input("b", DType::I64, {2})
                            : o.input("b", DType::F32, {3, 3});
    const ir::Op& op = o.graph.op(simple.call(x, y).value().op);
    EXPECT_EQ(op.def, simple.op);
    ASSERT_EQ(static_cast<int>(op.inputs.size()), simple.operands) << name;
    EXPECT_EQ(op.inputs[0], x.value()) << name;
    EXPECT_EQ(op.inputs.back(), simple.operands == 1 ? x.value() : y.value()) << name;
  }
}

}  // namespace
}  // namespace sluice::nn
