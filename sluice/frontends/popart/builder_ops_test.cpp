// Each op of the Builder's sets once, on small tensors. Names are ONNX's: the tables are compared
// with what the importer knows.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "tests/support/builder_op_cases.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using opcases::Case;
using opcases::Fixture;
using opcases::Ids;
using opcases::Values;
using sluice::testing::messageOf;
using ::testing::HasSubstr;

std::vector<Case> joined(const std::vector<std::vector<Case>>& families) {
  std::vector<Case> all;
  for (const std::vector<Case>& family : families) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

std::vector<Case> onnxCases() {
  return joined({opcases::unaryCases(),
                 opcases::binaryCases(),
                 opcases::linearCases(),
                 opcases::poolCases(),
                 opcases::normalizationCases(),
                 opcases::reductionCases(),
                 opcases::indexingCases(),
                 opcases::shapeCases(),
                 opcases::reshapingCases(),
                 opcases::imageAndRandomCases(),
                 opcases::sequenceCases()});
}

std::vector<Case> vendorCases() {
  return joined({opcases::vendorElementwiseCases(),
                 opcases::vendorIndexingCases(),
                 opcases::vendorNnCases(),
                 opcases::vendorRunCases()});
}

void expectTypes(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.onnx));
    Fixture f;
    Ids made;
    try {
      made = c.make(f);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    std::vector<std::string> types;
    for (const TensorId& id : made) {
      types.push_back(TensorType{f.b.getTensorDtype(id), f.b.getTensorShape(id)}.str());
    }
    std::vector<std::string> expected;
    for (const TensorType& type : c.types) {
      expected.push_back(type.str());
    }
    EXPECT_EQ(types, expected);
    ir::verify(f.b.graph());
  }
}

TEST(AiOnnx, MakesEachOpWithItsResultTypes) {
  expectTypes(onnxCases());
}

TEST(AiGraphcore, MakesEachOpWithItsResultTypes) {
  expectTypes(vendorCases());
}

/// What the importer translates of a domain in opset 17, but for the given names.
std::set<std::string_view> importedOps(std::string_view domain,
                                       const std::set<std::string_view>& without) {
  std::set<std::string_view> names;
  for (const auto family : {onnx::controlTranslations(),        onnx::elementwiseTranslations(),
                            onnx::imageTranslations(),          onnx::indexingTranslations(),
                            onnx::linearTranslations(),         onnx::lossTranslations(),
                            onnx::mathTranslations(),           onnx::nnTranslations(),
                            onnx::normTranslations(),           onnx::poolTranslations(),
                            onnx::randomTranslations(),         onnx::recurrentTranslations(),
                            onnx::reductionTranslations(),      onnx::sequenceTranslations(),
                            onnx::shapeTranslations(),          onnx::signalTranslations(),
                            onnx::vendorIndexingTranslations(), onnx::vendorReplicaTranslations(),
                            onnx::vendorStreamTranslations(),   onnx::vendorTranslations()}) {
    for (const onnx::Translation& translation : family) {
      if (translation.domain == domain) {
        names.insert(translation.op);
      }
    }
  }
  for (const ir::OpDef* def : ops::opSet().all()) {
    for (const ir::OnnxName& name : def->onnx) {
      if (name.domain == domain && name.since <= 17) {
        names.insert(name.name);
      }
    }
  }
  std::erase_if(names, [&](std::string_view name) { return without.contains(name); });
  return names;
}

std::set<std::string_view> namesOf(const std::vector<Case>& cases) {
  std::set<std::string_view> names;
  for (const Case& c : cases) {
    names.insert(c.onnx);
  }
  return names;
}

TEST(AiOnnx, HasEveryOpThatIsImported) {
  std::set<std::string_view> expected = importedOps("",
                                                    {"If",
                                                     "Loop",
                                                     "Scan",
                                                     "ConcatFromSequence",
                                                     "SequenceAt",
                                                     "SequenceConstruct",
                                                     "SequenceEmpty",
                                                     "SequenceErase",
                                                     "SequenceInsert",
                                                     "SequenceLength",
                                                     "SplitToSequence",
                                                     "Upsample"});  // gone since opset 10
  expected.insert("DynamicQuantizeLinear");  // imported by the standard's own definition
  EXPECT_EQ(namesOf(onnxCases()), expected);
}

TEST(AiGraphcore, HasEveryOpThatIsImported) {
  EXPECT_EQ(namesOf(vendorCases()), importedOps("ai.graphcore", {}));
}

/// The values of one op for x = [[-1, 4, 9], [1, 0.25, 16]], by the reference kernels.
Values valuesOf(TensorId (*make)(Fixture&)) {
  Fixture f;
  const TensorId id = make(f);
  f.b.addOutputTensor(id);
  ops::TensorMap inputs;
  for (const ir::OpId op : f.b.graph().order()) {
    if (f.b.graph().op(op).is(ir::kInput)) {
      inputs[f.b.graph().op(op).name] = HostTensor(f.b.graph().op(op).outputs[0]);
    }
  }
  inputs["x"] = Fixture::tensor(DType::F32, Shape{2, 3}, {-1, 4, 9, 1, 0.25, 16});
  ops::TensorMap variables;
  return ops::evaluate(f.b.graph(), inputs, variables).at(id).toDoubles();
}

TEST(AiOnnx, ComputesWhatTheOpsArePassed) {
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.leakyrelu(f.x, 0.5); }),
            (Values{-0.5, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.shrink(f.x, 2, 1); }),
            (Values{0, 3, 8, 0, 0, 15}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.mean({f.x, f.f32({}, {3})});
            }),
            (Values{1, 3.5, 6, 2, 1.625, 9.5}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.mod(f.x, f.f32({}, {3}), true); }),
            (Values{-1, 1, 0, 1, 0.25, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.reducesumsquare(f.x, {1}); }),
            (Values{98, 257.0625}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.argmin(f.x, {.axis = 1}); }), (Values{0, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.cumsum(f.x, -1, {.exclusive = true}); }),
            (Values{0, -1, 3, 0, 1, 1.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.topk(f.x, 1, {.largest = false})[0]; }),
            (Values{-1, 0.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.pad(f.x, {0, 1, 0, -1}, {.value = 7});
            }),
            (Values{7, -1, 4, 7, 1, 0.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.quantizelinear(f.x, {f.f32({}, {0.5}), f.u8({}, {3})});
            }),
            (Values{1, 11, 21, 5, 3, 35}));  // 0.25 / 0.5 is rounded to the even 0
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.trilu(f.x, 1, false); }),
            (Values{-1, 4, 0, 1, 0.25, 16}));
  // A number that has no short decimal form reaches the op as the nearest of 32 bits.
  const double third = 1.0 / 3;
  EXPECT_FLOAT_EQ(
      static_cast<float>(valuesOf([](Fixture& f) { return f.o.leakyrelu(f.x, 1.0 / 3); })[0]),
      static_cast<float>(-third));
}

TEST(AiGraphcore, ComputesWhatTheOpsArePassed) {
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.scaledadd(f.x, f.x, 2, -1); }),
            (Values{-1, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.remainder(f.x, f.f32({}, {3})); }),
            (Values{2, 1, 0, 1, 0.25, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.g.histogram(f.x, {0.25, 4.5});
            }),
            (Values{1, 3, 2}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.g.dynamicslice(f.x, f.i64({1}, {1}), {{1}, {2}});
            }),
            (Values{4, 9, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.sort(f.x, 1, true)[1]; }),
            (Values{2, 1, 0, 2, 0, 1}));
}

TEST(AiOnnx, LeavesNoUnusedConstantsForArgumentsThatAreOperands) {
  Fixture f;
  const std::size_t before = f.b.graph().numOps();
  f.o.tile(f.x, {2, 1});
  EXPECT_EQ(f.b.graph().numOps(), before + 1);
}

TEST(AiOnnx, RefusesUnknownTensorsAndWhatDoesNotFit) {
  Fixture f;
  const std::size_t before = f.b.graph().numOps();
  EXPECT_THAT(messageOf([&] { f.o.acos("nobody"); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.max({f.x, "nobody"}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.pad("nobody", {0, 0}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.topk("nobody", 1); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.g.swish("nobody"); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.g.multiconv({{"nobody", f.image, {}}}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] {
                f.g.multiconv({{f.image, f.image, {.strides = {2}}}});
              }),
              HasSubstr("expected 2 numbers, got 1"));
  EXPECT_THAT(messageOf([&] { f.o.gru(f.sequence, {.w = f.x, .r = f.x, .peepholes = f.x}); }),
              HasSubstr("peepholes"));
  EXPECT_THAT(messageOf([&] { f.o.depthtospace(f.image, 2, "XYZ"); }), HasSubstr("XYZ"));
  EXPECT_EQ(f.b.graph().numOps(), before);
}

/// The graph that `make` builds on the tensors of a Fixture.
template <class Make>
std::string graphOf(const Make& make) {
  Fixture f;
  make(f);
  return ir::print(f.b.graph());
}

TEST(Builder, OpsTakeTheirTensorsAsAListToo) {
  const auto expectSame = [](const auto& apart, const auto& list) {
    EXPECT_EQ(graphOf(apart), graphOf(list));
  };
  expectSame([](Fixture& f) { f.o.relu(f.x); }, [](Fixture& f) { f.o.relu({f.x}); });
  expectSame([](Fixture& f) { f.o.matmul(f.x, f.square); },
             [](Fixture& f) {
               f.o.matmul({f.x, f.square});
             });
  expectSame([](Fixture& f) { f.o.where(f.flags, f.x, f.x); },
             [](Fixture& f) {
               f.o.where({f.flags, f.x, f.x});
             });
  expectSame(
      [](Fixture& f) {
        f.o.gather(f.x, f.i64({2}, {0, 2}), 1);
      },
      [](Fixture& f) {
        f.o.gather({f.x, f.i64({2}, {0, 2})}, 1);
      });
  expectSame([](Fixture& f) { f.o.gemm(f.x, f.square, f.x, {.alpha = 2}); },
             [](Fixture& f) {
               f.o.gemm({f.x, f.square, f.x}, {.alpha = 2});
             });
  // Constants first: the order in which arguments are made is not fixed.
  expectSame(
      [](Fixture& f) {
        const TensorId w = f.ones({3, 2, 1, 1});
        const TensorId bias = f.ones({3});
        f.o.conv(f.image, w, {.strides = {2, 2}}, bias);
      },
      [](Fixture& f) {
        const TensorId w = f.ones({3, 2, 1, 1});
        const TensorId bias = f.ones({3});
        f.o.conv({f.image, w, bias}, {.strides = {2, 2}});
      });
  expectSame([](Fixture& f) { f.g.scaledadd(f.x, f.x, 2, 3); },
             [](Fixture& f) {
               f.g.scaledadd({f.x, f.x}, 2, 3);
             });
}

TEST(Builder, AListOfAnotherLengthIsRefused) {
  Fixture f;
  EXPECT_THAT(messageOf([&] { f.o.add(Ids{f.x, f.x, f.x}); }), HasSubstr("2 tensors, got 3"));
  EXPECT_THAT(messageOf([&] { f.o.conv(Ids{f.x}); }), HasSubstr("2 to 3 tensors, got 1"));
  EXPECT_THAT(messageOf([&] { f.o.batchnormalization(Ids{f.x}); }), HasSubstr("5 tensors, got 1"));
}

}  // namespace
}  // namespace sluice
