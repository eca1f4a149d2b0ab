#include "sluice/transforms/gather_early.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::transforms {
namespace {

/// The position that an op comes behind, by what it reads; nothing if it reads only variables and
/// constants that move, too.
using Places = ById<ir::OpId, std::optional<std::size_t>>;

}  // namespace

void gatherEarly(ir::Graph& graph, std::size_t first) {
  const std::vector<ir::OpId> before(graph.order().begin(), graph.order().end());
  const auto moves = [&](std::size_t i) {
    return i >= first && graph.op(before[i]).place.pass == ir::Pass::Backward;
  };
  Places places(graph.numIds());
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::optional<std::size_t>& place = places[before[i]];
    if (!moves(i)) {
      place = i;
      continue;
    }
    for (const ir::Value v : graph.op(before[i]).inputs) {
      place = std::max(place, places[v.op]);  // nothing is less than every position
    }
  }
  // What has no place yet goes along with its first reader.
  Places readers(graph.numIds());
  for (std::size_t i = before.size(); i-- > first;) {
    if (!moves(i)) {
      continue;
    }
    std::optional<std::size_t>& place = places[before[i]];
    place = place ? place : readers[before[i]].value_or(i);
    for (const ir::Value v : graph.op(before[i]).inputs) {
      std::optional<std::size_t>& reader = readers[v.op];
      reader = std::min(reader.value_or(*place), *place);
    }
  }
  std::vector<ir::OpId> order = before;
  std::ranges::stable_sort(order, {}, [&](ir::OpId id) { return *places[id]; });
  graph.reorder(std::move(order));
}

}  // namespace sluice::transforms
