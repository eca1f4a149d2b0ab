// random_normal: normally distributed numbers, made in double and rounded to the type.
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/random.h"
#include "sluice/ops/random_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "dtype", .kind = ir::AttrKind::Text, .text = "f32"},
     {.name = "mean", .kind = ir::AttrKind::Real},
     {.name = "deviation", .kind = ir::AttrKind::Real, .real = 1.0},
     {.name = "ordinal", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const double mean = op.attrs.real("mean");
  const double deviation = op.attrs.real("deviation");
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation < 0.0) {
    raise<InvalidArgument>(
        "random_normal: mean must be finite and deviation not negative, got {} and {}",
        mean,
        deviation);
  }
  return {randomType(op)};
}

void reference(const ir::KernelArgs& args) {
  const RandomStream stream = randomStream(args);
  const double mean = args.op.attrs.real("mean");
  const double deviation = args.op.attrs.real("deviation");
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(mean + deviation * standardNormal(stream, i));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"RandomNormal", 1}};

}  // namespace

constinit const ir::OpDef kRandomNormal{.name = "random_normal",
                                        .minInputs = 0,
                                        .maxInputs = 0,
                                        .attrs = kAttrs,
                                        .infer = infer,
                                        .cost = costOfRandom,
                                        .reference = reference,
                                        .traits = {.random = true},
                                        .onnx = kOnnx};

Value randomNormal(GraphBuilder& b, const TensorType& type, double mean, double deviation) {
  return b.add(kRandomNormal,
               {},
               {{"shape", type.shape.dims()},
                {"dtype", name(type.dtype)},
                {"mean", mean},
                {"deviation", deviation},
                {"ordinal", b.nextRandomOrdinal()}});
}

}  // namespace sluice::ops
