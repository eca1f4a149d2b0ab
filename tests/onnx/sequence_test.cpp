// Sequences of tensors are resolved while a model is imported. The text form has no type for them;
// the importer does not read the types of a body.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The result y of a graph over doubles a [2], b [2], c [2].
std::vector<double> result(const std::string& nodes) {
  const auto model =
      importText("g (double[2] a, double[2] b, double[2] c) => (double[N] y) {" + nodes + "}");
  return resultOf(model, {{"a", doubles({1, 2})}, {"b", doubles({3, 4})}, {"c", doubles({5, 6})}});
}

TEST(Sequences, AreReadAtKnownPositions) {
  EXPECT_THAT(result(R"(s = SequenceConstruct(a, b, c)
                        i = Constant <value = int64 {-2}> ()
                        y = SequenceAt(s, i))"),
              ElementsAre(3, 4));
  EXPECT_THAT(result(R"(s = SequenceConstruct(a, b, c)
                        n = SequenceLength(s)
                        d = Cast <to = 11> (n)
                        y = Mul(a, d))"),
              ElementsAre(3, 6));
}

TEST(Sequences, GrowAndShrink) {
  EXPECT_THAT(result(R"(e = SequenceEmpty <dtype = 11> ()
                        s1 = SequenceInsert(e, a)
                        zero = Constant <value = int64 {0}> ()
                        s2 = SequenceInsert(s1, b, zero)
                        s3 = SequenceInsert(s2, c)
                        y = ConcatFromSequence <axis = 0> (s3))"),
              ElementsAre(3, 4, 1, 2, 5, 6));
  EXPECT_THAT(result(R"(s = SequenceConstruct(a, b, c)
                        zero = Constant <value = int64 {0}> ()
                        s1 = SequenceErase(s, zero)
                        s2 = SequenceErase(s1)
                        y = ConcatFromSequence <axis = 0> (s2))"),
              ElementsAre(3, 4));
}

TEST(Sequences, AreSplitAndJoined) {
  // The columns of [[1, 2], [3, 4], [5, 6]] through a new axis of three rows.
  EXPECT_THAT(result(R"(s = SequenceConstruct(a, b, c)
                        m = ConcatFromSequence <axis = 0, new_axis = 1> (s)
                        t = SplitToSequence <axis = 1, keepdims = 0> (m)
                        i = Constant <value = int64 {1}> ()
                        y = SequenceAt(t, i))"),
              ElementsAre(2, 4, 6));
  // Pieces of three elements: the last has one.
  EXPECT_THAT(result(R"(m = Concat <axis = 0> (a, b)
                        three = Constant <value = int64 {3}> ()
                        t = SplitToSequence <axis = 0> (m, three)
                        i = Constant <value = int64 {1}> ()
                        y = SequenceAt(t, i))"),
              ElementsAre(4));
}

TEST(Sequences, GoThroughLoopsAndBranches) {
  EXPECT_THAT(result(R"(m = Constant <value = int64 {3}> ()
                        e = SequenceEmpty <dtype = 11> ()
                        s = Loop (m, _, e) <body = b (int64 i, bool go, double[2] v)
                            => (bool go, double[2] w) {
                          k = Cast <to = 11> (i)
                          row = Mul(a, k)
                          w = SequenceInsert(v, row)
                        }>
                        y = ConcatFromSequence <axis = 0> (s))"),
              ElementsAre(0, 0, 1, 2, 2, 4));
}

TEST(Sequences, AreMapped) {
  EXPECT_THAT(result(R"(s = SequenceConstruct(b, c)
                        t = SequenceMap <body = f (double[2] p, double[2] q) => (double[2] r) {
                          r = Mul(p, q)
                        }> (s, a)
                        y = ConcatFromSequence <axis = 0> (t))"),
              ElementsAre(3, 8, 5, 12));
}

TEST(Sequences, AreChosenByAComputedConditionIfTheyAreAsLong) {
  const auto import = [](const std::string& other) {
    return importText(R"(g (bool p, double[2] a, double[2] b) => (double[2] y) {
      s = If (p) <then_branch = t () => (double[2] u) { u = SequenceConstruct(a, b) },
                  else_branch = e () => (double[2] v) { v = SequenceConstruct()" +
                      other + R"() }>
      i = Constant <value = int64 {1}> ()
      y = SequenceAt(s, i)
    })");
  };
  const auto model = import("b, a");
  const ops::TensorMap inputs = {{"a", doubles({1, 2})}, {"b", doubles({3, 4})}};
  for (const bool value : {true, false}) {
    ops::TensorMap all = inputs;
    all.emplace("p", HostTensor::scalar(value));
    EXPECT_EQ(resultOf(model, all)[0], value ? 3 : 1);
  }
  EXPECT_THAT(messageOf<Unsupported>([&] { import("b"); }),
              HasSubstr("shape depends on computed values"));
}

TEST(Sequences, AreRefusedWhereTheyDoNotBelong) {
  EXPECT_THAT(messageOf<Unsupported>([] { result("y = SequenceConstruct(a, b)"); }),
              HasSubstr("output 'y' of the model is a sequence"));
  EXPECT_THAT(messageOf<Unsupported>([] { result("s = SequenceConstruct(a) y = Neg(s)"); }),
              HasSubstr("operand 0 is a sequence"));
  EXPECT_THAT(messageOf([] { result("y = ConcatFromSequence <axis = 0> (a)"); }),
              HasSubstr("expected a sequence"));
  EXPECT_THAT(
      messageOf([] { result("e = SequenceEmpty() y = ConcatFromSequence <axis = 0> (e)"); }),
      HasSubstr("empty sequence"));
  EXPECT_THAT(messageOf([] {
                result(
                    "s = SequenceConstruct(a) i = Constant <value = int64 {1}> () y = "
                    "SequenceAt(s, i)");
              }),
              HasSubstr("position 1 is outside of a sequence of 1"));
  EXPECT_THAT(messageOf([] {
                result(
                    "z = Constant <value = int64 {0}> () s = SplitToSequence(a, z) y = "
                    "SequenceAt(s, z)");
              }),
              HasSubstr("extent of 1 or more"));
  EXPECT_THAT(messageOf<Unsupported>([] {
                result(R"(m = Constant <value = int64 {2}> ()
                          y = Loop (m, _) <body = b (int64 i, bool go)
                              => (bool go, double[2] w) { w = SequenceConstruct(a) }>)");
              }),
              HasSubstr("rows that are sequences"));
}

}  // namespace
}  // namespace sluice::testing
