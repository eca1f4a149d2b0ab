#include "cli/training_setup.h"

#include <functional>
#include <map>

#include "sluice/frontends/popart/builder.h"
#include "sluice/optim/optimizers.h"

namespace sluice::cli {
namespace {

using LossMaker = std::function<TensorId(Builder&, const TensorId&, const TensorId&)>;

TensorId meanOf(Builder& b, const TensorId& x) {
  return b.aiGraphcore().identityloss(x);
}

const std::map<std::string, LossMaker>& losses() {
  static const std::map<std::string, LossMaker> kLosses = {
      {"bce_with_logits",
       [](Builder& b, const TensorId& y, const TensorId& t) {
         AiOnnx o = b.aiOnnx();
         return meanOf(b, o.sub(o.softplus(y), o.mul(y, t)));
       }},
      {"cross_entropy",
       [](Builder& b, const TensorId& y, const TensorId& t) {
         return b.aiOnnx().softmaxcrossentropyloss(y, t);
       }},
      {"l1",
       [](Builder& b, const TensorId& y, const TensorId& t) {
         return meanOf(b, b.aiOnnx().abs(b.aiOnnx().sub(y, t)));
       }},
      {"mse",
       [](Builder& b, const TensorId& y, const TensorId& t) {
         const TensorId error = b.aiOnnx().sub(y, t);
         return meanOf(b, b.aiOnnx().mul(error, error));
       }},
      {"nll",
       [](Builder& b, const TensorId& y, const TensorId& t) {
         return b.aiOnnx().negativeloglikelihoodloss(y, t);
       }},
  };
  return kLosses;
}

}  // namespace

std::vector<std::string> lossNames() {
  std::vector<std::string> names;
  for (const auto& [name, make] : losses()) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> optimizerNames() {
  return {"sgd", "adam", "adamw"};
}

TensorId addLoss(Builder& builder,
                 const std::string& name,
                 const TensorId& output,
                 const TensorId& target) {
  return losses().at(name)(builder, output, target);
}

TensorType targetOf(const std::string& loss, const TensorType& output) {
  if (loss != "cross_entropy" && loss != "nll") {
    return output;
  }
  std::vector<std::int64_t> dims = output.shape.dims();
  if (dims.size() > 1) {
    dims.erase(dims.begin() + 1);  // the classes
  } else {
    dims.clear();
  }
  return {DType::I64, Shape(std::move(dims))};
}

std::unique_ptr<optim::Optimizer> optimizerOf(const std::string& name, double learningRate) {
  if (name == "sgd") {
    return std::make_unique<optim::SGD>(learningRate);
  }
  if (name == "adam") {
    return std::make_unique<optim::Adam>(learningRate);
  }
  return std::make_unique<optim::AdamW>(learningRate);
}

}  // namespace sluice::cli
