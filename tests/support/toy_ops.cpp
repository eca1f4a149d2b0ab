#include "tests/support/toy_ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::ir::toy {
namespace {

constexpr std::array<AttrSpec, 1> kSplitAttrs = {
    {{.name = "sizes", .kind = AttrKind::Ints, .required = true}}};
constexpr std::array<AttrSpec, 7> kEveryAttr = {
    {{.name = "flag", .kind = AttrKind::Bool},
     {.name = "int", .integer = 3},
     {.name = "ints", .kind = AttrKind::Ints},
     {.name = "real", .kind = AttrKind::Real, .real = 0.5},
     {.name = "reals", .kind = AttrKind::Reals},
     {.name = "text", .kind = AttrKind::Text, .text = "a"},
     {.name = "texts", .kind = AttrKind::Texts}}};
constexpr std::array<AttrSpec, 1> kNestedAttrs = {
    {{.name = "body", .kind = AttrKind::Subgraph, .required = true}}};
constexpr std::array<AttrSpec, 2> kNoiseAttrs = {
    {{.name = "ordinal", .required = true},
     {.name = "shape", .kind = AttrKind::Ints, .required = true}}};
constexpr std::array<AttrSpec, 1> kShapeAttr = {
    {{.name = "shape", .kind = AttrKind::Ints, .required = true}}};

std::vector<TensorType> inferSum(const OpView& op) {
  if (op.inputs[0] != op.inputs[1]) {
    raise<InvalidArgument>(
        "toy_sum: operands are {} and {}", op.inputs[0].str(), op.inputs[1].str());
  }
  return {op.inputs[0]};
}

std::vector<TensorType> inferSplit(const OpView& op) {
  std::vector<TensorType> types;
  for (const std::int64_t size : op.attrs.integers("sizes")) {
    types.push_back({op.inputs[0].dtype, Shape{size}});
  }
  return types;
}

std::vector<TensorType> inferScalar(const OpView&) {
  return {{DType::F32, Shape{}}};
}

std::vector<TensorType> inferNested(const OpView& op) {
  const Graph& body = op.attrs.subgraph("body");
  std::vector<TensorType> types;
  for (const Output& output : body.outputs()) {
    types.push_back(body.type(output.value));
  }
  return types;
}

std::vector<TensorType> inferShape(const OpView& op) {
  return {{DType::F32, Shape(op.attrs.integers("shape"))}};
}

}  // namespace

constinit const OpDef kSum{.name = "toy_sum",
                           .minInputs = 2,
                           .maxInputs = 2,
                           .infer = inferSum,
                           .traits = {.elementwise = true, .commutative = true}};
constinit const OpDef kSplit{
    .name = "toy_split", .outputs = kVariadic, .attrs = kSplitAttrs, .infer = inferSplit};
constinit const OpDef kAttrs{.name = "toy_attrs",
                             .minInputs = 0,
                             .maxInputs = kVariadic,
                             .attrs = kEveryAttr,
                             .infer = inferScalar};
constinit const OpDef kNested{.name = "toy_nested",
                              .minInputs = 0,
                              .maxInputs = kVariadic,
                              .outputs = kVariadic,
                              .attrs = kNestedAttrs,
                              .infer = inferNested};
constinit const OpDef kNoise{.name = "toy_noise",
                             .minInputs = 0,
                             .maxInputs = 0,
                             .attrs = kNoiseAttrs,
                             .infer = inferShape,
                             .traits = {.random = true}};
constinit const OpDef kPickOne{
    .name = "toy_pick", .maxInputs = 2, .attrs = kShapeAttr, .infer = inferShape};

const OpSet& ops() {
  static constexpr std::array<const OpDef*, 10> kDefs = {&kAssign,
                                                         &kConstant,
                                                         &kInput,
                                                         &kAttrs,
                                                         &kNested,
                                                         &kNoise,
                                                         &kPickOne,
                                                         &kSplit,
                                                         &kSum,
                                                         &kVariable};
  static const OpSet kSet(kDefs);
  return kSet;
}

namespace {

class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, int depth)
      : random_(seed), depth_(depth), graph_(text()), builder_(graph_) {}

  Graph make(int size) {
    for (int i = 0; i < 3; ++i) {
      addVariable(i);
    }
    values_.push_back(builder_.input("x" + text(), randomType()));
    for (int i = 0; i < size; ++i) {
      builder_.place = randomPlacement();
      builder_.scope = below(2) == 0 ? text() : "";
      addOp();
    }
    for (int i = 0; i < 2; ++i) {
      graph_.addOutput(fmt::format("{}{}", text(), i), anyValue());
    }
    return std::move(graph_);
  }

 private:
  std::int64_t below(int n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }

  std::string text() {
    static constexpr std::string_view kLetters = "aZ_/. \"\\\n\t\r\x01\x7f\xc3\xa9%{}";
    std::string result;
    for (std::int64_t i = below(6); i > 0; --i) {
      result += kLetters[static_cast<std::size_t>(below(static_cast<int>(kLetters.size())))];
    }
    return result;
  }

  double real() {
    static constexpr auto kInfinity = std::numeric_limits<double>::infinity();
    switch (below(6)) {
      case 0:
        return static_cast<double>(below(10));
      case 1:
        return -0.0;
      case 2:
        return below(2) == 0 ? kInfinity : -kInfinity;
      case 3:
        return std::numeric_limits<double>::quiet_NaN();
      default:
        return std::bit_cast<double>(static_cast<std::uint64_t>(random_()));
    }
  }

  TensorType randomType() {
    std::vector<std::int64_t> dims;
    for (std::int64_t i = below(4); i > 0; --i) {
      dims.push_back(below(4));
    }
    return {static_cast<DType>(below(kNumDTypes)), Shape(std::move(dims))};
  }

  HostTensor randomBits(const TensorType& type) {
    HostTensor tensor(type);
    for (std::size_t i = 0; i < tensor.byteCount(); ++i) {
      const std::int64_t bits = below(type.dtype == DType::Bool ? 2 : 256);
      tensor.bytes()[i] = static_cast<std::byte>(bits);
    }
    return tensor;
  }

  Placement randomPlacement() {
    Placement place;
    place.pass = static_cast<Pass>(below(3));
    place.block = below(2) == 0 ? -1 : graph_.blockIndex("B" + text());
    place.stage = static_cast<std::int32_t>(below(3)) - 1;
    place.phase = static_cast<std::int32_t>(below(3)) - 1;
    place.device = static_cast<std::int32_t>(below(3)) - 1;
    return place;
  }

  void addVariable(int i) {
    Variable variable;
    variable.name = fmt::format("{}{}", text(), i);
    variable.type = randomType();
    variable.role = static_cast<VariableRole>(below(5));
    variable.trainable = below(2) == 0;
    const std::array<Initializer, 4> kinds = {Initializer::constant(real()),
                                              Initializer::uniform(real(), real()),
                                              Initializer::normal(real(), real()),
                                              Initializer::of(randomBits(variable.type))};
    variable.initializer = kinds[static_cast<std::size_t>(below(4))];
    graph_.addVariable(variable);
  }

  Value anyValue() {
    return values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))];
  }
  const Variable& anyVariable() { return graph_.variables()[static_cast<std::size_t>(below(3))]; }

  void addOp() {
    switch (below(8)) {
      case 0:
        values_.push_back(builder_.variable(anyVariable().name));
        break;
      case 1:
        values_.push_back(builder_.constant(randomBits(randomType())));
        break;
      case 2: {
        const std::string name = anyVariable().name;
        builder_.assign(name, builder_.variable(name));
        break;
      }
      case 3: {
        const Value v = anyValue();
        values_.push_back(builder_.add(kSum, {v, v}));
        break;
      }
      case 4: {
        const auto parts =
            builder_.addMany(kSplit, {anyValue()}, {{"sizes", {below(4), below(4), 2}}});
        values_.insert(values_.end(), parts.begin(), parts.end());
        break;
      }
      case 5:
        values_.push_back(builder_.add(
            kNoise, {}, {{"ordinal", builder_.nextRandomOrdinal()}, {"shape", {below(3)}}}));
        break;
      case 6:
        addNested();
        break;
      default:
        addEveryAttr();
    }
  }

  void addNested() {
    if (depth_ == 0) {
      return;
    }
    auto body = std::make_shared<const Graph>(randomGraph(random_(), 4, depth_ - 1));
    const auto results = builder_.addMany(kNested, {anyValue()}, {{"body", GraphRef(body)}});
    values_.insert(values_.end(), results.begin(), results.end());
  }

  void addEveryAttr() {
    Attrs attrs;
    const std::array<NamedAttr, 7> all = {
        NamedAttr{"flag", below(2) == 0},
        {"int", static_cast<std::int64_t>(random_())},
        {"ints", std::vector<std::int64_t>(static_cast<std::size_t>(below(3)), -below(9))},
        {"real", real()},
        {"reals", std::vector<double>(static_cast<std::size_t>(below(3)), real())},
        {"text", text()},
        {"texts", std::vector<std::string>(static_cast<std::size_t>(below(3)), text())}};
    for (const NamedAttr& attr : all) {
      if (below(2) == 0) {
        attrs.set(attr);
      }
    }
    values_.push_back(builder_.add(kAttrs, {anyValue(), anyValue()}, attrs));
  }

  std::mt19937_64 random_;
  int depth_;
  Graph graph_;
  GraphBuilder builder_;
  std::vector<Value> values_;
};

}  // namespace

Graph randomGraph(std::uint64_t seed, int size, int depth) {
  return RandomGraph(seed, depth).make(size);
}

}  // namespace sluice::ir::toy
