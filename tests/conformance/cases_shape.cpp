// Ops that move elements: reshape, transpose, slice, gather ...
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

std::vector<OpCase> shapeCases() {
  return {
      {kBroadcastTo, {f32({3, 1})}, {{"shape", {2, 3, 4}}}},
      {kReshape, {f32({2, 6})}, {{"shape", {3, 4}}}},
      {kTranspose, {f32({2, 3, 4})}, {{"permutation", {2, 0, 1}}}},
  };
}

}  // namespace sluice::testing
