// Broken and hostile model files: each is refused with one of our errors or imported, never more.
// The files are made here: sound models with bytes changed or cut off by a printed seed, and models
// that ask for too much.
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <sys/resource.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::onnx {
namespace {

constexpr std::uint64_t kSeed = 20260917;
constexpr long kMostKilobytes = 256L << 10;

std::string modelOf(const std::string& text) {
  pb::ModelProto model;
  const auto status = pb::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage() << text;
  return model.SerializeAsString();
}

std::string graphOf(const std::string& graph) {
  return modelOf("<ir_version: 8, opset_import: [\"\" : 17]>\n" + graph);
}

std::vector<std::string> soundModels() {
  pb::ModelProto weights;
  weights.ParseFromString(graphOf(R"(
    net (float[2, 3, 8, 8] x) => (float[2, 10] y) {
      c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w)
      r = Relu(c)
      p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
      f = Flatten(p)
      y = Gemm<transB = 1>(f, v)
    })"));
  *weights.mutable_graph()->add_initializer() =
      toTensorProto(HostTensor(DType::F32, Shape{4, 3, 3, 3}), "w");
  *weights.mutable_graph()->add_initializer() =
      toTensorProto(HostTensor(DType::F32, Shape{10, 64}), "v");
  return {weights.SerializeAsString(),
          graphOf(R"(
    shapes (float[2, 6] x) => (float[N] y) {
      s = Shape(x)
      i = Constant<value_int: int = 1>()
      n = Gather(s, i)
      half = Constant<value_int: int = 2>()
      m = Div(n, half)
      axis = Constant<value_ints: ints = [0]>()
      u = Unsqueeze(m, axis)
      rest = Constant<value_ints: ints = [-1]>()
      t = Concat<axis = 0>(rest, u)
      r = Reshape(x, t)
      y = ReduceSum<keepdims = 0>(r, axis)
    })"),
          graphOf(R"(
    choice (float[3] x, bool c) => (float[3] y) {
      y = If(c)<then_branch = a () => (float[3] p) { p = Relu(x) },
                else_branch = b () => (float[3] q) { q = Neg(x) }>
    })"),
          modelOf(R"(
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    calls (float[3] x) => (float[3] y) { h = own.twice(x) y = own.twice(h) }
    <domain: "own", opset_import: ["" : 17]>
    twice (v) => (r) { r = Add(v, v) })")};
}

/// Whole models that ask for something that cannot be.
std::vector<std::string> hostileModels() {
  std::vector<std::string> models;
  const auto add = [&](const std::string& body, const std::string& type = "float[2]") {
    models.push_back(graphOf("main (" + type + " x) => (float[K] y) {" + body + "}"));
  };
  const std::string huge = "[4000000000, 4000000000, 4000000000]";
  const std::string large = "[100000, 100000, 100]";
  for (const std::string& shape : {huge, large, std::string("[-5]"), std::string("[0]")}) {
    const std::string s = "s = Constant<value_ints: ints = " + shape + ">() ";
    add(s + "y = ConstantOfShape(s)");
    add(s + "c = ConstantOfShape(s) n = Shape(c) y = ConstantOfShape(n)");
    add(s + "c = ConstantOfShape(s) t = Cast<to = 7>(c) y = Reshape(x, t)");
    add(s + "y = Expand(x, s)");
    add(s + "y = Tile(x, s)");
    add(s + "y = Reshape(x, s)");
    add(s + "y = Pad(x, s)");
    add(s + "y = ReduceSum(x, s)");
    add(s + "y = Slice(x, s, s)");
    add(s + "y = Unsqueeze(x, s)");
    add(s + "y = Squeeze(x, s)");
    add(s + "y = Split(x, s)");
    add(s + "y = Resize(x, , , s)");
    add(s + "y = GatherND(x, s)");
    add(s + "y = ScatterND(x, s, x)");
    add("y = RandomNormal<shape = " + shape + ">()");
    add("y = MaxPool<kernel_shape = " + shape + ">(x)", "float[1, 1, 2, 2, 2]");
    add("y = Conv<pads = " + shape + ">(x, x)", "float[1, 1, 2, 2, 2]");
    add("y = Transpose<perm = " + shape + ">(x)", "float[2, 2, 2]");
  }
  const std::string big = "n = Constant<value_int: int = 4000000000000>() ";
  add(big +
      "z = Constant<value_int: int = 0>() d = Constant<value_int: int = 1>() "
      "y = Range(z, n, d)");
  add(big +
      "v = Constant<value_floats: floats = [0.0, 1.0]>() i = Cast<to = 7>(x) "
      "y = OneHot(i, n, v)");
  add(big + "u = Unsqueeze(n, z) z = Constant<value_ints: ints = [0]>() y = TopK(x, u)");
  add("y = Loop(n, t, x)<body = b (int64 i, bool c, float[2] v) => (bool c, float[2] w) "
      "{ w = Neg(v) }> n = Constant<value_int: int = 4000000000000>()");
  add("y = Add(y, x)");                           // reads itself
  add("a = Add(b, x) b = Add(a, x) y = Neg(b)");  // a cycle
  add("y = Add(x, missing)");
  add("y = Gather<axis = 99>(x, x)");
  add("y = Softmax<axis = -9223372036854775807>(x)");
  add("y = Cast<to = 12345>(x)");
  add("y = Einsum<equation = \"ij,jk,->->...\">(x, x)");
  add("y = DepthToSpace<blocksize = 0>(x)", "float[1, 4, 2, 2]");
  add("y = SpaceToDepth<blocksize = -3>(x)", "float[1, 4, 2, 2]");
  add("y = LRN<size = -1>(x)", "float[1, 4, 2, 2]");
  add("y = Dropout<seed = 1>(x)");
  add("y = Concat<axis = 5>(x, x)");
  add("y = Neg(x)", "float[9000000000, 9000000000]");
  return models;
}

std::string nested(int depth) {
  std::string body = "r = Neg(x)";
  for (int i = 0; i < depth; ++i) {
    const std::string n = std::to_string(i);
    body = "r = If(c)<then_branch = a" + n + " () => (float[2] r) {" + body + "}, else_branch = b" +
           n + " () => (float[2] s) { s = Relu(x) }>";
  }
  return "main (float[2] x, bool c) => (float[2] r) {" + body + "}";
}

std::vector<std::string> damaged(const std::vector<std::string>& models, std::mt19937_64& random) {
  std::vector<std::string> files;
  for (const std::string& model : models) {
    for (int i = 0; i < 45; ++i) {
      std::string file = model;
      const auto flips = 1 + random() % 4;
      for (std::uint64_t flip = 0; flip < flips; ++flip) {
        file[random() % file.size()] = static_cast<char>(random());
      }
      files.push_back(std::move(file));
    }
    for (int i = 0; i < 12; ++i) {
      files.push_back(model.substr(0, random() % model.size()));
    }
    files.push_back(model + model);
  }
  return files;
}

/// Whether it was imported; anything but our errors gets out.
bool imports(const std::string& bytes) {
  try {
    importModelBytes(std::as_bytes(std::span(bytes)));
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return false;
  }
}

TEST(HostileModels, EachIsRefusedOrImportedWithLittleMemory) {
  std::mt19937_64 random(kSeed);
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const std::vector<std::string> sound = soundModels();
  std::vector<std::string> files = damaged(sound, random);
  for (std::string& model : hostileModels()) {
    files.push_back(std::move(model));
  }
  ASSERT_GE(files.size(), 300U);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    SCOPED_TRACE("file " + std::to_string(i));
    refused += imports(files[i]) ? 0 : 1;
  }
  EXPECT_GT(refused, files.size() / 2);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(usage.ru_maxrss, kMostKilobytes);
#endif
}

TEST(HostileModels, DeepNestingIsRefusedByALimit) {
  EXPECT_TRUE(imports(graphOf(nested(4))));
  EXPECT_FALSE(imports(graphOf(nested(80))));
}

/// A loop of so many runs; `sequence` grows by an element in each.
std::string loopOf(const std::string& runs, bool sequence) {
  pb::ModelProto model;
  model.ParseFromString(
      graphOf("main (float[2] x) => (float[2] y) { n = Constant<value_int: int = " + runs +
              ">() s = SequenceConstruct(x) i = Constant<value_int: int = 0>() v = Identity(x) "
              "c = Identity(n) y = Identity(x) }"));
  pb::ModelProto body;
  body.ParseFromString(
      graphOf(sequence ? "b (int64 i, bool c, float[2] v) => (bool c, float[2] w) "
                         "{ w = SequenceInsert(v, v) }"
                       : "b (int64 i, bool c, float[2] v) => (bool c, float[2] w) { w = Neg(v) }"));
  if (sequence) {
    body.mutable_graph()->mutable_node(0)->set_input(1, "x");
  }
  pb::NodeProto& loop = *model.mutable_graph()->add_node();
  loop.set_op_type("Loop");
  loop.add_input("n");
  loop.add_input("");
  loop.add_input(sequence ? "s" : "x");
  loop.add_output("r");
  pb::AttributeProto& attr = *loop.add_attribute();
  attr.set_name("body");
  attr.set_type(pb::AttributeProto::GRAPH);
  *attr.mutable_g() = body.graph();
  if (!sequence) {
    model.mutable_graph()->mutable_output(0)->set_name("r");
  }
  return model.SerializeAsString();
}

/// By default loops are unrolled, whatever their length.
std::string refusalOf(const std::string& bytes,
                      const ImportLimits& limits = {},
                      std::int64_t rollFrom = std::numeric_limits<std::int64_t>::max()) {
  try {
    importModelBytes(std::as_bytes(std::span(bytes)), {.rollFrom = rollFrom, .limits = limits});
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "imported";
}

TEST(HostileModels, ThatAskForTooMuchAreRefusedBeforeTheWork) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_EQ(refusalOf(loopOf("100", false)), "imported");
  EXPECT_EQ(refusalOf(loopOf("100", true)), "imported");
  EXPECT_THAT(refusalOf(loopOf("4000000000000", false)),
              AllOf(HasSubstr("would run 4000000000000 times, at most 10000"),
                    HasSubstr("ImportOptions::limits.runs")));
  // 10,000 runs would make 10,000 * 10,001 / 2 elements.
  EXPECT_THAT(refusalOf(loopOf("10000", true)),
              AllOf(HasSubstr("50005000 elements"),
                    HasSubstr("limit is 4000000"),
                    HasSubstr("ImportOptions::limits.sequenceElements")));
  EXPECT_THAT(refusalOf(loopOf("100", false), {.runs = 99}), HasSubstr("at most 99"));
  EXPECT_THAT(refusalOf(loopOf("100", false), {.bodies = 50}), HasSubstr("limits.bodies"));
  EXPECT_THAT(refusalOf(loopOf("100", false), {.ops = 150}), HasSubstr("limits.ops"));
  EXPECT_EQ(refusalOf(loopOf("20000", false), {.runs = 20000}), "imported");
  EXPECT_EQ(refusalOf(loopOf("20000", false), {}, 16), "imported");
  EXPECT_THAT(refusalOf(loopOf("4000000000000", false), {}, 16),
              AllOf(HasSubstr("would run 4000000000000 times, at most 1000000"),
                    HasSubstr("ImportOptions::limits.rolledRuns")));
}

TEST(HostileModels, ThatUnrollLongExtentsAreRefused) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusalOf(graphOf("main (float[1000000000, 1, 1] x, float[1, 4, 1] w, float[1, 4, 1] "
                                "r) => (float[N] y) { y = LSTM<hidden_size = 1>(x, w, r) }")),
              HasSubstr("would run 1000000000 times"));
  EXPECT_THAT(refusalOf(graphOf("main (float[1000000000] x) => (float[N] y) { "
                                "s = SplitToSequence(x) y = ConcatFromSequence<axis = 0>(s) }")),
              HasSubstr("limits.sequenceElements"));
  EXPECT_THAT(refusalOf(graphOf("main (float[2] x) => (float[N] y) { "
                                "n = Constant<value_ints: ints = [100000000]>() "
                                "z = ConstantOfShape(n) s = Shape(z) y = Expand(x, z) }")),
              HasSubstr("limits.constantBytes"));
}

/// Functions of which each calls the next one twice, and the last one does nothing.
std::string callsOf(int depth) {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"o\" : 1]>\n"
      "main (float[2] x) => (float[2] y) { h = o.f0(x) y = Neg(h) }\n";
  for (int i = 0; i < depth; ++i) {
    text += fmt::format(
        "<domain: \"o\", opset_import: [\"\" : 17, \"o\" : 1]>\n"
        "f{0} (v) => (r) {{ a = o.f{1}(v) r = o.f{1}(a) }}\n",
        i,
        i + 1);
  }
  text += fmt::format(
      "<domain: \"o\", opset_import: [\"\" : 17]>\nf{} (v) => (v) {{ w = Neg(v) }}\n", depth);
  pb::ModelProto model;
  model.ParseFromString(modelOf(text));
  model.mutable_functions(depth)->clear_node();
  return model.SerializeAsString();
}

TEST(HostileModels, ThatCallFunctionsOverAndOverAreRefused) {
  using ::testing::HasSubstr;
  // 2^5 - 1 calls of f0 to f4.
  EXPECT_EQ(refusalOf(callsOf(4), {.bodies = 31}), "imported");
  EXPECT_THAT(refusalOf(callsOf(4), {.bodies = 30}), HasSubstr("called 31 times so far"));
  EXPECT_THAT(refusalOf(callsOf(30)), HasSubstr("limits.bodies"));
}

/// A model whose result has the shape that `text` computes from no inputs, as s.
std::string shapeFrom(const std::string& text) {
  return graphOf("main (float[2] x) => (float[K] y) { " + text +
                 " r = ReduceSum<keepdims = 0>(s) t = Cast<to = 7>(r) "
                 "ax = Constant<value_ints: ints = [0]>() u = Unsqueeze(t, ax) "
                 "y = ConstantOfShape(u) }");
}

std::string squareOf(int extent) {
  return fmt::format("e = Constant<value_ints: ints = [{0}, {0}]>() c = ConstantOfShape(e) ",
                     extent);
}

TEST(HostileModels, WhoseConstantsTakeLongToComputeAreRefused) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const std::string product = shapeFrom(squareOf(100) + "s = MatMul(c, c)");
  // 2 * 100^3 flops, and some 0.2e6 bytes and additions.
  EXPECT_EQ(refusalOf(product, {.constantWork = 2.3e6}), "imported");
  EXPECT_THAT(refusalOf(product, {.constantWork = 1.9e6}), HasSubstr("limits.constantWork"));
  EXPECT_THAT(refusalOf(shapeFrom(squareOf(2000) + "s = MatMul(c, c)")),
              AllOf(HasSubstr("1.61e+10 flops"), HasSubstr("limits.constantWork")));
  EXPECT_THAT(
      refusalOf(shapeFrom(squareOf(2000) + "s = Einsum<equation: string = \"ij,kj->ik\">(c, c)")),
      HasSubstr("limits.constantWork"));
  // 1,000,003 is a prime: each of the numbers goes into each of the results.
  EXPECT_THAT(refusalOf(shapeFrom("e = Constant<value_ints: ints = [1, 1000003, 1]>() "
                                  "c = ConstantOfShape(e) s = DFT(c)")),
              HasSubstr("limits.constantWork"));
  EXPECT_THAT(refusalOf(shapeFrom(
                  "e = Constant<value_ints: ints = [1, 1000000, 4]>() "
                  "b = ConstantOfShape(e) f = Constant<value_ints: ints = [1, 1, 1000000]>() "
                  "c = ConstantOfShape(f) n = Constant<value_int: int = 1000000>() "
                  "m = NonMaxSuppression(b, c, n) s = Cast<to = 1>(m)")),
              HasSubstr("limits.constantWork"));
}

TEST(HostileModels, WhoseConstantsAreManyAreRefusedTogether) {
  using ::testing::HasSubstr;
  std::string text =
      "n = Constant<value_int: int = 1000000>() z = Constant<value_int: int = 0>() "
      "o = Constant<value_int: int = 1>() ";
  for (int i = 0; i < 30; ++i) {
    text += fmt::format("a{} = Range(z, n, o) ", i);
  }
  text += "s = Cast<to = 1>(a0)";
  // 25 of them fit in 192 MiB. The ends and the step are 8 bytes each.
  EXPECT_THAT(refusalOf(shapeFrom(text)), HasSubstr("constants of 208000024 bytes"));
  // The edges of a filter may lie far behind the last bin.
  EXPECT_EQ(refusalOf(shapeFrom("b = Constant<value_int: int = 4>() "
                                "l = Constant<value_int: int = 16>() "
                                "q = Constant<value_int: int = 1>() "
                                "f = Constant<value_float: float = 0.0>() "
                                "h = Constant<value_float: float = 1e30>() "
                                "s = MelWeightMatrix(b, l, q, f, h)")),
            "imported");
}

/// A function with one node and `attr` of it, called one time after the other.
std::string callsWith(int calls, const std::string& op, const pb::AttributeProto& attr) {
  pb::ModelProto model;
  model.ParseFromString(
      modelOf("<ir_version: 8, opset_import: [\"\" : 17, \"o\" : 1]>\n"
              "main (float[2] x) => (float[2] y) { y = Neg(x) }\n"
              "<domain: \"o\", opset_import: [\"\" : 17]> f () => (r) { r = " +
              op + "() }"));
  *model.mutable_functions(0)->mutable_node(0)->add_attribute() = attr;
  for (int i = 0; i < calls; ++i) {
    pb::NodeProto& call = *model.mutable_graph()->add_node();
    call.set_op_type("f");
    call.set_domain("o");
    call.add_output("r" + std::to_string(i));
    model.mutable_graph()->add_output()->set_name("r" + std::to_string(i));
  }
  return model.SerializeAsString();
}

TEST(HostileModels, ThatCallALargeConstantOftenHaveItOnce) {
  pb::AttributeProto attr;
  attr.set_name("value");
  attr.set_type(pb::AttributeProto::TENSOR);
  *attr.mutable_t() = toTensorProto(HostTensor(DType::F32, Shape{1 << 18}), "");
  const std::string bytes = callsWith(1000, "Constant", attr);  // 1 GB in all, were they copies
  const ImportedModel model = importModelBytes(std::as_bytes(std::span(bytes)));
  std::set<const std::byte*> places;
  for (const ir::OpId id : model.graph.order()) {
    const ir::Op& op = model.graph.op(id);
    if (op.is(ir::kConstant)) {
      places.insert(op.attrs.tensor("value").bytes());
    }
  }
  EXPECT_EQ(places.size(), 1U);
}

TEST(HostileModels, ThatCallLongListsOftenAreRefused) {
  using ::testing::HasSubstr;
  pb::AttributeProto attr;
  attr.set_name("value_ints");
  attr.set_type(pb::AttributeProto::INTS);
  attr.mutable_ints()->Resize(1 << 17, 1);
  EXPECT_EQ(refusalOf(callsWith(100, "Constant", attr)), "imported");
  EXPECT_THAT(refusalOf(callsWith(300, "Constant", attr)), HasSubstr("limits.bodyBytes"));
  EXPECT_EQ(refusalOf(callsWith(300, "Constant", attr), {.bodyBytes = 512U << 20U}), "imported");
  // The list is the call's, and the nodes of the function refer to it.
  pb::ModelProto model;
  model.ParseFromString(callsWith(1, "Constant", attr));
  pb::FunctionProto& function = *model.mutable_functions(0);
  function.add_attribute("long");
  pb::AttributeProto& reference = *function.mutable_node(0)->mutable_attribute(0);
  reference.clear_ints();
  reference.set_ref_attr_name("long");
  for (int i = 0; i < 300; ++i) {
    pb::NodeProto& more = *function.add_node();
    more = function.node(0);
    more.set_output(0, "m" + std::to_string(i));
  }
  pb::NodeProto& call = *model.mutable_graph()->mutable_node(1);
  attr.set_name("long");
  *call.add_attribute() = attr;
  EXPECT_THAT(refusalOf(model.SerializeAsString()), HasSubstr("limits.bodyBytes"));
}

TEST(HostileModels, ThatCallLongListsOfNamesOftenAreRefused) {
  using ::testing::HasSubstr;
  pb::AttributeProto attr;
  attr.set_name("value_int");
  attr.set_type(pb::AttributeProto::INT);
  pb::ModelProto model;
  model.ParseFromString(callsWith(1000, "Constant", attr));
  for (int i = 0; i < 60'000; ++i) {
    model.mutable_functions(0)->add_output("r");
  }
  EXPECT_THAT(refusalOf(model.SerializeAsString()), HasSubstr("limits.bodyBytes"));
  model.ParseFromString(callsWith(1000, "Constant", attr));
  for (int i = 0; i < 60'000; ++i) {
    model.mutable_functions(0)->add_input("i" + std::to_string(i));
  }
  EXPECT_THAT(refusalOf(model.SerializeAsString()), HasSubstr("limits.bodyBytes"));
}

TEST(HostileModels, WithManyOpsetsOrAttributesAreRefused) {
  using ::testing::HasSubstr;
  const auto messageWith = [](auto change) {
    pb::ModelProto model;
    model.ParseFromString(graphOf("main (float[2] x) => (float[2] y) { y = Neg(x) }"));
    change(model);
    const std::string bytes = model.SerializeAsString();
    return testing::messageOf([&] { importModelBytes(std::as_bytes(std::span(bytes))); });
  };
  EXPECT_THAT(messageWith([](pb::ModelProto& model) {
                for (int i = 0; i < 256; ++i) {
                  model.add_opset_import()->set_domain("d" + std::to_string(i));
                }
              }),
              HasSubstr("257 opsets are imported"));
  EXPECT_THAT(messageWith([](pb::ModelProto& model) {
                for (int i = 0; i < 1025; ++i) {
                  pb::AttributeProto& attr =
                      *model.mutable_graph()->mutable_node(0)->add_attribute();
                  attr.set_name("a" + std::to_string(i));
                  attr.set_type(pb::AttributeProto::INT);
                }
              }),
              HasSubstr("1025 attributes, expected at most 1024"));
}

/// With a tensor in the file 'w.bin' for every offset.
std::string withExternal(const std::vector<std::pair<int, pb::TensorProto>>& tensors) {
  pb::ModelProto model;
  model.ParseFromString(graphOf("main (float[2] x) => (float[2] y) { y = Neg(x) }"));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pb::TensorProto& proto = *model.mutable_graph()->add_initializer();
    proto = tensors[i].second;
    proto.set_name("w" + std::to_string(i));
    proto.clear_raw_data();
    proto.set_data_location(pb::TensorProto::EXTERNAL);
    const std::pair<std::string, std::string> entries[] = {
        {"location", "w.bin"}, {"offset", std::to_string(tensors[i].first)}};
    for (const auto& [key, value] : entries) {
      pb::StringStringEntryProto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    model.mutable_graph()->add_output()->set_name(proto.name());
  }
  return model.SerializeAsString();
}

TEST(HostileModels, TakeNoMoreFromAFileThanItHas) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const testing::TempFolder folder;
  writeFileAtomically(folder / "w.bin", std::string("\2\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
  const auto import = [&](const std::vector<std::pair<int, pb::TensorProto>>& tensors) {
    const std::string bytes = withExternal(tensors);
    return importModelBytes(std::as_bytes(std::span(bytes)), {}, folder.path());
  };
  const pb::TensorProto four = toTensorProto(HostTensor(DType::F32, Shape{4}), "");
  const pb::TensorProto square = toTensorProto(HostTensor(DType::F32, Shape{2, 2}), "");
  const pb::TensorProto two = toTensorProto(HostTensor(DType::F32, Shape{2}), "");
  const ImportedModel tied = import({{0, four}, {0, square}, {0, four}});
  std::set<const std::byte*> places;
  for (const ir::Variable& variable : tied.graph.variables()) {
    places.insert(variable.initializer.tensor.bytes());
  }
  EXPECT_EQ(places.size(), 1U);
  EXPECT_EQ(import({{0, two}, {8, two}}).graph.variables().size(), 2U);
  EXPECT_THAT(testing::messageOf<FileError>([&] {
                import({{0, two}, {4, two}, { 8, two }});
              }),
              AllOf(HasSubstr("'w2' of 8 bytes from 8 on overlaps others"), HasSubstr("w.bin")));
  const ImportedModel bools = import({{0, toTensorProto(HostTensor(DType::Bool, Shape{3}), "")}});
  for (const ir::OpId id : bools.graph.order()) {
    const ir::Op& op = bools.graph.op(id);
    if (op.is(ir::kConstant)) {
      EXPECT_TRUE(
          op.attrs.tensor("value").sameBits(HostTensor::of<bool>(Shape{3}, {true, false, true})));
    }
  }
}

TEST(HostileModels, HaveNoPathOutOfTheirFolder) {
  for (const char* location : {"/etc/passwd", "../../etc/passwd", "a/../../x", "..", "", "."}) {
    pb::ModelProto model;
    model.ParseFromString(graphOf("main (float[2] x) => (float[2] y) { y = Add(x, w) }"));
    pb::TensorProto& proto = *model.mutable_graph()->add_initializer();
    proto = toTensorProto(HostTensor(DType::F32, Shape{2}), "w");
    proto.clear_raw_data();
    proto.set_data_location(pb::TensorProto::EXTERNAL);
    pb::StringStringEntryProto& entry = *proto.add_external_data();
    entry.set_key("location");
    entry.set_value(location);
    const std::string bytes = model.SerializeAsString();
    EXPECT_THROW(importModelBytes(std::as_bytes(std::span(bytes)), {}, ::testing::TempDir()), Error)
        << location;
  }
}

}  // namespace
}  // namespace sluice::onnx
