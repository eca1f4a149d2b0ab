// Inputs of a model: by position and by name, nested, left out, of types of the user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/data_loader.h"
#include "sluice/api/model.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/layers.h"
#include "tests/support/message_of.h"

namespace sluice {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A structure of the user, around symbolic or host tensors.
template <class T>
struct Span {
  T from;
  std::optional<T> to;
  static auto fields() { return std::tuple(field("from", &Span::from), field("to", &Span::to)); }
};

/// Symbolic and host form of a structure that cannot list its fields.
struct SymbolicRange {
  nn::Tensor low;
  nn::Tensor high;
};
struct HostRange {
  HostTensor low;
  HostTensor high;
};
template <>
struct StructureParser<HostRange> {
  using Leaf = HostTensor;
  template <class>
  using With = HostRange;
  static HostStructure parse(const HostRange& r) { return std::pair(r.low, r.high); }
  static HostRange build(const HostStructure& s) { return {s[0].tensor(), s[1].tensor()}; }
};
template <>
struct StructureParser<SymbolicRange> {
  using Leaf = nn::Tensor;
  template <class>
  using With = HostRange;
  static SymbolicStructure parse(const SymbolicRange& r) { return std::pair(r.low, r.high); }
  static SymbolicRange build(const SymbolicStructure& s) { return {s[0].tensor(), s[1].tensor()}; }
};

namespace {

using sluice::testing::messageOf;

HostTensor column(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{static_cast<std::int64_t>(values.size()), 1}, values);
}

/// x * scale + shift, and the mask if there is one.
struct Affine : nn::Module {
  static std::vector<Input> inputs() {
    return {Input("x"),
            Input("mask", std::nullopt),
            Input("scale", HostTensor::scalar(2.0F)),
            Input("shift")};
  }
  nn::Tensor forward(const nn::Tensor& x,
                     const std::optional<nn::Tensor>& mask,
                     const nn::Tensor& scale,
                     const nn::Tensor& shift) {
    const nn::Tensor y = x * scale + shift;
    return mask ? y * *mask : y;
  }
};

TEST(Inputs, AreGivenByPositionAndByName) {
  Affine net;
  auto model = inferenceModel(net, Options());
  const HostTensor all = model(column({1, 2}),
                               column({0, 1}),
                               Keyword{"shift", column({10, 20})},
                               Keyword{"scale", column({3, 4})});
  EXPECT_THAT(all.toDoubles(), ElementsAre(0, 28));
  EXPECT_THAT(model.program().name, "inference");
  const NamedTensors byName = model.run(NamedTensors{{"scale", column({3, 4})},
                                                     {"x", column({1, 2})},
                                                     {"mask", column({0, 1})},
                                                     {"shift", column({10, 20})}});
  EXPECT_THAT(byName.at("output0").toDoubles(), ElementsAre(0, 28));
  const std::vector<HostTensor> flat =
      model.run({column({1, 2}), column({0, 1}), column({3, 4}), column({10, 20})});
  EXPECT_THAT(flat.at(0).toDoubles(), ElementsAre(0, 28));
  EXPECT_THAT(
      model.runAsync(Inputs(column({1, 2}), column({1, 0}), column({3, 4}), column({10, 20})))
          .get()
          .at(0)
          .toDoubles(),
      ElementsAre(13, 0));
}

TEST(Inputs, ThatAreLeftOutHaveTheirDefaultsInEveryMicroBatch) {
  Affine net;
  auto model = inferenceModel(net, Options().deviceIterations(3));
  const Keyword shift{"shift", column({10, 20, 30})};
  EXPECT_THAT(model(column({1, 2, 3}), shift).toDoubles(), ElementsAre(12, 24, 36));
  EXPECT_THAT(model(column({1, 2, 3}), std::nullopt, std::nullopt, shift.value).toDoubles(),
              ElementsAre(12, 24, 36));
}

TEST(Inputs, ThatDoNotFitAreNamed) {
  Affine net;
  auto model = inferenceModel(net, Options());
  const HostTensor x = column({1, 2});
  EXPECT_THAT(messageOf([&] {
                model(x, Keyword{"bias", x});
              }),
              AllOf(HasSubstr("no input 'bias'"), HasSubstr("[x, mask, scale, shift]")));
  EXPECT_THAT(messageOf([&] {
                model(x, Keyword{"x", x}, Keyword{"shift", x});
              }),
              HasSubstr("'x' is given twice"));
  EXPECT_THAT(messageOf([&] {
                model(x, Keyword{"shift", x}, Keyword{"shift", x});
              }),
              HasSubstr("'shift' is given twice"));
  EXPECT_THAT(messageOf([&] { model(x); }), HasSubstr("'shift' of the model is missing"));
  EXPECT_THAT(messageOf([&] { model(Keyword{"x", x}, x); }), HasSubstr("positions come first"));
  EXPECT_THAT(messageOf([&] { model.run(Inputs(x, x, x, x, x)); }),
              HasSubstr("takes 4 inputs, got 5 by position"));
  EXPECT_THAT(messageOf([&] { model.run({x}); }), HasSubstr("takes 4 inputs, got 1"));
  EXPECT_THAT(messageOf([&] {
                model(std::vector{x, x}, Keyword{"shift", x});
              }),
              AllOf(HasSubstr("expected a tensor, got a list of 2"), HasSubstr("input 0")));
  model(x, Keyword{"shift", x});
  EXPECT_THAT(messageOf([&] {
                model(x, x, Keyword{"shift", x});
              }),
              AllOf(HasSubstr("another structure"), HasSubstr("mask: nothing, now a tensor")));
}

/// Declares other inputs than forward takes.
struct Misdeclared : nn::Module {
  std::vector<std::string> names;
  std::vector<Input> inputs() const {
    std::vector<Input> all;
    for (const std::string& name : names) {
      all.emplace_back(name);
    }
    return all;
  }
  nn::Tensor forward(const nn::Tensor& x, const nn::Tensor& y) { return x + y; }
};

TEST(Inputs, AreDeclaredOnceEach) {
  Misdeclared net;
  net.names = {"x"};
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options()); }),
              AllOf(HasSubstr("declares [x]"), HasSubstr("takes 2 inputs")));
  net.names = {"x", "x"};
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options()); }), HasSubstr("name of its own"));
}

/// Takes and gives back nested values.
struct Nested : nn::Module {
  using Map = std::map<std::string, nn::Tensor>;
  using Result = std::tuple<nn::Tensor, Map, std::optional<nn::Tensor>, Span<nn::Tensor>>;
  Result forward(const std::pair<nn::Tensor, std::vector<nn::Tensor>>& x,
                 const Map& named,
                 const Span<nn::Tensor>& span) {
    nn::Tensor sum = x.first;
    for (const nn::Tensor& each : x.second) {
      sum = sum + each;
    }
    return {sum,
            {{"twice", named.at("a") * 2.0}, {"thrice", named.at("b") * 3.0}},
            std::nullopt,
            {span.from + 1.0, span.to ? std::optional(*span.to + 2.0) : std::nullopt}};
  }
};

TEST(Inputs, NestAndOutputsComeBackInTheStructureOfForward) {
  Nested net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  const std::map<std::string, HostTensor> named{{"a", column({1, 2})}, {"b", column({3, 4})}};
  const auto [sum, products, none, span] =
      model(std::pair(column({1, 2}), std::vector{column({10, 20}), column({100, 200})}),
            named,
            Span<HostTensor>{column({5, 6}), column({7, 8})});
  EXPECT_THAT(sum.toDoubles(), ElementsAre(111, 222));
  EXPECT_THAT(products.at("twice").toDoubles(), ElementsAre(2, 4));
  EXPECT_THAT(products.at("thrice").toDoubles(), ElementsAre(9, 12));
  EXPECT_FALSE(none);
  EXPECT_THAT(span.from.toDoubles(), ElementsAre(6, 7));
  EXPECT_THAT(span.to->toDoubles(), ElementsAre(9, 10));
  // The graph's names are paths.
  std::vector<std::string> drains;
  for (const auto& drain : model.program().drains) {
    drains.push_back(drain.name);
  }
  EXPECT_THAT(
      drains,
      ElementsAre("output0", "output1.thrice", "output1.twice", "output3.from", "output3.to"));
  EXPECT_THAT(messageOf([&] {
                model(std::pair(column({1, 2}), std::vector{column({10, 20})}),
                      named,
                      Span<HostTensor>{column({5, 6}), column({7, 8})});
              }),
              HasSubstr("input0.1: a list of 2, now a list of 1"));
  EXPECT_THAT(messageOf([&] {
                model(std::pair(column({1, 2}), std::vector{column({10, 20}), column({1})}),
                      named,
                      Span<HostTensor>{column({5, 6}), column({7, 8})});
              }),
              HasSubstr("input 'input0.1.1' has shape [1, 1]"));
}

/// Takes structures whose parsers were registered for them, and any structure.
struct Registered : nn::Module {
  SymbolicStructure forward(const SymbolicRange& range, const SymbolicStructure& any) {
    return std::map<std::string, SymbolicStructure>{
        {"width", range.high - range.low},
        {"range", SymbolicRange{range.low, range.high * 2.0}},
        {"leaves",
         any.map([](const nn::Tensor& leaf, const std::string& /*path*/) { return leaf * 10.0; })}};
  }
};

TEST(Inputs, TakeTypesWithARegisteredParser) {
  Registered net;
  auto model = inferenceModel(net, Options());
  const HostStructure result = model(
      HostRange{column({1, 2}), column({4, 7})},
      std::map<std::string, std::vector<HostTensor>>{{"deep", {column({1, 1}), column({2, 3})}}});
  EXPECT_THAT(result["width"].tensor().toDoubles(), ElementsAre(3, 5));
  EXPECT_THAT(build<HostRange>(result["range"]).high.toDoubles(), ElementsAre(8, 14));
  EXPECT_THAT(result["leaves"]["deep"][1].tensor().toDoubles(), ElementsAre(20, 30));
}

/// A loss only where there are labels, as one module for training and inference has it.
struct NestedRegression : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  std::pair<nn::Tensor, std::optional<nn::Tensor>> forward(
      const nn::Tensor& x, const std::optional<nn::Tensor>& labels) {
    const nn::Tensor y = fc(x);
    return {y, labels ? std::optional(nn::mseLoss(y, *labels)) : std::nullopt};
  }
};

TEST(Inputs, OneModuleTrainsWithLabelsAndPredictsWithoutThem) {
  NestedRegression net;
  auto training = trainingModel(net, Options(), optim::SGD(0.05));
  auto inference = inferenceModel(net, Options());
  const HostTensor x = column({1, 2, 3, 4});
  const HostTensor y = column({3, 5, 7, 9});
  double loss = 0;
  for (int i = 0; i < 400; ++i) {
    loss = training(x, y).second->at(0);
  }
  EXPECT_LT(loss, 1e-3);
  const auto [prediction, none] = inference(column({10}));
  EXPECT_NEAR(prediction.at(0), 21, 0.5);
  EXPECT_FALSE(none);
}

TEST(Inputs, OfALoaderFillTheStructureThatTheModelWasCompiledFor) {
  Nested net;
  const Options options = Options().deviceIterations(2);
  auto model = inferenceModel(net, options);
  const std::map<std::string, HostTensor> named{{"a", column({1, 2})}, {"b", column({3, 4})}};
  const std::pair x(column({1, 2}), std::vector{column({10, 20})});
  model.compile(Inputs(x, named, Span<HostTensor>{column({5, 6}), std::nullopt}));
  EXPECT_TRUE(model.isCompiled());
  DataLoader loader(
      options,
      data::tensorDataset(
          {column({1, 2}), column({10, 20}), column({1, 2}), column({3, 4}), column({5, 6})}));
  const std::vector<HostTensor> outputs = model.run(loader.next().value());
  EXPECT_THAT(outputs.at(0).toDoubles(), ElementsAre(11, 22));
  EXPECT_THAT(outputs.at(1).toDoubles(), ElementsAre(9, 12));
  EXPECT_THAT(outputs.at(3).toDoubles(), ElementsAre(6, 7));
}

TEST(Inputs, OfABuilderHaveTheirIds) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId y = b.addInputTensor({DType::F32, Shape{2}}, "y");
  b.addOutputTensor(b.aiOnnx().sub(x, y));
  Model model = inferenceModel(b, Options());
  const HostTensor one = HostTensor::of<float>(Shape{2}, {1, 2});
  const HostTensor five = HostTensor::of<float>(Shape{2}, {5, 5});
  EXPECT_THAT(model.run(Inputs(Keyword{y, one}, Keyword{x, five}))[0].tensor().toDoubles(),
              ElementsAre(4, 3));
  EXPECT_THAT(messageOf([&] { model.run(Inputs(std::vector{one}, five)); }),
              HasSubstr("another structure"));
}

}  // namespace
}  // namespace sluice
