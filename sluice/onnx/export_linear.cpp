// Forms of matrix products, einsum and Fourier transforms.
#include <algorithm>
#include <array>
#include <numeric>

#include "sluice/onnx/model_writer.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// The operand with its last two axes exchanged.
std::string swapped(ModelWriter& writer, const ir::Op& op, std::size_t input) {
  Ints axes(writer.used().shape(op, input).dims().size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes.back(), axes[axes.size() - 2]);
  return writer.addHelper({"Transpose", {writer.operands(op)[input]}, {{"perm", axes}}});
}

void writeMatMul(ModelWriter& writer, const ir::Op& op) {
  const bool a = op.attrs.flag("transposeA");
  const bool b = op.attrs.flag("transposeB");
  std::vector<std::string> operands = writer.operands(op);
  const bool matrices =
      writer.used().shape(op, 0).rank() == 2 && writer.used().shape(op, 1).rank() == 2;
  if ((a || b) && matrices) {
    writer.addNode(op,
                   {"Gemm", std::move(operands), {{"transA", a ? 1 : 0}, {"transB", b ? 1 : 0}}});
    return;
  }
  if (a) {
    operands[0] = swapped(writer, op, 0);
  }
  if (b) {
    operands[1] = swapped(writer, op, 1);
  }
  writer.addNode(op, {"MatMul", std::move(operands)});
}

/// The importer takes a transposition of an operand into the product.
Fit fitMatMul(const UsedGraph& graph, const ir::Op& op) {
  const auto isTransposed = [&](Value v) { return graph.graph.op(v.op).is(ops::kTranspose); };
  return std::ranges::any_of(op.inputs, isTransposed) ? Fit::Values : Fit::Same;
}

void writeDft(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op,
      {"DFT",
       writer.operands(op),
       {{"axis", op.attrs.integer("axis")}, {"inverse", op.attrs.flag("inverse") ? 1 : 0}}});
}

Fit fitDft(const UsedGraph& /*graph*/, const ir::Op& op) {
  return op.attrs.integer("axis") < 0 ? Fit::Values : Fit::Same;
}

/// The axes of an operand that the ellipsis of its term stands for: [first, first + count).
struct EllipsisAxes {
  bool given = false;
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<EllipsisAxes> ellipsesOf(const UsedGraph& graph, const ir::Op& op) {
  std::string text = op.attrs.text("equation");
  std::erase(text, ' ');
  text = text.substr(0, text.find("->"));
  std::vector<EllipsisAxes> all;
  for (std::size_t input = 0, begin = 0; input < op.inputs.size(); ++input) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string term = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dots = term.find("...");
    const std::size_t rank = graph.shape(op, input).dims().size();
    all.push_back(dots == std::string::npos ? EllipsisAxes{}
                                            : EllipsisAxes{true, dots, rank - (term.size() - 3)});
  }
  return all;
}

/// The extents of an operand, and those that it has once the axes under the ellipsis are broadcast:
/// first with extents of 1 for axes that it lacks.
struct BroadcastOperand {
  Ints aligned;
  Ints extents;
};

std::vector<BroadcastOperand> broadcastOperands(const UsedGraph& graph, const ir::Op& op) {
  const std::vector<EllipsisAxes> axes = ellipsesOf(graph, op);
  std::size_t rank = 0;
  for (const EllipsisAxes& each : axes) {
    rank = std::max(rank, each.count);
  }
  Ints common(rank, 1);
  for (std::size_t input = 0; input < axes.size(); ++input) {
    for (std::size_t i = 0; i < axes[input].count; ++i) {
      const std::int64_t own = graph.shape(op, input).dims()[axes[input].first + i];
      std::int64_t& extent = common[rank - axes[input].count + i];
      extent = own == 1 ? extent : own;
    }
  }
  std::vector<BroadcastOperand> operands;
  for (std::size_t input = 0; input < axes.size(); ++input) {
    const Ints& dims = graph.shape(op, input).dims();
    if (!axes[input].given) {
      operands.push_back({dims, dims});
      continue;
    }
    BroadcastOperand operand;
    for (std::size_t i = 0; i < dims.size() + rank - axes[input].count; ++i) {
      const std::size_t first = axes[input].first;
      const bool under = i >= first && i < first + rank;
      const std::size_t lacking = rank - axes[input].count;
      const bool added = i >= first && i < first + lacking;
      operand.aligned.push_back(added ? 1 : dims[i < first ? i : i - lacking]);
      operand.extents.push_back(under ? common[i - first] : operand.aligned.back());
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

/// The axes under an ellipsis broadcast. Readers differ in whether they do it by themselves, so the
/// operands get the same extents there.
void writeEinsum(ModelWriter& writer, const ir::Op& op) {
  std::vector<std::string> names = writer.operands(op);
  const std::vector<BroadcastOperand> operands = broadcastOperands(writer.used(), op);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [aligned, extents] = operands[i];
    if (aligned != writer.used().shape(op, i).dims()) {
      names[i] =
          writer.addHelper({"Reshape", {names[i], writer.integers(aligned)}, {{"allowzero", 1}}});
    }
    if (extents != aligned) {
      names[i] = writer.addHelper({"Expand", {names[i], writer.integers(extents)}});
    }
  }
  writer.addNode(op, {"Einsum", std::move(names), {{"equation", op.attrs.text("equation")}}});
}

Fit fitEinsum(const UsedGraph& graph, const ir::Op& op) {
  const std::vector<BroadcastOperand> operands = broadcastOperands(graph, op);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].extents != graph.shape(op, i).dims()) {
      return Fit::Values;
    }
  }
  return Fit::Same;
}

constexpr std::array kLinearForms = {
    StandardForm{"dft", writeDft, fitDft},
    StandardForm{"einsum", writeEinsum, fitEinsum},
    StandardForm{"matmul", writeMatMul, fitMatMul},
};

}  // namespace

std::span<const StandardForm> linearForms() {
  return kLinearForms;
}

}  // namespace sluice::onnx
