// A library with a fresh op and one whose name test_ops has taken.
#include "sluice/custom/op.h"

namespace {

void nothing(const sluice::custom::Call& /*call*/) {}

}  // namespace

SLUICE_CUSTOM_OPS(sluice::custom::Op("com.example.test", "Fresh", 1).forward(nothing),
                  sluice::custom::Op("com.example.test", "LeakyRelu", 1).forward(nothing))
