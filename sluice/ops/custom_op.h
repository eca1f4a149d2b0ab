// Custom ops: ops of the user's own libraries. Each becomes an OpDef of the process's op table, so
// that everything behind a front end treats it like an op of ours. Libraries are never unloaded,
// because graphs and programs point to their ops. sluice/custom/op.h is the authors' side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/ops/custom_attr.h"

namespace sluice::custom::abi {
struct Library;
}

namespace sluice::ops {

/// Loads a library of custom ops and returns their names, "domain.Name.version"; loading it again
/// changes nothing. Throws FileError for a file that is missing, no shared library or without the
/// entry point, Unsupported for one built for another version of the interface, InvalidArgument for
/// ops that are declared wrongly or whose name is taken; then none of its ops is there.
std::vector<std::string> loadCustomOps(const std::filesystem::path& library);

/// The same for ops that are part of the program itself; `origin` is what messages call them. The
/// library must live as long as the process.
std::vector<std::string> registerCustomOps(const custom::abi::Library& library,
                                           std::string_view origin);

/// What the front ends need to know of a registered op.
struct CustomOpInfo {
  const ir::OpDef* def = nullptr;  ///< nullptr: there is none
  std::string_view domain = {};
  std::string_view name = {};
  std::int64_t version = 0;
  bool infersTypes = false;  ///< else example outputs are needed

  explicit operator bool() const { return def != nullptr; }
};

/// The op of exactly this version.
CustomOpInfo findCustomOp(std::string_view domain, std::string_view name, std::int64_t version);
/// The op of the greatest version up to this one, which is what a version of a domain means in an
/// ONNX file.
CustomOpInfo resolveCustomOp(std::string_view domain, std::string_view name, std::int64_t version);
/// An OpDef as a custom op, if it is one.
CustomOpInfo customOpOf(const ir::OpDef& def);
/// Whether the attribute only carries the types of the example outputs.
bool carriesTypes(const ir::NamedAttr& attr);
/// The names of all that are registered, sorted.
std::vector<std::string> customOpNames();

/// A use of an op.
struct CustomOpUse {
  std::string name;
  std::string domain;
  std::int64_t version = 1;
  /// Types of the results. An op that infers them needs none and checks those that are given.
  std::vector<TensorType> exampleOutputs = {};
  std::vector<CustomAttribute> attributes = {};
};

/// Appends the op. Throws InvalidArgument for an op that is not registered, operands, attributes or
/// example outputs that do not fit it. Numbers of attributes are rounded to 32 bits.
std::vector<ir::Value> customOp(ir::GraphBuilder& b,
                                std::vector<ir::Value> inputs,
                                const CustomOpUse& use);

}  // namespace sluice::ops
