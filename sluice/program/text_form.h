// The text form of a Program: every record on a line of its own, every field by its name. It parses
// back to the same Program, so that tests and people can change one and look at what the verifier
// says. `print` (program.h) is the short form, to be read.
//
//   buffer name="tanh" device=0 region=1 offset=1216 bytes=32 slots=3 alignment=64 window=false
//   lane device=0 kind="compute" peer=-1 staging=-1
//   task kind="run" subject=2 microBatch=0 start=0
//   wait lane=0 task=0 back=0 all=false
//
// A line belongs to the one that it follows: calls to a segment, tasks to a lane, waits and slots
// to a task.
#pragma once

#include <string>
#include <string_view>

#include "sluice/ir/op_def.h"
#include "sluice/program/program.h"

namespace sluice::program {

std::string toText(const Program& program);

/// Looks op names up in `ops`. Throws InvalidArgument, with line and column, for a text that is no
/// Program. It does not verify the Program.
Program fromText(std::string_view text, const ir::OpSet& ops);

}  // namespace sluice::program
