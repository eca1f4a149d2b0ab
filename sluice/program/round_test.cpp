// Rounds over several devices: depths of rings, transfers, mirrors and waits worked out by hand;
// and verify() on programs of which one record was broken.
#include "sluice/program/round.h"

#include <algorithm>
#include <bitset>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/program/verify.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_program.h"

namespace sluice::program {
namespace {

using schedule::PipelineKind;
using sluice::testing::Chain;
using sluice::testing::chainModel;
using sluice::testing::lowerChain;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t laneOf(const Program& p, std::int32_t device, LaneKind kind, std::int32_t peer = -1) {
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    if (p.lanes[l].device == device && p.lanes[l].kind == kind && p.lanes[l].peer == peer) {
      return l;
    }
  }
  throw std::logic_error("no such lane");
}

/// The first task of a lane that is of this kind and micro-batch.
Task& taskOf(Program& p, std::size_t lane, TaskKind kind, std::int32_t microBatch) {
  for (Task& task : p.lanes[lane].tasks) {
    const bool once = task.kind == TaskKind::Run &&
                      p.segments[static_cast<std::size_t>(task.subject)].oncePerRound();
    if (task.kind == kind && task.microBatch == microBatch && !once) {
      return task;
    }
  }
  throw std::logic_error("no such task");
}

std::vector<Wait> waitsOf(const Program& p, const Task& task) {
  const auto waits = p.waitsOf(task);
  return {waits.begin(), waits.end()};
}

void setWaits(Program& p, Task& task, const std::vector<Wait>& waits) {
  task.firstWait = static_cast<std::int32_t>(p.waits.size());
  task.numWaits = static_cast<std::int32_t>(waits.size());
  p.waits.insert(p.waits.end(), waits.begin(), waits.end());
}

void dropWaitsFor(Program& p, Task& task, std::size_t lane) {
  std::vector<Wait> waits = waitsOf(p, task);
  std::erase_if(waits, [&](const Wait& wait) { return wait.lane == static_cast<int>(lane); });
  ASSERT_LT(waits.size(), static_cast<std::size_t>(task.numWaits));
  setWaits(p, task, waits);
}

/// Stages on devices 0, 1, ...; per stage but the last, the slots of what it stashes and sends.
std::vector<std::int32_t> sentSlots(PipelineKind kind,
                                    std::int32_t stages,
                                    std::int32_t lookahead,
                                    std::vector<std::int32_t>* stashDepth = nullptr) {
  sluice::testing::ChainRun run{.microBatches = 9, .kind = kind, .lookahead = lookahead};
  for (std::int32_t s = 0; s < stages; ++s) {
    run.deviceOfStage.push_back(s);
  }
  const Chain chain = lowerChain(chainModel({.blocks = stages}), run, toyTargets());
  EXPECT_EQ(complaint(chain.program), "");
  std::vector<std::int32_t> slots(static_cast<std::size_t>(stages) - 1, 0);
  for (const Transfer& transfer : chain.program.transfers) {
    const Buffer& from = chain.program.buffer(transfer.from);
    if (chain.program.buffer(transfer.to).device > from.device) {  // forward
      slots[static_cast<std::size_t>(from.device)] = from.slots;
    }
  }
  if (stashDepth != nullptr) {
    *stashDepth = chain.schedule.stashDepth;
  }
  return slots;
}

TEST(Round, StashesAsManyMicroBatchesAsTheScheduleHasInFlight) {
  EXPECT_THAT(sentSlots(PipelineKind::OneForwardOneBackward, 4, 0), ElementsAre(4, 3, 2));
  EXPECT_THAT(sentSlots(PipelineKind::OneForwardOneBackward, 4, 1), ElementsAre(5, 4, 3));
  EXPECT_THAT(sentSlots(PipelineKind::GPipe, 4, 0), ElementsAre(9, 9, 9));
  EXPECT_THAT(sentSlots(PipelineKind::Sequential, 3, 0), ElementsAre(1, 1));
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    if (schedule::splitsBackward(kind)) {
      continue;
    }
    std::vector<std::int32_t> depth;
    const std::vector<std::int32_t> slots = sentSlots(kind, 5, 0, &depth);
    depth.pop_back();  // the last stage sends nothing
    EXPECT_EQ(slots, depth) << schedule::name(kind);
  }
}

TEST(Round, CopiesEveryMicroBatchWhenItIsMadeAndFreesTheSource) {
  Chain chain = lowerChain(chainModel({.training = false}),
                           {.deviceOfStage = {0, 1}, .microBatches = 3, .lookahead = 0},
                           toyTargets());
  Program& p = chain.program;
  ASSERT_EQ(p.transfers.size(), 1U);
  EXPECT_FALSE(p.transfers[0].oncePerRound);
  const auto c0 = static_cast<std::int32_t>(laneOf(p, 0, LaneKind::Compute));
  const auto c1 = static_cast<std::int32_t>(laneOf(p, 1, LaneKind::Compute));
  const std::size_t copy = laneOf(p, 1, LaneKind::Exchange, 0);
  const auto ex = static_cast<std::int32_t>(copy);
  // Task 0 of a compute lane packs the weight; one slot at either end.
  EXPECT_THAT(waitsOf(p, taskOf(p, copy, TaskKind::Transfer, 1)),
              ElementsAre(Wait{c0, 2, 0}, Wait{c1, 1, 0}));
  EXPECT_THAT(waitsOf(p, taskOf(p, copy, TaskKind::Transfer, 0)),
              ElementsAre(Wait{c0, 1, 0}, Wait{c1, 3, 1}));
  EXPECT_THAT(waitsOf(p, taskOf(p, static_cast<std::size_t>(c0), TaskKind::Run, 2)),
              Contains(Wait{ex, 1, 0}));
  EXPECT_THAT(waitsOf(p, taskOf(p, static_cast<std::size_t>(c1), TaskKind::Run, 2)),
              Contains(Wait{ex, 2, 0}));
}

TEST(Round, MirrorsAVariableOfAnotherDeviceOncePerRound) {
  Chain chain = lowerChain(chainModel({.blocks = 3, .tied = true}),
                           {.deviceOfStage = {0, 1, 2}, .microBatches = 3},
                           toyTargets());
  Program& p = chain.program;
  EXPECT_EQ(complaint(p), "");
  const std::size_t copy = laneOf(p, 2, LaneKind::Exchange, 0);
  const Task& mirror = p.lanes[copy].tasks.front();
  const Transfer& transfer = p.transfers[static_cast<std::size_t>(mirror.subject)];
  EXPECT_EQ(transfer.name, "w0");
  EXPECT_TRUE(transfer.oncePerRound);
  EXPECT_EQ(p.buffer(transfer.from).region, Region::State);
  // It waits for the last round's update and is waited for by this round's.
  const std::size_t home = laneOf(p, 0, LaneKind::Compute);
  const auto update = static_cast<std::int32_t>(p.lanes[home].tasks.size()) - 1;
  EXPECT_THAT(waitsOf(p, mirror), Contains(Wait{static_cast<std::int32_t>(home), update, 1}));
  EXPECT_THAT(waitsOf(p, p.lanes[home].tasks.back()),
              Contains(Wait{static_cast<std::int32_t>(copy), 0, 0}));
}

TEST(Round, MirrorsAVariableThatIsReadThroughAViewOfAnotherStage) {
  ir::Graph graph("view");
  ir::GraphBuilder b(graph);
  graph.addVariable({.name = "w", .type = {DType::F32, {6}}});
  const ir::Value x = b.input("x", {DType::F32, {2, 3}});
  b.place.block = graph.blockIndex("a");
  const ir::Value view = ops::reshape(b, b.variable("w"), {2, 3});
  const ir::Value y = ops::mul(b, x, view);
  b.place.block = graph.blockIndex("b");
  graph.addOutput("y", ops::add(b, y, view));
  b.place = {};
  b.place.pass = ir::Pass::Update;
  b.assign("w", ops::neg(b, b.variable("w")));
  const Chain chain = lowerChain(graph, {.deviceOfStage = {0, 1}, .microBatches = 3}, toyTargets());
  EXPECT_EQ(complaint(chain.program), "");
  int mirrors = 0;
  for (const Transfer& transfer : chain.program.transfers) {
    mirrors += transfer.name == "w" && transfer.oncePerRound ? 1 : 0;
  }
  EXPECT_EQ(mirrors, 1);
}

TEST(Round, SequentialMicroBatchesWaitForTheOneBefore) {
  Chain chain =
      lowerChain(chainModel({.training = false}),
                 {.deviceOfStage = {0, 1}, .microBatches = 3, .kind = PipelineKind::Sequential},
                 toyTargets());
  Program& p = chain.program;
  const std::size_t c0 = laneOf(p, 0, LaneKind::Compute);
  const auto c1 = static_cast<std::int32_t>(laneOf(p, 1, LaneKind::Compute));
  EXPECT_THAT(waitsOf(p, taskOf(p, c0, TaskKind::Run, 1)), Contains(Wait{c1, 1, 0}));
  EXPECT_THAT(waitsOf(p, taskOf(p, c0, TaskKind::Run, 0)), Contains(Wait{c1, 3, 1}));
}

/// Three devices in a row with a tied weight.
struct Broken {
  Chain chain = lowerChain(chainModel({.blocks = 3, .tied = true}),
                           {.deviceOfStage = {0, 1, 2}, .microBatches = 4},
                           toyTargets());
  Program& p = chain.program;
  std::size_t c0 = laneOf(p, 0, LaneKind::Compute);
  std::size_t c1 = laneOf(p, 1, LaneKind::Compute);
  std::size_t c2 = laneOf(p, 2, LaneKind::Compute);
  std::size_t from0to1 = laneOf(p, 1, LaneKind::Exchange, 0);
  std::size_t from0to2 = laneOf(p, 2, LaneKind::Exchange, 0);
};

TEST(VerifyOnSeveralDevices, FindsACopyThatDoesNotWaitForItsSource) {
  Broken b;
  dropWaitsFor(b.p, taskOf(b.p, b.from0to1, TaskKind::Transfer, 2), b.c0);
  EXPECT_THAT(complaint(b.p),
              AllOf(HasSubstr("race"),
                    HasSubstr("transfer 'tanh' of micro-batch 2"),
                    HasSubstr("of lane exchange of device 1"),
                    HasSubstr("'tanh'"),
                    HasSubstr("lane compute of device 0")));
}

TEST(VerifyOnSeveralDevices, FindsAKernelThatDoesNotWaitForTheCopy) {
  Broken b;
  dropWaitsFor(b.p, taskOf(b.p, b.c1, TaskKind::Run, 1), b.from0to1);
  EXPECT_THAT(complaint(b.p),
              AllOf(HasSubstr("race"),
                    HasSubstr("run forward 1 of micro-batch 1"),
                    HasSubstr("lane compute of device 1"),
                    HasSubstr("'tanh'"),
                    HasSubstr("lane exchange of device 1")));
}

TEST(VerifyOnSeveralDevices, FindsACopyThatReadsTooEarly) {
  Broken b;
  Task& copy = taskOf(b.p, b.from0to1, TaskKind::Transfer, 2);
  std::vector<Wait> waits = waitsOf(b.p, copy);
  for (Wait& wait : waits) {
    wait.task -= wait.lane == static_cast<int>(b.c0) ? 1 : 0;
  }
  setWaits(b.p, copy, waits);
  EXPECT_THAT(complaint(b.p),
              AllOf(HasSubstr("transfer 'tanh' of micro-batch 2"), HasSubstr("device 1")));
}

TEST(VerifyOnSeveralDevices, FindsACopyFromOrToTheWrongSlot) {
  for (const bool source : {true, false}) {
    Broken b;
    const Task& copy = taskOf(b.p, b.from0to1, TaskKind::Transfer, 1);
    const Transfer& transfer = b.p.transfers[static_cast<std::size_t>(copy.subject)];
    const BufferId id = source ? transfer.from : transfer.to;
    for (std::int32_t i = 0; i < copy.numSlots; ++i) {
      Slot& slot = b.p.slots[static_cast<std::size_t>(copy.firstSlot + i)];
      slot.slot = slot.buffer == id ? (slot.slot + 1) % b.p.buffer(id).slots : slot.slot;
    }
    EXPECT_THAT(complaint(b.p), AllOf(HasSubstr("'tanh'"), HasSubstr("of device"))) << source;
  }
}

TEST(VerifyOnSeveralDevices, FindsAMirrorThatIsReadBeforeItArrives) {
  Broken b;
  Task& pack = b.p.lanes[b.c2].tasks.front();
  dropWaitsFor(b.p, pack, b.from0to2);
  EXPECT_THAT(complaint(b.p),
              AllOf(HasSubstr("run pack"),
                    HasSubstr("lane compute of device 2"),
                    HasSubstr("'w0'"),
                    HasSubstr("nothing has written")));
}

TEST(VerifyOnSeveralDevices, FindsAMirrorThatDoesNotWaitForTheUpdateBefore) {
  Broken b;
  dropWaitsFor(b.p, b.p.lanes[b.from0to2].tasks.front(), b.c0);
  EXPECT_THAT(complaint(b.p),
              AllOf(HasSubstr("race"), HasSubstr("'w0'"), HasSubstr("lane exchange of device 2")));
}

/// Which tasks of three rounds come before which, by the closure of lane order and waits.
class Closure {
 public:
  static constexpr std::int32_t kRounds = 3;

  explicit Closure(const Program& p) : p_(p) {
    for (const Lane& lane : p.lanes) {
      first_.push_back(size_);
      size_ += lane.tasks.size() * kRounds;
    }
    before_.resize(size_);
    for (std::size_t l = 0; l < p.lanes.size(); ++l) {
      for (std::int32_t round = 0; round < kRounds; ++round) {
        for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
          addEdges(l, t, round);
        }
      }
    }
    for (std::size_t k = 0; k < size_; ++k) {
      for (std::size_t n = 0; n < size_; ++n) {
        if (before_[n].test(k)) {
          before_[n] |= before_[k];
        }
      }
    }
  }

  std::size_t node(std::size_t lane, std::size_t task, std::int32_t round) const {
    return first_[lane] + static_cast<std::size_t>(round) * p_.lanes[lane].tasks.size() + task;
  }
  bool ordered(std::size_t a, std::size_t b) const { return before_[b].test(a); }

 private:
  void addEdges(std::size_t lane, std::size_t task, std::int32_t round) {
    const std::size_t n = node(lane, task, round);
    if (n > first_[lane]) {
      before_[n].set(n - 1);
    }
    for (const Wait& wait : p_.waitsOf(p_.lanes[lane].tasks[task])) {
      if (round >= wait.roundsBack) {
        before_[n].set(node(static_cast<std::size_t>(wait.lane),
                            static_cast<std::size_t>(wait.task),
                            round - wait.roundsBack));
      }
    }
  }

  const Program& p_;
  std::size_t size_ = 0;
  std::vector<std::size_t> first_;
  std::vector<std::bitset<1024>> before_;
};

bool writes(const Program& p, const Task& task, BufferId buffer) {
  const auto subject = static_cast<std::size_t>(task.subject);
  if (task.kind != TaskKind::Run) {
    return (task.kind == TaskKind::Feed && p.feeds[subject].buffer == buffer) ||
           (task.kind == TaskKind::Transfer && p.transfers[subject].to == buffer);
  }
  return std::ranges::any_of(p.segments[subject].calls, [&](const device::KernelCall& call) {
    return std::ranges::find(call.outputs, buffer.value) != call.outputs.end();
  });
}

/// Whether a ring of so many slots would be enough: everybody who touches a value is done before
/// the value that takes its slot is written.
bool isEnough(const Program& p, const Closure& closure, BufferId ring, std::int64_t slots) {
  std::map<std::int64_t, std::vector<std::size_t>> touch;  // by micro-batch of all rounds
  std::map<std::int64_t, std::size_t> write;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
      const Task& task = p.lanes[l].tasks[t];
      const auto named = p.slotsOf(task);
      if (std::ranges::find(named, ring, &Slot::buffer) == named.end()) {
        continue;
      }
      for (std::int32_t round = 0; round < Closure::kRounds; ++round) {
        const std::int64_t value = round * p.microBatchesPerRound + task.microBatch;
        touch[value].push_back(closure.node(l, t, round));
        if (writes(p, task, ring)) {
          write[value] = closure.node(l, t, round);
        }
      }
    }
  }
  return std::ranges::all_of(touch, [&](const auto& each) {
    const auto next = write.find(each.first + slots);
    return next == write.end() || std::ranges::all_of(each.second, [&](std::size_t n) {
             return closure.ordered(n, next->second);
           });
  });
}

TEST(VerifyOnSeveralDevices, FindsARingWithASlotTooFewIfAndOnlyIfItIsNotEnough) {
  int tooFew = 0;
  for (const std::int32_t lookahead : {0, 1}) {
    const Chain chain =
        lowerChain(chainModel({.blocks = 3, .skip = true, .tied = true}),
                   {.deviceOfStage = {0, 1, 2}, .microBatches = 4, .lookahead = lookahead},
                   toyTargets());
    const Closure closure(chain.program);
    for (std::size_t r = 0; r < chain.program.buffers.size(); ++r) {
      const std::int32_t slots = chain.program.buffers[r].slots;
      if (slots < 2) {
        continue;
      }
      EXPECT_TRUE(isEnough(chain.program, closure, BufferId(r), slots));
      Program p = chain.program;
      p.buffers[r].slots = slots - 1;
      for (const Lane& lane : p.lanes) {
        for (const Task& task : lane.tasks) {
          for (std::int32_t i = 0; i < task.numSlots; ++i) {
            Slot& slot = p.slots[static_cast<std::size_t>(task.firstSlot + i)];
            slot.slot = slot.buffer.index() == r ? task.microBatch % (slots - 1) : slot.slot;
          }
        }
      }
      const std::string found = complaint(p);
      if (isEnough(chain.program, closure, BufferId(r), slots - 1)) {
        EXPECT_EQ(found, "");
      } else {
        ++tooFew;
        EXPECT_THAT(found,
                    AllOf(HasSubstr("'" + p.buffers[r].name + "'"),
                          HasSubstr("lane"),
                          HasSubstr("micro-batch")));
      }
    }
  }
  EXPECT_GT(tooFew, 10);
}

}  // namespace
}  // namespace sluice::program
