// On one replica, where a part is the whole in one row, values can be compared, too.
#include "sluice/transforms/shard_updates.h"

#include <gtest/gtest.h>

#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

TEST(ShardUpdates, ComputesOnThePartsThatStateIsKeptIn) {
  expectPass(shardUpdates,
             R"(graph "g" {
    var "w": f32[2, 3] weight init uniform(-1, 1)
    var "w.m": f32[6] optimizer frozen split 1 of f32[2, 3] init constant(0.5)
    %0 = input() "g" : f32[2, 3]
    %1 = variable() {var="w"} : f32[2, 3] @update
    %2 = variable() {var="w.m"} : f32[6] @update
    %3 = replica_gather(%2) {shape=[2, 3]} : f32[2, 3] @update
    %4 = replica_sum(%0) : f32[2, 3] @update
    %5 = add(%3, %4) : f32[2, 3] @update
    %6 = replica_scatter(%5) {replicas=1} : f32[6] @update
    assign(%6) {mode="set", var="w.m"} : @update
    %7 = sub(%1, %5) : f32[2, 3] @update
    %8 = replica_scatter(%7) {replicas=1} : f32[6] @update
    %9 = replica_gather(%8) {shape=[2, 3]} : f32[2, 3] @update
    assign(%9) {mode="set", var="w"} : @update
  })",
             R"(graph "g" {
    var "w": f32[2, 3] weight init uniform(-1, 1)
    var "w.m": f32[6] optimizer frozen split 1 of f32[2, 3] init constant(0.5)
    %0 = input() "g" : f32[2, 3]
    %1 = variable() {var="w"} : f32[2, 3] @update
    %2 = variable() {var="w.m"} : f32[6] @update
    %3 = replica_sum_scatter(%0) {replicas=1} : f32[6] @update
    %4 = add(%2, %3) : f32[6] @update
    assign(%4) {mode="set", var="w.m"} : @update
    %5 = replica_scatter(%1) {replicas=1} : f32[6] @update
    %6 = sub(%5, %4) : f32[6] @update
    %7 = replica_gather(%6) {shape=[2, 3]} : f32[2, 3] @update
    assign(%7) {mode="set", var="w"} : @update
  })");
}

TEST(ShardUpdates, GathersWhatIsReadAsAWhole) {
  expectPass(shardUpdates,
             R"(graph "g" {
    var "w.m": f32[6] optimizer frozen split 1 of f32[2, 3] init constant(0.5)
    %0 = input() "g" : f32[2, 3]
    %1 = variable() {var="w.m"} : f32[6] @update
    %2 = replica_gather(%1) {shape=[2, 3]} : f32[2, 3] @update
    %3 = replica_sum(%0) : f32[2, 3] @update
    %4 = add(%2, %3) : f32[2, 3] @update
    %5 = reduce_sum(%4) {axes=[0, 1], keepDims=false} : f32[] @update
    %6 = mul(%4, %5) : f32[2, 3] @update
    %7 = reduce_sum(%3) {axes=[0, 1], keepDims=false} : f32[] @update
    %8 = mul(%6, %7) : f32[2, 3] @update
    %9 = replica_scatter(%8) {replicas=1} : f32[6] @update
    assign(%9) {mode="set", var="w.m"} : @update
  })",
             R"(graph "g" {
    var "w.m": f32[6] optimizer frozen split 1 of f32[2, 3] init constant(0.5)
    %0 = input() "g" : f32[2, 3]
    %1 = variable() {var="w.m"} : f32[6] @update
    %2 = replica_sum(%0) : f32[2, 3] @update
    %3 = replica_scatter(%2) {replicas=1} : f32[6] @update
    %4 = add(%1, %3) : f32[6] @update
    %5 = replica_gather(%4) {shape=[2, 3]} : f32[2, 3] @update
    %6 = reduce_sum(%5) {axes=[0, 1], keepDims=false} : f32[] @update
    %7 = reduce_sum(%2) {axes=[0, 1], keepDims=false} : f32[] @update
    %8 = mul(%4, %6) : f32[6] @update
    %9 = mul(%8, %7) : f32[6] @update
    assign(%9) {mode="set", var="w.m"} : @update
  })");
}

TEST(ShardUpdates, LeavesOtherGraphsAlone) {
  expectUnchanged(shardUpdates, R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = replica_sum(%0) : f32[2, 3] @update
    output "y" = %1
  })");
}

}  // namespace
}  // namespace sluice::transforms
