// On one replica, where a part is the whole in one row, values can be compared, too.
#include "sluice/transforms/shard_weights.h"

#include <gtest/gtest.h>

#include "sluice/ir/printer.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

constexpr std::string_view kWhole = R"(graph "g" {
    var "w": f32[2, 3] weight init uniform(-1, 1)
    var "v": f32[2, 3] weight init uniform(-1, 1)
    %0 = input() "x" : f32[2, 3]
    %1 = variable() {var="w"} : f32[2, 3]
    %2 = variable() {var="v"} : f32[2, 3]
    %3 = mul(%0, %1) : f32[2, 3]
    %4 = add(%3, %1) : f32[2, 3]
    %5 = mul(%4, %2) : f32[2, 3]
    %6 = mul(%5, %1) : f32[2, 3] @backward
    %7 = replica_sum(%6) : f32[2, 3] @update
    %8 = variable() {var="w"} : f32[2, 3] @update
    %9 = sub(%8, %7) : f32[2, 3] @update
    assign(%9) {mode="set", var="w"} : @update
    output "y" = %5
    output "weight" = %1
  })";

constexpr std::string_view kParts = R"(graph "g" {
    var "w": f32[6] weight split 1 of f32[2, 3] init uniform(-1, 1)
    var "v": f32[2, 3] weight init uniform(-1, 1)
    %0 = input() "x" : f32[2, 3]
    %1 = variable() {var="v"} : f32[2, 3]
    %2 = variable() {var="w"} : f32[6]
    %3 = replica_gather(%2) {replicas=1, shape=[2, 3]} : f32[2, 3]
    %4 = mul(%0, %3) : f32[2, 3]
    %5 = add(%4, %3) : f32[2, 3]
    %6 = mul(%5, %1) : f32[2, 3]
    %7 = variable() {var="w"} : f32[6] @backward
    %8 = replica_gather(%7) {replicas=1, shape=[2, 3]} : f32[2, 3] @backward
    %9 = mul(%6, %8) : f32[2, 3] @backward
    %10 = replica_sum(%9) : f32[2, 3] @update
    %11 = variable() {var="w"} : f32[6] @update
    %12 = replica_gather(%11) {replicas=1, shape=[2, 3]} : f32[2, 3] @update
    %13 = sub(%12, %10) : f32[2, 3] @update
    %14 = replica_scatter(%13) {replicas=1} : f32[6] @update
    assign(%14) {mode="set", var="w"} : @update
    output "y" = %6
    output "weight" = %3
  })";

TEST(ShardWeights, GathersInEveryPassAndAssignsAPart) {
  const ir::Graph whole = parseGraph(kWhole);
  ir::Graph parts = whole;
  shardWeights(parts, {"w"}, 1);
  EXPECT_EQ(ir::print(parts), ir::print(parseGraph(kParts)));
  shardWeights(parts, {"w"}, 1);  // they are in parts already
  EXPECT_EQ(ir::print(parts), ir::print(parseGraph(kParts)));
  const ops::TensorMap expected = runGraph(whole, 1);
  const ops::TensorMap found = runGraph(parts, 1);
  EXPECT_TRUE(expected.at("y").sameBits(found.at("y")));
  EXPECT_TRUE(expected.at("weight").sameBits(found.at("weight")));
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(expected.at("var w").at(i), found.at("var w").at(i));
  }
}

TEST(ShardWeights, LeavesOthersAlone) {
  expectUnchanged(
      [](ir::Graph& graph) {
        shardWeights(graph, {}, 2);
        return false;
      },
      R"(graph "g" {
    var "v": f32[2, 3] weight init uniform(-1, 1)
    %0 = variable() {var="v"} : f32[2, 3]
    output "y" = %0
  })");
}

}  // namespace
}  // namespace sluice::transforms
