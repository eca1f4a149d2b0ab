// dropout: every element is kept with probability 1 - p and then scaled by 1 / (1 - p), else 0. The
// gradient is the same op on the gradient: the same ordinal makes the same choice again, so no mask
// is stored.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/random.h"
#include "sluice/ops/random_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "p", .kind = ir::AttrKind::Real, .required = true},
     {.name = "ordinal", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOrdinal(op);
  const double p = op.attrs.real("p");
  if (!(p >= 0.0 && p < 1.0)) {
    raise<InvalidArgument>("dropout: p must be in [0, 1), got {}", p);
  }
  return inferUnary<Accepts::Floating>(op);
}

std::vector<Value> grad(ir::GradContext& g) {
  return {g.b.add(kDropout, {g.grad()}, g.op.attrs)};
}

void reference(const ir::KernelArgs& args) {
  const RandomStream stream = randomStream(args);
  const double p = args.op.attrs.real("p");
  const double scale = 1.0 / (1.0 - p);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool kept = static_cast<double>(uniform01(stream.word(i))) >= p;
      out[i] = kept ? narrow<T>(static_cast<double>(widen(in[i])) * scale) : T{};
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Dropout", 7}, {"Dropout", 10}};

}  // namespace

constinit const ir::OpDef kDropout{.name = "dropout",
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .cost = costOfRandom,
                                   .reference = reference,
                                   .traits = {.random = true, .elementwise = true},
                                   .onnx = kOnnx};

Value dropout(GraphBuilder& b, Value x, double p) {
  return b.add(kDropout, {x}, {{"p", p}, {"ordinal", b.nextRandomOrdinal()}});
}

}  // namespace sluice::ops
