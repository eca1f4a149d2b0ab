// dft: the discrete Fourier transform along one axis of complex numbers, which are pairs in the
// last axis. The inverse has the other sign and divides by the extent. The gradient is the other
// transform, scaled. The reference splits the extent into its prime factors.
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::ops {
namespace {

using Complex = std::complex<double>;

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int, .required = true},
     {.name = "inverse", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  const Shape& shape = op.inputs[0].shape;
  if (shape.rank() < 2 || shape.dims().back() != 2) {
    raise<InvalidArgument>("dft: the last axis must be pairs of numbers, got {}", shape.str());
  }
  if (axisAttr(op, shape) == shape.rank() - 1) {
    raise<InvalidArgument>(
        "dft: axis {} of {} is that of the pairs", op.integer("axis"), shape.str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Shape& shape = g.op.inputs[0].shape;
  const bool inverse = g.op.attrs.flag("inverse");
  const auto extent = static_cast<double>(shape[axisAttr(g.op, shape)]);
  const double scale = inverse ? 1.0 / extent : extent;
  const Value other = dft(g.b, g.grad(), g.op.integer("axis"), !inverse);
  return {mul(g.b, other, g.b.scalar(g.op.inputs[0].dtype, scale))};
}

std::size_t smallestFactor(std::size_t n) {
  for (std::size_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) {
      return p;
    }
  }
  return n;
}

/// A transform of n = p q ... numbers combines each of them p, q, ... times.
ir::Cost cost(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const auto extent = static_cast<std::size_t>(shape[axisAttr(op, shape)]);
  std::size_t factors = 0;
  for (std::size_t n = extent; n > 1;) {
    const std::size_t p = smallestFactor(n);
    factors += p;
    n /= p;
  }
  return costOfFlops(op,
                     4.0 * static_cast<double>(factors) * static_cast<double>(shape.elements()));
}

/// roots[k] = e^(-+ 2 pi i k / size of the whole transform).
struct Transform {
  std::vector<Complex> roots;
  std::vector<Complex> scratch;

  /// out[k] = sum over j of in[j stride] roots[j k stride ...]; n divides the whole size.
  void run(const Complex* in, Complex* out, std::size_t n, std::size_t stride) {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    const std::size_t p = smallestFactor(n);
    const std::size_t m = n / p;
    for (std::size_t q = 0; q < p; ++q) {
      run(in + q * stride, out + q * m, m, stride * p);
    }
    // The parts' results are combined p at a time.
    const std::size_t step = roots.size() / n;
    for (std::size_t k = 0; k < m; ++k) {
      for (std::size_t q = 0; q < p; ++q) {
        scratch[q] = out[q * m + k];
      }
      for (std::size_t r = 0; r < p; ++r) {
        Complex sum = scratch[0];
        for (std::size_t q = 1; q < p; ++q) {
          sum += scratch[q] * roots[q * (r * m + k) % n * step];
        }
        out[r * m + k] = sum;
      }
    }
  }
};

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  const bool inverse = args.op.attrs.flag("inverse");
  const auto n = static_cast<std::size_t>(view.extent);
  const double turn = (inverse ? 2.0 : -2.0) * std::numbers::pi / static_cast<double>(n);
  Transform transform{std::vector<Complex>(n), std::vector<Complex>(n)};
  for (std::size_t k = 0; k < n; ++k) {
    transform.roots[k] = std::polar(1.0, turn * static_cast<double>(k));
  }
  std::vector<Complex> line(n);
  std::vector<Complex> result(n);
  const double scale = inverse ? 1.0 / static_cast<double>(n) : 1.0;
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    const auto inner = static_cast<std::size_t>(view.inner);
    for (std::size_t o = 0; o < static_cast<std::size_t>(view.outer) * inner && n > 0; o += 2) {
      const std::size_t base = o / inner * n * inner + o % inner;
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t at = base + k * inner;
        line[k] = {static_cast<double>(widen(in[at])), static_cast<double>(widen(in[at + 1]))};
      }
      transform.run(line.data(), result.data(), n, 1);
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t at = base + k * inner;
        out[at] = narrow<T>(result[k].real() * scale);
        out[at + 1] = narrow<T>(result[k].imag() * scale);
      }
    }
  });
}

}  // namespace

constinit const ir::OpDef kDft{.name = "dft",
                               .attrs = kAttrs,
                               .infer = infer,
                               .grad = grad,
                               .cost = cost,
                               .reference = reference};

Value dft(GraphBuilder& b, Value x, std::int64_t axis, bool inverse) {
  return b.add(kDft, {x}, {{"axis", axis}, {"inverse", inverse}});
}

}  // namespace sluice::ops
