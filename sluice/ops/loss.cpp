#include "sluice/ops/loss.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {

std::string_view name(Reduction reduction) {
  switch (reduction) {
    case Reduction::Mean:
      return "mean";
    case Reduction::Sum:
      return "sum";
    case Reduction::None:
      break;
  }
  return "none";
}

Reduction reductionOf(const ir::OpView& op) {
  const std::string& text = op.attrs.text("reduction");
  for (const Reduction reduction : {Reduction::Mean, Reduction::Sum, Reduction::None}) {
    if (text == name(reduction)) {
      return reduction;
    }
  }
  raise<InvalidArgument>("{}: reduction must be mean, sum or none, got '{}'", op.def.name, text);
}

TensorType reducedType(const ir::OpView& op, TensorType terms) {
  if (reductionOf(op) != Reduction::None) {
    terms.shape = Shape{};
  }
  return terms;
}

Value reduceLoss(GraphBuilder& b, Value terms, Reduction reduction) {
  if (reduction == Reduction::None) {
    return terms;
  }
  return reduction == Reduction::Sum ? reduceSum(b, terms, {}) : reduceMean(b, terms, {});
}

std::vector<TensorType> inferPairLoss(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  if (op.inputs[0] != op.inputs[1]) {
    raise<InvalidArgument>("{}: prediction and target must have one type, got {} and {}",
                           op.def.name,
                           op.inputs[0].str(),
                           op.inputs[1].str());
  }
  return {reducedType(op, op.inputs[0])};
}

NllDims nllDims(const ir::OpView& op, const Shape& probabilities, const TensorType& labels) {
  if (labels.dtype != DType::I32 && labels.dtype != DType::I64) {
    raise<InvalidArgument>("{}: labels must be i32 or i64, got {}", op.def.name, labels.str());
  }
  if (probabilities.rank() < 2) {
    raise<InvalidArgument>(
        "{}: expected [batch, classes, ...], got {}", op.def.name, probabilities.str());
  }
  std::vector<std::int64_t> wanted = probabilities.dims();
  wanted.erase(wanted.begin() + 1);
  if (labels.shape.dims() != wanted) {
    raise<InvalidArgument>("{}: labels of {} must be {}, got {}",
                           op.def.name,
                           probabilities.str(),
                           Shape(wanted).str(),
                           labels.shape.str());
  }
  NllDims d{.batch = probabilities[0], .classes = probabilities[1]};
  for (std::int64_t i = 2; i < probabilities.rank(); ++i) {
    d.positions *= probabilities[i];
  }
  return d;
}

std::vector<std::int64_t> readLabels(const ir::KernelArgs& args,
                                     std::size_t input,
                                     const NllDims& d) {
  const std::int64_t ignore = args.op.integer("ignoreIndex");
  std::vector<std::int64_t> labels;
  const auto read = [&](auto span) {
    for (const std::int64_t label : span) {
      if (label != ignore && (label < 0 || label >= d.classes)) {
        raise<InvalidArgument>(
            "{}: label {} is out of range for {} classes", args.op.def.name, label, d.classes);
      }
      labels.push_back(label == ignore ? -1 : label);
    }
  };
  if (args.op.inputs[input].dtype == DType::I32) {
    read(args.in<std::int32_t>(input));
  } else {
    read(args.in<std::int64_t>(input));
  }
  return labels;
}

double nllFactor(Reduction reduction, std::span<const std::int64_t> labels) {
  if (reduction != Reduction::Mean) {
    return -1.0;
  }
  const auto counted = std::ranges::count_if(labels, [](std::int64_t l) { return l >= 0; });
  return -1.0 / static_cast<double>(counted);
}

}  // namespace sluice::ops
