#pragma once

#include "sluice/data/queues.h"

namespace sluice::python {

/// Waits until the types of the queue's elements are known. Needs the interpreter's lock, and gives
/// it up meanwhile; Ctrl-C ends the wait.
void awaitTypes(data::InfeedQueue& queue);

}  // namespace sluice::python
