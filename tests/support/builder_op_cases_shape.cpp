// Cases of AiOnnx: reductions, indices, shapes, images, random numbers and sequences.
#include "tests/support/builder_op_cases.h"

namespace sluice::opcases {
namespace {

Case reduced(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&, const Ints&, bool)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.x, {1}, true)}; }, {f32({2, 1})}};
}

RecurrentTensors weights(Fixture& f, std::int64_t gates) {
  return {.w = f.ones({1, gates * 4, 3}), .r = f.ones({1, gates * 4, 4})};
}

}  // namespace

std::vector<Case> reductionCases() {
  return {
      reduced("ReduceL1", &AiOnnx::reducel1),
      reduced("ReduceL2", &AiOnnx::reducel2),
      reduced("ReduceLogSum", &AiOnnx::reducelogsum),
      reduced("ReduceLogSumExp", &AiOnnx::reducelogsumexp),
      reduced("ReduceMax", &AiOnnx::reducemax),
      reduced("ReduceMean", &AiOnnx::reducemean),
      reduced("ReduceMin", &AiOnnx::reducemin),
      reduced("ReduceProd", &AiOnnx::reduceprod),
      reduced("ReduceSum", &AiOnnx::reducesum),
      reduced("ReduceSumSquare", &AiOnnx::reducesumsquare),
      op(
          "ArgMax", [](Fixture& f) { return f.o.argmax(f.x, {.axis = 1}); }, i64({2, 1})),
      op(
          "ArgMin", [](Fixture& f) { return f.o.argmin(f.x, {.keepdims = false}); }, i64({3})),
      op(
          "CumSum", [](Fixture& f) { return f.o.cumsum(f.x, 1); }, kSame),
  };
}

std::vector<Case> indexingCases() {
  return {
      op(
          "Compress",
          [](Fixture& f) {
            return f.o.compress(f.x, f.flag({1, 0, 1}), 1);
          },
          f32({2, 2})),
      op(
          "Gather", [](Fixture& f) { return f.o.gather(f.x, f.i64({1}, {1})); }, f32({1, 3})),
      op(
          "GatherElements",
          [](Fixture& f) {
            return f.o.gatherelements(f.x, f.i64({1, 3}, {1}));
          },
          f32({1, 3})),
      op(
          "GatherND",
          [](Fixture& f) {
            return f.o.gathernd(f.x, f.i64({4, 1}, {1}));
          },
          f32({4, 3})),
      op(
          "NonZero",
          [](Fixture& f) {
            return f.o.nonzero(f.i64({2, 2}, {1, 0, 1, 1}));
          },
          i64({2, 3})),
      op(
          "OneHot",
          [](Fixture& f) {
            return f.o.onehot(f.i64({2}, {0, 1}), 4, f.f32({2}, {0, 1}));
          },
          f32({2, 4})),
      op(
          "ReverseSequence",
          [](Fixture& f) {
            return f.o.reversesequence(f.sequence, f.i64({2}, {3, 5}));
          },
          f32({5, 2, 3})),
      op(
          "Scatter",
          [](Fixture& f) {
            return f.o.scatter(f.x, f.i64({1, 3}, {1}), f.ones({1, 3}));
          },
          kSame),
      op(
          "ScatterElements",
          [](Fixture& f) {
            return f.o.scatterelements(f.x, f.i64({1, 3}, {1}), f.ones({1, 3}), 0, "add");
          },
          kSame),
      op(
          "ScatterND",
          [](Fixture& f) {
            return f.o.scatternd(f.x, f.i64({1, 1}, {1}), f.ones({1, 3}), "mul");
          },
          kSame),
      {"TopK", [](Fixture& f) { return f.o.topk(f.x, 2); }, {f32({2, 2}), i64({2, 2})}},
      op(
          "Trilu", [](Fixture& f) { return f.o.trilu(f.square, 1); }, f32({3, 3})),
      {"Unique",
       [](Fixture& f) {
         return f.o.unique(f.i64({4}, {3, 1, 3, 1}));
       },
       {i64({2}), i64({2}), i64({4}), i64({2})}},
  };
}

std::vector<Case> shapeCases() {
  return {
      op(
          "Concat",
          [](Fixture& f) {
            return f.o.concat({f.x, f.x}, 0);
          },
          f32({4, 3})),
      op("Constant",
         [](Fixture& f) { return f.o.constant(HostTensor(DType::U8, Shape{7})); },
         {DType::U8, Shape{7}}),
      op(
          "ConstantOfShape",
          [](Fixture& f) {
            return f.o.constantofshape({2, 5}, HostTensor::scalar(std::int64_t{3}));
          },
          i64({2, 5})),
      op(
          "DepthToSpace",
          [](Fixture& f) {
            return f.o.depthtospace(f.ones({1, 4, 2, 3}), 2, "CRD");
          },
          f32({1, 1, 4, 6})),
      op(
          "Expand",
          [](Fixture& f) {
            return f.o.expand(f.x, {4, 1, 1});
          },
          f32({4, 2, 3})),
      op(
          "EyeLike", [](Fixture& f) { return f.o.eyelike(f.x, 1, DType::I64); }, i64({2, 3})),
      op(
          "Flatten", [](Fixture& f) { return f.o.flatten(f.sequence); }, f32({5, 6})),
      op(
          "Pad",
          [](Fixture& f) {
            return f.o.pad(f.x, {1, 0, 0, -1}, {.value = 2});
          },
          f32({3, 2})),
      op(
          "Range",
          [](Fixture& f) { return f.o.range(f.i64({}, {1}), f.i64({}, {8}), f.i64({}, {3})); },
          i64({3})),
  };
}

std::vector<Case> reshapingCases() {
  return {
      op(
          "Reshape",
          [](Fixture& f) {
            return f.o.reshape(f.x, {3, -1});
          },
          f32({3, 2})),
      op(
          "Shape", [](Fixture& f) { return f.o.shape(f.image); }, i64({4})),
      op(
          "Size", [](Fixture& f) { return f.o.size(f.image); }, i64({})),
      op(
          "Slice",
          [](Fixture& f) {
            return f.o.slice(f.x, {{1, 0, 2}});
          },
          f32({2, 2})),
      op(
          "SpaceToDepth",
          [](Fixture& f) { return f.o.spacetodepth(f.image, 2); },
          f32({1, 8, 2, 2})),
      {"Split",
       [](Fixture& f) {
         return f.o.split(f.x, {1, 2}, 1);
       },
       {f32({2, 1}), f32({2, 2})}},
      op(
          "Squeeze", [](Fixture& f) { return f.o.squeeze(f.image); }, f32({2, 4, 4})),
      op(
          "Tile",
          [](Fixture& f) {
            return f.o.tile(f.x, {2, 1});
          },
          f32({4, 3})),
      op(
          "Transpose", [](Fixture& f) { return f.o.transpose(f.x); }, f32({3, 2})),
      op(
          "Unsqueeze", [](Fixture& f) { return f.o.unsqueeze(f.x, {0}); }, f32({1, 2, 3})),
  };
}

std::vector<Case> imageAndRandomCases() {
  return {
      op(
          "GridSample",
          [](Fixture& f) {
            return f.o.gridsample(f.image, f.ones({1, 3, 5, 2}), {.mode = "nearest"});
          },
          f32({1, 2, 3, 5})),
      op(
          "NonMaxSuppression",
          [](Fixture& f) {
            // Two boxes that are the same: one of them is left.
            const TensorId boxes = f.f32({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1});
            return f.o.nonmaxsuppression(
                boxes, f.f32({1, 1, 2}, {0.9, 0.8}), {.maxPerClass = 2, .iouThreshold = 0.5});
          },
          i64({1, 3})),
      op(
          "Resize",
          [](Fixture& f) {
            return f.o.resize(f.image, {.scales = {1, 1, 2, 0.5}, .mode = "linear"});
          },
          f32({1, 2, 8, 2})),
      op(
          "RoiAlign",
          [](Fixture& f) {
            return f.o.roialign(
                f.image, f.ones({3, 4}), f.i64({3}, {0}), {.rows = 2, .columns = 5});
          },
          f32({3, 2, 2, 5})),
      op(
          "Bernoulli", [](Fixture& f) { return f.o.bernoulli(f.x, DType::I64); }, i64({2, 3})),
      op(
          "Dropout", [](Fixture& f) { return f.o.dropout(f.x); }, kSame),
      op("Multinomial",
         [](Fixture& f) { return f.o.multinomial(f.x, 4); },
         {DType::I32, Shape{2, 4}}),
      op("RandomNormal",
         [](Fixture& f) {
           return f.o.randomnormal({DType::F64, Shape{2, 2}}, {.mean = 1});
         },
         {DType::F64, Shape{2, 2}}),
      op(
          "RandomNormalLike", [](Fixture& f) { return f.o.randomnormallike(f.x); }, kSame),
      op(
          "RandomUniform", [](Fixture& f) { return f.o.randomuniform(f32({})); }, f32({})),
      op(
          "RandomUniformLike",
          [](Fixture& f) { return f.o.randomuniformlike(f.whole, {}, DType::F32); },
          kSame),
  };
}

std::vector<Case> sequenceCases() {
  const TensorType all = f32({5, 1, 2, 4});
  const TensorType last = f32({1, 2, 4});
  return {
      {"GRU",
       [](Fixture& f) { return f.o.gru(f.sequence, weights(f, 3), {.linearBeforeReset = true}); },
       {all, last}},
      {"LSTM",
       [](Fixture& f) { return f.o.lstm(f.sequence, weights(f, 4), {.clip = 2}); },
       {all, last, last}},
      {"RNN",
       [](Fixture& f) {
         return f.o.rnn(
             f.sequence, weights(f, 1), {.activations = {"LeakyRelu"}, .activationAlpha = {0.1}});
       },
       {all, last}},
      op(
          "BlackmanWindow", [](Fixture& f) { return f.o.blackmanwindow(8); }, f32({8})),
      op("HammingWindow",
         [](Fixture& f) { return f.o.hammingwindow(8, {.dtype = DType::F64}); },
         {DType::F64, Shape{8}}),
      op(
          "HannWindow", [](Fixture& f) { return f.o.hannwindow(8); }, f32({8})),
      op(
          "DFT",
          [](Fixture& f) {
            return f.o.dft(f.ones({1, 8, 1}), {.onesided = true});
          },
          f32({1, 5, 2})),
      op(
          "STFT",
          [](Fixture& f) {
            return f.o.stft(f.ones({1, 16, 1}), {.frameStep = 4, .frameLength = 8});
          },
          f32({1, 3, 5, 2})),
      op(
          "MelWeightMatrix",
          [](Fixture& f) {
            return f.o.melweightmatrix(
                {.bins = 3, .dftLength = 16, .sampleRate = 8000, .upperEdge = 4000});
          },
          f32({9, 3})),
      op(
          "TfIdfVectorizer",
          [](Fixture& f) {
            return f.o.tfidfvectorizer(
                f.whole, {.pool = {2, 3}, .ngramCounts = {0}, .ngramIndexes = {0, 1}});
          },
          f32({2, 2})),
  };
}

}  // namespace sluice::opcases
