#include "sluice/onnx/identity_marks.h"

#include <algorithm>
#include <array>

#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Marks = std::array<MarkedOp, 5>;

const Marks& identityMarks() {
  static const Marks kMarks = {
      {{"sluice:detach", &ops::kDetach},
       {"sluice:nop", &ops::kNop},
       {"sluice:recomputation_checkpoint", &ops::kRecomputationCheckpoint},
       {"sluice:location_off_chip", &ops::kTensorLocation, {{"on_chip", false}}},
       {"sluice:location_on_chip", &ops::kTensorLocation, {{"on_chip", true}}}}};
  return kMarks;
}

}  // namespace

const MarkedOp* findMark(std::string_view mark) {
  const auto found = std::ranges::find(identityMarks(), mark, &MarkedOp::mark);
  return found == identityMarks().end() ? nullptr : &*found;
}

std::string_view markOf(const ir::Op& op) {
  const auto found = std::ranges::find_if(identityMarks(), [&](const MarkedOp& marked) {
    return marked.def == op.def && marked.attrs == op.attrs;
  });
  return found == identityMarks().end() ? "" : found->mark;
}

}  // namespace sluice::onnx
