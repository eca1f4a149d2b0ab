// Translations of losses. Weighted ones are made of nll_loss on weighted log-probabilities.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

using ops::Reduction;

/// The standard writes mean, sum and none; the vendor's ops Mean, Sum and NoReduction or numbers.
Reduction reductionOf(const Node& node) {
  const ir::Attr* attr = node.find("reduction");
  const bool number = attr != nullptr && kindOf(*attr) == ir::AttrKind::Int;
  const std::string text = number ? "" : node.text("reduction", "mean");
  const std::int64_t code = number ? node.integer("reduction") : -1;
  if (text == "mean" || text == "Mean" || code == 1) {
    return Reduction::Mean;
  }
  if (text == "sum" || text == "Sum" || code == 0) {
    return Reduction::Sum;
  }
  if (text == "none" || text == "NoReduction" || text == "None" || code == 2) {
    return Reduction::None;
  }
  raise<InvalidArgument>("reduction must be mean, sum or none, got '{}'",
                         number ? std::to_string(code) : text);
}

/// Labels and lengths are counted in signed numbers here.
Value signedNumbers(ir::GraphBuilder& b, Value x) {
  const DType dtype = b.dtype(x);
  return dtype == DType::I32 || dtype == DType::I64 ? x : ops::cast(b, x, DType::I64);
}

/// The weights as they lie beside [batch, classes, ...].
Value alongClasses(Node& node, const Shape& probabilities) {
  if (probabilities.rank() < 2 || node.shape(2) != Shape{probabilities[1]}) {
    raise<InvalidArgument>("the weights of {} must be one per class, got {}",
                           probabilities.str(),
                           node.shape(2).str());
  }
  std::vector<std::int64_t> dims(static_cast<std::size_t>(probabilities.rank() - 1), 1);
  dims[0] = probabilities[1];
  return ops::reshape(node.b, node.input(2), Shape(std::move(dims)));
}

/// Minus the weighted log-probability of each label; the mean is weighted too.
Value likelihoodLoss(Node& node, Value logs) {
  ir::GraphBuilder& b = node.b;
  const Value labels = node.input(1);
  ops::NllOptions options{.reduction = reductionOf(node)};
  options.ignoreIndex = node.integer("ignore_index", options.ignoreIndex);
  if (!node.has(2)) {
    return ops::nllLoss(b, logs, labels, options);
  }
  const Shape shape = b.shape(logs);
  const Value weights = alongClasses(node, shape);
  const Value weighted = ops::mul(b, logs, weights);
  if (options.reduction != Reduction::Mean) {
    return ops::nllLoss(b, weighted, labels, options);
  }
  // The weights of the labels that count are picked the same way, but for the sign.
  options.reduction = Reduction::Sum;
  const Value sum = ops::nllLoss(b, weighted, labels, options);
  const Value all = ops::broadcastTo(b, ops::neg(b, weights), shape);
  return ops::div(b, sum, ops::nllLoss(b, all, labels, options));
}

std::vector<Value> negativeLogLikelihoodLoss(Node& node) {
  return {likelihoodLoss(node, node.input(0))};
}

std::vector<Value> softmaxCrossEntropyLoss(Node& node) {
  const Value logs = ops::logSoftmax(node.b, node.input(0), 1);
  return {likelihoodLoss(node, logs), logs};
}

/// The vendor's op has the classes last and labels that may be unsigned.
std::vector<Value> nll(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value given = node.input(0);
  const Shape shape = b.shape(given);
  const Shape labels = node.shape(1);
  if (shape.rank() < 1 ||
      labels.dims() != std::vector(shape.dims().begin(), shape.dims().end() - 1)) {
    raise<InvalidArgument>(
        "labels of {} must have all axes but the last, got {}", shape.str(), labels.str());
  }
  ops::NllOptions options{.reduction = reductionOf(node)};
  options.ignoreIndex = node.integer("ignoreIndex", options.ignoreIndex);
  const Value logs = node.flag("inputIsLogProbability") ? given : ops::log(b, given);
  const Value loss =
      ops::nllLoss(b,
                   ops::reshape(b, logs, Shape{labels.elements(), shape[shape.rank() - 1]}),
                   ops::reshape(b, signedNumbers(b, node.input(1)), Shape{labels.elements()}),
                   options);
  return {options.reduction == Reduction::None ? ops::reshape(b, loss, labels) : loss};
}

/// lambda |x|, reduced.
std::vector<Value> l1(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value size = ops::abs(b, node.input(0));
  const Value loss = ops::identityLoss(b, size, reductionOf(node));
  return {ops::mul(b, loss, b.scalar(b.dtype(loss), node.real("lambda", 1.0)))};
}

std::vector<Value> identityLoss(Node& node) {
  return {ops::identityLoss(node.b, node.input(0), reductionOf(node))};
}

/// The second result is the gradient of each item's loss by the log-probabilities, which the vendor
/// keeps for its backward pass; here that is made by differentiation.
std::vector<Value> ctc(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value logs = node.input(0);
  const TensorType given = b.type(logs);
  const std::int64_t type = node.integer("outDataType", 0);
  const ops::CtcTargets targets{.targets = signedNumbers(b, node.input(1)),
                                .inputLengths = signedNumbers(b, node.input(2)),
                                .targetLengths = signedNumbers(b, node.input(3))};
  const ops::CtcOptions options{.reduction = reductionOf(node),
                                .blank = node.integer("blank", 0),
                                .zeroInfinity = node.flag("zeroInfinity")};
  const Value loss = ops::ctcLoss(b, logs, targets, options);
  const DType wanted = type == 0 ? given.dtype : dtypeOf(type);
  std::vector<Value> results = {ops::cast(b, loss, wanted)};
  if (node.wants(1)) {
    const Value ones = ops::full(b, {given.dtype, Shape{given.shape[1]}}, 1.0);
    const Value slopes =
        b.add(ops::kCtcLossGrad,
              {logs, targets.targets, targets.inputLengths, targets.targetLengths, ones},
              {{"blank", options.blank}, {"zeroInfinity", options.zeroInfinity}});
    results.push_back(ops::cast(b, slopes, wanted));
  }
  return results;
}

constexpr std::array kLossTranslations = {
    Translation{"Ctc", ctc, ops::kVendorDomain},
    Translation{"IdentityLoss", identityLoss, ops::kVendorDomain},
    Translation{"L1", l1, ops::kVendorDomain},
    Translation{"NegativeLogLikelihoodLoss", negativeLogLikelihoodLoss},
    Translation{"Nll", nll, ops::kVendorDomain},
    Translation{"SoftmaxCrossEntropyLoss", softmaxCrossEntropyLoss},
};

}  // namespace

std::span<const Translation> lossTranslations() {
  return kLossTranslations;
}

}  // namespace sluice::onnx
