// sequence_rows: when runs of rows are copied from one tensor into another, which source row lands
// in each row; -1 where none does. Run i has counts[i] rows; a later run replaces an earlier one.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "sourceRows", .kind = ir::AttrKind::Int, .required = true},
     {.name = "rows", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  for (std::size_t i = 0; i < 3; ++i) {
    requireIndices(op, i);
    if (op.inputs[i].shape.rank() != 1 || op.inputs[i].shape != op.inputs[0].shape) {
      raise<InvalidArgument>(
          "sequence_rows: counts and offsets must be lists of one length, got {}, {} and {}",
          op.inputs[0].str(),
          op.inputs[1].str(),
          op.inputs[2].str());
    }
  }
  if (op.integer("rows") < 0 || op.integer("sourceRows") < 0) {
    raise<InvalidArgument>("sequence_rows: rows and sourceRows must not be negative, got {} and {}",
                           op.integer("rows"),
                           op.integer("sourceRows"));
  }
  return {{DType::I64, Shape{op.integer("rows")}}};
}

std::int64_t number(const ir::KernelArgs& args, std::size_t input, std::size_t i) {
  return args.op.inputs[input].dtype == DType::I32 ? args.in<std::int32_t>(input)[i]
                                                   : args.in<std::int64_t>(input)[i];
}

void reference(const ir::KernelArgs& args) {
  const auto out = args.out<std::int64_t>(0);
  const std::int64_t sourceRows = args.op.integer("sourceRows");
  const std::int64_t rows = args.op.integer("rows");
  std::fill(out.begin(), out.end(), -1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(args.op.inputs[0].shape[0]); ++i) {
    const std::int64_t count = number(args, 0, i);
    const std::int64_t from = number(args, 1, i);
    const std::int64_t to = number(args, 2, i);
    if (count < 0 || from < 0 || to < 0 || count > sourceRows || from > sourceRows - count ||
        count > rows || to > rows - count) {
      raise<InvalidArgument>(
          "sequence_rows: run {} of {} rows from {} to {} does not lie inside {} and {} rows",
          i,
          count,
          from,
          to,
          sourceRows,
          rows);
    }
    for (std::int64_t row = 0; row < count; ++row) {
      out[static_cast<std::size_t>(to + row)] = from + row;
    }
  }
}

}  // namespace

constinit const ir::OpDef kSequenceRows{.name = "sequence_rows",
                                        .minInputs = 3,
                                        .maxInputs = 3,
                                        .attrs = kAttrs,
                                        .infer = infer,
                                        .reference = reference};

Value sequenceRows(GraphBuilder& b,
                   const SequenceRuns& runs,
                   std::int64_t sourceRows,
                   std::int64_t rows) {
  return b.add(kSequenceRows,
               {runs.counts, runs.sourceOffsets, runs.offsets},
               {{"sourceRows", sourceRows}, {"rows", rows}});
}

}  // namespace sluice::ops
