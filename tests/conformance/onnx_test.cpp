// Every op through files. An exact file of each conformance case is imported as the same graph. The
// usual file has nodes of the standard only and computes the same, but for the ops of one list.
#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "tests/conformance/case_graph.h"
#include "tests/support/message_of.h"
#include "tests/support/onnx_check.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

/// An op, or one case of an op, and why.
struct Listed {
  std::string_view name;
  std::string_view reason;
};

/// What opset 17 cannot say, neither by one node nor by several.
constexpr std::array kNotStandard = {
    Listed{"bitwise_and", "bits are combined from opset 18 on"},
    Listed{"bitwise_or", "bits are combined from opset 18 on"},
    Listed{"bitwise_xor", "bits are combined from opset 18 on"},
    Listed{"cast_then_pow2_scale", "8-bit floats are known from opset 19 on"},
    Listed{"ctc_beam_search_decoder", "a search whose steps depend on values"},
    Listed{"ctc_loss", "a sum over all alignments"},
    Listed{"ctc_loss_grad", "a sum over all alignments"},
    Listed{"det_grad", "there is no op for cofactors or inverses"},
    Listed{"grid_sample_grad", "sampling has no gradient"},
    Listed{"pow2_scale_then_cast", "8-bit floats are known from opset 19 on"},
    Listed{"print_tensor", "nothing prints"},
    Listed{"reduce_prod_grad", "there are no running products"},
    Listed{"replica_gather", "there are no replicas"},
    Listed{"replica_scatter", "there are no replicas"},
    Listed{"replica_sum", "there are no replicas"},
    Listed{"replica_sum_scatter", "there are no replicas"},
    Listed{"roi_align_grad", "sampling has no gradient"},
    Listed{"scatter_elements_max", "maxima are scattered from opset 18 on"},
    Listed{"scatter_elements_min", "minima are scattered from opset 18 on"},
    Listed{"stochastic_cast", "nothing rounds by chance"},
};

/// Ops whose parts round results that the op itself keeps in double until the end.
constexpr std::array<std::string_view, 20> kRoundedParts = {"atan2",
                                                            "avg_pool_grad",
                                                            "batch_norm",
                                                            "batch_norm_grad",
                                                            "cross_entropy",
                                                            "cross_entropy_grad",
                                                            "erfc",
                                                            "expm1",
                                                            "gelu",
                                                            "gelu_grad",
                                                            "layer_norm_grad",
                                                            "log1p",
                                                            "log_softmax_grad",
                                                            "nll_loss_grad",
                                                            "rms_norm",
                                                            "rms_norm_grad",
                                                            "rsqrt",
                                                            "scaled_dot_product_attention_grad",
                                                            "silu",
                                                            "softmax_grad"};

bool isListed(const OpCase& c) {
  return std::ranges::any_of(kNotStandard, [&](const Listed& listed) {
    return listed.name == c.def.name || listed.name == caseName(c);
  });
}

bool hasBody(const OpCase& c) {
  return std::ranges::any_of(c.attrs, [](const ir::NamedAttr& attr) {
    return kindOf(attr.value) == ir::AttrKind::Subgraph;
  });
}

std::vector<OpCase> casesWith(bool (*wanted)(const OpCase&)) {
  std::vector<OpCase> cases;
  for (const OpCase& c : allCases()) {
    if (wanted(c)) {
      cases.push_back(c);
    }
  }
  return cases;
}

onnx::ImportedModel importBytes(const std::string& bytes) {
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)));
}

class ExactOnnxFile : public ::testing::TestWithParam<OpCase> {};

TEST_P(ExactOnnxFile, HoldsTheOp) {
  const ir::Graph graph = caseGraph(GetParam());
  const std::string bytes = onnx::exportModelBytes(graph, {.exact = onnx::Exact::Yes});
  const ::onnx::ModelProto model = parseModelBytes(bytes);
  ASSERT_NO_THROW(::onnx::checker::check_model(model)) << model.DebugString();
  const onnx::ImportedModel imported = importBytes(bytes);
  EXPECT_TRUE(ir::structurallyEqual(imported.graph, graph)) << ir::print(graph) << "became\n"
                                                            << ir::print(imported.graph);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         ExactOnnxFile,
                         ::testing::ValuesIn(casesWith([](const OpCase& c) {
                           return !hasBody(c) && !c.def.traits.effect;
                         })),
                         [](const auto& test) { return caseName(test.param); });

class StandardOnnxFile : public ::testing::TestWithParam<OpCase> {};

TEST_P(StandardOnnxFile, HasOnlyOpsOfTheStandardUnlessTheOpIsListed) {
  const ir::Graph graph = caseGraph(GetParam());
  const ::onnx::ModelProto model = parseModelBytes(onnx::exportModelBytes(graph));
  if (isListed(GetParam())) {
    EXPECT_EQ(foreignNodes(model), std::set{fmt::format("sluice.{}", GetParam().def.name)})
        << "the standard can say it: take it off the list";
  } else {
    expectStandard(model);
  }
}

TEST_P(StandardOnnxFile, ComputesTheSame) {
  const OpCase& c = GetParam();
  const ir::Graph graph = caseGraph(c);
  const onnx::ImportedModel imported = importBytes(onnx::exportModelBytes(graph));
  EXPECT_TRUE(imported.graph.variables().empty()) << ir::print(imported.graph);
  const ops::TensorMap inputs = caseInputs(c);
  ops::TensorMap variables;
  const ir::RunInfo run{.seed = 42};
  const ops::TensorMap expected = ops::evaluate(graph, inputs, variables, run);
  const ops::TensorMap found = ops::evaluate(imported.graph, inputs, variables, run);
  const bool rounded = std::ranges::find(kRoundedParts, c.def.name) != kRoundedParts.end();
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(found.at(name).type(), tensor.type()) << name;
    if (rounded) {
      EXPECT_LE(relativeDifference(found.at(name), tensor), tolerance(tensor.dtype(), c.terms + 8))
          << name << "\n"
          << ir::print(imported.graph);
    } else {
      EXPECT_TRUE(found.at(name).sameBits(tensor))
          << name << " differs by " << relativeDifference(found.at(name), tensor) << "\n"
          << ir::print(imported.graph);
    }
  }
}

/// The operands that have the type of the first one get other types in its place.
TEST_P(StandardOnnxFile, HasTheTypesOfTheStandard) {
  const OpCase& c = GetParam();
  if (c.operands.empty() || isListed(c)) {
    return;
  }
  for (int i = 0; i < kNumDTypes; ++i) {
    std::vector<TensorType> types = operandTypes(c);
    const DType first = types[0].dtype;
    for (TensorType& type : types) {
      type.dtype = type.dtype == first ? static_cast<DType>(i) : type.dtype;
    }
    SCOPED_TRACE(name(static_cast<DType>(i)));
    std::string bytes;
    try {
      bytes = onnx::exportModelBytes(caseGraph(c, types));
    } catch (const InvalidArgument&) {
      continue;  // no type of the op
    }
    expectStandard(parseModelBytes(bytes));
    const ir::Graph graph = caseGraph(c, types);
    const ir::Graph imported = importBytes(bytes).graph;
    EXPECT_EQ(imported.type(imported.outputs()[0].value), graph.type(graph.outputs()[0].value));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         StandardOnnxFile,
                         ::testing::ValuesIn(casesWith([](const OpCase& c) {
                           return !c.def.traits.effect;
                         })),
                         [](const auto& test) { return caseName(test.param); });

TEST(OnnxFiles, AreListedUnderNamesOfOpsAndCases) {
  std::set<std::string, std::less<>> names;
  for (const OpCase& c : allCases()) {
    names.insert(std::string(c.def.name));
    names.insert(caseName(c));
  }
  for (const Listed& listed : kNotStandard) {
    EXPECT_TRUE(names.contains(listed.name)) << listed.name;
  }
}

TEST(OnnxFiles, OfOpsWithAnEffectAreRefused) {
  for (const OpCase& c : casesWith([](const OpCase& each) { return each.def.traits.effect; })) {
    for (const onnx::Exact exact : {onnx::Exact::No, onnx::Exact::Yes}) {
      EXPECT_THAT(
          messageOf<Unsupported>([&] { onnx::exportModelBytes(caseGraph(c), {.exact = exact}); }),
          ::testing::HasSubstr("writes state"))
          << c.def.name;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
