// Facts of runs as JSON. Private to the module.
#pragma once

#include <span>

#include <nlohmann/json.hpp>

#include "sluice/profile/run_facts.h"

namespace sluice::profile {

nlohmann::json reportFacts(std::span<const RunFacts> all);
/// The same, with all that the page draws.
nlohmann::json pageData(std::span<const RunFacts> all);

}  // namespace sluice::profile
