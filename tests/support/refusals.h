// A table of ops that must refuse their operands or attributes: one test checks many.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"

namespace sluice::testing {

struct Refusal {
  const ir::OpDef& def;
  std::vector<TensorType> inputs;
  ir::Attrs attrs;
  std::string word;
};

/// Runs each op on zeros, which checks attributes, then types, then elements, and expects a message
/// that names the op and the reason.
inline void expectRefused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    std::vector<HostTensor> inputs;
    for (const TensorType& type : refusal.inputs) {
      inputs.emplace_back(type);
    }
    try {
      ops::evaluate(refusal.def, refusal.attrs, inputs);
      ADD_FAILURE() << refusal.def.name << " was not refused for " << refusal.word;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(refusal.word));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::string(refusal.def.name)));
    }
  }
}

}  // namespace sluice::testing
