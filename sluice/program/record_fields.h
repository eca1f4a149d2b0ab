// The fields of each record of a Program, once for all its stored forms. An archive has
// `field(name, value)`: a writer of text or bytes, or a reader of one. Private to the program
// module.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/device/kernel_table.h"
#include "sluice/program/program.h"

namespace sluice::program {

/// The values of an enumeration from 0 on, by the names that print has for them.
template <class E>
inline constexpr std::size_t kCount = 0;
template <>
inline constexpr std::size_t kCount<TaskKind> = kTaskKinds;
template <>
inline constexpr std::size_t kCount<LaneKind> = 8;
template <>
inline constexpr std::size_t kCount<CollectiveKind> = 3;
template <>
inline constexpr std::size_t kCount<SegmentKind> = 6;

/// Of those that are written as numbers.
template <class E>
inline constexpr int kNumbers = 0;
template <>
inline constexpr int kNumbers<Region> = 2;
template <>
inline constexpr int kNumbers<device::LayoutRule> = 2;
template <>
inline constexpr int kNumbers<schedule::SyncPattern> = 3;

// What each record has, for both directions. `Of` is the record or a constant one.

template <class A, class Of>
void fields(A& a, Of& plan) requires std::is_same_v<std::remove_const_t<Of>, DevicePlan> {
  a.field("state", plan.stateBytes);
  a.field("transient", plan.transientBytes);
  a.field("bound", plan.transientLowerBound);
  a.field("own", plan.ownBytes);
  a.field("staging", plan.stagingBytes);
}

template <class A, class Of>
void fields(A& a, Of& buffer) requires std::is_same_v<std::remove_const_t<Of>, Buffer> {
  a.field("name", buffer.name);
  a.field("device", buffer.device);
  a.field("region", buffer.region);
  a.field("offset", buffer.offset);
  a.field("bytes", buffer.bytes);
  a.field("slots", buffer.slots);
  a.field("alignment", buffer.alignment);
  a.field("window", buffer.window);
}

template <class A, class Of>
void fields(A& a, Of& stream) requires std::is_same_v<std::remove_const_t<Of>, Port> {
  a.field("name", stream.name);
  a.field("type", stream.type);
  a.field("buffer", stream.buffer);
  a.field("every", stream.rule.every);
  a.field("final", stream.rule.finalOnly);
  a.field("staging", stream.staging);
}

template <class A, class Of>
void fields(A& a, Of& transfer) requires std::is_same_v<std::remove_const_t<Of>, Transfer> {
  a.field("name", transfer.name);
  a.field("from", transfer.from);
  a.field("to", transfer.to);
  a.field("bytes", transfer.bytes);
  a.field("once", transfer.oncePerRound);
}

template <class A, class Of>
void fields(A& a, Of& collective) requires std::is_same_v<std::remove_const_t<Of>, Collective> {
  a.field("name", collective.name);
  a.field("from", collective.from);
  a.field("to", collective.to);
  a.field("type", collective.type);
  a.field("kind", collective.kind);
  a.field("operand", collective.operand);
  a.field("once", collective.oncePerRound);
}

template <class A, class Of>
void fields(A& a, Of& message) requires std::is_same_v<std::remove_const_t<Of>, Message> {
  a.field("name", message.name);
  a.field("from", message.from);
  a.field("to", message.to);
  a.field("transfer", message.transfer);
}

template <class A, class Of>
void fields(A& a, Of& segment) requires std::is_same_v<std::remove_const_t<Of>, Segment> {
  a.field("kind", segment.kind);
  a.field("device", segment.device);
  a.field("stage", segment.stage);
  a.field("part", segment.part);
  a.field("bucket", segment.bucket);
  a.field("loop", segment.inLoop);
}

/// Without op and attributes, which come first.
template <class A, class Of>
void fields(A& a, Of& call) requires std::is_same_v<std::remove_const_t<Of>, device::KernelCall> {
  a.field("name", call.name);
  a.field("inputs", call.inputs);
  a.field("inputTypes", call.inputTypes);
  a.field("outputs", call.outputs);
  a.field("outputTypes", call.outputTypes);
  a.field("scratch", call.scratch);
  a.field("implementation", call.choice.implementation);
  a.field("rule", call.choice.rule);
  a.field("inputLayouts", call.choice.inputs);
  a.field("outputLayouts", call.choice.outputs);
  a.field("scratchBytes", call.choice.scratchBytes);
  a.field("config", call.choice.config);
}

template <class A, class Of>
void fields(A& a, Of& lane) requires std::is_same_v<std::remove_const_t<Of>, Lane> {
  a.field("device", lane.device);
  a.field("kind", lane.kind);
  a.field("peer", lane.peer);
  a.field("staging", lane.staging);
}

template <class A, class Of>
void fields(A& a, Of& task) requires std::is_same_v<std::remove_const_t<Of>, Task> {
  a.field("kind", task.kind);
  a.field("subject", task.subject);
  a.field("microBatch", task.microBatch);
  a.field("start", task.plannedStart);
}

template <class A, class Of>
void fields(A& a, Of& wait) requires std::is_same_v<std::remove_const_t<Of>, Wait> {
  a.field("lane", wait.lane);
  a.field("task", wait.task);
  a.field("back", wait.roundsBack);
  a.field("all", wait.allReplicas);
}

template <class A, class Of>
void fields(A& a, Of& slot) requires std::is_same_v<std::remove_const_t<Of>, Slot> {
  a.field("buffer", slot.buffer);
  a.field("slot", slot.slot);
}

}  // namespace sluice::program
