// The proof before the first step. From the Program alone, without the graph that it came from,
// verify shows that the lanes cannot block each other, that no two of them access the same bytes
// without an order, and that every read finds the right value. A broken rule is a bug in lowering
// or planning, so it is an InternalError; its message names lane, task and buffer.
#pragma once

#include "sluice/program/program.h"

namespace sluice::program {

/// Throws InternalError unless all of these hold:
/// - indices are in range; buffers are aligned and lie inside the planned bytes of their region;
///   operands, streams and constants fit their buffers; a task names the slot of each ring it uses;
/// - every feed, run and drain of every micro-batch occurs once, in micro-batch order (rule R7);
/// - the lanes reach their end in every round;
/// - two lanes that access the same bytes, one of them writing, are ordered by lanes and waits;
/// - a read finds the bytes of its own buffer, micro-batch and round; for a variable, what the load
///   or an assign stored; for a packed copy, what this round packed;
/// - constants are never overwritten, nor packed copies of variables that the program keeps.
void verify(const Program& program);

}  // namespace sluice::program
