#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

void requireOnePerConv(std::size_t given, std::size_t convs, std::string_view what) {
  if (given > 1 && given != convs) {
    raise<InvalidArgument>(
        "MultiConv: {} has {} entries, the group has {} convolutions", what, given, convs);
  }
}

/// Ops of the group must not read what others of it make, however far back.
void requireIndependent(const ir::Graph& graph, const std::vector<ir::OpId>& convs) {
  std::unordered_set<ir::OpId> behind;  // the group's convolutions and all that depends on them
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    const bool depends = std::ranges::any_of(
        op.inputs, [&](const ir::Value& value) { return behind.contains(value.op); });
    const bool grouped = std::ranges::find(convs, id) != convs.end();
    if (depends && grouped) {
      raise<InvalidArgument>(
          "MultiConv: convolution '{}' depends on another one of the group; only convolutions that "
          "do not can be planned together",
          op.name);
    }
    if (depends || grouped) {
      behind.insert(id);
    }
  }
}

}  // namespace

MultiConv::Scope::Scope() : tracer_(Tracer::current()) {
  if (tracer_.openMultiConv()) {
    raise<InvalidArgument>("MultiConv: a group cannot be made inside of another one");
  }
  tracer_.openMultiConv().emplace();
}

MultiConv::Scope::~Scope() {
  tracer_.openMultiConv().reset();
}

MultiConv& MultiConv::availableMemoryProportions(std::vector<double> proportions) {
  std::ranges::for_each(proportions, checkedProportion);
  proportions_ = std::move(proportions);
  return *this;
}

MultiConv& MultiConv::partialsTypes(std::vector<DType> types) {
  for (const DType type : types) {
    if (type != DType::F32 && type != DType::F16) {
      raise<InvalidArgument>("MultiConv: a partials type is f32 or f16, got {}", name(type));
    }
  }
  partials_ = std::move(types);
  return *this;
}

MultiConv& MultiConv::enableConvDithering(std::vector<bool> on) {
  dithering_ = std::move(on);
  return *this;
}

MultiConv& MultiConv::perConvReservedTiles(std::int64_t tiles) {
  if (tiles < 0) {
    raise<InvalidArgument>("MultiConv: tiles to reserve cannot be negative, got {}", tiles);
  }
  reservedTiles_ = tiles;
  return *this;
}

MultiConv& MultiConv::cycleBackOff(double share) {
  if (!(share >= 0 && share <= 1)) {
    raise<InvalidArgument>("MultiConv: cycleBackOff is between 0 and 1, got {}", share);
  }
  cycleBackOff_ = share;
  return *this;
}

void MultiConv::finish() const {
  Tracer& tracer = Tracer::current();
  const std::vector<ir::OpId>& convs = *tracer.openMultiConv();
  if (convs.empty()) {
    raise<InvalidArgument>("MultiConv: the group has no convolution");
  }
  requireOnePerConv(proportions_.size(), convs.size(), "availableMemoryProportions");
  requireOnePerConv(partials_.size(), convs.size(), "partialsTypes");
  requireOnePerConv(dithering_.size(), convs.size(), "enableConvDithering");
  requireIndependent(tracer.graph(), convs);
  for (std::size_t i = 0; i < convs.size() && !proportions_.empty(); ++i) {
    tracer.memoryHints().push_back(
        {tracer.graph().op(convs[i]).out(), proportions_[proportions_.size() == 1 ? 0 : i]});
  }
}

}  // namespace sluice::nn
