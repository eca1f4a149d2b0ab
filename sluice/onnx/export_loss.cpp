// Forms of losses over classes. Losses of differences are said by their decompositions.
#include <array>

#include "sluice/onnx/model_writer.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

std::vector<ir::NamedAttr> lossAttrs(const ir::Op& op) {
  return {{"reduction", op.attrs.text("reduction")},
          {"ignore_index", op.attrs.integer("ignoreIndex")}};
}

void writeCrossEntropy(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {.op = "SoftmaxCrossEntropyLoss",
                  .inputs = writer.operands(op),
                  .attrs = lossAttrs(op),
                  .outputs = 1});
}

/// The importer reads it as a log_softmax and an nll_loss.
Fit fitCrossEntropy(const UsedGraph& graph, const ir::Op& op) {
  const bool isSame = op.attrs.real("labelSmoothing") == 0.0 && !graph.isRead(op.out(1));
  return isSame ? Fit::Values : Fit::None;
}

void writeNllLoss(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op, {"NegativeLogLikelihoodLoss", writer.operands(op), lossAttrs(op)});
}

/// Minus the gradient at each label that counts, divided by their number if the loss is a mean.
std::vector<Value> nllLossGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value labels = whole.inputs[0];
  const TensorType& type = whole.op.inputs[0];
  const Value dy = whole.wide(1);
  const DType wide = b.dtype(dy);
  const Value ignored = b.scalar(type.dtype, static_cast<double>(whole.op.integer("ignoreIndex")));
  const Value counts = ops::cast(b, ops::logicalNot(b, ops::equal(b, labels, ignored)), wide);
  Value slopes = ops::mul(b, counts, ops::neg(b, dy));
  if (ops::reductionOf(whole.op) == ops::Reduction::Mean) {
    const Value number = ops::reduceSum(b, counts, {});
    slopes = ops::div(b, slopes, ops::maximum(b, number, b.scalar(wide, 1.0)));
  }
  std::vector<std::int64_t> dims = type.shape.dims();
  dims.insert(dims.begin() + 1, 1);
  const Value hot = ops::oneHot(b, labels, whole.op.integer("classes"), wide, 1);
  return {whole.rounded(ops::mul(b, hot, ops::reshape(b, slopes, Shape(std::move(dims)))))};
}

constexpr std::array kLossForms = {
    StandardForm{"cross_entropy", writeCrossEntropy, fitCrossEntropy},
    StandardForm{"nll_loss", writeNllLoss},
    StandardForm{.op = "nll_loss_grad", .parts = nllLossGradParts},
};

}  // namespace

std::span<const StandardForm> lossForms() {
  return kLossForms;
}

}  // namespace sluice::onnx
