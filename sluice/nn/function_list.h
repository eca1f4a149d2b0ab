// The functions that are one op and take tensors alone: a line each. functional.h declares them,
// functional.cpp defines them, policies know their names (precision.h), and function_table_test.cpp
// checks that they and the others cover the op table.
//
// SLUICE_NN_FUNCTIONS(ONE, TWO) expands ONE(function, "PyTorch's name", Op) for functions of one
// tensor and TWO(...) for functions of two, which also take a number as the second. A function
// without a name in policies ("") computes nothing, so that its operand keeps its type.
#pragma once

#define SLUICE_NN_FUNCTIONS(ONE, TWO)                       \
  ONE(abs, "abs", Abs)                                      \
  ONE(acos, "acos", Acos)                                   \
  ONE(acosh, "acosh", Acosh)                                \
  ONE(asin, "asin", Asin)                                   \
  ONE(asinh, "asinh", Asinh)                                \
  ONE(atan, "atan", Atan)                                   \
  ONE(atanh, "atanh", Atanh)                                \
  ONE(bitwiseNot, "bitwise_not", BitwiseNot)                \
  ONE(ceil, "ceil", Ceil)                                   \
  ONE(cos, "cos", Cos)                                      \
  ONE(cosh, "cosh", Cosh)                                   \
  ONE(det, "det", Det)                                      \
  ONE(detach, "", Detach)                                   \
  ONE(erf, "erf", Erf)                                      \
  ONE(exp, "exp", Exp)                                      \
  ONE(expm1, "expm1", Expm1)                                \
  ONE(floor, "floor", Floor)                                \
  ONE(hardswish, "hardswish", HardSwish)                    \
  ONE(identity, "", Identity)                               \
  ONE(isnan, "isnan", IsNan)                                \
  ONE(log, "log", Log)                                      \
  ONE(log1p, "log1p", Log1p)                                \
  ONE(logicalNot, "logical_not", LogicalNot)                \
  ONE(mish, "mish", Mish)                                   \
  ONE(neg, "neg", Neg)                                      \
  ONE(nop, "", Nop)                                         \
  ONE(reciprocal, "reciprocal", Reciprocal)                 \
  ONE(recomputationCheckpoint, "", RecomputationCheckpoint) \
  ONE(relu, "relu", Relu)                                   \
  ONE(round, "round", Round)                                \
  ONE(rsqrt, "rsqrt", Rsqrt)                                \
  ONE(selu, "selu", Selu)                                   \
  ONE(sigmoid, "sigmoid", Sigmoid)                          \
  ONE(sign, "sign", Sign)                                   \
  ONE(silu, "silu", Silu)                                   \
  ONE(sin, "sin", Sin)                                      \
  ONE(sinh, "sinh", Sinh)                                   \
  ONE(softplus, "softplus", Softplus)                       \
  ONE(softsign, "softsign", Softsign)                       \
  ONE(sqrt, "sqrt", Sqrt)                                   \
  ONE(square, "square", Square)                             \
  ONE(tan, "tan", Tan)                                      \
  ONE(tanh, "tanh", Tanh)                                   \
  TWO(add, "add", Add)                                      \
  TWO(atan2, "atan2", Atan2)                                \
  TWO(bitwiseAnd, "bitwise_and", BitwiseAnd)                \
  TWO(bitwiseOr, "bitwise_or", BitwiseOr)                   \
  TWO(bitwiseXor, "bitwise_xor", BitwiseXor)                \
  TWO(div, "div", Div)                                      \
  TWO(equal, "equal", Equal)                                \
  TWO(greater, "greater", Greater)                          \
  TWO(greaterEqual, "greater_equal", GreaterEqual)          \
  TWO(less, "less", Less)                                   \
  TWO(lessEqual, "less_equal", LessEqual)                   \
  TWO(logicalAnd, "logical_and", LogicalAnd)                \
  TWO(logicalOr, "logical_or", LogicalOr)                   \
  TWO(logicalXor, "logical_xor", LogicalXor)                \
  TWO(maximum, "maximum", Maximum)                          \
  TWO(minimum, "minimum", Minimum)                          \
  TWO(mul, "mul", Mul)                                      \
  TWO(notEqual, "not_equal", NotEqual)                      \
  TWO(pow, "pow", Pow)                                      \
  TWO(sub, "sub", Sub)
