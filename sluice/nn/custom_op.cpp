#include "sluice/nn/helpers.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

std::vector<Tensor> customOp(const std::vector<Tensor>& inputs, const ops::CustomOpUse& use) {
  ir::GraphBuilder& b = Tracer::current().builder();
  return tensorsOf(b, ops::customOp(b, valuesOf(inputs), use));
}

}  // namespace sluice::nn
