// Remote buffers: rows of tensors that a model keeps from run to run, read and written at computed
// places. Such a buffer is a variable of the model, so that reads and writes have their order, and
// its state is saved and restored with the rest.
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

std::string nameOf(const RemoteBuffer& buffer) {
  return fmt::format("remote_buffer/{}", buffer.id);
}

/// The buffer's value here; the first use makes it, of zeros.
Value read(GraphBuilder& b, const RemoteBuffer& buffer, const TensorType& row) {
  if (buffer.rows < 1) {
    raise<InvalidArgument>(
        "remote buffer {}: expected at least 1 row, got {}", buffer.id, buffer.rows);
  }
  std::vector<std::int64_t> dims = row.shape.dims();
  dims.insert(dims.begin(), buffer.rows);
  const TensorType type{row.dtype, Shape(std::move(dims))};
  const ir::Variable* known = b.graph().findVariable(nameOf(buffer));
  if (known != nullptr && known->type != type) {
    raise<InvalidArgument>(
        "remote buffer {} is {}, but is used as {}", buffer.id, known->type.str(), type.str());
  }
  if (known == nullptr) {
    b.graph().addVariable({.name = nameOf(buffer),
                           .type = type,
                           .role = ir::VariableRole::Buffer,
                           .trainable = false,
                           .initializer = ir::Initializer::constant(0)});
  }
  return b.variable(nameOf(buffer));
}

Value place(GraphBuilder& b, const RemoteBuffer& buffer, Value offset) {
  if (!offset.valid()) {
    return b.constant(HostTensor::of<std::int64_t>({1}, {0}));
  }
  if (isFloat(b.dtype(offset)) || b.shape(offset).elements() != 1) {
    raise<InvalidArgument>("remote buffer {}: expected one whole number as its offset, got {}",
                           buffer.id,
                           b.type(offset).str());
  }
  return reshape(b, cast(b, offset, DType::I64), Shape{1});
}

}  // namespace

std::int64_t rowsOfRemoteBuffer(const ir::Graph& graph, std::int64_t id) {
  const ir::Variable* known = graph.findVariable(nameOf({.id = id}));
  return known == nullptr ? 0 : known->type.shape[0];
}

Value remoteLoad(GraphBuilder& b,
                 const RemoteBuffer& buffer,
                 const TensorType& type,
                 Value offset) {
  const Value row = dynamicSlice(b, read(b, buffer, type), place(b, buffer, offset), {0}, {1});
  return reshape(b, row, type.shape);
}

void remoteStore(GraphBuilder& b, const RemoteBuffer& buffer, Value x, Value offset) {
  const TensorType type = b.type(x);
  std::vector<std::int64_t> dims = type.shape.dims();
  dims.insert(dims.begin(), 1);
  const Value row = reshape(b, x, Shape(std::move(dims)));
  b.assign(nameOf(buffer),
           dynamicUpdate(b, read(b, buffer, type), place(b, buffer, offset), row, {0}));
}

}  // namespace sluice::ops
