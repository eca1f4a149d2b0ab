// How the parts of an executable that the api knows are written as bytes. Private to
// executable_file.cpp.
#pragma once

#include "sluice/api/executable_file.h"
#include "sluice/base/byte_code.h"

namespace sluice {

void writeInfo(ByteWriter& out, const ExecutableContent& content);
void readInfo(ByteReader& in, ExecutableContent& content);

void writeOptimizer(ByteWriter& out, const optim::OptimizerRecord& record);
optim::OptimizerRecord readOptimizer(ByteReader& in);

void writeStored(ByteWriter& out, const StoredProgram& program);
StoredProgram readStored(ByteReader& in);

/// The values of variables are left out of a graph's text.
void writeTraced(ByteWriter& out, const TracedGraph& traced);
TracedGraph readTraced(ByteReader& in);

}  // namespace sluice
