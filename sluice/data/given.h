// What functions of datasets check of the pointers that they are given. Used by transforms,
// loaders and queues: from there on no dataset is null.
#pragma once

#include <string_view>
#include <utility>

#include "sluice/base/error.h"

namespace sluice::data {

/// The pointer or function itself. Throws InvalidArgument, in the name of who takes it, if it is
/// null.
template <class T>
T given(T taken, std::string_view who, std::string_view what = "dataset") {
  if (!taken) {
    raise<InvalidArgument>("{}: expected a {}, got a null pointer", who, what);
  }
  return taken;
}

/// The same for each of several.
template <class List>
List givenEach(List taken, std::string_view who) {
  for (const auto& each : taken) {
    given(each, who);
  }
  return taken;
}

}  // namespace sluice::data
