#include "sluice/program/verify.h"

#include "sluice/program/verify_parts.h"

namespace sluice::program {

bool overlap(const Buffer& a, const Buffer& b) {
  return a.device == b.device && a.region == b.region && a.offset < b.offset + b.totalBytes() &&
         b.offset < a.offset + a.totalBytes();
}

bool readsOutput(const device::KernelCall& call) {
  return call.def == &ir::kAssign && call.attrs.text("mode") != "set";
}

void verify(const Program& program) {
  verifyStructure(program);
  verifyKept(program);
  verifyMeetings(program);
  verifyExecution(program);
}

}  // namespace sluice::program
