// Host functions inside a graph. The op host_call refers to its function by a number, because
// attributes are plain data. The functions themselves are in one table of the process; each stays
// there as long as its HostFunction lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

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
