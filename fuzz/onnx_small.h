// Models of files that are small enough to be run many times a second.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"

namespace sluice::fuzz {

inline bool isSmall(const ir::Graph& graph) {
  constexpr std::size_t kMostOps = 200;
  constexpr std::int64_t kMostElements = 1 << 16;  // of all values together
  if (graph.numOps() > kMostOps) {
    return false;
  }
  std::int64_t elements = 0;
  for (const ir::OpId id : graph.order()) {
    for (const TensorType& type : graph.op(id).outputs) {
      if (type.shape.elements() > kMostElements) {
        return false;
      }
      elements += type.shape.elements();
    }
  }
  return elements <= kMostElements;
}

}  // namespace sluice::fuzz
