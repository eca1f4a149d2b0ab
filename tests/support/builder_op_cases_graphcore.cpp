// Cases of AiGraphcore.
#include "tests/support/builder_op_cases.h"

namespace sluice::opcases {
namespace {

Case vendorUnary(std::string_view onnx, TensorId (AiGraphcore::*op)(const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.g.*op)(f.x)}; }, {kSame}};
}
Case vendorBinary(std::string_view onnx,
                  TensorId (AiGraphcore::*op)(const TensorId&, const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.g.*op)(f.x, f.x)}; }, {kSame}};
}
Case bitwise(std::string_view onnx, TensorId (AiGraphcore::*op)(const TensorId&, const TensorId&)) {
  return {onnx,
          [op](Fixture& f) { return Ids{(f.g.*op)(f.whole, f.whole)}; },
          {{DType::I32, Shape{2, 3}}}};
}

}  // namespace

std::vector<Case> vendorElementwiseCases() {
  return {
      vendorUnary("Detach", &AiGraphcore::detach),
      vendorUnary("Expm1", &AiGraphcore::expm1),
      vendorUnary("Gelu", &AiGraphcore::gelu),
      vendorUnary("GeluErf", &AiGraphcore::geluerf),
      vendorUnary("Log1p", &AiGraphcore::log1p),
      vendorUnary("Nop", &AiGraphcore::nop),
      vendorUnary("Round", &AiGraphcore::round),
      vendorUnary("Square", &AiGraphcore::square),
      vendorUnary("Swish", &AiGraphcore::swish),
      vendorUnary("TensorRemap", &AiGraphcore::tensorremap),
      vendorUnary("ZerosLike", &AiGraphcore::zeroslike),
      vendorBinary("Atan2", &AiGraphcore::atan2),
      vendorBinary("Fmod", &AiGraphcore::fmod),
      vendorBinary("Remainder", &AiGraphcore::remainder),
      bitwise("BitwiseAnd", &AiGraphcore::bitwiseand),
      bitwise("BitwiseOr", &AiGraphcore::bitwiseor),
      bitwise("BitwiseXnor", &AiGraphcore::bitwisexnor),
      bitwise("BitwiseXor", &AiGraphcore::bitwisexor),
      op("BitwiseNot",
         [](Fixture& f) { return f.g.bitwisenot(f.whole); },
         {DType::I32, Shape{2, 3}}),
      op("CastThenPow2Scale",
         [](Fixture& f) {
           const TensorId bits = f.g.pow2scalethencast(f.x, f.i64({1}, {2}), "FLOAT8_152");
           return f.g.castthenpow2scale(bits, f.i64({1}, {-2}), "FLOAT16", "FLOAT8_152");
         },
         {DType::F16, Shape{2, 3}}),
      op("Pow2ScaleThenCast",
         [](Fixture& f) { return f.g.pow2scalethencast(f.x, f.i64({1}, {2})); },
         {DType::U8, Shape{2, 3}}),
      op(
          "IncrementMod", [](Fixture& f) { return f.g.incrementmod(f.x, 1, 3); }, kSame),
      op(
          "Scale", [](Fixture& f) { return f.g.scale(f.x, 0.1); }, kSame),
      op(
          "ScaledAdd", [](Fixture& f) { return f.g.scaledadd(f.x, f.x, 2, 3); }, kSame),
      op(
          "Init", [](Fixture& f) { return f.g.init(i64({2})); }, i64({2})),
      op(
          "Zeros",
          [](Fixture& f) {
            return f.g.zeros(i64({2, 4}));
          },
          i64({2, 4})),
  };
}

/// y = 2 x of [2, 3], and an output of x itself.
void makeTwice(Builder& b) {
  const TensorId x = b.addInputTensor(kSame, "x");
  b.addOutputTensor(b.aiOnnx().add(x, x));
  b.addOutputTensor(x);
}

std::vector<Case> vendorRunCases() {
  return {
      {"Abort",
       [](Fixture& f) {
         f.g.abort(f.flags);
         f.g.abort();
         return Ids{};
       },
       {}},
      op(
          "HostLoad", [](Fixture& f) { return f.g.hostload(kSame, "stream"); }, kSame),
      {"HostStore",
       [](Fixture& f) {
         f.g.hoststore(f.x, "stream");
         return Ids{};
       },
       {}},
      op(
          "PrintTensor", [](Fixture& f) { return f.g.printtensor(f.x); }, kSame),
      op(
          "RemoteLoad",
          [](Fixture& f) { return f.g.remoteload({.id = 1, .rows = 2}, kSame, f.i64({1}, {1})); },
          kSame),
      {"RemoteStore",
       [](Fixture& f) {
         f.g.remotestore({.id = 2}, f.x);
         return Ids{};
       },
       {}},
      op(
          "ReplicatedAllGather",
          [](Fixture& f) { return f.g.replicatedallgather(f.x, 2); },
          f32({12})),
      op(
          "ReplicatedAllReduce", [](Fixture& f) { return f.g.replicatedallreduce(f.x); }, kSame),
      op(
          "ReplicatedReduceScatter",
          [](Fixture& f) { return f.g.replicatedreducescatter(f.x, 4); },
          f32({2})),
      {"Call",
       [](Fixture& f) {
         Builder callee("twice");
         makeTwice(callee);
         return f.g.call({f.x}, callee);
       },
       {kSame, kSame}},
      op(
          "PackedDataBlock",
          [](Fixture& f) {
            Builder callback("block");
            const TensorId x = callback.addInputTensor(f32({1, 4, 3}), "x");
            callback.addOutputTensor(callback.aiOnnx().neg(x));
            const TensorId offsets = f.i64({2}, {0, 1});
            const TensorId lengths = f.i64({2}, {1, 1});
            return f.g.packeddatablock({f.x, offsets, lengths, offsets, lengths},
                                       {.maxSequenceLengths = {4}, .resultSize = 5},
                                       callback);
          },
          f32({5, 3})),
  };
}

std::vector<Case> vendorNnCases() {
  return {
      {"BatchNormalization",
       [](Fixture& f) {
         const BatchNormTensors tensors{f.ones({2}), f.ones({2}), f.ones({2}), f.ones({2})};
         return f.g.batchnormalization(f.image, tensors, {.training = true});
       },
       {f32({1, 2, 4, 4}), f32({2}), f32({2}), f32({2}), f32({2})}},
      {"CtcBeamSearchDecoder",
       [](Fixture& f) {
         return f.g.ctcbeamsearchdecoder(f.sequence, f.i64({2}, {5, 5}), {.topPaths = 4});
       },
       {f32({2, 4}), {DType::U32, Shape{2, 4}}, {DType::U32, Shape{2, 4, 5}}}},
      op(
          "ShapedDropout",
          [](Fixture& f) {
            return f.g.shapeddropout(f.x, {1, 3}, 0.25);
          },
          kSame),
      {"SplineBasis",
       [](Fixture& f) {
         return f.g.splinebasis(f.x, f.i64({3}, {2, 2, 2}), f.i64({3}, {1, 1, 1}), 1);
       },
       {f32({2, 8}), i64({2, 8})}},
      op(
          "SplineWeighting",
          [](Fixture& f) {
            return f.g.splineweighting(
                f.x, f.ones({4, 3, 5}), f.ones({2, 2}), f.i64({2, 2}, {0, 1, 2, 3}));
          },
          f32({2, 5})),
      op(
          "Ctc",
          [](Fixture& f) {
            const TensorId targets = f.i64({2, 2}, {1, 2, 2, 1});
            return f.g.ctcloss(f.sequence, {targets, f.i64({2}, {5, 5}), f.i64({2}, {2, 2})}, {});
          },
          f32({})),
      op(
          "GroupNormalization",
          [](Fixture& f) { return f.g.groupnormalization(f.image, f.ones({2}), f.ones({2}), 2); },
          f32({1, 2, 4, 4})),
      op(
          "IdentityLoss", [](Fixture& f) { return f.g.identityloss(f.x); }, f32({})),
      op(
          "L1", [](Fixture& f) { return f.g.l1loss(f.x); }, f32({})),
      {"MultiConv",
       [](Fixture& f) {
         return f.g.multiconv({{f.image, f.ones({3, 2, 2, 2}), {}},
                               {f.image, f.ones({2, 1, 3, 3}), {.pads = {1, 1, 1, 1}}}});
       },
       {f32({1, 3, 3, 3}), f32({1, 2, 4, 4})}},
      op(
          "Nll",
          [](Fixture& f) {
            return f.g.nllloss(f.x, f.i64({2}, {0, 2}));
          },
          f32({})),
  };
}

std::vector<Case> vendorIndexingCases() {
  return {
      op("Bucketize",
         [](Fixture& f) {
           return f.g.bucketize(f.x, f.f32({2}, {0, 1}));
         },
         {DType::I32, Shape{2, 3}}),
      op(
          "DynamicAdd",
          [](Fixture& f) {
            return f.g.dynamicadd(f.x, f.i64({1}, {1}), f.ones({1, 3}), {{0}, {1}});
          },
          kSame),
      op(
          "DynamicSlice",
          [](Fixture& f) {
            return f.g.dynamicslice(f.x, f.i64({1}, {1}), {{1}, {2}});
          },
          f32({2, 2})),
      op(
          "DynamicUpdate",
          [](Fixture& f) {
            return f.g.dynamicupdate(f.x, f.i64({1}, {1}), f.ones({1, 3}), {{0}, {1}});
          },
          kSame),
      op(
          "DynamicZero",
          [](Fixture& f) {
            return f.g.dynamiczero(f.x, f.i64({1}, {1}), {{0}, {1}});
          },
          kSame),
      op("Histogram",
         [](Fixture& f) {
           return f.g.histogram(f.x, {0, 0.1, 1});
         },
         {DType::U32, Shape{4}}),
      op(
          "Reshape",
          [](Fixture& f) {
            return f.g.reshape(f.x, {3, 2});
          },
          f32({3, 2})),
      op(
          "Reverse", [](Fixture& f) { return f.g.reverse(f.x, {1}); }, kSame),
      op(
          "ScatterReduce",
          [](Fixture& f) {
            return f.g.scatterreduce(f.x, f.i64({2, 3}, {1}), {.axis = 1, .axisSize = 5});
          },
          f32({2, 5})),
      op(
          "SequenceSlice",
          [](Fixture& f) {
            const TensorId one = f.i64({1}, {1});
            return f.g.sequenceslice(f.x, f.square, {one, one, one}, true);
          },
          f32({3, 3})),
      {"Sort", [](Fixture& f) { return f.g.sort(f.x); }, {kSame, i64({2, 3})}},
      op(
          "Subsample",
          [](Fixture& f) {
            return f.g.subsample(f.x, {1, 2});
          },
          f32({2, 2})),
  };
}

}  // namespace sluice::opcases
