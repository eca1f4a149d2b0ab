#include "sluice/base/version.h"

namespace sluice {

std::string_view version() {
  return SLUICE_VERSION;
}

}  // namespace sluice
