// Shared by the ops that read or write single elements, or runs of elements, at positions given by
// an index operand: gather_elements, scatter_elements, gather_nd, scatter_nd.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// The start in the data of each run of `run` elements; one run per index or tuple of indices.
struct Places {
  std::vector<std::int64_t> starts;
  std::int64_t run = 1;
};

/// Each index in input 1 replaces the coordinate of its own position on `axis`; the other
/// coordinates stay. Throws InvalidArgument for an index out of range.
Places elementPlaces(const ir::KernelArgs& args, std::int64_t axis);
/// The last axis of input 1 holds coordinates after the batch axes, which both inputs share.
Places tuplePlaces(const ir::KernelArgs& args, std::int64_t batchDims);

/// Returns the axis; throws InvalidArgument unless the indices of an element op match the data.
std::int64_t checkElements(const ir::OpView& op);
/// The shape that a tuple op reads; throws InvalidArgument if data and indices do not match.
Shape tupleShape(const ir::OpView& op, std::int64_t batchDims);

/// out = the runs of input 0, one after the other.
void gatherPlaces(const ir::KernelArgs& args, const Places& places);

/// How an update is combined with the element at its position.
inline constexpr ir::AttrSpec kScatterReduction = {
    .name = "reduction", .kind = ir::AttrKind::Text, .text = "none"};
void checkScatterReduction(const ir::OpView& op);
/// out = input 0 with the runs of input 2 combined in, in the order of the runs.
void scatterPlaces(const ir::KernelArgs& args, const Places& places);

/// How the gradient of a scatter op reads and writes at the op's positions.
struct ScatterForms {
  FunctionRef<ir::Value(ir::Value data)> gather;
  FunctionRef<ir::Value(ir::Value data, ir::Value updates, std::string_view reduction)> scatter;
};
/// Returns gradients of data, indices (none) and updates. Without reduction, updates with equal
/// indices all get the gradient of their position; equal extremes share it.
std::vector<ir::Value> scatterGrads(ir::GradContext& g, const ScatterForms& forms);

ir::Cost costOfScatter(const ir::OpView& op);

}  // namespace sluice::ops
