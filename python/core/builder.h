// What the bindings of the Builder and of its sessions share.
#pragma once

#include <memory>

#include "python/core/bindings.h"
#include "sluice/frontends/popart/builder.h"

namespace sluice::python {

/// A builder with the same graph, and weights of its own. Without `drops`, dropout passes
/// everything.
std::shared_ptr<Builder> snapshot(const Builder& builder, bool drops);

}  // namespace sluice::python
