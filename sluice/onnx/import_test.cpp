// What importing makes of models and what it refuses. Models are written in the standard's own text
// form.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <sys/stat.h>

#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::onnx {
namespace {

using ir::Value;
using sluice::testing::messageOf;
using sluice::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHeader = "<ir_version: 8, opset_import: [\"\" : 17]>\n";

pb::ModelProto parse(const std::string& graph, std::string_view header = kHeader) {
  pb::ModelProto model;
  const auto status = pb::OnnxParser::Parse(model, (std::string(header) + graph).c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

ImportedModel import(const pb::ModelProto& model,
                     const ImportOptions& options = {},
                     const std::filesystem::path& folder = {}) {
  const std::string bytes = model.SerializeAsString();
  return importModelBytes(std::as_bytes(std::span(bytes)), options, folder);
}

std::string refusal(const std::string& graph, const ImportOptions& options = {}) {
  const pb::ModelProto model = parse(graph);
  return messageOf<Error>([&] { import(model, options); });
}

HostTensor row(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

std::vector<double> evaluated(const ImportedModel& model, const ops::TensorMap& inputs) {
  ops::TensorMap variables;
  for (const ir::Variable& variable : model.graph.variables()) {
    variables.emplace(variable.name, variable.initializer.tensor);
  }
  return ops::evaluate(model.graph, inputs, variables).begin()->second.toDoubles();
}

void addWeight(pb::ModelProto& model, const std::string& name, const HostTensor& value) {
  *model.mutable_graph()->add_initializer() = toTensorProto(value, name);
}

TEST(OnnxImport, FloatInitializersAreWeightsAndShapeArithmeticVanishes) {
  pb::ModelProto model = parse(R"(
    main (float[2, 3] x) => (float[3, 2] y) {
      s = Shape(x)
      one = Constant<value_ints: ints = [1]>()
      zero = Constant<value_ints: ints = [0]>()
      a = Gather(s, one)
      b = Gather(s, zero)
      target = Concat<axis = 0>(a, b)
      scaled = Mul(x, w)
      y = Reshape(scaled, target)
    })");
  addWeight(model, "w", row({1, 2, 3}));
  const ImportedModel imported = import(model);
  EXPECT_EQ(ir::print(imported.graph), R"(graph "main" {
  var "w": f32[3] weight init tensor<f32[3] 1, 2, 3>
  %0 = input() "x" : f32[2, 3]
  %1 = variable() {var="w"} "w" : f32[3]
  %2 = mul(%0, %1) "mul" : f32[2, 3]
  %3 = reshape(%2) {shape=[3, 2]} "reshape" : f32[3, 2]
  output "y" = %3
}
)");
  EXPECT_EQ(imported.opset, 17);
  const HostTensor x = HostTensor::of<float>(Shape{2, 3}, {1, 1, 1, 2, 2, 2});
  EXPECT_THAT(evaluated(imported, {{"x", x}}), ElementsAre(1, 2, 3, 2, 4, 6));
}

TEST(OnnxImport, SymbolicDimensionsAreBound) {
  const std::string graph = "main (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }";
  EXPECT_THAT(refusal(graph), AllOf(HasSubstr("'N'"), HasSubstr("ImportOptions.dims (--dim")));
  const ImportedModel bound = import(parse(graph), {.dims = {{"N", 5}}});
  EXPECT_EQ(bound.graph.type(bound.graph.outputs()[0].value).str(), "f32[5, 2]");
  EXPECT_THAT(refusal(graph, {.dims = {{"N", 5}, {"M", 2}}}),
              AllOf(HasSubstr("dimension 'M'"), HasSubstr("only N")));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Relu(x) }", {.dims = {{"N", 5}}}),
              HasSubstr("all are numbers"));
  const ImportedModel shaped = import(parse(graph), {.shapes = {{"x", Shape{7, 2}}}});
  EXPECT_EQ(shaped.graph.type(shaped.graph.outputs()[0].value).str(), "f32[7, 2]");
}

TEST(OnnxImport, AnInputThatFixesAShapeIsBoundAsAConstant) {
  const pb::ModelProto model =
      parse("main (float[4] x, int64[2] s) => (float[2, 2] y) { y = Reshape(x, s) }");
  try {
    import(model);
    FAIL() << "nothing was thrown";
  } catch (const NeedsConstant& error) {
    EXPECT_THAT(error.inputs(), ElementsAre("s"));
    EXPECT_THAT(error.what(), AllOf(HasSubstr("Reshape-14"), HasSubstr("ImportOptions.constants")));
  }
  const HostTensor shape = HostTensor::of<std::int64_t>(Shape{2}, {2, 2});
  const ImportedModel imported = import(model, {.constants = {{"s", shape}}});
  EXPECT_EQ(imported.graph.inputs().size(), 1U);
}

TEST(OnnxImport, OptionsThatFitNoInputAreRefused) {
  const std::string graph =
      "main (float[4] x, int64[2] s) => (float[2, 2] y) { y = Reshape(x, s) }";
  EXPECT_THAT(refusal(graph, {.constants = {{"t", HostTensor(DType::I64, Shape{2})}}}),
              AllOf(HasSubstr("ImportOptions.constants"), HasSubstr("no input 't'")));
  EXPECT_THAT(refusal(graph, {.shapes = {{"t", Shape{2}}}}),
              AllOf(HasSubstr("ImportOptions.shapes"), HasSubstr("no input 't', only x, s")));
  EXPECT_THAT(refusal(graph, {.constants = {{"s", HostTensor(DType::F32, Shape{2})}}}),
              AllOf(HasSubstr("'s' is of i64"), HasSubstr("f32[2]")));
}

TEST(OnnxImport, FunctionsOfTheModelAreExpanded) {
  pb::ModelProto model;
  const auto status = pb::OnnxParser::Parse(model, R"(
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    main (float[2] x) => (float[2] y) { y = local.scaled<factor = 3.0>(x) }
    <domain: "local", opset_import: ["" : 17]>
    scaled <factor> (v) => (r) {
      f = Constant<value_float: float = @factor>()
      r = Mul(v, f)
    })");
  ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
  EXPECT_THAT(evaluated(import(model), {{"x", row({1, 2})}}), ElementsAre(3, 6));
}

TEST(OnnxImport, ErrorsNameTheNodeItsOpAndVersion) {
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Add(x, z) }"),
              AllOf(HasSubstr("InvalidArgument"),
                    HasSubstr("'z'"),
                    HasSubstr("no earlier node"),
                    HasSubstr("Add-14"),
                    HasSubstr("node 'y'")));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Frobnicate(x) }"),
              HasSubstr("opset 17 has no op Frobnicate"));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Relu<slope = 2>(x) }"),
              HasSubstr("no attribute 'slope'"));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Relu(x, x) }"),
              HasSubstr("expected 1 to 1 operands, got 2"));
  EXPECT_THAT(refusal("main (float[2] x, float[3] z) => (float[2] y) { y = Add(x, z) }"),
              HasSubstr("add"));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { x = Relu(x) y = Relu(x) }"),
              HasSubstr("'x' is made twice"));
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] z) { y = Relu(x) }"),
              HasSubstr("output 'z' of the model is made by no node"));
  EXPECT_THAT(refusal("main (float[2] x) => () { y = Relu(x) }"), HasSubstr("no output"));
  EXPECT_THAT(refusal("main (string[2] x) => (string[2] y) { y = Identity(x) }"),
              AllOf(HasSubstr("Unsupported"), HasSubstr("string")));
  EXPECT_THAT(refusal("main (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }"),
              HasSubstr("two inputs 'x'"));
}

TEST(OnnxImport, OpsetsAreChecked) {
  const std::string graph = "main (float[2] x) => (float[2] y) { y = Relu(x) }";
  const pb::ModelProto future = parse(graph, "<ir_version: 8, opset_import: [\"\" : 99]>\n");
  EXPECT_THAT(messageOf<Error>([&] { import(future); }),
              AllOf(HasSubstr("opset 99"), HasSubstr("strictOpVersions")));
  EXPECT_EQ(import(future, {.strictOpVersions = false}).graph.numOps(), 2U);
  // Mish came with opset 18; its op is ours all the same.
  const pb::ModelProto mish = parse("main (float[2] x) => (float[2] y) { y = Mish(x) }",
                                    "<ir_version: 8, opset_import: [\"\" : 18]>\n");
  EXPECT_EQ(import(mish, {.strictOpVersions = false}).graph.numOps(), 2U);
  EXPECT_THAT(refusal("main (float[2] x) => (float[2] y) { y = Mish(x) }"),
              HasSubstr("opset 17 has no op Mish"));
  pb::ModelProto none = parse(graph);
  none.clear_opset_import();
  EXPECT_THAT(messageOf<Error>([&] { import(none); }), HasSubstr("no opset"));
}

TEST(OnnxImport, DropoutThatDoesNotSayDropsInTraining) {
  const pb::ModelProto model =
      parse("main (float[2] x) => (float[2] y) { y = Dropout<ratio = 0.25>(x) }",
            "<ir_version: 8, opset_import: [\"\" : 10]>\n");
  EXPECT_THAT(ir::print(import(model).graph), HasSubstr("identity("));
  EXPECT_THAT(ir::print(import(model, {.training = true}).graph), HasSubstr("dropout("));
}

TEST(OnnxImport, ABodyThatNeverEndsIsRefused) {
  pb::ModelProto model;
  const auto status = pb::OnnxParser::Parse(model, R"(
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    main (float[2] x) => (float[2] y) { y = local.again(x) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    again (v) => (r) { r = local.again(v) })");
  ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
  EXPECT_THAT(messageOf<Error>([&] { import(model); }), HasSubstr("nested more than"));
}

TEST(OnnxImport, FilesThatAreNoModelsAreRefused) {
  const std::string junk = "this is no model";
  EXPECT_THAT(messageOf<Error>([&] { importModelBytes(std::as_bytes(std::span(junk))); }),
              AllOf(HasSubstr("FileError"), HasSubstr("no ONNX model")));
  EXPECT_THAT(messageOf<Error>([] { importModel("/no/such/model.onnx"); }),
              AllOf(HasSubstr("FileError"), HasSubstr("cannot open")));
  const TempFolder folder;
  const std::filesystem::path file = folder / "large.onnx";
  std::ofstream(file) << std::string(100, 'x');
  EXPECT_THAT(messageOf<Error>([&] { importModel(file, {.maxFileBytes = 10}); }),
              HasSubstr("the limit is 10"));
}

TEST(OnnxImport, TensorsMustFitTheirData) {
  pb::ModelProto model = parse("main (float[2] x) => (float[2] y) { y = Add(x, w) }");
  pb::TensorProto& proto = *model.mutable_graph()->add_initializer();
  proto = toTensorProto(row({1, 2}), "w");
  proto.set_dims(0, 1'000'000'000);
  EXPECT_THAT(messageOf<Error>([&] { import(model); }),
              AllOf(HasSubstr("'w'"), HasSubstr("has 8")));
  proto.set_dims(0, -1);
  EXPECT_THAT(messageOf<Error>([&] { import(model); }), HasSubstr("InvalidArgument"));
  proto.clear_raw_data();
  proto.set_dims(0, 2);
  EXPECT_THAT(messageOf<Error>([&] { import(model); }), HasSubstr("needs 2 elements, has 0"));
}

/// A file of the floats 0, 1, 2, 3.
void writeFloats(const std::filesystem::path& path) {
  std::ofstream data(path, std::ios::binary);
  for (int i = 0; i < 4; ++i) {
    const auto value = static_cast<float>(i);
    data.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

pb::ModelProto modelWithExternal(const std::string& location, const std::string& offset) {
  pb::ModelProto model = parse("main (float[2] x) => (float[2] y) { y = Add(x, w) }");
  pb::TensorProto& proto = *model.mutable_graph()->add_initializer();
  proto = toTensorProto(row({0, 0}), "w");
  proto.clear_raw_data();
  proto.set_data_location(pb::TensorProto::EXTERNAL);
  const auto add = [&](const std::string& key, const std::string& value) {
    pb::StringStringEntryProto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", location);
  add("offset", offset);
  return model;
}

TEST(OnnxImport, ExternalDataIsReadFromTheModelsFolderOnly) {
  const TempFolder folder;
  writeFloats(folder / "weights.bin");
  const ImportedModel imported = import(modelWithExternal("weights.bin", "4"), {}, folder.path());
  EXPECT_THAT(evaluated(imported, {{"x", row({10, 20})}}), ElementsAre(11, 22));
  const auto refused = [&](const std::string& location, const std::string& offset) {
    const pb::ModelProto model = modelWithExternal(location, offset);
    return messageOf<Error>([&] { import(model, {}, folder.path()); });
  };
  EXPECT_THAT(refused("../weights.bin", "0"), HasSubstr("outside of the model's folder"));
  EXPECT_THAT(refused("/etc/passwd", "0"), HasSubstr("outside of the model's folder"));
  EXPECT_THAT(refused("weights.bin", "12"), HasSubstr("fewer than 8 bytes"));
  EXPECT_THAT(refused("missing.bin", "0"), HasSubstr("cannot open"));
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refused("fifo", "0"), HasSubstr("it is a FIFO"));
  EXPECT_THAT(messageOf<FileError>([&] { importModel(folder / "fifo"); }),
              HasSubstr("it is a FIFO"));
  EXPECT_THAT(refused("weights.bin", "four"), HasSubstr("offset must be a number"));
  std::filesystem::create_symlink("/etc/passwd", folder / "link.bin");
  EXPECT_THAT(refused("link.bin", "0"), HasSubstr("outside of the model's folder"));
  const pb::ModelProto inMemory = modelWithExternal("weights.bin", "0");
  EXPECT_THAT(messageOf<Error>([&] { import(inMemory); }), HasSubstr("read from a file"));
}

TEST(OnnxExport, OfManyOpsOfOneNameTakesTimeThatGrowsWithTheirNumber) {
  // If every op tried all numbers from 1, this would take many minutes.
  constexpr int kCount = 100'000;
  ir::Graph graph("main");
  ir::GraphBuilder b(graph);
  Value x = b.input("x", {DType::F32, Shape{1}});
  for (int i = 0; i < kCount; ++i) {
    x = ops::neg(b, x);
  }
  graph.addOutput("y", x);
  pb::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(exportModelBytes(graph)));
  std::set<std::string> names;
  for (const pb::NodeProto& node : model.graph().node()) {
    names.insert(node.output(0));
  }
  EXPECT_EQ(model.graph().node_size(), kCount);
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kCount));
}

TEST(OnnxImport, AnyByteButZeroIsTrue) {
  pb::TensorProto proto = toTensorProto(HostTensor(DType::Bool, Shape{3}), "mask");
  proto.set_raw_data(std::string("\x7b\0\x01", 3));
  const HostTensor expected = HostTensor::of<bool>(Shape{3}, {true, false, true});
  ExternalFiles none("");
  EXPECT_TRUE(toHostTensor(proto, none).sameBits(expected));
}

TEST(OnnxExport, InputsThatNobodyReadsAreLeftOut) {
  ir::Graph graph("main");
  ir::GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F32, Shape{2}});
  b.input("labels", {DType::I64, Shape{2}});
  graph.addOutput("y", b.add(*ops::opSet().find("neg"), {x}));
  const std::string bytes = exportModelBytes(graph);
  const ImportedModel imported = importModelBytes(std::as_bytes(std::span(bytes)));
  ASSERT_EQ(imported.graph.inputs().size(), 1U);
  EXPECT_EQ(imported.graph.op(imported.graph.inputs()[0]).name, "x");
}

TEST(OnnxExport, WeightsBuffersAndFrozenWeightsComeBack) {
  ir::Graph graph("main");
  ir::GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F32, Shape{2}});
  const auto add = [&](const std::string& name, ir::VariableRole role, bool trainable) {
    graph.addVariable(
        {name, {DType::F32, Shape{2}}, role, trainable, ir::Initializer::of(row({0.1F, 3}))});
    return b.variable(name);
  };
  Value y = b.add(*ops::opSet().find("add"), {x, add("w", ir::VariableRole::Weight, true)});
  y = b.add(*ops::opSet().find("mul"), {y, add("frozen", ir::VariableRole::Weight, false)});
  y = b.add(*ops::opSet().find("sub"), {y, add("mean", ir::VariableRole::Buffer, false)});
  graph.addOutput("y", y);
  const std::string bytes = exportModelBytes(graph);
  const ImportedModel imported = importModelBytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(ir::structurallyEqual(imported.graph, graph)) << ir::print(imported.graph);
  EXPECT_THAT(messageOf<Error>([&] {
                exportModelBytes(graph, {.values = {{"w", HostTensor(DType::F32, Shape{3})}}});
              }),
              AllOf(HasSubstr("'w'"), HasSubstr("f32[3]")));
}

TEST(OnnxExport, StateThatIsWrittenIsRefused) {
  ir::Graph graph("main");
  ir::GraphBuilder b(graph);
  graph.addVariable({"w", {DType::F32, Shape{2}}});
  b.assign("w", b.input("x", {DType::F32, Shape{2}}));
  EXPECT_THAT(messageOf<Error>([&] { exportModelBytes(graph); }),
              AllOf(HasSubstr("Unsupported"), HasSubstr("writes state")));
}

}  // namespace
}  // namespace sluice::onnx
