// Matrix products, convolutions, pooling, attention.
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

std::vector<OpCase> linearCases() {
  return {
      {kMatMul, {f32({3, 4}), f32({4, 5})}, {}, "", true, 4},
      {kMatMul,
       {f32({4, 3}), f32({5, 4})},
       {{"transposeA", true}, {"transposeB", true}},
       "tt",
       true,
       4},
      {kMatMul, {f32({2, 1, 3, 4}), f32({5, 4, 2})}, {}, "batched", true, 4},
      {kMatMul, {f32({4}), f32({4, 2})}, {}, "row", true, 4},
      {kMatMul, {f32({3, 4}), f32({4})}, {}, "column", true, 4},
      {kMatMul, {f32({2, 3, 4}), f32({2, 5, 4})}, {{"transposeB", true}}, "nt", true, 4},
  };
}

}  // namespace sluice::testing
