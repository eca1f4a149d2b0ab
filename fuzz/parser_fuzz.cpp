// Any bytes as the text of a graph: the parser accepts or throws InvalidArgument, and what it
// accepts survives a round trip through the printer.
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "sluice/base/error.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/ops/op_list.h"

namespace {

void roundTrip(const sluice::ir::Graph& graph) {
  const std::string text = print(graph);
  const sluice::ir::Graph again = sluice::ir::parse(text, sluice::ops::opSet());
  if (!structurallyEqual(graph, again) || structuralHash(graph) != structuralHash(again) ||
      print(again) != text) {
    std::abort();
  }
}

}  // namespace

SLUICE_FUZZ_TARGET(parser) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::ir::Graph graph;
  try {
    graph = sluice::ir::parse(text, sluice::ops::opSet());
  } catch (const sluice::InvalidArgument&) {
    return;
  }
  roundTrip(graph);
}
