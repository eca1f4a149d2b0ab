#include "sluice/api/available_memory.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "sluice/ops/ops.h"

namespace sluice {
namespace {

bool isPlanned(const ir::Op& op) {
  static constexpr std::array kPlanned = {&ops::kConv,
                                          &ops::kMatMul,
                                          &ops::kGather,
                                          &ops::kGatherElements,
                                          &ops::kScatterAdd,
                                          &ops::kDynamicSlice,
                                          &ops::kDynamicUpdate};
  return std::ranges::find(kPlanned, op.def) != kPlanned.end();
}

/// The op that a hint on this value is for: a layer's result is its product plus a bias.
const ir::Op* plannedOp(const ir::Graph& graph, ir::Value value) {
  const ir::Op* op = &graph.op(value.op);
  if (op->is(ops::kAdd)) {
    op = &graph.op(op->inputs[0].op);
  }
  return isPlanned(*op) ? op : nullptr;
}

double bytesOf(const ir::Graph& graph, const ir::Op& op) {
  double bytes = 0;
  for (const ir::Value value : op.inputs) {
    bytes += static_cast<double>(graph.type(value).bytes());
  }
  for (const TensorType& type : op.outputs) {
    bytes += static_cast<double>(type.bytes());
  }
  return bytes;
}

}  // namespace

std::vector<std::string> availableMemoryWarnings(const ir::Graph& graph,
                                                 std::span<const nn::MemoryHint> hints,
                                                 const Options& options) {
  const auto memory = static_cast<double>(options.memoryPerDevice());
  if (memory == 0) {
    return {};
  }
  std::map<ir::OpId, double> shares;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    const auto& byDevice = options.device().availableMemory;
    const auto found = byDevice.find(std::max(op.place.device, 0));
    if (found != byDevice.end() && isPlanned(op)) {
      shares[id] = found->second;
    }
  }
  for (const nn::MemoryHint& hint : hints) {
    if (const ir::Op* op = plannedOp(graph, hint.value)) {
      shares[op->id] = hint.proportion;
    }
  }
  std::vector<std::string> warnings;
  for (const auto& [id, share] : shares) {
    const ir::Op& op = graph.op(id);
    const double bytes = bytesOf(graph, op);
    if (bytes > share * memory) {
      warnings.push_back(
          fmt::format("op '{}' needs {:.0f} bytes, more than the available memory of {} of the "
                      "device's {:.0f}; give it a larger proportion",
                      op.name,
                      bytes,
                      share,
                      memory));
    }
  }
  return warnings;
}

}  // namespace sluice
