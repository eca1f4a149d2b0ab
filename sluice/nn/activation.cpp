#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/norm.h"
#include "sluice/nn/parameter.h"

namespace sluice::nn {
namespace {

double checkedProbability(const Module& module, double p) {
  if (!(p >= 0.0 && p < 1.0)) {
    raise<InvalidArgument>(
        "{} '{}': the probability is {}, expected one in [0, 1)", module.kind(), module.path(), p);
  }
  return p;
}

}  // namespace

PReLU::PReLU(Module& parent, std::string name, std::int64_t slopes, double start)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {DType::F32, Shape{positive(slopes, "PReLU", this->name(), "slopes")}},
                          init::constant(start))) {}

Dropout::Dropout(Module& parent, std::string name, double p) : Layer(parent, std::move(name)) {
  p_ = checkedProbability(*this, p);
}

template <int kAxes>
ChannelDropout<kAxes>::ChannelDropout(Module& parent, std::string name, double p)
    : Layer(parent, std::move(name)) {
  p_ = checkedProbability(*this, p);
}

template <int kAxes>
Tensor ChannelDropout<kAxes>::forward(const Tensor& x) {
  return kAxes == 1   ? dropout1d(x, p_, isTraining())
         : kAxes == 2 ? dropout2d(x, p_, isTraining())
                      : dropout3d(x, p_, isTraining());
}

template class ChannelDropout<1>;
template class ChannelDropout<2>;
template class ChannelDropout<3>;

}  // namespace sluice::nn
