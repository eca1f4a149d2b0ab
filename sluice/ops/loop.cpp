// loop: a body that runs a fixed number of times. A loop has the bits of its unrolled form, which
// is what `decompose` builds. Its gradient is another loop (transforms/loop_gradient.cpp). Two
// things of the unrolled form decide the order in which gradients are added (R7), and the gradient
// keeps to them. Initial values pass through an identity. At the end of each iteration, a fixed
// operand or a value that is carried for a second time passes through an identity, and rows get
// their axis.
#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/body.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {{.name = "body", .kind = ir::AttrKind::Subgraph, .required = true},
     {.name = "carried", .kind = ir::AttrKind::Int},
     {.name = "count", .kind = ir::AttrKind::Int, .required = true},
     {.name = "reverse", .kind = ir::AttrKind::Bool},
     {.name = "scanned", .kind = ir::AttrKind::Int}}};

void checkCounts(const ir::OpView& op) {
  const std::int64_t count = op.integer("count");
  const std::int64_t carried = op.integer("carried");
  const std::int64_t scanned = op.integer("scanned");
  const auto operands = static_cast<std::int64_t>(op.inputs.size());
  if (count < 0) {
    raise<InvalidArgument>("loop: a count cannot be negative, got {}", count);
  }
  if (carried < 0 || scanned < 0 || carried > operands || scanned > operands - carried) {
    raise<InvalidArgument>(
        "loop: {} carried and {} scanned of {} operands", carried, scanned, operands);
  }
}

/// The types that the body takes, by those of the loop's operands.
std::vector<TensorType> bodyInputs(const ir::OpView& op, const LoopView& loop) {
  std::vector<TensorType> types(op.inputs.begin(), op.inputs.end());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!loop.isScanned(i)) {
      continue;
    }
    if (types[i].shape.rank() == 0 || types[i].shape[0] != loop.count) {
      raise<InvalidArgument>("loop: scanned operand {} must have {} rows on its first axis, got {}",
                             i,
                             loop.count,
                             types[i].str());
    }
    types[i] = rowType(types[i]);
  }
  return types;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  checkCounts(op);
  const LoopView loop(op.attrs);
  const std::vector<TensorType> inputs = bodyInputs(op, loop);
  std::vector<TensorType> types = checkBody("loop", loop.body, inputs);
  if (types.size() < loop.carried || types.empty()) {
    raise<InvalidArgument>(
        "loop: the body returns {} values and carries {}; it must return "
        "what it carries, and something at all",
        types.size(),
        loop.carried);
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i >= loop.carried) {
      types[i] = rowsType(loop.count, types[i]);
    } else if (types[i] != inputs[i]) {
      raise<InvalidArgument>("loop: the body takes {} as carried value {} and returns {}",
                             inputs[i].str(),
                             i,
                             types[i].str());
    }
  }
  return types;
}

ir::Cost cost(const ir::OpView& op) {
  const LoopView loop(op.attrs);
  ir::Cost total = costOfBody(loop.body);
  const auto count = static_cast<double>(loop.count);
  total.flops *= count;
  total.bytesRead *= count;
  total.bytesWritten *= count;
  return total;
}

void reference(const ir::KernelArgs& args) {
  const LoopView loop(args.op.attrs);
  std::vector<HostTensor> operands;
  std::vector<std::size_t> rowBytes;
  for (std::size_t i = 0; i < args.inputs.size(); ++i) {
    const TensorType& type = args.op.inputs[i];
    HostTensor tensor(loop.isScanned(i) ? rowType(type) : type);
    if (!loop.isScanned(i) && tensor.byteCount() > 0) {
      std::memcpy(tensor.bytes(), args.inputs[i], tensor.byteCount());
    }
    operands.push_back(std::move(tensor));
  }
  for (std::int64_t i = 0; i < loop.count; ++i) {
    const auto row = static_cast<std::size_t>(loop.row(i));
    for (std::size_t s = loop.carried; s < loop.carried + loop.scanned; ++s) {
      HostTensor slice(operands[s].type());
      const auto* rows = static_cast<const std::byte*>(args.inputs[s]);
      if (slice.byteCount() > 0) {
        std::memcpy(slice.bytes(), rows + row * slice.byteCount(), slice.byteCount());
      }
      operands[s] = std::move(slice);
    }
    const std::vector<HostTensor> results = evaluateBody(loop.body, operands, args.run);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (r < loop.carried) {
        operands[r] = results[r];
      } else if (results[r].byteCount() > 0) {
        auto* rows = static_cast<std::byte*>(args.outputs[r]);
        const std::size_t bytes = results[r].byteCount();
        std::memcpy(rows + row * bytes, results[r].bytes(), bytes);
      }
    }
  }
  for (std::size_t i = 0; i < loop.carried; ++i) {
    if (operands[i].byteCount() > 0) {
      std::memcpy(args.outputs[i], operands[i].bytes(), operands[i].byteCount());
    }
  }
}

/// The rows of a scanned value, without the axis.
std::vector<Value> rowsOf(GraphBuilder& b, Value x) {
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(b.shape(x)[0]), 1);
  std::vector<Value> rows = split(b, x, 0, ones);
  for (Value& row : rows) {
    row = reshape(b, row, rowType(b.type(x)).shape);
  }
  return rows;
}

Value emptyRows(GraphBuilder& b, const TensorType& rows) {
  return b.constant(HostTensor(rows));
}

/// Its iterations, one after the other.
std::vector<Value> decompose(GraphBuilder& b,
                             const ir::OpView& op,
                             std::span<const Value> operands) {
  const LoopView loop(op.attrs);
  if (loop.count > kMaxUnrolled) {
    raise<Unsupported>(
        "a loop of {} iterations is unrolled, since no kernel runs it as it is; {} at most",
        loop.count,
        kMaxUnrolled);
  }
  std::vector<Value> inputs(operands.begin(), operands.end());
  for (std::size_t i = 0; i < loop.carried; ++i) {
    inputs[i] = identity(b, inputs[i]);
  }
  std::vector<std::vector<Value>> slices;
  for (std::size_t s = 0; s < loop.scanned && loop.count > 0; ++s) {
    slices.push_back(rowsOf(b, operands[loop.carried + s]));
  }
  const std::size_t numRows = op.outputs.size() - loop.carried;
  std::vector<std::vector<Value>> rows(numRows,
                                       std::vector<Value>(static_cast<std::size_t>(loop.count)));
  for (std::int64_t i = 0; i < loop.count; ++i) {
    const auto row = static_cast<std::size_t>(loop.row(i));
    for (std::size_t s = 0; s < loop.scanned; ++s) {
      inputs[loop.carried + s] = slices[s][row];
    }
    const std::vector<Value> results = inlineBody(b, loop.body, inputs);
    for (std::size_t r = 0; r < loop.carried; ++r) {
      inputs[r] = loop.isCopied(r) ? identity(b, results[r]) : results[r];
    }
    for (std::size_t r = 0; r < numRows; ++r) {
      const Value result = results[loop.carried + r];
      rows[r][row] = reshape(b, result, rowsType(1, b.type(result)).shape);
    }
  }
  std::vector<Value> results(inputs.begin(),
                             inputs.begin() + static_cast<std::ptrdiff_t>(loop.carried));
  for (std::size_t r = 0; r < numRows; ++r) {
    results.push_back(loop.count == 0 ? emptyRows(b, op.outputs[loop.carried + r])
                                      : concat(b, std::move(rows[r]), 0));
  }
  return results;
}

}  // namespace

LoopView::LoopView(const ir::Attrs& attrs)
    : body(attrs.subgraph("body")),
      count(attrs.integer("count")),
      carried(static_cast<std::size_t>(attrs.integer("carried"))),
      scanned(static_cast<std::size_t>(attrs.integer("scanned"))),
      reverse(attrs.flag("reverse")) {}

bool LoopView::isCopied(std::size_t result) const {
  const auto outputs = body.outputs();
  const Value value = outputs[result].value;
  const bool again = std::ranges::any_of(
      outputs.first(result), [&](const ir::Output& other) { return other.value == value; });
  const std::vector<ir::OpId> inputs = body.inputs();
  return again || std::find(inputs.begin() + static_cast<std::ptrdiff_t>(carried + scanned),
                            inputs.end(),
                            value.op) != inputs.end();
}

TensorType rowType(const TensorType& type) {
  const std::vector<std::int64_t> dims = type.shape.dims();
  return {type.dtype, Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end()))};
}

TensorType rowsType(std::int64_t count, const TensorType& row) {
  std::vector<std::int64_t> dims = row.shape.dims();
  dims.insert(dims.begin(), count);
  return {row.dtype, Shape(std::move(dims))};
}

constinit const ir::OpDef kLoop{.name = "loop",
                                .minInputs = 0,
                                .maxInputs = ir::kVariadic,
                                .outputs = ir::kVariadic,
                                .attrs = kAttrs,
                                .infer = infer,
                                .cost = cost,
                                .reference = reference,
                                .decompose = decompose};

bool isControlFlow(const ir::OpDef& def) {
  return &def == &kLoop || &def == &kBranch;
}

std::vector<Value> loop(GraphBuilder& b, const LoopParts& parts) {
  std::vector<Value> operands = parts.carried;
  operands.insert(operands.end(), parts.scanned.begin(), parts.scanned.end());
  operands.insert(operands.end(), parts.fixed.begin(), parts.fixed.end());
  return b.addMany(kLoop,
                   std::move(operands),
                   {{"body", parts.body},
                    {"carried", std::ssize(parts.carried)},
                    {"count", parts.count},
                    {"reverse", parts.reverse},
                    {"scanned", std::ssize(parts.scanned)}});
}

}  // namespace sluice::ops
