// Reductions in a fixed order. Where rows of a matrix are folded, columns.h does it. Otherwise a
// result of a few elements is one thread's, other results are one block's: each thread folds every
// n-th element and a tree folds the threads. Where few results have very many elements, several
// blocks take a part each, and a second launch folds the parts.
#include "sluice/ops/reduce.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/columns.h"
#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cuda {
namespace {

constexpr std::int64_t kOneThread = 32;   // elements that a thread folds by itself
constexpr std::int64_t kPart = 1 << 14;   // elements of a part
constexpr std::int64_t kMostParts = 256;  // of a result

/// The axes of the operand that number the results, and those that a result folds.
struct ReducePlan {
  std::vector<std::int64_t> keptDims, keptStrides, foldedDims, foldedStrides;
  std::int64_t results = 1;
  std::int64_t folded = 1;
  std::int64_t parts = 1;
};

ReducePlan reducePlan(const ir::OpView& op) {
  ReducePlan plan;
  const Shape& shape = op.inputs[0].shape;
  const std::vector<bool> reduced = ops::reducedAxes(op);
  const std::vector<std::int64_t> strides = shape.strides();
  for (std::size_t a = 0; a < reduced.size(); ++a) {
    (reduced[a] ? plan.foldedDims : plan.keptDims).push_back(shape.dims()[a]);
    (reduced[a] ? plan.foldedStrides : plan.keptStrides).push_back(strides[a]);
    (reduced[a] ? plan.folded : plan.results) *= shape.dims()[a];
  }
  if (plan.results > 0 && plan.results < 128 && plan.folded > 2 * kPart) {
    plan.parts = std::min(kMostParts, (plan.folded + kPart - 1) / kPart);
  }
  return plan;
}

/// How two partial results become one, and what a result of nothing is.
struct Fold {
  std::string function;
  std::string start;
};

Fold foldOf(const ir::OpView& op) {
  const std::string type(typeText(op.inputs[0].dtype));
  const bool floats = isFloat(op.inputs[0].dtype);
  if (op.def.name == "reduce_max" || op.def.name == "reduce_min") {
    const bool max = op.def.name == "reduce_max";
    const std::string bound = floats ? literal(max ? -std::numeric_limits<double>::infinity()
                                                   : std::numeric_limits<double>::infinity())
                                     : fmt::format("Bounds<{}>::{}()", type, max ? "low" : "high");
    return {max ? "op_maximum" : "op_minimum", bound};
  }
  return op.def.name == "reduce_prod" ? Fold{"op_mul", "1"} : Fold{"op_add", "0"};
}

std::string finishText(const ir::OpView& op, const ReducePlan& plan, std::string_view result) {
  const std::string value = op.def.name == "reduce_mean"
                                ? fmt::format("value / W({}.0)", plan.folded)
                                : std::string("value");
  return fmt::format("out0[{}] = narrow<{}>({});\n", result, typeText(op.outputs[0].dtype), value);
}

/// The fold over the rows, if the leading axes of many elements are reduced.
std::optional<ColumnFold> columnFoldOf(const ir::OpView& op, const ReducePlan& plan) {
  const std::vector<bool> reduced = ops::reducedAxes(op);
  if (plan.results < 8 || plan.folded <= kOneThread || reduced.empty() || reduced.back() ||
      !std::ranges::is_sorted(reduced, std::greater<>())) {
    return std::nullopt;
  }
  const Fold fold = foldOf(op);
  return ColumnFold{.rows = plan.folded,
                    .columns = plan.results,
                    .matrices = {0},
                    .terms = {"m0"},
                    .finish = "const W value = s0; " + finishText(op, plan, "c"),
                    .function = fold.function,
                    .start = fold.start};
}

/// Folds elements begin, begin + step ... before end of result `r` into `value`.
std::string loopText(const ReducePlan& plan,
                     const Fold& fold,
                     std::string_view begin,
                     std::string_view end,
                     std::string_view step) {
  return fmt::format(
      "  W value = W({});\n"
      "  const i64 base = {};\n"
      "  for (i64 k = {}; k < {}; k += {}) value = {}(value, wide(in0[base + {}]));\n",
      fold.start,
      offsetText("r", plan.keptDims, plan.keptStrides),
      begin,
      end,
      step,
      fold.function,
      offsetText("k", plan.foldedDims, plan.foldedStrides));
}

std::string treeText(const Fold& fold) {
  return fmt::format("  value = blockFold(value, [](W x, W y) {{ return {}(x, y); }});\n",
                     fold.function);
}

}  // namespace

device::Choice chooseReduce(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const ReducePlan plan = reducePlan(op);
  if (const std::optional<ColumnFold> fold = columnFoldOf(op, plan)) {
    choice.scratchBytes = columnScratch(*fold);
  } else if (plan.parts > 1) {
    choice.scratchBytes = static_cast<std::size_t>(plan.results * plan.parts) * sizeof(double);
  }
  return choice;
}

Source reduceSource(const ir::OpView& op) {
  const ReducePlan plan = reducePlan(op);
  const Fold fold = foldOf(op);
  Source source;
  source.text = fmt::format("typedef {} W;\n", wideText(op.inputs[0].dtype));
  if (const std::optional<ColumnFold> columns = columnFoldOf(op, plan)) {
    addColumnFold(source, op, *columns);
    return source;
  }
  const std::string all = fmt::format("{}ll", plan.folded);
  if (plan.folded <= kOneThread) {
    addElementEntry(source,
                    op,
                    "results",
                    plan.results,
                    "  const i64 r = i;\n" + loopText(plan, fold, "0", all, "1") + "  " +
                        finishText(op, plan, "r"));
    return source;
  }
  if (plan.parts == 1) {
    const int threads = threadsFor(plan.folded);
    addEntry(source,
             op,
             {"results", plan.results, threads},
             "  const i64 r = blockIdx.x;\n" +
                 loopText(plan, fold, "threadIdx.x", all, std::to_string(threads)) +
                 treeText(fold) + "  if (threadIdx.x == 0) " + finishText(op, plan, "r"));
    return source;
  }
  const std::int64_t part = (plan.folded + plan.parts - 1) / plan.parts;
  addEntry(source,
           op,
           {"parts", plan.results * plan.parts, kThreads},
           fmt::format("  const i64 r = blockIdx.x / {0}ll, first = blockIdx.x % {0}ll * {1}ll;\n"
                       "  const i64 end = first + {1}ll < {2}ll ? first + {1}ll : {2}ll;\n",
                       plan.parts,
                       part,
                       plan.folded) +
               loopText(plan, fold, "first + threadIdx.x", "end", std::to_string(kThreads)) +
               treeText(fold) + "  if (threadIdx.x == 0) ((W*)scratch)[blockIdx.x] = value;\n");
  addEntry(source,
           op,
           {"results", plan.results, kThreads},
           fmt::format("  W value = threadIdx.x < {0} ? ((W*)scratch)[blockIdx.x * {0}ll + "
                       "threadIdx.x] : W({1});\n",
                       plan.parts,
                       fold.start) +
               treeText(fold) + "  if (threadIdx.x == 0) " + finishText(op, plan, "blockIdx.x"));
  return source;
}

Source argmaxSource(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  Source source;
  addElementEntry(
      source,
      op,
      "lines",
      view.outer * view.inner,
      fmt::format("  const i64 base = i / {1}ll * {0}ll * {1}ll + i % {1}ll;\n"
                  "  i64 best = 0;\n"
                  "  auto top = wide(in0[base]);\n"
                  "  for (i64 k = 1; k < {0}ll; ++k) {{\n"
                  "    const auto x = wide(in0[base + k * {1}ll]);\n"
                  "    if (top == top && (x != x || top < x)) {{ best = k; top = x; }}\n"
                  "  }}\n"
                  "  out0[i] = best;\n",
                  view.extent,
                  view.inner));
  return source;
}

Source cumsumSource(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  Source source;
  addElementEntry(source,
                  op,
                  "lines",
                  shape.elements() == 0 ? 0 : view.outer * view.inner,
                  fmt::format("  const i64 base = i / {1}ll * {0}ll * {1}ll + i % {1}ll;\n"
                              "  {2} sum = 0;\n"
                              "  for (i64 k = 0; k < {0}ll; ++k) {{\n"
                              "    const i64 at = base + ({3}) * {1}ll;\n"
                              "    const {2} next = op_add(sum, wide(in0[at]));\n"
                              "    out0[at] = narrow<{4}>({5});\n"
                              "    sum = next;\n"
                              "  }}\n",
                              view.extent,
                              std::max<std::int64_t>(view.inner, 1),
                              wideText(op.inputs[0].dtype),
                              op.attrs.flag("reverse") ? fmt::format("{}ll - k", view.extent - 1)
                                                       : std::string("k"),
                              typeText(op.inputs[0].dtype),
                              op.attrs.flag("exclusive") ? "sum" : "next"));
  return source;
}

}  // namespace sluice::devices::cuda
