// Normalizations, softmax, losses, random ops.
#include "sluice/ops/op_list.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

std::vector<OpCase> normCases() {
  return {};
}

}  // namespace sluice::testing
