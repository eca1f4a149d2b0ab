// Third part of lowering, for plans that keep something in remote memory: cuts the time in which a
// device needs a remote variable or a far-travelled activation into windows, each with a buffer of
// its own, and adds the transfers that fill and save them. Private to the program module.
#pragma once

#include "sluice/parallel/streaming.h"
#include "sluice/program/emitter.h"

namespace sluice::program {

/// Changes no value. Transfers of one remote variable come in the order of the round.
void addStreams(Emitted& emitted, const parallel::Streaming& streaming);

}  // namespace sluice::program
