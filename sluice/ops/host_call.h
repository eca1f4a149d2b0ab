// Functions of the host inside of a graph. The op host_call names its function by a number, because
// attributes are plain data; the functions themselves are in one table of the process, each for as
// long as its HostFunction lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::ops {

extern const ir::OpDef kHostCall;

/// From the op's operands, which it may keep, to its results.
using HostCallee = std::function<std::vector<HostTensor>(std::span<const HostTensor>)>;

/// An entry of the table. Runs call the function from threads of the engine, those of replicas
/// several at a time.
class HostFunction {
 public:
  /// `id` is what messages call it. Throws InvalidArgument if it or the function is empty.
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

/// Calls the function whenever it runs, never removed or merged. It must give results of these
/// types. A run is an InvalidArgument when it does not, or when its HostFunction is gone; what the
/// function throws reaches the caller of the run.
std::vector<ir::Value> hostCall(ir::GraphBuilder& b,
                                const HostFunction& function,
                                std::vector<ir::Value> inputs,
                                std::span<const TensorType> results);

}  // namespace sluice::ops
