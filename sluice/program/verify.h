// The proof that comes before the first step: from the Program alone, without the graph it came
// from, verify shows that the lanes cannot block each other, that no two of them touch the same
// bytes unordered, and that every read finds the value it means. A broken rule is a bug of lowering
// or planning, so it is an InternalError; its message names lane, task and buffer.
#pragma once

#include "sluice/program/program.h"

namespace sluice::program {

/// Throws InternalError unless all of these hold:
/// - indices are in range; buffers are aligned and lie inside the planned bytes of their region;
///   operands, streams and constants fit their buffers; a task names the slot of each ring it uses;
/// - every feed, run and drain of every micro-batch is there once, in micro-batch order (rule R7);
/// - the lanes come to their end, in every round;
/// - two lanes that access the same bytes, one of them writing, are ordered by lanes and waits;
/// - a read finds its buffer's own bytes: of its micro-batch and round, or for variables what the
///   load or an assign put there, for packed copies what this round packed; constants are never
///   overwritten.
void verify(const Program& program);

}  // namespace sluice::program
