// Third part of lowering, for plans that keep data in remote memory. It divides the time in which a
// device needs a remote variable, or an activation that is used much later, into windows, each with
// a buffer of its own, and adds the transfers that fill and save them. Private to the program
// module.
#pragma once

#include "sluice/parallel/streaming.h"
#include "sluice/program/emitter.h"

namespace sluice::program {

/// Changes no value. Transfers of one remote variable are in the order of the round.
void addStreams(Emitted& emitted, const parallel::Streaming& streaming);

}  // namespace sluice::program
