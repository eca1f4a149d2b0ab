#include "sluice/devices/cuda/kernels/columns.h"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::devices::cuda {
namespace {

constexpr std::int64_t kLanes = 32;

struct ColumnPlan {
  std::int64_t width = 1;   ///< columns of a thread
  std::int64_t blocks = 1;  ///< that have all columns
  std::int64_t parts = 1;
  std::int64_t rowsOfPart = 1;
};

ColumnPlan planOf(const ColumnFold& fold) {
  constexpr std::int64_t kEnoughBlocks = 1024;
  constexpr std::int64_t kFewestRows = 64;
  ColumnPlan plan;
  plan.width = fold.columns % 4 == 0 && fold.columns >= 4 * kLanes ? 4 : 1;
  plan.blocks = (fold.columns + kLanes * plan.width - 1) / (kLanes * plan.width);
  const std::int64_t wanted =
      (kEnoughBlocks + plan.blocks - 1) / std::max<std::int64_t>(plan.blocks, 1);
  plan.rowsOfPart = std::max(kFewestRows, (fold.rows + wanted - 1) / wanted);
  plan.parts = std::max<std::int64_t>(1, (fold.rows + plan.rowsOfPart - 1) / plan.rowsOfPart);
  return plan;
}

/// Lanes and rows of a block, and where its threads begin.
std::string headText(const ColumnFold& fold, const ColumnPlan& plan) {
  std::string text = fmt::format(
      "  constexpr int WIDTH = {0};\n"
      "  const int lane = threadIdx.x % 32, first = threadIdx.x / 32;\n"
      "  const i64 columns = {1}ll, part = blockIdx.x / {2}ll;\n"
      "  const i64 c0 = (blockIdx.x % {2}ll * 32 + lane) * WIDTH;\n",
      plan.width,
      fold.columns,
      plan.blocks);
  for (std::size_t v = 0; v < fold.terms.size(); ++v) {
    text += fmt::format("  W v{}[WIDTH];\n", v);
  }
  text += "#pragma unroll\n  for (int j = 0; j < WIDTH; ++j) {";
  for (std::size_t v = 0; v < fold.terms.size(); ++v) {
    text += fmt::format(" v{}[j] = W({});", v, fold.start);
  }
  return text + " }\n";
}

/// Folds the rows of a block in their order; the threads of the first one have the result.
std::string foldRowsText(const ColumnFold& fold) {
  std::string text = "  __shared__ W all[8][32 * WIDTH];\n";
  for (std::size_t v = 0; v < fold.terms.size(); ++v) {
    text += fmt::format(R"(  __syncthreads();
  for (int j = 0; j < WIDTH; ++j) all[first][lane * WIDTH + j] = v{0}[j];
  __syncthreads();
  if (first == 0)
    for (int k = 1; k < 8; ++k)
      for (int j = 0; j < WIDTH; ++j) v{0}[j] = {1}(v{0}[j], all[k][lane * WIDTH + j]);
)",
                        v,
                        fold.function);
  }
  return text + "  if (first != 0 || c0 >= columns) return;\n";
}

std::string finishText(const ColumnFold& fold) {
  std::string text =
      "#pragma unroll\n  for (int j = 0; j < WIDTH; ++j) {\n    const i64 c = c0 + j;\n";
  for (std::size_t v = 0; v < fold.terms.size(); ++v) {
    text += fmt::format("    const W s{0} = v{0}[j];\n", v);
  }
  return text + "    " + fold.finish + "\n  }\n";
}

std::string termsText(const ColumnFold& fold) {
  std::string text = "    for (i64 r = begin + first; r < end; r += 8) {\n";
  for (const int m : fold.matrices) {
    text += fmt::format("      const auto p{0} = load<WIDTH>(in{0} + r * columns + c0);\n", m);
  }
  text += "#pragma unroll\n      for (int j = 0; j < WIDTH; ++j) {\n";
  for (const int m : fold.matrices) {
    text += fmt::format("        const auto m{0} = wide(p{0}.at[j]);\n", m);
  }
  for (std::size_t v = 0; v < fold.terms.size(); ++v) {
    text +=
        fmt::format("        v{0}[j] = {1}(v{0}[j], W({2}));\n", v, fold.function, fold.terms[v]);
  }
  return text + "      }\n    }\n";
}

}  // namespace

std::size_t columnScratch(const ColumnFold& fold) {
  const ColumnPlan plan = planOf(fold);
  return plan.parts == 1 ? 0
                         : static_cast<std::size_t>(plan.parts * fold.columns) * fold.terms.size() *
                               sizeof(double);
}

void addColumnFold(Source& source, const ir::OpView& op, const ColumnFold& fold) {
  const ColumnPlan plan = planOf(fold);
  const std::size_t values = fold.terms.size();
  std::string body = headText(fold, plan);
  body += fmt::format(
      "  const i64 begin = part * {0}ll, end = begin + {0}ll < {1}ll ? begin + {0}ll : {1}ll;\n",
      plan.rowsOfPart,
      fold.rows);
  body += "  if (c0 < columns) {\n" + fold.perColumn + "#pragma unroll 4\n" + termsText(fold) +
          "  }\n" + foldRowsText(fold);
  if (plan.parts == 1) {
    addEntry(source, op, {"columns", plan.blocks, kThreads}, body + finishText(fold));
    return;
  }
  body += "#pragma unroll\n  for (int j = 0; j < WIDTH; ++j) {\n";
  for (std::size_t v = 0; v < values; ++v) {
    body += fmt::format(
        "    ((W*)scratch)[(part * {0} + {1}) * columns + c0 + j] = v{1}[j];\n", values, v);
  }
  addEntry(source, op, {"column_parts", plan.blocks * plan.parts, kThreads}, body + "  }\n");
  std::string rest = headText(fold, plan);
  rest += fmt::format(
      "  if (c0 < columns)\n    for (i64 p = first; p < {}ll; p += 8) {{\n#pragma unroll\n"
      "      for (int j = 0; j < WIDTH; ++j) {{\n",
      plan.parts);
  for (std::size_t v = 0; v < values; ++v) {
    rest += fmt::format(
        "        v{1}[j] = {2}(v{1}[j], ((W*)scratch)[(p * {0} + {1}) * columns + c0 + j]);\n",
        values,
        v,
        fold.function);
  }
  rest += "      }\n    }\n" + foldRowsText(fold) + finishText(fold);
  addEntry(source, op, {"columns", plan.blocks, kThreads}, rest);
}

}  // namespace sluice::devices::cuda
