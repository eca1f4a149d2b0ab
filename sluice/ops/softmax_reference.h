// The loops, in double, that the references of softmax, log_softmax and their gradients share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/ops/softmax.h"

namespace sluice::ops {

/// out = finish(x - the line's maximum, the sum of the exponentials of these)
template <class Finish>
void referenceSoftmax(const ir::KernelArgs& args, Finish finish) {
  const AxisDims d = axisDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    T* out = args.out<T>(0).data();
    forEachLine(d, [&](std::int64_t first) {
      const auto x = [&](std::int64_t i) {
        return static_cast<double>(widen(in[first + i * d.inner]));
      };
      double top = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < d.extent; ++i) {
        top = std::max(top, x(i));
      }
      double sum = 0;
      for (std::int64_t i = 0; i < d.extent; ++i) {
        sum += std::exp(x(i) - top);
      }
      for (std::int64_t i = 0; i < d.extent; ++i) {
        out[first + i * d.inner] = narrow<T>(finish(x(i) - top, sum));
      }
    });
  });
}

/// out = finish(y, dy, the sum of term(y, dy) over the line)
template <class Term, class Finish>
void referenceSoftmaxGrad(const ir::KernelArgs& args, Term term, Finish finish) {
  const AxisDims d = axisDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* y = args.in<T>(0).data();
    const T* dy = args.in<T>(1).data();
    T* out = args.out<T>(0).data();
    forEachLine(d, [&](std::int64_t first) {
      const auto at = [&](const T* v, std::int64_t i) {
        return static_cast<double>(widen(v[first + i * d.inner]));
      };
      double sum = 0;
      for (std::int64_t i = 0; i < d.extent; ++i) {
        sum += term(at(y, i), at(dy, i));
      }
      for (std::int64_t i = 0; i < d.extent; ++i) {
        out[first + i * d.inner] = narrow<T>(finish(at(y, i), at(dy, i), sum));
      }
    });
  });
}

}  // namespace sluice::ops
