// Random numbers, with the streams of the CPU (R6), and assignments that accumulate: the kernels
// that read the numbers of the step.
#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/kernels.h"

namespace sluice::devices::cuda {
namespace {

/// The 32 bits of element i.
std::string wordText(const ir::OpView& op) {
  return fmt::format("wordOf(run->seed, (u64)i, {}u, (u32)run->microBatch)",
                     static_cast<std::uint32_t>(op.integer("ordinal")));
}

Source withNumbers(const ir::OpView& op, std::string_view body) {
  Source source;
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), body);
  source.readsRun = true;
  return source;
}

}  // namespace

Source dropoutSource(const ir::OpView& op) {
  const double p = op.attrs.real("p");
  return withNumbers(
      op,
      fmt::format("  const bool kept = (double)uniform01({}) >= {};\n"
                  "  out0[i] = narrow<{}>(kept ? (double)wide(in0[i]) * {} : 0.0);\n",
                  wordText(op),
                  literal(p),
                  typeText(op.outputs[0].dtype),
                  literal(1.0 / (1.0 - p))));
}

Source randomUniformSource(const ir::OpView& op) {
  const double low = op.attrs.real("low");
  const double high = op.attrs.real("high");
  return withNumbers(op,
                     fmt::format("  out0[i] = narrow<{}>({} + {} * (double)uniform01({}));\n",
                                 typeText(op.outputs[0].dtype),
                                 literal(low),
                                 literal(high - low),
                                 wordText(op)));
}

Source randomNormalSource(const ir::OpView& op) {
  return withNumbers(op,
                     fmt::format(R"(  const Words words =
      philox(run->seed, (u64)i / 4, {}u, (u32)run->microBatch);
  const int pair = (int)(i % 4) & ~1;
  const double u = ((double)words.at[pair] + 1.0) * 2.3283064365386962890625e-10;
  const double angle =
      2.0 * 3.141592653589793115998 * ((double)words.at[pair + 1] * 2.3283064365386962890625e-10);
  const double normal = sqrt(-2.0 * log(u)) * (i % 2 == 0 ? cos(angle) : sin(angle));
  out0[i] = narrow<{}>({} + {} * normal);
)",
                                 static_cast<std::uint32_t>(op.integer("ordinal")),
                                 typeText(op.outputs[0].dtype),
                                 literal(op.attrs.real("mean")),
                                 literal(op.attrs.real("deviation"))));
}

/// add, sum and mean; with sum and mean the first micro-batch of a round overwrites.
Source assignSource(const ir::OpView& op) {
  const std::string& mode = op.attrs.text("mode");
  const DType dtype = op.inputs[0].dtype;
  const std::string_view type = typeText(dtype);
  const std::string first =
      mode == "add" ? "" : "  if (run->microBatchInRound == 0) { out0[i] = in0[i]; return; }\n";
  if (dtype == DType::Bool) {
    return withNumbers(op, first + "  out0[i] = out0[i] || in0[i];\n");
  }
  if (mode != "mean") {
    return withNumbers(
        op,
        first +
            fmt::format("  out0[i] = narrow<{}>(op_add(wide(out0[i]), wide(in0[i])));\n", type));
  }
  return withNumbers(op,
                     first + fmt::format("  typedef {0} F;\n"
                                         "  const F f = (F)run->microBatchInRound;\n"
                                         "  out0[i] = narrow<{1}>((F)wide(out0[i]) * (f / (f + 1)) "
                                         "+ (F)wide(in0[i]) / (f + 1));\n",
                                         dtype == DType::F32 ? "float" : "double",
                                         type));
}

}  // namespace sluice::devices::cuda
