#include "sluice/parallel/annotate_phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/ops.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A chain of additions of weights; `elements` gives the size of each weight.
struct Chain {
  ir::Graph graph;
  std::vector<ir::OpId> ops;

  explicit Chain(const std::vector<std::int64_t>& elements) {
    ir::GraphBuilder b(graph);
    ir::Value x = b.input("x", {DType::F32, Shape{}});
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::string name = "w" + std::to_string(i);
      graph.addVariable({.name = name, .type = {DType::F32, Shape{elements[i]}}});
      x = ops::add(b, x, ops::reduceSum(b, b.variable(name), {0}, false));
      ops.push_back(x.op);
    }
    graph.addOutput("y", x);
  }
  void annotate(std::size_t i, std::int32_t phase, std::int32_t device = -1) {
    for (const ir::OpId id : {graph.op(ops[i]).inputs[1].op, ops[i]}) {
      ir::Placement place = graph.op(id).place;
      place.phase = phase;
      place.device = device;
      graph.setPlacement(id, place);
    }
  }
  std::vector<std::int32_t> read(std::int32_t ir::Placement::*field) const {
    std::vector<std::int32_t> all;
    for (const ir::OpId id : ops) {
      all.push_back(graph.op(id).place.*field);
    }
    return all;
  }
};

TEST(AnnotatePhases, CutsByTheBytesOfWeights) {
  Chain even({4, 4, 4, 4});
  annotatePhases(even.graph, {.phases = 4});
  EXPECT_THAT(even.read(&ir::Placement::phase), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(even.read(&ir::Placement::device), ElementsAre(0, 0, 0, 0));
  Chain halves({4, 4, 4, 4});
  annotatePhases(halves.graph, {.phases = 2, .groups = 2});
  EXPECT_THAT(halves.read(&ir::Placement::phase), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(halves.read(&ir::Placement::device), ElementsAre(0, 0, 1, 1));
  Chain uneven({1, 1, 10});
  annotatePhases(uneven.graph, {.phases = 2});
  EXPECT_THAT(uneven.read(&ir::Placement::phase), ElementsAre(0, 0, 1));
}

TEST(AnnotatePhases, TakesAnnotationsAndRaisesOthers) {
  Chain chain({4, 4, 4, 4});
  chain.annotate(0, 2, 5);
  annotatePhases(chain.graph, {.phases = 4});
  // The others would be in phases 1, 2 and 3; the second comes behind what it reads.
  EXPECT_THAT(chain.read(&ir::Placement::phase), ElementsAre(2, 2, 2, 3));
  EXPECT_THAT(chain.read(&ir::Placement::device), ElementsAre(5, 0, 0, 0));
}

TEST(AnnotatePhases, RefusesPhasesThatCannotBe) {
  Chain outside({4, 4});
  outside.annotate(1, 2);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { annotatePhases(outside.graph, {.phases = 2}); }),
              HasSubstr("phase 2, and there are 2"));
  Chain backwards({4, 4});
  backwards.annotate(0, 1);
  backwards.annotate(1, 0);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { annotatePhases(backwards.graph, {.phases = 2}); }),
              AllOf(HasSubstr("phase 0"), HasSubstr("made in phase 1")));
}

}  // namespace
}  // namespace sluice::parallel
