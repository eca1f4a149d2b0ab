#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/custom_op.h"
#include "sluice/ops/type_attrs.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 4> kAttrs = {
    {{.name = "id", .kind = ir::AttrKind::Text},
     {.name = "function", .kind = ir::AttrKind::Int, .required = true},
     {.name = "dtypes", .kind = ir::AttrKind::Texts, .required = true},
     {.name = "shapes", .kind = ir::AttrKind::Ints, .required = true}}};

/// The functions that live now; callers share one while it runs.
struct Table {
  std::mutex mutex;  // guards all
  std::map<std::int64_t, std::shared_ptr<const HostCallee>> callees;
  std::int64_t last = 0;
};

Table& table() {
  static Table theTable;
  return theTable;
}

std::shared_ptr<const HostCallee> find(std::int64_t number) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.callees.find(number);
  return found == t.callees.end() ? nullptr : found->second;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  return typesOf(op, "dtypes", "shapes");
}

void reference(const ir::KernelArgs& args) {
  const std::string& id = args.op.attrs.text("id");
  const std::shared_ptr<const HostCallee> callee = find(args.op.integer("function"));
  if (callee == nullptr) {
    raise<InvalidArgument>(
        "host function '{}' is gone; it must live as long as the models that call it", id);
  }
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < args.inputs.size(); ++i) {
    HostTensor& input = inputs.emplace_back(args.op.inputs[i]);
    if (input.byteCount() != 0) {
      std::memcpy(input.bytes(), args.inputs[i], input.byteCount());
    }
  }
  const std::vector<HostTensor> results = (*callee)(inputs);
  if (results.size() != args.outputs.size()) {
    raise<InvalidArgument>("host function '{}' must give {} results, gave {}",
                           id,
                           args.outputs.size(),
                           results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].type() != args.op.outputs[i]) {
      raise<InvalidArgument>("host function '{}' must give {} as result {}, gave {}",
                             id,
                             args.op.outputs[i].str(),
                             i,
                             results[i].type().str());
    }
    if (results[i].byteCount() != 0) {
      std::memcpy(args.outputs[i], results[i].bytes(), results[i].byteCount());
    }
  }
}

}  // namespace

HostFunction::HostFunction(std::string id, HostCallee callee) : id_(std::move(id)) {
  if (id_.empty() || !callee) {
    raise<InvalidArgument>("a host function needs an id and something to call");
  }
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  number_ = ++t.last;
  t.callees.emplace(number_, std::make_shared<const HostCallee>(std::move(callee)));
}

HostFunction::~HostFunction() {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.callees.erase(number_);
}

constinit const ir::OpDef kHostCall{.name = "host_call",
                                    .minInputs = 0,
                                    .maxInputs = ir::kVariadic,
                                    .outputs = ir::kVariadic,
                                    .attrs = kAttrs,
                                    .infer = infer,
                                    .reference = reference,
                                    .traits = {.effect = true, .host = true}};

std::vector<ir::Value> hostCall(ir::GraphBuilder& b,
                                const HostFunction& function,
                                std::vector<ir::Value> inputs,
                                std::span<const TensorType> results) {
  TypeAttrs types = typeAttrs(results);
  return b.addMany(kHostCall,
                   std::move(inputs),
                   {{"id", function.id()},
                    {"function", function.number()},
                    {"dtypes", std::move(types.dtypes)},
                    {"shapes", std::move(types.shapes)}});
}

}  // namespace sluice::ops
