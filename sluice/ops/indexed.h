// Shared by the ops that read or write single elements (or runs of them) of a tensor at places that
// an index operand chooses: gather_elements, scatter_elements, gather_nd, scatter_nd.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Where runs of `run` elements begin in the data, one for each index or tuple of indices.
struct Places {
  std::vector<std::int64_t> starts;
  std::int64_t run = 1;
};

/// Index element i of input 1 replaces the coordinate of `axis` and keeps all others. Throws
/// InvalidArgument for an index out of range.
Places elementPlaces(const ir::KernelArgs& args, std::int64_t axis);
/// The last axis of input 1 holds coordinates of the axes behind the batch axes, which both share.
Places tuplePlaces(const ir::KernelArgs& args, std::int64_t batchDims);

/// Throws InvalidArgument unless the indices of element ops fit the data; returns the axis.
std::int64_t checkElements(const ir::OpView& op);
/// The shape that a tuple op reads; throws InvalidArgument if data and indices do not fit.
Shape tupleShape(const ir::OpView& op, std::int64_t batchDims);

/// out = the runs of input 0, one after the other.
void gatherPlaces(const ir::KernelArgs& args, const Places& places);

/// How an update meets what is there.
inline constexpr ir::AttrSpec kScatterReduction = {
    .name = "reduction", .kind = ir::AttrKind::Text, .text = "none"};
void checkScatterReduction(const ir::OpView& op);
/// out = input 0 with the runs of input 2 combined in, in their order.
void scatterPlaces(const ir::KernelArgs& args, const Places& places);

/// How a scatter op's gradient reads and writes at its own places.
struct ScatterForms {
  FunctionRef<ir::Value(ir::Value data)> gather;
  FunctionRef<ir::Value(ir::Value data, ir::Value updates, std::string_view reduction)> scatter;
};
/// Gradients of data, indices (none) and updates. Equal indices without reduction all get the
/// gradient of their place; equal extremes share it.
std::vector<ir::Value> scatterGrads(ir::GradContext& g, const ScatterForms& forms);

ir::Cost costOfScatter(const ir::OpView& op);

}  // namespace sluice::ops
