#include "sluice/nn/activation.h"

#include "sluice/base/error.h"

namespace sluice::nn {

Dropout::Dropout(Module& parent, std::string name, double p)
    : Layer(parent, std::move(name)), p_(p) {
  if (!(p >= 0.0 && p < 1.0)) {
    raise<InvalidArgument>(
        "Dropout '{}': the probability is {}, expected one in [0, 1)", path(), p);
  }
}

}  // namespace sluice::nn
