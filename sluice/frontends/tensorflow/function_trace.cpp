#include "sluice/frontends/tensorflow/function_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/nn/tracer.h"

namespace sluice {
namespace {

// NOLINTNEXTLINE(*-non-const-global-variables): the functions of a model find their trace by it
thread_local FunctionTrace* currentTrace = nullptr;

}  // namespace

FunctionTrace::FunctionTrace(const std::string& prefix,
                             std::span<const TensorType> inputs,
                             std::optional<std::vector<nn::Tensor>> items)
    : prefix_(prefix), items_(std::move(items)) {
  SLUICE_CHECK(currentTrace == nullptr, "a function is traced inside of another one");
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    declare(inputName(prefix, i), inputs[i]);
    inputs_.emplace_back(b, b.variable(inputName(prefix, i)));
  }
  first_ = loopFirst_ = afterFirst_ = b.graph().numOps();
  currentTrace = this;
}

FunctionTrace::~FunctionTrace() {
  currentTrace = nullptr;
}

FunctionTrace& FunctionTrace::current(std::string_view caller) {
  if (currentTrace == nullptr) {
    raise<InvalidArgument>("{} can be called only inside a function that is given to compile()",
                           caller);
  }
  return *currentTrace;
}

std::string FunctionTrace::inputName(const std::string& prefix, std::size_t i) {
  return fmt::format("{}/input{}", prefix, i);
}

std::string FunctionTrace::carryName(const std::string& prefix, std::size_t i) {
  return fmt::format("{}/carry{}", prefix, i);
}

void FunctionTrace::declare(const std::string& name, const TensorType& type) {
  nn::Tracer::current().graph().addVariable({.name = name,
                                             .type = type,
                                             .role = ir::VariableRole::Buffer,
                                             .trainable = false,
                                             .initializer = ir::Initializer::constant(0)});
}

void FunctionTrace::begin(std::string_view kind) {
  if (inBody) {
    raise<InvalidArgument>("{} inside the body of repeat: use nn::forLoop for an inner loop", kind);
  }
  if (!plan.kind.empty()) {
    raise<InvalidArgument>("{}: the function has a {} already and may have one", kind, plan.kind);
  }
  plan.kind = kind;
  loopFirst_ = nn::Tracer::current().graph().numOps();
}

void FunctionTrace::requireBody(std::string_view caller) const {
  if (!inBody) {
    raise<InvalidArgument>("{} can be called only inside the body of repeat()", caller);
  }
}

std::vector<nn::Tensor> FunctionTrace::take(data::InfeedQueue* infeed) {
  plan.infeed = infeed;
  if (infeed == nullptr) {
    return {};
  }
  if (!items_) {
    items_.emplace();
    if (awaitInfeed) {
      awaitInfeed(*infeed);
    }
    for (const TensorType& type : infeed->types()) {
      items_->push_back(nn::Tracer::current().input(fmt::format("input{}", items_->size()), type));
    }
  }
  return *items_;
}

void FunctionTrace::enqueue(data::OutfeedQueue& outfeed,
                            std::vector<nn::Tensor> values,
                            std::vector<std::string> names) {
  if (plan.outfeed != nullptr) {
    raise<InvalidArgument>("enqueue: one iteration enqueues once; put all tensors into one call");
  }
  if (values.empty()) {
    raise<InvalidArgument>("enqueue: there is no tensor to enqueue");
  }
  for (const nn::Tensor& value : values) {
    plan.outfeedTypes.push_back(value.type());
  }
  plan.outfeed = &outfeed;
  plan.outfeedNames = std::move(names);
  outfeedValues_ = std::move(values);
}

void FunctionTrace::minimize(const UpdateRule& rule, const nn::Tensor& loss) {
  if (plan.update) {
    raise<InvalidArgument>("minimize: the loop minimizes a loss already; add the losses up");
  }
  plan.update = rule;
  loss_ = loss;
}

std::vector<nn::Tensor> FunctionTrace::carry(const std::vector<nn::Tensor>& starts) {
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  std::vector<nn::Tensor> reads;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    declare(carryName(prefix_, i), starts[i].type());
    reads.emplace_back(b, b.variable(carryName(prefix_, i)));
  }
  starts_ = starts;
  return reads;
}

void FunctionTrace::carryOn(const std::vector<nn::Tensor>& results) {
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  for (std::size_t i = 0; i < results.size(); ++i) {
    b.assign(carryName(prefix_, i), results[i].value());
  }
  carried_ = results;
}

std::vector<nn::Tensor> FunctionTrace::end() {
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  afterFirst_ = b.graph().numOps();
  std::vector<nn::Tensor> reads;
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    reads.emplace_back(b, b.variable(carryName(prefix_, i)));
  }
  return reads;
}

std::vector<nn::Tensor> FunctionTrace::outputs() const {
  std::vector<nn::Tensor> outputs = outfeedValues_;
  if (loss_) {
    outputs.push_back(*loss_);
  }
  if (outputs.empty()) {
    outputs = carried_;
  }
  if (outputs.empty()) {
    raise<InvalidArgument>(
        "compile: nothing comes out of the function: it returns and enqueues no value, and trains "
        "nothing");
  }
  return outputs;
}

}  // namespace sluice
