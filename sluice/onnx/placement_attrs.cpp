#include "sluice/onnx/placement_attrs.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sluice/base/error.h"

namespace sluice::onnx {
namespace {

struct PlacementAttr {
  std::string_view name;
  std::int32_t ir::Placement::*field;
};

constexpr std::array kPlacements = {
    PlacementAttr{"__ipu_number", &ir::Placement::device},
    PlacementAttr{"__pipeline_stage", &ir::Placement::stage},
    PlacementAttr{"__execution_phase", &ir::Placement::phase},
};

/// They tell PopART's compiler how to do something, and change no result.
constexpr std::array<std::string_view, 8> kHints = {"__available_memory_proportion",
                                                    "__debug_info_id",
                                                    "__exclude_patterns",
                                                    "__outline",
                                                    "__output_tensor_location",
                                                    "__partials_type",
                                                    "__recompute_output",
                                                    "__schedule_priority"};

}  // namespace

bool isAnnotation(std::string_view attr) {
  return std::ranges::find(kPlacements, attr, &PlacementAttr::name) != kPlacements.end() ||
         std::ranges::find(kHints, attr) != kHints.end();
}

void readPlacement(const ::onnx::NodeProto& node, ir::Placement& place) {
  for (const ::onnx::AttributeProto& attr : node.attribute()) {
    const auto* const found = std::ranges::find(kPlacements, attr.name(), &PlacementAttr::name);
    if (found == kPlacements.end() || attr.i() < 0) {  // below 0 it says nothing
      continue;
    }
    if (attr.i() > std::numeric_limits<std::int32_t>::max()) {
      raise<InvalidArgument>("attribute '{}' is {}, which is too large", attr.name(), attr.i());
    }
    place.*(found->field) = static_cast<std::int32_t>(attr.i());
  }
}

void writePlacement(::onnx::NodeProto& node, const ir::Placement& place) {
  for (const PlacementAttr& attr : kPlacements) {
    if (place.*attr.field >= 0) {
      ::onnx::AttributeProto& proto = *node.add_attribute();
      proto.set_name(std::string(attr.name));
      proto.set_type(::onnx::AttributeProto::INT);
      proto.set_i(place.*attr.field);
    }
  }
}

}  // namespace sluice::onnx
