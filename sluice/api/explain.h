// explain: a compiled program for people: how calls are cut, where stages run, what they cost, and
// how good the schedule is.
#pragma once

#include <string>

#include "sluice/api/batch_layout.h"
#include "sluice/api/options.h"
#include "sluice/api/session.h"

namespace sluice {

std::string explain(const CompiledProgram& compiled,
                    const BatchLayout& layout,
                    const Options& options);

}  // namespace sluice
