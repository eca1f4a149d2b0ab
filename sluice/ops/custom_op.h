// Custom ops: ops from libraries of the user. Each becomes an OpDef in the op table of the process,
// so all code after the front ends treats it like an op of Sluice. Libraries are never unloaded,
// because graphs and programs point to their ops. Authors of libraries use sluice/custom/op.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/ops/custom_attr.h"

#pragma GCC visibility push(default)

namespace sluice::custom::abi {
struct Library;
}
namespace sluice::ir {
class GraphBuilder;
struct OpDef;
}  // namespace sluice::ir

namespace sluice::ops {

/// Loads a library of custom ops and returns their names, "domain.Name.version"; loading it again
/// has no effect. Throws FileError if the file is missing, is not a shared library or has no entry
/// point; Unsupported if it was built for another version of the interface; InvalidArgument if an
/// op is declared wrongly or its name is taken. After an exception none of its ops is registered.
std::vector<std::string> loadCustomOps(const std::filesystem::path& library);

/// Registers ops that are part of the program itself; `origin` is their name in messages. The
/// library must live as long as the process.
std::vector<std::string> registerCustomOps(const custom::abi::Library& library,
                                           std::string_view origin);

/// What the front ends need to know about a registered op.
struct CustomOpInfo {
  const ir::OpDef* def = nullptr;  ///< nullptr: no such op exists
  std::string_view domain = {};
  std::string_view name = {};
  std::int64_t version = 0;
  bool infersTypes = false;      ///< otherwise example outputs are needed
  std::string_view origin = {};  ///< the library

  explicit operator bool() const { return def != nullptr; }
};

/// Finds the op with exactly this version.
CustomOpInfo findCustomOp(std::string_view domain, std::string_view name, std::int64_t version);
/// Finds the op with the greatest version up to this one; this is how an ONNX file means the
/// version of a domain.
CustomOpInfo resolveCustomOp(std::string_view domain, std::string_view name, std::int64_t version);
/// Returns an OpDef as a custom op, if it is one.
CustomOpInfo customOpOf(const ir::OpDef& def);
/// Whether the attribute only carries the types of the example outputs.
bool carriesTypes(const ir::NamedAttr& attr);
/// The names of all registered ops, sorted.
std::vector<std::string> customOpNames();

/// One use of an op.
struct CustomOpUse {
  std::string name;
  std::string domain;
  std::int64_t version = 1;
  /// Types of the results. An op that infers its types needs none and checks those that are given.
  std::vector<TensorType> exampleOutputs = {};
  std::vector<CustomAttribute> attributes = {};
};

/// Appends the op. Throws InvalidArgument if the op is not registered, or if the operands,
/// attributes or example outputs do not match it. Numbers in attributes are rounded to 32 bits.
std::vector<ir::Value> customOp(ir::GraphBuilder& b,
                                std::vector<ir::Value> inputs,
                                const CustomOpUse& use);

}  // namespace sluice::ops

#pragma GCC visibility pop
