// Programs and state plans as bytes, for executables: the records of the text form (text_form.h)
// without names of fields. A Program that is read may still be wrong in every way; verify says so.
#pragma once

#include "sluice/base/byte_code.h"
#include "sluice/ir/op_def.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

void writeProgram(ByteWriter& out, const Program& program);
/// Looks op names up in `ops`. Throws FileError for bytes that are no Program, and what the checks
/// of types and attributes throw.
Program readProgram(ByteReader& in, const ir::OpSet& ops);

void writeStatePlan(ByteWriter& out, const StatePlan& plan);
StatePlan readStatePlan(ByteReader& in);

}  // namespace sluice::program
