// A program of two stages on two devices and two micro-batches per round, with made-up times.
// Nothing of it can run.
#pragma once

#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

namespace sluice::profile {

/// The lanes are: 0 load of device 0, 1 compute of device 0, 2 exchange into device 1, 3 compute of
/// device 1 (with an update at the end), 4 store of device 1.
inline program::Program twoStageProgram(program::DrainRule rule = {}) {
  using namespace program;  // NOLINT(google-build-using-namespace): all of it is one program
  Program p;
  p.name = "two";
  p.microBatchesPerRound = 2;
  p.training = true;
  p.devices.resize(2);
  for (const std::int32_t device : {0, 0, 1, 1}) {
    p.buffers.push_back({.name = "b", .device = device, .bytes = 100});
  }
  for (const parallel::SegmentInfo& info :
       {parallel::SegmentInfo{.kind = SegmentKind::Forward, .device = 0, .stage = 0},
        parallel::SegmentInfo{.kind = SegmentKind::Forward, .device = 1, .stage = 1},
        parallel::SegmentInfo{.kind = SegmentKind::Update, .device = 1}}) {
    p.segments.push_back({info, {}});
  }
  const TensorType type{DType::F32, Shape{25}};
  p.feeds = {{.name = "x", .type = type, .buffer = BufferId(0)}};
  p.drains = {{.name = "y", .type = type, .buffer = BufferId(3), .rule = rule}};
  p.transfers = {{.name = "h", .from = BufferId(1), .to = BufferId(2), .bytes = 100}};
  p.lanes = {{.device = 0, .kind = LaneKind::Load},
             {.device = 0, .kind = LaneKind::Compute},
             {.device = 1, .kind = LaneKind::Exchange, .peer = 0},
             {.device = 1, .kind = LaneKind::Compute},
             {.device = 1, .kind = LaneKind::Store}};
  constexpr TaskKind kKinds[] = {
      TaskKind::Feed, TaskKind::Run, TaskKind::Transfer, TaskKind::Run, TaskKind::Drain};
  constexpr std::int32_t kSubjects[] = {0, 0, 0, 1, 0};
  for (std::int32_t lane = 0; lane < 5; ++lane) {
    for (std::int32_t m = 0; m < 2; ++m) {  // each lane waits for the one before it
      const bool first = lane == 0;
      p.lanes[static_cast<std::size_t>(lane)].tasks.push_back(
          {.kind = kKinds[lane],
           .subject = kSubjects[lane],
           .microBatch = m,
           .firstWait = static_cast<std::int32_t>(p.waits.size()),
           .numWaits = first ? 0 : 1});
      if (!first) {
        p.waits.push_back({.lane = lane - 1, .task = m});
      }
    }
  }
  p.lanes[3].tasks.push_back({.kind = TaskKind::Run, .subject = 2, .microBatch = 1});
  return p;
}

/// The times of one round that begins at `start`.
inline std::vector<runtime::TaskTime> twoStageTimes(std::int64_t start = 1000,
                                                    std::int32_t round = 0) {
  std::vector<runtime::TaskTime> times = {{0, 0, round, 0, 100},
                                          {0, 1, round, 100, 200},
                                          {1, 0, round, 100, 500},
                                          {1, 1, round, 500, 900},
                                          {2, 0, round, 500, 550},
                                          {2, 1, round, 900, 950},
                                          {3, 0, round, 600, 800},
                                          {3, 1, round, 1000, 1200},
                                          {3, 2, round, 1200, 1300},
                                          {4, 0, round, 850, 900},
                                          {4, 1, round, 1250, 1350}};
  for (runtime::TaskTime& time : times) {
    time.start += start;
    time.end += start;
  }
  return times;
}

}  // namespace sluice::profile
