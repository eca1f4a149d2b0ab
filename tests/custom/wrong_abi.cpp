// A library of another time.
#include "sluice/custom/abi.h"

extern "C" __attribute__((visibility("default"))) const sluice::custom::abi::Library*
sluiceCustomOps() {
  static const sluice::custom::abi::Library kLibrary = {
      sluice::custom::abi::kVersion + 41, 0, nullptr};
  return &kLibrary;
}
