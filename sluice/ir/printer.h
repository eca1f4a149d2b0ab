// The text form of a graph. print() and parse() (parser.h) are inverse to each other: the text of a
// graph parses to a structurally equal graph with the same names. Values are numbered from 0 in
// execution order, so equal graphs print equally whatever their ids are. A broken graph can be
// printed too.
//
//   graph "mlp" {
//     var "fc.weight": f32[256, 320] weight init uniform(-0.1, 0.1)
//     %0 = input() "x" : f32[40, 320]
//     %1 = variable() {var="fc.weight"} "fc.weight" : f32[256, 320] block="B1" stage=0
//     %2 = matmul(%0, %1) {transposeB=true} "fc/matmul" : f32[40, 256] @backward device=1
//     output "y" = %2
//   }
#pragma once

#include <string>
#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::ir {

/// Leaves out default attributes, unset placement fields, pass forward and empty names.
std::string print(const Graph& graph);

/// The attributes of an op as they are in the text of its graph: "{axis=1}", or "{}".
std::string print(const OpDef& def, const Attrs& attrs);

/// A text in quotes, with escapes, as a name is in the text of a graph.
std::string quote(std::string_view text);

}  // namespace sluice::ir
