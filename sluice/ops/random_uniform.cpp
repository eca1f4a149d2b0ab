// random_uniform: numbers spread evenly over [low, high), made in double and rounded to the type.
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
     {.name = "low", .kind = ir::AttrKind::Real},
     {.name = "high", .kind = ir::AttrKind::Real, .real = 1.0},
     {.name = "ordinal", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const double low = op.attrs.real("low");
  const double high = op.attrs.real("high");
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    raise<InvalidArgument>(
        "random_uniform: low and high must be finite and in order, got [{}, {})", low, high);
  }
  return {randomType(op)};
}

void reference(const ir::KernelArgs& args) {
  const RandomStream stream = randomStream(args);
  const double low = args.op.attrs.real("low");
  const double high = args.op.attrs.real("high");
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(low + (high - low) * static_cast<double>(uniform01(stream.word(i))));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"RandomUniform", 1}};

}  // namespace

constinit const ir::OpDef kRandomUniform{.name = "random_uniform",
                                         .minInputs = 0,
                                         .maxInputs = 0,
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .cost = costOfRandom,
                                         .reference = reference,
                                         .traits = {.random = true},
                                         .onnx = kOnnx};

Value randomUniform(GraphBuilder& b, const TensorType& type, double low, double high) {
  return b.add(kRandomUniform,
               {},
               {{"shape", type.shape.dims()},
                {"dtype", name(type.dtype)},
                {"low", low},
                {"high", high},
                {"ordinal", b.nextRandomOrdinal()}});
}

}  // namespace sluice::ops
