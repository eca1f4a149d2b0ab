// Arithmetic and functions of real numbers, element by element. One of the headers of ops.h, which
// says what they have in common.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kAbs, kAcos, kAcosh, kAdd, kAsin, kAsinh, kAtan, kAtan2, kAtanh, kCeil,
    kClamp, kCos, kCosh, kDiv, kErf, kErfc, kExp, kExpm1, kFloor, kLog, kLog1p, kMaximum, kMinimum,
    kMod, kMul, kNeg, kPow, kReciprocal, kRound, kRsqrt, kSign, kSin, kSinh, kSqrt, kSquare, kSub,
    kTan, kTanh;

// Element-wise, two operands, NumPy broadcasting, equal dtypes.
Value add(GraphBuilder& b, Value x, Value y);
/// The angle of the point (x, y).
Value atan2(GraphBuilder& b, Value y, Value x);
/// Integers truncate toward zero; an integer divided by zero is 0.
Value div(GraphBuilder& b, Value x, Value y);
/// Ties give their gradient to x; so does minimum.
Value maximum(GraphBuilder& b, Value x, Value y);
Value minimum(GraphBuilder& b, Value x, Value y);
/// The remainder of x / y with the sign of y or, if signOfX, of x; 0 for an integer y of 0.
Value mod(GraphBuilder& b, Value x, Value y, bool signOfX = false);
Value mul(GraphBuilder& b, Value x, Value y);
Value pow(GraphBuilder& b, Value x, Value y);
Value sub(GraphBuilder& b, Value x, Value y);

// Element-wise, one operand.
Value abs(GraphBuilder& b, Value x);
Value acos(GraphBuilder& b, Value x);
Value acosh(GraphBuilder& b, Value x);
Value asin(GraphBuilder& b, Value x);
Value asinh(GraphBuilder& b, Value x);
Value atan(GraphBuilder& b, Value x);
Value atanh(GraphBuilder& b, Value x);
Value ceil(GraphBuilder& b, Value x);
Value clamp(GraphBuilder& b, Value x, double low, double high);
Value cos(GraphBuilder& b, Value x);
Value cosh(GraphBuilder& b, Value x);
Value erf(GraphBuilder& b, Value x);
/// 1 - erf(x); small results keep their digits.
Value erfc(GraphBuilder& b, Value x);
Value exp(GraphBuilder& b, Value x);
Value expm1(GraphBuilder& b, Value x);
Value floor(GraphBuilder& b, Value x);
Value log(GraphBuilder& b, Value x);
Value log1p(GraphBuilder& b, Value x);
Value neg(GraphBuilder& b, Value x);
Value reciprocal(GraphBuilder& b, Value x);
/// Rounds to the nearest integer, halves to the even one.
Value round(GraphBuilder& b, Value x);
Value rsqrt(GraphBuilder& b, Value x);
Value sign(GraphBuilder& b, Value x);
Value sin(GraphBuilder& b, Value x);
Value sinh(GraphBuilder& b, Value x);
Value sqrt(GraphBuilder& b, Value x);
Value square(GraphBuilder& b, Value x);
Value tan(GraphBuilder& b, Value x);
Value tanh(GraphBuilder& b, Value x);

}  // namespace sluice::ops
