// stochastic_cast: float32 rounded to float16 or bfloat16, up or down at random in proportion to
// the distances, so that the mean of many roundings is the value. The second operand, a scalar,
// counts the runs: numbers are a function of (seed, ordinal, count, element), so replicas and
// resumed runs round alike.
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/random.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "dtype", .kind = ir::AttrKind::Text, .required = true},
     {.name = "ordinal", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOrdinal(op);
  const DType dtype = dtypeAttr(op);
  if (op.inputs[0].dtype != DType::F32 || (dtype != DType::F16 && dtype != DType::BF16)) {
    raise<InvalidArgument>("stochastic_cast: expected f32 to f16 or bf16, got {} to {}",
                           op.inputs[0].str(),
                           name(dtype));
  }
  if (!isFloat(op.inputs[1].dtype) || op.inputs[1].shape.rank() != 0) {
    raise<InvalidArgument>("stochastic_cast: the count must be a float scalar, got {}",
                           op.inputs[1].str());
  }
  return {{dtype, op.inputs[0].shape}};
}

void reference(const ir::KernelArgs& args) {
  const RandomStream stream = countedStream(args);
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    if constexpr (kIsHalf<T>) {
      const auto in = args.in<float>(0);
      const auto out = args.out<T>(0);
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = roundStochastically<T>(in[i], stream.word(i));
      }
    }
  });
}

}  // namespace

constinit const ir::OpDef kStochasticCast{.name = "stochastic_cast",
                                          .minInputs = 2,
                                          .maxInputs = 2,
                                          .attrs = kAttrs,
                                          .infer = infer,
                                          .cost = costOfRandom,
                                          .reference = reference,
                                          .traits = {.random = true}};

Value stochasticCast(GraphBuilder& b, Value x, Value count, DType dtype) {
  return b.add(
      kStochasticCast, {x, count}, {{"dtype", name(dtype)}, {"ordinal", b.nextRandomOrdinal()}});
}

RandomStream countedStream(const ir::KernelArgs& args) {
  RandomStream stream = randomStream(args);
  const double count = args.op.inputs[1].dtype == DType::F64
                           ? args.in<double>(1)[0]
                           : static_cast<double>(widen(args.in<float>(1)[0]));
  constexpr double kWraps = 0x1p32;
  stream.microBatch = count >= 0 && count < kWraps * kWraps
                          ? static_cast<std::uint32_t>(std::fmod(count, kWraps))
                          : 0;
  return stream;
}

}  // namespace sluice::ops
