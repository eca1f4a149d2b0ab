// Every op through a file: the export of each conformance case is a model that the standard's own
// checker accepts, and its import is the same graph.
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "sluice/ir/graph_builder.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/export.h"
#include "sluice/onnx/import.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {
namespace {

bool hasBody(const OpCase& c) {
  for (const ir::NamedAttr& attr : c.attrs) {
    if (kindOf(attr.value) == ir::AttrKind::Subgraph) {
      return true;
    }
  }
  return false;
}

std::vector<OpCase> casesWithoutBodies() {
  std::vector<OpCase> cases;
  for (const OpCase& c : allCases()) {
    if (!hasBody(c) && !c.def.traits.effect) {
      cases.push_back(c);
    }
  }
  return cases;
}

class OnnxFile : public ::testing::TestWithParam<OpCase> {};

TEST_P(OnnxFile, HoldsTheOp) {
  const OpCase& c = GetParam();
  ir::Graph graph("case");
  ir::GraphBuilder builder(graph);
  std::vector<ir::Value> operands;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    operands.push_back(builder.input(fmt::format("in{}", i), c.operands[i].type));
  }
  const std::vector<ir::Value> results = builder.addMany(c.def, operands, c.attrs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph.addOutput(fmt::format("out{}", i), results[i]);
  }

  const std::string bytes = onnx::exportModelBytes(graph);
  ::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  ASSERT_NO_THROW(::onnx::checker::check_model(model)) << model.DebugString();
  const onnx::ImportedModel imported = onnx::importModelBytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(ir::structurallyEqual(imported.graph, graph)) << ir::print(graph) << "became\n"
                                                            << ir::print(imported.graph);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         OnnxFile,
                         ::testing::ValuesIn(casesWithoutBodies()),
                         [](const auto& test) { return caseName(test.param); });

}  // namespace
}  // namespace sluice::testing
