// conv: cross-correlation of x [N, C, spatial...] with w [O, C / groups, kernel...], over one to
// three spatial axes. Pads are all the ones before, then all the ones after. A bias is an add.
// Sums of integers wrap.
#include "sluice/ops/conv.h"

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  requireSameDType(op);
  return {{op.inputs[0].dtype, convDims(op).outShape()}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const ConvOptions options = convOptions(g.op);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = convGradInput(g.b, g.input(1), g.grad(), g.op.inputs[0].shape, options);
  }
  if (g.needs(1)) {
    grads[1] = convGradWeight(g.b, g.input(0), g.grad(), g.op.inputs[1].shape, options);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceConv(args, ConvSum::Output);
}

constexpr ir::OnnxName kOnnx[] = {{"Conv", 1}, {"Conv", 11}};

void requireChannels(const ir::OpView& op, const ConvDims& d, const Shape& x, const Shape& w) {
  if (d.groups < 1 || d.inChannels % d.groups != 0 || d.outChannels % d.groups != 0) {
    raise<InvalidArgument>("{}: {} groups do not divide the {} input and {} output channels",
                           op.def.name,
                           d.groups,
                           d.inChannels,
                           d.outChannels);
  }
  if (w[1] != d.inPerGroup()) {
    raise<InvalidArgument>("{}: weight {} has {} channels per group, input {} in {} groups has {}",
                           op.def.name,
                           w.str(),
                           w[1],
                           x.str(),
                           d.groups,
                           d.inPerGroup());
  }
}

/// The pieces of one group of one image, as offsets into x, w and y.
struct GroupOffsets {
  std::int64_t x = 0;
  std::int64_t w = 0;
  std::int64_t y = 0;
};

/// Calls f for every batch item, group, input and output channel; each is one window sweep.
template <class F>
void forEachMap(const ConvDims& d, F f) {
  for (std::int64_t n = 0; n < d.batch; ++n) {
    for (std::int64_t o = 0; o < d.outChannels; ++o) {
      const std::int64_t first = o / d.outPerGroup() * d.inPerGroup();
      for (std::int64_t c = 0; c < d.inPerGroup(); ++c) {
        f(GroupOffsets{.x = (n * d.inChannels + first + c) * d.inSize(),
                       .w = (o * d.inPerGroup() + c) * d.kernelSize(),
                       .y = (n * d.outChannels + o) * d.outSize()});
      }
    }
  }
}

}  // namespace

ConvDims convDims(const ir::OpView& op) {
  const ir::Attr* inputShape = op.attrs.find("inputShape");
  const ir::Attr* weightShape = op.attrs.find("weightShape");
  const Shape x = inputShape ? Shape(op.attrs.integers("inputShape")) : op.inputs[0].shape;
  const Shape w =
      weightShape ? Shape(op.attrs.integers("weightShape")) : op.inputs[inputShape ? 0 : 1].shape;
  if (w.rank() != x.rank() || w.rank() < 3) {
    raise<InvalidArgument>("{}: weight {} and input {} must both be of one rank, 3 to 5",
                           op.def.name,
                           w.str(),
                           x.str());
  }
  ConvDims d;
  static_cast<WindowDims&>(d) = windowDims(op, x, std::span(w.dims()).subspan(2), Rounding::Floor);
  d.batch = x[0];
  d.groups = op.integer("groups");
  d.inChannels = x[1];
  d.outChannels = w[0];
  requireChannels(op, d, x, w);
  if ((inputShape || weightShape) && op.inputs[1].shape != d.outShape()) {
    raise<InvalidArgument>("{}: the output gradient must be {}, got {}",
                           op.def.name,
                           d.outShape().str(),
                           op.inputs[1].shape.str());
  }
  return d;
}

ir::Cost costConv(const ir::OpView& op) {
  const ConvDims d = convDims(op);
  return costOfFlops(op,
                     2.0 * static_cast<double>(d.batch) * static_cast<double>(d.outChannels) *
                         static_cast<double>(d.outSize()) * static_cast<double>(d.inPerGroup()) *
                         static_cast<double>(d.kernelSize()));
}

ConvOptions convOptions(const ir::OpView& op) {
  return {.strides = op.attrs.integers("strides"),
          .pads = op.attrs.integers("pads"),
          .dilations = op.attrs.integers("dilations"),
          .groups = op.integer("groups")};
}

void referenceConv(const ir::KernelArgs& args, ConvSum sum) {
  const ConvDims d = convDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* first = args.in<T>(0).data();
    const T* second = args.in<T>(1).data();
    const auto out = args.out<T>(0);
    using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
    std::vector<Sum> sums(out.size(), Sum{});
    Sum* to = sums.data();
    forEachMap(d, [&](GroupOffsets at) {
      forEachTap(d, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
        const auto product = [&](std::int64_t i, std::int64_t j) {
          return static_cast<Sum>(widen(first[i])) * static_cast<Sum>(widen(second[j]));
        };
        switch (sum) {
          case ConvSum::Output:
            to[at.y + y] += product(at.x + x, at.w + w);
            break;
          case ConvSum::Input:
            to[at.x + x] += product(at.w + w, at.y + y);
            break;
          case ConvSum::Weight:
            to[at.w + w] += product(at.x + x, at.y + y);
            break;
        }
      });
    });
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(sums[i]);
    }
  });
}

constinit const ir::OpDef kConv{.name = "conv",
                                .minInputs = 2,
                                .maxInputs = 2,
                                .attrs = kConvAttrs,
                                .infer = infer,
                                .grad = grad,
                                .gradReads = {.inputs = 0b11},
                                .cost = costConv,
                                .reference = reference,
                                .onnx = kOnnx};

Value conv(GraphBuilder& b, Value x, Value w, const ConvOptions& options) {
  return b.add(kConv,
               {x, w},
               {{"strides", options.strides},
                {"pads", options.pads},
                {"dilations", options.dilations},
                {"groups", options.groups}});
}

}  // namespace sluice::ops
