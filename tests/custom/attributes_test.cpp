// Attributes of custom ops: the six kinds reach the library as they were given, everything else is
// refused.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/custom/test_library.h"
#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::use;
using Attributes = std::vector<ops::CustomAttribute>;

/// What the op `Attributes` got to see: floats, integers and characters in a row.
std::vector<double> seen(Attributes attributes) {
  testing::loadTestOps();
  onnx::ImportedModel model;
  ir::GraphBuilder b(model.graph);
  model.graph.addOutput("y", ops::customOp(b, {}, use("Attributes", std::move(attributes)))[0]);
  return testing::resultOf(model, {});
}

std::string refusal(Attributes attributes) {
  return messageOf([&] { seen(std::move(attributes)); });
}

TEST(CustomAttributes, OfAllSixKindsReachTheLibrary) {
  EXPECT_THAT(seen({{"real", 1.5},
                    {"integer", 42},
                    {"text", "xy"},
                    {"reals", {0.5, -2.0}},
                    {"integers", {-1, 0, 7}},
                    {"texts", {"p", "", "qr"}}}),
              ElementsAre(1.5, 42, 'x', 'y', 0.5, -2, -1, 0, 7, 'p', 'q', 'r'));
}

TEST(CustomAttributes, HaveTheDefaultsThatTheLibraryDeclares) {
  EXPECT_THAT(seen({}), ElementsAre(0.5, -7, 'a', 'b', 0.25, -1.5, 3, 4, 'c', 'd', 'e'));
  // A list that is given is given, even if it is empty.
  EXPECT_THAT(seen({{"text", ""}, {"reals", {}}, {"integers", {}}, {"texts", {}}}),
              ElementsAre(0.5, -7));
}

TEST(CustomAttributes, FloatsHave32Bits) {
  const double third = 1.0 / 3;
  EXPECT_EQ(seen({{"real", third}})[0], static_cast<double>(static_cast<float>(third)));
  EXPECT_EQ(seen({{"real", 0.1F}})[0], static_cast<double>(0.1F));
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(seen({{"real", -largest}})[0], -static_cast<double>(largest));
  EXPECT_TRUE(std::isinf(seen({{"real", std::numeric_limits<double>::infinity()}})[0]));
  EXPECT_THAT(refusal({{"real", 1e40}}), AllOf(HasSubstr("'real'"), HasSubstr("out of range")));
  EXPECT_THAT(refusal({{"reals", {1.0, -1e300}}}),
              AllOf(HasSubstr("'reals'"), HasSubstr("out of range")));
}

TEST(CustomAttributes, IntegersHave64Bits) {
  const std::int64_t large = std::int64_t{1} << 52;
  EXPECT_EQ(seen({{"integer", large}})[1], static_cast<double>(large));
  EXPECT_EQ(seen({{"integers", std::vector<std::int64_t>{-large}}})[6],
            static_cast<double>(-large));
  EXPECT_THAT(messageOf([] { ops::AttrValue(std::numeric_limits<std::uint64_t>::max()); }),
              HasSubstr("64 bits"));
}

TEST(CustomAttributes, TextsAreAscii) {
  EXPECT_THAT(refusal({{"text", "caf\xc3\xa9"}}), AllOf(HasSubstr("'text'"), HasSubstr("ASCII")));
  EXPECT_THAT(refusal({{"texts", {"plain", "\xc3\xa9"}}}),
              AllOf(HasSubstr("'texts'"), HasSubstr("ASCII")));
  EXPECT_THAT(seen({{"text", std::string("\0z", 2)}})[2], 0);
}

TEST(CustomAttributes, ListsAreOfOneKind) {
  EXPECT_THAT(refusal({{"reals", {1, 2.5}}}),
              AllOf(HasSubstr("attribute 'reals'"), HasSubstr("mixes int and real")));
  EXPECT_THAT(refusal({{"texts", {"a", 1}}}), HasSubstr("mixes text and int"));
  EXPECT_THAT(refusal({{"integers", {ops::AttrValue{1, 2}, 3}}}), HasSubstr("holds a list"));
}

TEST(CustomAttributes, OfOtherTypesAreRefused) {
  EXPECT_THAT(refusal({{"integer", true}}), AllOf(HasSubstr("'integer'"), HasSubstr("got a bool")));
  EXPECT_THAT(refusal({{"integers", {true, false}}}), HasSubstr("holds a bool"));
  EXPECT_THAT(refusal({{"reals", ir::Attr(HostTensor(DType::F32, Shape{2}))}}),
              HasSubstr("got a tensor"));
  EXPECT_THAT(refusal({{"text", ir::Attr(std::make_shared<const ir::Graph>())}}),
              HasSubstr("got a subgraph"));
}

TEST(CustomAttributes, AreThoseThatWereDeclared) {
  EXPECT_THAT(refusal({{"really", 1.0}}),
              AllOf(HasSubstr("'really' is unknown"), HasSubstr("texts")));
  EXPECT_THAT(refusal({{"real", 1}}), HasSubstr("must be of kind real, got int"));
  EXPECT_THAT(refusal({{"real", {1.0}}}), HasSubstr("must be of kind real, got reals"));
  EXPECT_THAT(refusal({{"real", {}}}), HasSubstr("must be of kind real, got ints"));
  EXPECT_THAT(refusal({{"real", 1.0}, {"real", 2.0}}), HasSubstr("given twice"));
  ir::Graph graph;
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("x", {DType::F32, Shape{1}});
  EXPECT_THAT(messageOf([&] { ops::customOp(b, {x}, use("Required")); }),
              HasSubstr("'factor' is missing"));
  EXPECT_EQ(ops::customOp(b, {x}, use("Required", {{"factor", 2}})).size(), 1U);
}

}  // namespace
}  // namespace sluice
