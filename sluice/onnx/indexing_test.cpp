// What the translations of indexing, image and vendor ops make of models that the standard's own
// cases do not have, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "sluice/onnx/files.h"
#include "sluice/onnx/non_max_suppression.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/message_of.h"

namespace sluice::onnx {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Text {
  std::string graph;
  int opset = 17;
};

ImportedModel import(const Text& text, const ImportOptions& options = {}) {
  const std::string header =
      fmt::format("<ir_version: 8, opset_import: [\"\" : {}, \"ai.graphcore\" : 1]>\n", text.opset);
  pb::ModelProto model;
  const auto status = pb::OnnxParser::Parse(model, (header + text.graph).c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  const std::string bytes = model.SerializeAsString();
  return importModelBytes(std::as_bytes(std::span(bytes)), options);
}

/// The first output.
HostTensor run(const Text& text, const ops::TensorMap& inputs, const ImportOptions& options = {}) {
  const ImportedModel model = import(text, options);
  ops::TensorMap none;
  return ops::evaluate(model.graph, inputs, none).at(model.graph.outputs()[0].name);
}

std::string indexingRefusal(const Text& text) {
  return messageOf<Error>([&] { import(text); });
}

HostTensor counting(const Shape& shape) {
  HostTensor tensor(DType::F32, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, static_cast<double>(i + 1));
  }
  return tensor;
}

HostTensor ints(std::initializer_list<std::int64_t> values) {
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

HostTensor uints(std::initializer_list<std::uint32_t> values) {
  return HostTensor::of<std::uint32_t>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

TEST(OnnxPad, NegativePadsCut) {
  const HostTensor y = run({R"(
    main (float[2, 4] x) => (float y) {
      pads = Constant<value_ints: ints = [0, -1, 0, 2]>()
      y = Pad(x, pads)
    })"},
                           {{"x", counting({2, 4})}});
  EXPECT_EQ(y.shape(), Shape({2, 5}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(2, 3, 4, 0, 0, 6, 7, 8, 0, 0));
}

TEST(OnnxPad, TheValueMayBeComputed) {
  const HostTensor y = run({R"(
    main (float[2] x, float v) => (float y) {
      pads = Constant<value_ints: ints = [1, 1]>()
      y = Pad(x, pads, v)
    })"},
                           {{"x", counting({2})}, {"v", HostTensor::scalar(7.0F)}});
  EXPECT_THAT(y.toDoubles(), ElementsAre(7, 1, 2, 7));
}

TEST(OnnxPad, RefusesPadsThatDoNotFit) {
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x) => (float y) {
      pads = Constant<value_ints: ints = [-2, -1]>()
      y = Pad(x, pads)
    })"}),
              HasSubstr("cut more than"));
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x) => (float y) {
      pads = Constant<value_ints: ints = [1]>()
      y = Pad(x, pads)
    })"}),
              HasSubstr("expected 2 pads"));
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x, float[2] v) => (float y) {
      pads = Constant<value_ints: ints = [1, 1]>()
      y = Pad(x, pads, v)
    })"}),
              HasSubstr("one number"));
}

TEST(OnnxTile, TheFirstVersionRepeatsOneAxis) {
  const HostTensor y = run({R"(
    main (float[2, 1] x) => (float y) {
      tiles = Constant<value = float {3.0}>()
      axis = Constant<value = float {1.0}>()
      y = Tile(x, tiles, axis)
    })",
                            5},
                           {{"x", counting({2, 1})}});
  EXPECT_THAT(y.toDoubles(), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(OnnxTopK, TheFirstVersionHasKAsAnAttribute) {
  const HostTensor y = run({R"(
    main (float[4] x) => (float y, int64 i) {
      y, i = TopK<axis = 0, k = 2>(x)
    })",
                            9},
                           {{"x", counting({4})}});
  EXPECT_THAT(y.toDoubles(), ElementsAre(4, 3));
}

TEST(OnnxUnique, OfComputedValuesHasNoShape) {
  const Text model{R"(
    main (float[3] x) => (float y) {
      r = Relu(x)
      y = Unique(r)
    })"};
  EXPECT_THAT(indexingRefusal(model), HasSubstr("shape depends on computed values"));
  ImportOptions bound;
  bound.constants.emplace("x", HostTensor::of<float>({3}, {2, -1, 2}));
  EXPECT_THAT(run(model, {}, bound).toDoubles(), ElementsAre(0, 2));
}

TEST(OnnxCompress, RefusesAConditionLongerThanTheAxis) {
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x) => (float y) {
      c = Constant<value = bool[3] {1, 0, 1}>()
      y = Compress<axis = 0>(x, c)
    })"}),
              HasSubstr("longer than axis 0"));
}

TEST(OnnxOneHot, RefusesOperandsThatAreNoNumbersOfTheirKind) {
  EXPECT_THAT(indexingRefusal({R"(
    main (int64[2] i, float[2] v) => (float y) {
      depth = Constant<value_ints: ints = [2, 3]>()
      y = OneHot(i, depth, v)
    })"}),
              HasSubstr("operand 1 must be one whole number"));
  EXPECT_THAT(indexingRefusal({R"(
    main (int64[2] i, float[3] v) => (float y) {
      depth = Constant<value_ints: ints = [2]>()
      y = OneHot(i, depth, v)
    })"}),
              HasSubstr("[off, on]"));
}

TEST(OnnxResize, OlderVersionsTakeTheElementBelow) {
  const char* graph = R"(
    main (float[1, 1, 1, 2] x) => (float y) {
      scales = Constant<value = float[4] {1.0, 1.0, 1.0, 1.5}>()
      y = Resize(x, scales)
    })";
  EXPECT_THAT(run({graph, 10}, {{"x", counting({1, 1, 1, 2})}}).toDoubles(), ElementsAre(1, 1, 2));
}

TEST(OnnxResize, NeedsScalesOrSizesThatFit) {
  EXPECT_THAT(indexingRefusal({"main (float[2, 2] x) => (float y) { y = Resize(x) }"}),
              HasSubstr("scales or sizes"));
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x) => (float y) {
      scales = Constant<value = float[2] {1.0, 2.0}>()
      y = Resize(x, , scales)
    })"}),
              HasSubstr("expected 1 scales"));
  EXPECT_THAT(indexingRefusal({R"(
    main (float[2] x) => (float y) {
      scales = Constant<value = float[1] {-1.0}>()
      y = Resize(x, , scales)
    })"}),
              HasSubstr("not possible"));
}

TEST(OnnxMaxUnpool, RefusesShapesThatDoNotFit) {
  EXPECT_THAT(indexingRefusal({R"(
    main (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i) => (float y) {
      y = MaxUnpool<kernel_shape = [2]>(x, i)
    })"}),
              HasSubstr("spatial axes"));
  EXPECT_THAT(indexingRefusal({R"(
    main (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i) => (float y) {
      s = Constant<value_ints: ints = [1, 1, 3, 3]>()
      y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i, s)
    })"}),
              HasSubstr("at least"));
}

TEST(OnnxDepthToSpace, RefusesOtherModes) {
  EXPECT_THAT(indexingRefusal({R"(main (float[1, 4, 1, 1] x) => (float y) {
        y = DepthToSpace<blocksize = 2, mode = "RGB">(x)
      })"}),
              HasSubstr("DCR or CRD"));
}

TEST(NonMaxSuppression, RefusesShapesThatDoNotFit) {
  EXPECT_THAT(
      messageOf([] {
        nonMaxSuppression(HostTensor(DType::F32, {1, 3, 4}), HostTensor(DType::F32, {1, 1, 2}), {});
      }),
      HasSubstr("expected boxes"));
}

TEST(VendorOps, MoveBlocksAtOffsetsThatAreOperands) {
  const ops::TensorMap inputs = {
      {"x", counting({4})}, {"i", uints({1})}, {"u", HostTensor::of<float>({2}, {10, 20})}};
  const auto result = [&](const std::string& node, const std::string& operands) {
    return run({"main (float[4] x, uint32[1] i, float[2] u) => (float y) { y = ai.graphcore." +
                node + "<axes = [0], sizes = [2]>(" + operands + ") }"},
               inputs)
        .toDoubles();
  };
  EXPECT_THAT(result("DynamicSlice", "x, i"), ElementsAre(2, 3));
  EXPECT_THAT(result("DynamicUpdate", "x, i, u"), ElementsAre(1, 10, 20, 4));
  EXPECT_THAT(result("DynamicAdd", "x, i, u"), ElementsAre(1, 12, 23, 4));
  EXPECT_THAT(result("DynamicZero", "x, i"), ElementsAre(1, 0, 0, 4));
}

TEST(VendorOps, SequenceSliceMovesRunsOfRows) {
  const ops::TensorMap inputs = {{"s", counting({4, 1})},
                                 {"d", HostTensor::of<float>({3, 1}, {7, 8, 9})},
                                 {"n", uints({2})},
                                 {"a", uints({2})},
                                 {"b", uints({1})}};
  const auto result = [&](const std::string& attrs) {
    return run({"main (float[4, 1] s, float[3, 1] d, uint32[1] n, uint32[1] a, uint32[1] b) => "
                "(float y) { y = ai.graphcore.SequenceSlice" +
                attrs + "(s, d, n, a, b) }"},
               inputs)
        .toDoubles();
  };
  EXPECT_THAT(result("<zeroUnused = 0>"), ElementsAre(7, 3, 4));
  EXPECT_THAT(result("<zeroUnused = 1>"), ElementsAre(0, 3, 4));
}

TEST(VendorOps, CountAndSort) {
  const ops::TensorMap inputs = {{"x", HostTensor::of<float>({5}, {3, -1, 0.5, 2, -4})}};
  const auto result = [&](const std::string& node) {
    return run({"main (float[5] x) => (float y) { y = ai.graphcore." + node + "(x) }"}, inputs);
  };
  const HostTensor counts = result("Histogram<levels = [0.0, 2.0]>");
  EXPECT_EQ(counts.dtype(), DType::U32);
  EXPECT_THAT(counts.toDoubles(), ElementsAre(2, 1, 2));
  EXPECT_THAT(result("Histogram<levels = [0.0, 2.0], absoluteOfInput = 1>").toDoubles(),
              ElementsAre(0, 2, 3));
  EXPECT_THAT(result("Sort<axis = 0>").toDoubles(), ElementsAre(-4, -1, 0.5, 2, 3));
  EXPECT_THAT(result("Sort<axis = 0, descending = 1>").toDoubles(), ElementsAre(3, 2, 0.5, -1, -4));
  EXPECT_THAT(result("Subsample<strides = [2]>").toDoubles(), ElementsAre(3, 0.5, -4));
  EXPECT_THAT(result("Reshape<shape = [1, 5]>").shape().dims(), ElementsAre(1, 5));
}

TEST(VendorOps, BucketizeCountsTheBoundariesBelow) {
  const HostTensor y = run(
      {R"(
    main (float[3] x, float[2] b) => (int32 y) { y = ai.graphcore.Bucketize<right = 1>(x, b) })"},
      {{"x", HostTensor::of<float>({3}, {-1, 0, 5})}, {"b", HostTensor::of<float>({2}, {0, 2})}});
  EXPECT_EQ(y.dtype(), DType::I32);
  EXPECT_THAT(y.toDoubles(), ElementsAre(0, 1, 2));
}

TEST(VendorOps, ScatterReduceCombinesByIndex) {
  const ops::TensorMap inputs = {{"x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4})},
                                 {"i", ints({1, 1})}};
  const auto by = [&](const std::string& reduction) {
    return run({"main (float[2, 2] x, int64[2] i) => (float y) { y = ai.graphcore.ScatterReduce<"
                "axis = 0, axis_size = 3, reduction = \"" +
                reduction + "\">(x, i) }"},
               inputs)
        .toDoubles();
  };
  EXPECT_THAT(by("sum"), ElementsAre(0, 0, 4, 6, 0, 0));
  EXPECT_THAT(by("max"), ElementsAre(0, 0, 3, 4, 0, 0));
  EXPECT_THAT(by("min"), ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_THAT(by("mul"), ElementsAre(1, 1, 3, 8, 1, 1));
}

TEST(VendorOps, RefuseWhatHasNoMeaning) {
  const auto refused = [](const std::string& type, const std::string& node) {
    return indexingRefusal(
        {"main (" + type + " x) => (float y) { y = ai.graphcore." + node + " }"});
  };
  EXPECT_THAT(refused("float[4]", "Subsample<strides = [0]>(x)"), HasSubstr("at least 1"));
  EXPECT_THAT(refused("float[4]", "Histogram<levels = [2.0, 1.0]>(x)"), HasSubstr("sorted"));
  EXPECT_THAT(refused("int32[4]", "ScatterReduce<axis_size = 4, reduction = \"max\">(x, x)"),
              HasSubstr("initial values"));
  EXPECT_THAT(refused("int32[4]", "ScatterReduce<axis_size = 4, group_size = 2>(x, x)"),
              HasSubstr("in groups"));
  EXPECT_THAT(refused("float", "SequenceSlice(x, x, x, x, x)"), HasSubstr("must have rows"));
}

}  // namespace
}  // namespace sluice::onnx
