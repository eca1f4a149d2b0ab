// Programs cut for several owners: nothing of a part refers to another one, and together the parts
// are the whole, by the proofs of the whole.
#include "sluice/program/owners.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/program/barriers.h"
#include "sluice/program/task_lists.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_program.h"

namespace sluice::program {
namespace {

using schedule::PipelineKind;
using sluice::testing::chainModel;
using sluice::testing::lowerChain;
using ::testing::HasSubstr;

/// With the waits of every task in one order, each once.
std::string normalised(const Program& program) {
  Program copy = program;
  TaskLists lists = takeApart(program);
  const auto key = [](const Wait& w) {
    return std::tuple(w.lane, w.task, w.roundsBack, w.allReplicas);
  };
  for (std::vector<TaskEntry>& lane : lists) {
    for (TaskEntry& entry : lane) {
      std::ranges::sort(entry.waits, {}, key);
      const auto rest = std::ranges::unique(entry.waits);
      entry.waits.erase(rest.begin(), rest.end());
    }
  }
  putTogether(lists, copy);
  return print(copy);
}

std::string joinComplaint(std::span<const Part> parts) {
  try {
    verify(join(parts));
  } catch (const InternalError& error) {
    return error.message();
  }
  return "";
}

/// Every device of a part's lanes is its owner's, and every wait is for a lane of the part.
void expectAlone(const Part& part, std::span<const std::int32_t> ownerOf) {
  for (const Lane& lane : part.program.lanes) {
    EXPECT_EQ(ownerOf[static_cast<std::size_t>(lane.device)], part.owner);
    for (const Task& task : lane.tasks) {
      for (const Wait& wait : part.program.waitsOf(task)) {
        ASSERT_GE(wait.lane, 0);
        ASSERT_LT(static_cast<std::size_t>(wait.lane), part.program.lanes.size());
      }
    }
  }
}

Program pipeline(PipelineKind kind, std::int32_t microBatches, bool barriers = false) {
  Program program = lowerChain(chainModel({.blocks = 4, .skip = true, .tied = true}),
                               {.deviceOfStage = {0, 1, 2, 3},
                                .microBatches = microBatches,
                                .kind = kind,
                                .lookahead = 2},
                               toyTargets())
                        .program;
  if (barriers) {
    addBarriers(program, schedule::SyncPattern::Full);
  }
  return program;
}

TEST(Owners, PartsReferToNothingElseAndAreTheWholeTogether) {
  for (const PipelineKind kind : {PipelineKind::Sequential,
                                  PipelineKind::GPipe,
                                  PipelineKind::OneForwardOneBackward,
                                  PipelineKind::ZeroBubble}) {
    for (const bool barriers : {false, true}) {
      const Program whole = pipeline(kind, 3, barriers);
      ASSERT_EQ(complaint(whole), "");
      for (const std::vector<std::int32_t>& ownerOf :
           {std::vector<std::int32_t>{0, 0, 1, 1}, {0, 1, 2, 3}, {1, 0, 1, 0}, {0, 0, 0, 0}}) {
        SCOPED_TRACE(fmt::format(
            "{}, barriers {}, owners {}", schedule::name(kind), barriers, fmt::join(ownerOf, " ")));
        const std::vector<Part> parts = split(whole, ownerOf);
        ASSERT_EQ(parts.size(), static_cast<std::size_t>(1 + *std::ranges::max_element(ownerOf)));
        for (const Part& part : parts) {
          expectAlone(part, ownerOf);
        }
        EXPECT_EQ(parts[0].program.messages.empty(), parts.size() == 1);
        EXPECT_EQ(joinComplaint(parts), "");
        EXPECT_EQ(normalised(join(parts)), normalised(whole));
      }
    }
  }
}

/// Parts of a small pipeline, and one of its tasks.
class CutPipeline : public ::testing::Test {
 protected:
  /// The first task of a kind that carries data, or only that something is done.
  Task& find(TaskKind kind, bool data) {
    for (Part& part : parts_) {
      for (Lane& lane : part.program.lanes) {
        for (Task& task : lane.tasks) {
          if (task.kind == kind &&
              (part.program.messages[static_cast<std::size_t>(task.subject)].transfer >= 0) ==
                  data) {
            return task;
          }
        }
      }
    }
    ADD_FAILURE();
    return parts_[0].program.lanes[0].tasks[0];
  }

  std::vector<Part> parts_ =
      split(pipeline(PipelineKind::OneForwardOneBackward, 3, true), std::array{0, 0, 1, 1});
};

TEST_F(CutPipeline, IsRefusedIfAMessageIsLostOrDoubled) {
  const std::int32_t lost = find(TaskKind::Send, true).subject;
  find(TaskKind::Send, true).subject = lost + 1;
  EXPECT_THAT(joinComplaint(parts_), HasSubstr("has two senders"));
  for (Part& part : parts_) {
    for (Lane& lane : part.program.lanes) {
      std::erase_if(lane.tasks, [&](const Task& task) {
        return task.kind == TaskKind::Send && task.subject == lost + 1;
      });
    }
  }
  EXPECT_THAT(joinComplaint(parts_), HasSubstr("has no sender"));
}

TEST_F(CutPipeline, IsRefusedIfASenderDoesNotWaitForWhatItSends) {
  find(TaskKind::Send, false).numWaits = 0;
  EXPECT_THAT(joinComplaint(parts_), HasSubstr("before anything is done"));
  // Without barriers, which keep the kernels of all devices in step.
  parts_ = split(pipeline(PipelineKind::OneForwardOneBackward, 3), std::array{0, 0, 1, 1});
  EXPECT_EQ(joinComplaint(parts_), "");
  find(TaskKind::Send, true).numWaits = 0;
  EXPECT_THAT(joinComplaint(parts_), HasSubstr("tanh"));
}

TEST_F(CutPipeline, IsRefusedIfMessagesOvertakeEachOther) {
  for (Part& part : parts_) {
    for (Lane& lane : part.program.lanes) {
      if (lane.kind == LaneKind::Send && lane.tasks.size() > 1) {
        std::swap(lane.tasks[0], lane.tasks[1]);
        EXPECT_NE(joinComplaint(parts_), "");
        return;
      }
    }
  }
  FAIL() << "no lane sends twice";
}

TEST_F(CutPipeline, IsRefusedIfAWaitLeavesItsPart) {
  for (Wait& wait : parts_[0].program.waits) {
    wait.lane = 99;
  }
  EXPECT_THAT(joinComplaint(parts_), HasSubstr("of lane 99"));
}

TEST_F(CutPipeline, IsNoWholeProgram) {
  EXPECT_THAT(complaint(parts_[0].program), HasSubstr("receive"));
}

}  // namespace
}  // namespace sluice::program
