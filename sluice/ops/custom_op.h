// Custom ops: ops from libraries of the user. Each becomes an OpDef in the op table of the process,
// so all code after the front ends treats it like an op of Sluice. Libraries are never unloaded,
// because graphs and programs point to their ops. Authors of libraries use sluice/custom/op.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/attrs.h"
#include "sluice/ir/value.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::ops {

// Attributes of custom ops as callers write them. A value may be anything that an attribute of a
// graph can be, and a list may hold anything at all. attrOf reduces them to the six kinds that
// custom ops have: numbers, texts, and lists of one kind of these.

class AttrValue {
 public:
  template <std::integral T>
  AttrValue(T value) : AttrValue(integer(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  AttrValue(T value)  // NOLINT(google-explicit-constructor)
      : AttrValue(ir::Attr(static_cast<double>(value))) {}
  AttrValue(const char* value);               // NOLINT(google-explicit-constructor)
  AttrValue(std::string value);               // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<std::int64_t> list);  // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<double> list);        // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<std::string> list);   // NOLINT(google-explicit-constructor)
  AttrValue(ir::Attr value);                  // NOLINT(google-explicit-constructor)
  AttrValue(std::initializer_list<AttrValue> list);
  explicit AttrValue(std::vector<AttrValue> list) : value_(std::move(list)) {}

  /// Returns an attribute; an empty list gets the kind `declared`. Throws InvalidArgument for lists
  /// of lists or of several kinds. The caller checks later that the kind is the declared one.
  ir::Attr attrOf(ir::AttrKind declared) const;

 private:
  template <class T>
  static ir::Attr integer(T value) {
    if constexpr (std::same_as<T, bool>) {
      return ir::Attr(value);
    } else {
      if (!std::in_range<std::int64_t>(value)) {
        raise<InvalidArgument>("{} is out of range for an attribute of 64 bits", value);
      }
      return ir::Attr(static_cast<std::int64_t>(value));
    }
  }

  std::variant<ir::Attr, std::vector<AttrValue>> value_;
};

struct CustomAttribute {
  std::string name;
  AttrValue value;
};

}  // namespace sluice::ops

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

// Host functions inside a graph. The op host_call refers to its function by a number, because
// attributes are plain data. The functions themselves are in one table of the process; each stays
// there as long as its HostFunction lives.

namespace sluice::ir {
class GraphBuilder;
struct OpDef;
}  // namespace sluice::ir

namespace sluice::ops {

extern const ir::OpDef kHostCall;

/// Maps the op's operands, which it may keep, to its results.
using HostCallee = std::function<std::vector<HostTensor>(std::span<const HostTensor>)>;

/// An entry of the table. Runs call the function from threads of the engine; replicas may call it
/// at the same time.
class HostFunction {
 public:
  /// `id` is its name in messages. Throws InvalidArgument if `id` or the function is empty.
  HostFunction(std::string id, HostCallee callee);
  ~HostFunction();
  HostFunction(const HostFunction&) = delete;
  HostFunction& operator=(const HostFunction&) = delete;

  const std::string& id() const { return id_; }
  std::int64_t number() const { return number_; }

 private:
  std::string id_;
  std::int64_t number_;
};

/// Appends an op that calls the function whenever it runs; it is never removed or merged. The
/// function must return results of these types. A run throws InvalidArgument if it does not, or if
/// its HostFunction no longer exists; exceptions of the function reach the caller of the run.
std::vector<ir::Value> hostCall(ir::GraphBuilder& b,
                                const HostFunction& function,
                                std::vector<ir::Value> inputs,
                                std::span<const TensorType> results);

}  // namespace sluice::ops

#pragma GCC visibility pop
