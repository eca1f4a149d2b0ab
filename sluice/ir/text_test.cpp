// The text form: round trips, and every error of the parser.
#include <bit>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/byte_code.h"
#include "sluice/base/error.h"
#include "sluice/ir/byte_form.h"
#include "sluice/ir/dot.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/number_text.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "tests/support/toy_ops.h"

namespace sluice::ir {
namespace {

using ::testing::HasSubstr;

Graph parseToy(std::string_view text) {
  return parse(text, toy::ops());
}

void expectSameNames(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name(), b.name());
  ASSERT_EQ(a.numOps(), b.numOps());
  for (std::size_t i = 0; i < a.numOps(); ++i) {
    EXPECT_EQ(a.op(a.order()[i]).name, b.op(b.order()[i]).name);
  }
}

void expectRoundTrip(const Graph& graph) {
  const std::string text = print(graph);
  const Graph again = parseToy(text);
  EXPECT_TRUE(structurallyEqual(graph, again)) << text;
  EXPECT_EQ(structuralHash(graph), structuralHash(again));
  expectSameNames(graph, again);
  EXPECT_EQ(print(again), text);
}

constexpr std::string_view kExample = R"(graph "mlp" {
  var "fc.weight": f32[256, 320] weight init uniform(-0.1, 0.1)
  var "steps": i64[] buffer init constant(0)
  var "w2": f32[2] weight frozen init tensor<f32[2] 1, 2>
  var "parts": f32[2] weight split 2 of f32[3] init tensor<f32[3] 1, 2, 3>
  %0 = input() "x" : f32[2]
  %1 = variable() {var="fc.weight"} "fc.weight" : f32[256, 320] block="B1" stage=0
  %2, %3 = toy_split(%0) {sizes=[1, 2]} "fc/split" : f32[1], f32[2] @backward device=1
  assign(%3) {var="w2"} : @update
  assign(%3) {var="w2", mode="sum"}
  %4 = toy_nested(%0) {body=graph "inner" {
    %0 = input() "in0" : f32[2]
    %1 = toy_sum(%0, %0) : f32[2]
    output "out0" = %1
  }} "call" : f32[2] phase=3
  output "loss" = %2
}
)";

TEST(Printer, WritesWhatTheParserRead) {
  EXPECT_EQ(print(parseToy(kExample)), kExample);
}

TEST(Parser, BuildsTheGraphThatTheTextDescribes) {
  const Graph graph = parseToy(kExample);
  EXPECT_EQ(graph.name(), "mlp");
  ASSERT_EQ(graph.variables().size(), 4U);
  EXPECT_EQ(graph.variables()[0].initializer, Initializer::uniform(-0.1, 0.1));
  EXPECT_EQ(graph.variables()[1].role, VariableRole::Buffer);
  EXPECT_FALSE(graph.variables()[2].trainable);
  EXPECT_EQ(graph.variables()[2].initializer.tensor.at(1), 2.0);
  EXPECT_EQ(graph.variables()[3].wholeType().shape, Shape{3});
  EXPECT_EQ(graph.variables()[3].initializer.tensor.at(2), 3.0);
  ASSERT_EQ(graph.numOps(), 6U);
  const Op& split = graph.op(graph.order()[2]);
  EXPECT_TRUE(split.is(toy::kSplit));
  EXPECT_EQ(split.inputs, std::vector<Value>{graph.op(graph.order()[0]).out()});
  EXPECT_EQ(split.outputs.size(), 2U);
  EXPECT_EQ(split.name, "fc/split");
  EXPECT_EQ(split.place, (Placement{.pass = Pass::Backward, .device = 1}));
  const Op& read = graph.op(graph.order()[1]);
  EXPECT_EQ(graph.blocks()[static_cast<std::size_t>(read.place.block)], "B1");
  EXPECT_EQ(graph.op(graph.order()[4]).attrs.text("mode"), "sum");
  EXPECT_EQ(graph.op(graph.order()[5]).attrs.subgraph("body").numOps(), 2U);
  ASSERT_EQ(graph.outputs().size(), 1U);
  EXPECT_EQ(graph.outputs()[0].value, split.out(0));
}

TEST(Parser, TakesAnyNumbersBlanksAndComments) {
  const Graph graph = parseToy(
      "graph\"g\"{%7=input()\"x\":f32[2]@forward // a comment\n%3 = toy_sum(%7,\r\n\t%7):f32[2]}");
  EXPECT_EQ(print(graph),
            "graph \"g\" {\n  %0 = input() \"x\" : f32[2]\n  %1 = toy_sum(%0, %0) : f32[2]\n}\n");
}

TEST(TextForm, RoundTripsRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    expectRoundTrip(toy::randomGraph(seed, 12));
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(TextForm, RoundTripsTheLimitsOfEveryDType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    dispatch(dtype, [&]<class T>(T) {
      std::vector<std::uint8_t> patterns = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
      if (dtype == DType::Bool) {
        patterns = {0, 1};
      }
      HostTensor tensor(dtype, Shape{static_cast<std::int64_t>(patterns.size())});
      for (std::size_t i = 0; i < tensor.byteCount(); ++i) {
        tensor.bytes()[i] = static_cast<std::byte>(patterns[i / sizeof(T)]);
      }
      Graph graph("g");
      GraphBuilder(graph).constant(tensor);
      expectRoundTrip(graph);
    });
  }
}

TEST(TextForm, RoundTripsEverySixteenBitFloat) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    HostTensor tensor(dtype, Shape{65536});
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(tensor.bytes() + 2 * i, &bits, 2);
    }
    Graph graph("g");
    GraphBuilder(graph).constant(tensor);
    const Graph again = parseToy(print(graph));
    EXPECT_TRUE(again.op(again.order()[0]).attrs.tensor("value").sameBits(tensor));
  }
}

TEST(TextForm, WritesRealsSoThatTheyDifferFromIntegers) {
  EXPECT_EQ(realTextWithPoint(1.0), "1.0");
  EXPECT_EQ(realTextWithPoint(-0.0), "-0.0");
  EXPECT_EQ(realTextWithPoint(0.1), "0.1");
  EXPECT_EQ(realTextWithPoint(1e300), "1e+300");
  EXPECT_EQ(realTextWithPoint(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(realTextWithPoint(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(realTextWithPoint(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(realText(std::bit_cast<float>(0xffc00001U)), "nan(0xffc00001)");
}

TEST(TextForm, RoundTripsTheSmallestDoubles) {
  for (const double value : {std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::max()}) {
    EXPECT_EQ(parseReal<double>(realText(value)), value);
  }
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(parseReal<float>(realText(smallest)), smallest);
}

TEST(Dot, HasABoxForEachOpAndAnArrowForEachOperand) {
  const Graph graph = parseToy(kExample);
  const std::string text = printDot(graph);
  EXPECT_THAT(text, ::testing::StartsWith("digraph \"" + graph.name() + "\" {"));
  std::size_t boxes = 0;
  std::size_t arrows = 0;
  for (std::size_t at = text.find("fillcolor=\"#"); at != std::string::npos;
       at = text.find("fillcolor=\"#", at + 1)) {
    ++boxes;
  }
  for (std::size_t at = text.find(" -> op"); at != std::string::npos;
       at = text.find(" -> op", at + 1)) {
    ++arrows;
  }
  std::size_t operands = 0;
  for (const OpId id : graph.order()) {
    operands += graph.op(id).inputs.size();
  }
  EXPECT_EQ(boxes, graph.numOps());
  EXPECT_EQ(arrows, operands);
}

TEST(Printer, LeavesOutDefaults) {
  Graph graph("g");
  GraphBuilder(graph).add(toy::kAttrs, {}, {{"int", 3}, {"real", 1.0}});
  EXPECT_THAT(print(graph), HasSubstr("toy_attrs() {real=1.0} \"toy_attrs\""));
}

struct BadText {
  std::string_view body;
  std::string_view message;
  std::string_view place;
};

/// GoogleTest puts it into the names of the tests, which must not hold addresses.
void PrintTo(const BadText& bad, std::ostream* stream) {  // NOLINT: GoogleTest looks for this name
  *stream << bad.message;
}

class ParserError : public ::testing::TestWithParam<BadText> {};

TEST_P(ParserError, SaysWhatWasExpectedAndWhere) {
  const BadText& bad = GetParam();
  const std::string text = "graph \"g\" {\n%0 = input() \"x\" : f32[2]\n" + std::string(bad.body);
  try {
    parseToy(text);
    FAIL() << "parsed: " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr(bad.message)) << text;
    EXPECT_EQ(error.location(), bad.place) << text << "\n" << error.message();
  }
}

constexpr BadText kBadTexts[] = {
    {"", "expected var, output, an op or '}', found the end", "line 3, column 1"},
    {"} x", "expected the end of the text, found 'x'", "line 3, column 3"},
    {"7 }", "expected var, output, an op or '}', found '7'", "line 3, column 1"},
    {"%1 = 7 }", "expected the name of an op, found '7'", "line 3, column 6"},
    {"%1 = nothing() : f32[] }", "no op named 'nothing'", "line 3, column 6"},
    {"%0 = input() \"y\" : f32[] }", "%0 is defined twice", "line 3, column 1"},
    {"%1, %1 = toy_split(%0) }", "%1 is defined twice", "line 3, column 5"},
    {"%1, 2 = toy_split(%0) }", "expected a value such as %0, found '2'", "line 3, column 5"},
    {"%99999999999999999999 = input() : f32[] }", "below 2^64", "line 3, column 1"},
    {"%1 input()", "expected '=', found 'input'", "line 3, column 4"},
    {"%1 = toy_sum(%0, %1) : f32[2] }", "%1 is not defined before", "line 3, column 18"},
    {"%1 = toy_sum(%0 %0) : f32[2] }", "expected ',', found '%0'", "line 3, column 17"},
    {"%1 = toy_sum(0) : f32[2] }", "expected a value such as %0, found '0'", "line 3, column 14"},
    {"%1 = toy_sum %0 }", "expected '(', found '%0'", "line 3, column 14"},
    {"%1 = toy_sum(%0) : f32[2] }", "takes 2 inputs, got 1", "line 3, column 1"},
    {"%1 = toy_sum(%0, %0) : f32[3] }", "gives f32[2], the text says f32[3]", "line 3, column 1"},
    {"%1 = toy_sum(%0, %0) }", "expected ':', found '}'", "line 3, column 22"},
    {"toy_sum(%0, %0) }", "gives f32[2], the text says no result", "line 3, column 1"},
    {"%1, %2 = toy_split(%0) {sizes=[1]} : f32[1] }",
     "expected 2 result types, found 1",
     "line 3, column 1"},
    {"input() \"y\" }", "input has 1 results, found 0", "line 3, column 1"},
    {"%1 = input() \"x\" : f32[] }", "input 'x' is declared twice", "line 3, column 14"},
    {"%1 = toy_attrs() {nope=1} : f32[] }", "has no attribute 'nope'", "line 3, column 19"},
    {"%1 = toy_attrs() {int=1, int=1} : f32[] }", "'int' is given twice", "line 3, column 26"},
    {"%1 = toy_attrs() {int=1 real=1} : f32[] }",
     "expected ',', found 'real'",
     "line 3, column 25"},
    {"%1 = toy_attrs() {\"int\"=1} }", "expected the name of an attribute", "line 3, column 19"},
    {"%1 = toy_attrs() {int 1} }", "expected '=', found '1'", "line 3, column 23"},
    {"%1 = toy_attrs() {int=1.5} : f32[] }", "an integer, found '1.5'", "line 3, column 23"},
    {"%1 = toy_attrs() {int=9223372036854775808} }", "expected an integer", "line 3, column 23"},
    {"%1 = toy_attrs() {real=1e999} }", "a number of type f64, found", "line 3, column 24"},
    {"%1 = toy_attrs() {real=infinity} }", "a number of type f64", "line 3, column 24"},
    {"%1 = toy_attrs() {real=nan(0x1)} }", "the bits of a NaN of type f64", "line 3, column 28"},
    {"%1 = toy_attrs() {flag=1} }", "expected true or false, found '1'", "line 3, column 24"},
    {"%1 = toy_attrs() {text=a} }", "expected a string in quotes", "line 3, column 24"},
    {"%1 = toy_attrs() {ints=1} }", "expected '[', found '1'", "line 3, column 24"},
    {"%1 = toy_attrs() {text=\"\\q\"} }", "unknown escape", "line 3, column 25"},
    {"%1 = toy_attrs() {text=\"\\x4\"} }", "unknown escape", "line 3, column 25"},
    {"%1 = toy_attrs() {text=\"\\", "unknown escape", "line 3, column 25"},
    {"%1 = toy_attrs() {text=\"a\n\"} }", "at the end of this string", "line 3, column 24"},
    {"%1 = toy_split(%0) : f32[1] }", "attribute 'sizes' is missing", "line 3, column 1"},
    {"# }", "unexpected character 0x23 ('#')", "line 3, column 1"},
    {"\x80 }", "unexpected character 0x80", "line 3, column 1"},
    {"%1 = constant() {value=tensor<f33[1] 1>} }", "expected a type", "line 3, column 31"},
    {"%1 = constant() {value=tensor<f32[-1] 1>} }", "negative extent", "line 3, column 31"},
    {"%1 = constant() {value=tensor<f32[9223372036854775807] 1>} }",
     "more elements than can be counted",
     "line 3, column 31"},
    {"%1 = constant() {value=tensor<f32[500000000000000000] 1>} }",
     "expected 500000000000000000 elements",
     "line 3, column 55"},
    {"%1 = constant() {value=tensor<f32[1] 1, 2>} }",
     "1 elements for f32[1], found 2",
     "line 3, column 38"},
    {"%1 = constant() {value=tensor<u8[1] 256>} }", "an integer of type u8", "line 3, column 37"},
    {"%1 = constant() {value=tensor<f16[1] 70000>} }", "a number of type f16", "line 3, column 38"},
    {"%1 = constant() {value=tensor<bool[1] 1>} }", "true or false", "line 3, column 39"},
    {"%1 = constant() {value=1} }", "expected 'tensor', found '1'", "line 3, column 24"},
    {"%1 = toy_nested() {body=1} }", "expected 'graph', found '1'", "line 3, column 25"},
    {"var x: f32[]", "expected the name of a variable in quotes", "line 3, column 5"},
    {"var \"v\" f32[]", "expected ':', found 'f32'", "line 3, column 9"},
    {"var \"v\": f32[] gradient", "expected weight, optimizer", "line 3, column 16"},
    {"var \"v\": f32[] weight 1", "expected 'init', found '1'", "line 3, column 23"},
    {"var \"v\": f32[] weight init zero", "expected constant, uniform", "line 3, column 28"},
    {"var \"v\": f32[] weight init uniform(1)", "expected ',', found ')'", "line 3, column 37"},
    {"var \"v\": f32[] weight init tensor<f32[1] 1>",
     "an initial value of type f32[], found f32[1]",
     "line 3, column 28"},
    {"var \"v\": f32[] weight init constant(0) var \"v\": f32[] weight init constant(0)",
     "variable 'v' is declared twice",
     "line 3, column 44"},
    {"%1 = variable() {var=\"v\"} : f32[] }", "no variable 'v'", "line 3, column 1"},
    {"output x = %0", "expected the name of an output in quotes", "line 3, column 8"},
    {"output \"x\" %0", "expected '=', found '%0'", "line 3, column 12"},
    {"output \"x\" = %0 output \"x\" = %0 }",
     "already has an output named 'x'",
     "line 3, column 24"},
    {"%1 = toy_sum(%0, %0) : f32[2] @never }", "expected forward, backward", "line 3, column 32"},
    {"%1 = toy_sum(%0, %0) : f32[2] block=1 }", "the name of a block", "line 3, column 37"},
    {"%1 = toy_sum(%0, %0) : f32[2] stage=-2 }", "stage is -2, expected 0", "line 3, column 37"},
    {"%1 = toy_sum(%0, %0) : f32[2] device=4294967296 }", "an index", "line 3, column 38"},
};

INSTANTIATE_TEST_SUITE_P(AllErrors, ParserError, ::testing::ValuesIn(kBadTexts));

TEST(Parser, NeedsAGraph) {
  EXPECT_THROW(parseToy(""), InvalidArgument);
  EXPECT_THROW(parseToy("graph {}"), InvalidArgument);
  EXPECT_THROW(parseToy("graph \"g\""), InvalidArgument);
}

std::string nested(int depth) {
  std::string text;
  for (int i = 1; i < depth; ++i) {
    text += "graph \"g\" { toy_nested() {body=";
  }
  text += "graph \"g\" {}";
  for (int i = 1; i < depth; ++i) {
    text += "} }";
  }
  return text;
}

TEST(Parser, LimitsTheNestingOfGraphs) {
  EXPECT_EQ(parseToy(nested(kMaxGraphDepth)).numOps(), 1U);
  try {
    parseToy(nested(100000));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr("nested deeper than 64"));
  }
}

TEST(Parser, LimitsTheResultsOfAnOp) {
  std::string text = "graph \"g\" { %0 = input() : f32[1]\n%1";
  for (int i = 2; i < 65540; ++i) {
    text += fmt::format(", %{}", i);
  }
  try {
    parseToy(text + " = toy_split(%0) {sizes=[]} }");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr("at most 65535 results"));
  }
}

TEST(Parser, RefusesEveryPrefixOfAGraph) {
  for (std::size_t length = 0; length + 2 < kExample.size(); ++length) {
    EXPECT_THROW(parseToy(kExample.substr(0, length)), InvalidArgument) << length;
  }
}

/// Attributes are kept sorted, so a million of them would take minutes.
TEST(ByteForm, HasNoMoreAttributesThanTheOp) {
  ByteWriter out;
  out.number(std::uint64_t{1'000'000});
  for (int i = 0; i < 1'000'000; ++i) {
    out.text(std::to_string(i));
    out.number(static_cast<std::int32_t>(AttrKind::Int));
    out.number(i);
  }
  ByteReader in(out.bytes(), "file 'x'");
  try {
    AttrReader(toy::ops()).read(in, toy::kSplit);
    ADD_FAILURE() << "nothing thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1000000 attributes, expected at most 1"));
  }
}

}  // namespace
}  // namespace sluice::ir
