// Comparisons, logic, selection and bit operations, element by element. One of the headers of
// ops.h, which says what they have in common.
#pragma once

#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBitShift, kBitwiseAnd, kBitwiseNot, kBitwiseOr, kBitwiseXor, kEqual,
    kGreater, kGreaterEqual, kIsInf, kIsNan, kLess, kLessEqual, kLogicalAnd, kLogicalNot,
    kLogicalOr, kLogicalXor, kNotEqual, kWhere;

// Comparisons and logic: the result is bool.
Value equal(GraphBuilder& b, Value x, Value y);
Value greater(GraphBuilder& b, Value x, Value y);
Value greaterEqual(GraphBuilder& b, Value x, Value y);
Value isInf(GraphBuilder& b, Value x, bool negative = true, bool positive = true);
Value isNan(GraphBuilder& b, Value x);
Value less(GraphBuilder& b, Value x, Value y);
Value lessEqual(GraphBuilder& b, Value x, Value y);
Value logicalAnd(GraphBuilder& b, Value x, Value y);
Value logicalNot(GraphBuilder& b, Value x);
Value logicalOr(GraphBuilder& b, Value x, Value y);
Value logicalXor(GraphBuilder& b, Value x, Value y);
Value notEqual(GraphBuilder& b, Value x, Value y);
/// x where the condition holds, else y; all three are broadcast together.
Value where(GraphBuilder& b, Value condition, Value x, Value y);

// Bits of integers.
Value bitwiseAnd(GraphBuilder& b, Value x, Value y);
Value bitwiseNot(GraphBuilder& b, Value x);
Value bitwiseOr(GraphBuilder& b, Value x, Value y);
Value bitwiseXor(GraphBuilder& b, Value x, Value y);
/// direction: LEFT or RIGHT; shifts by y bits.
Value bitShift(GraphBuilder& b, Value x, Value y, std::string_view direction);

}  // namespace sluice::ops
