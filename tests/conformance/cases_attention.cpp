// Attention in blocks, and its gradient.
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "tests/conformance/op_case.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

/// Too large for finite differences.
OpCase attention(std::vector<Operand> operands, ir::Attrs attrs, std::string label) {
  return {kScaledDotProductAttention,
          std::move(operands),
          std::move(attrs),
          std::move(label),
          false,
          400};
}

/// A bool mask that takes every key from the even rows.
Operand withoutSomeRows(const Shape& shape) {
  Operand mask = boolean(shape);
  mask.value = randomTensor(7, mask.type, 0, 1);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    if (i / shape[1] % 2 == 0) {
      mask.value->set(i, 0);
    }
  }
  return mask;
}

/// A mask to add that leaves nothing of the scores of some rows, and of others only a few.
Operand far(const Shape& shape) {
  Operand mask = f32(shape);
  mask.value = HostTensor(mask.type);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const std::int64_t row = i / shape[1];
    const bool taken = row % 3 == 0 || (row % 3 == 1 && i % shape[1] < 66);
    mask.value->set(i, taken ? -1e30 : 0);
  }
  mask.differentiate = false;
  return mask;
}

/// The gradient's operands: those of the op, its results, a gradient of them, and the mask.
OpCase gradientOf(const OpCase& c) {
  std::vector<TensorType> types;
  for (const Operand& operand : c.operands) {
    types.push_back(operand.type);
  }
  const ir::Attrs attrs = ir::completeAttrs(c.def, c.attrs);
  const std::vector<TensorType> results = c.def.infer({c.def, attrs, types, {}});
  const auto value = [operands = c.operands](std::size_t i) {
    const Operand& operand = operands[i];
    return operand.value ? *operand.value
                         : randomTensor(i + 1, operand.type, operand.low, operand.high);
  };
  const auto result = [&def = c.def, attrs, value, count = c.operands.size()](std::size_t i) {
    std::vector<HostTensor> values;
    for (std::size_t operand = 0; operand < count; ++operand) {
      values.push_back(value(operand));
    }
    return ops::evaluate(def, attrs, values)[i];
  };
  OpCase made{kScaledDotProductAttentionGrad, {}, c.attrs, c.label, false, 600};
  const auto add = [&](const TensorType& type, std::function<HostTensor()> make) {
    made.operands.push_back({type, 0, 0, std::move(make)});
  };
  for (std::size_t i = 0; i < 3; ++i) {
    add(types[i], [value, i] { return value(i); });
  }
  add(results[0], [result] { return result(0); });
  add(results[1], [result] { return result(1); });
  add(results[0], [type = results[0]] { return randomTensor(9, type, -1, 1); });
  for (std::size_t i = 3; i < types.size(); ++i) {
    add(types[i], [value, i] { return value(i); });
  }
  return made;
}

}  // namespace

/// Operands of blocks of rows and keys and what is left over, with each kind of mask.
std::vector<OpCase> attentionCases() {
  std::vector<OpCase> cases = {
      attention({f32({2, 3, 70, 5}), f32({2, 3, 150, 5}), f32({2, 3, 150, 9})}, {}, "blocks"),
      attention({f32({2, 200, 8}), f32({2, 200, 8}), f32({2, 200, 8})},
                {{"causal", true}, {"scale", 0.7}},
                "causal_blocks"),
      attention({f32({1, 20, 3}), f32({1, 90, 3}), f32({1, 90, 2})}, {{"causal", true}}, "wide"),
      attention({f32({1, 150, 3}), f32({1, 20, 3}), f32({1, 20, 2})}, {{"causal", true}}, "tall"),
      attention({f32({2, 2, 66, 4}), f32({2, 2, 70, 4}), f32({2, 2, 70, 4}), f32({2, 1, 66, 70})},
                {},
                "added"),
      attention({f32({2, 2, 66, 4}), f32({2, 2, 70, 4}), f32({2, 2, 70, 4}), f32({1, 70}, -9, 9)},
                {{"causal", true}},
                "added_to_all"),
      attention(
          {f32({2, 2, 66, 4}), f32({2, 2, 70, 4}), f32({2, 2, 70, 4}), boolean({2, 1, 1, 70})},
          {},
          "kept"),
      attention({f32({2, 66, 4}), f32({2, 70, 4}), f32({2, 70, 4}), withoutSomeRows({66, 70})},
                {{"causal", true}},
                "rows_of_nothing"),
      attention({f32({2, 66, 4}), f32({2, 70, 4}), f32({2, 70, 4}), far({66, 70})}, {}, "far"),
  };
  const std::size_t forward = cases.size();
  for (std::size_t i = 0; i < forward; ++i) {
    cases.push_back(gradientOf(cases[i]));
  }
  cases.push_back(gradientOf(
      attention({f32({2, 4, 3}), f32({5, 3}), f32({2, 5, 2}), f32({4, 5})}, {}, "small")));
  cases.back().gradient = true;
  return cases;
}

}  // namespace sluice::testing
