#include "sluice/frontends/tensorflow/loops.h"

#include "sluice/base/error.h"
#include "sluice/frontends/tensorflow/function_trace.h"

namespace sluice {

Tensors repeat(std::int64_t count,
               const nn::Body& body,
               const Tensors& inputs,
               data::InfeedQueue* infeed) {
  FunctionTrace& trace = FunctionTrace::current("repeat");
  trace.begin("repeat");
  if (count < 1) {
    raise<InvalidArgument>("repeat: the count must be at least 1, got {}", count);
  }
  trace.plan.microBatches = count;
  Tensors arguments = trace.carry(inputs);
  const Tensors items = trace.take(infeed);
  arguments.insert(arguments.end(), items.begin(), items.end());
  trace.inBody = true;
  Tensors results = body(std::move(arguments));
  trace.inBody = false;
  if (results.size() != inputs.size()) {
    raise<InvalidArgument>(
        "repeat: the body returns {} values, and the next iteration takes {} beside the infeed's",
        results.size(),
        inputs.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].type() != inputs[i].type()) {
      raise<InvalidArgument>("repeat: value {} is {} at first, and the body returns {}",
                             i,
                             inputs[i].type().str(),
                             results[i].type().str());
    }
  }
  trace.carryOn(results);
  return trace.end();
}

namespace {

void enqueueAll(data::OutfeedQueue& outfeed, Tensors values, std::vector<std::string> names) {
  FunctionTrace& trace = FunctionTrace::current("enqueue");
  trace.requireBody("enqueue");
  trace.enqueue(outfeed, std::move(values), std::move(names));
}

}  // namespace

void enqueue(data::OutfeedQueue& outfeed, const nn::Tensor& value) {
  enqueueAll(outfeed, {value}, {});
}

void enqueue(data::OutfeedQueue& outfeed, const Tensors& values) {
  enqueueAll(outfeed, values, {});
}

void enqueue(data::OutfeedQueue& outfeed, const std::map<std::string, nn::Tensor>& values) {
  Tensors tensors;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : values) {
    names.push_back(name);
    tensors.push_back(tensor);
  }
  enqueueAll(outfeed, std::move(tensors), std::move(names));
}

void minimize(const UpdateRule& rule, const nn::Tensor& loss) {
  FunctionTrace& trace = FunctionTrace::current("minimize");
  trace.requireBody("minimize");
  trace.plan.perUpdate = rule.accumulation();
  trace.plan.accumulation = rule.accumulationOptions();
  trace.minimize(rule, loss);
}

}  // namespace sluice
