// Reads the text form of a graph (printer.h shows it). Types are inferred again and compared with
// the written ones, so a graph that parses is as sound as one that was built. The text may come
// from anywhere: nothing in it can crash, hang or exhaust the parser.
#pragma once

#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::ir {

/// The maximum depth of graphs nested in attributes of other graphs.
inline constexpr int kMaxGraphDepth = 64;

/// Looks op names up in `ops`. Every error is an InvalidArgument that says what was expected and
/// what was found, with line and column as its location.
Graph parse(std::string_view text, const OpSet& ops);

/// The attributes of an op, with its defaults: "{axis=1}". Throws as `parse` does.
Attrs parseAttrs(std::string_view text, const OpDef& def, const OpSet& ops);

/// A type such as "f32[2, 3]". Throws as `parse` does.
TensorType parseType(std::string_view text);

}  // namespace sluice::ir
