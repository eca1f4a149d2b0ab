// MultiConv: a group of independent convolutions with common options:
//
//   auto [a, b] = MultiConv().planType(MultiConvPlanType::Serial)([&] {
//     return std::pair(conv2d(x, v), conv2d(x, w));
//   });
//
// The results are the same as those of separate convolutions. Every option is one value for all
// convolutions or a list with one value for each, and is checked when the group ends.
// availableMemoryProportions controls a warning. All other options are hints to planners that share
// the tiles of a device between convolutions. No device of this build has tiles, so these hints
// have no effect: the graph is the same as that of separate convolutions.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sluice/nn/tensor.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

class Tracer;

enum class MultiConvPlanType : std::uint8_t { Parallel, Serial };

class [[nodiscard]] MultiConv {
 public:
  /// Shares of a device's memory, each between 0 and 1, as with setAvailableMemory: compiling warns
  /// if a share is too small for its convolution.
  MultiConv& availableMemoryProportions(std::vector<double> proportions);
  MultiConv& availableMemoryProportions(double proportion) {
    return availableMemoryProportions(std::vector<double>{proportion});
  }
  /// The type in which products may be accumulated: F32 or F16. It has no effect, because the
  /// devices of this build always accumulate in float32.
  MultiConv& partialsTypes(std::vector<DType> types);
  MultiConv& partialsTypes(DType type) { return partialsTypes(std::vector<DType>{type}); }
  /// Whether convolutions begin on different tiles. It has no effect.
  MultiConv& enableConvDithering(std::vector<bool> on);
  MultiConv& enableConvDithering(bool on) { return enableConvDithering(std::vector<bool>{on}); }
  /// Whether convolutions share the tiles at the same time or use all tiles in turn. It has no
  /// effect: the convolutions of a device run one after the other, and each uses all its threads.
  MultiConv& planType(MultiConvPlanType type) {
    planType_ = type;
    return *this;
  }
  /// The least number of tiles that each convolution gets. It has no effect. Throws InvalidArgument
  /// for a negative number.
  MultiConv& perConvReservedTiles(std::int64_t tiles);
  /// How much slower a convolution may be than alone, so that others get tiles: a share between 0
  /// and 1. It has no effect.
  MultiConv& cycleBackOff(double share);

  /// Runs the body. The group consists of the conv1d, conv2d and conv3d that it calls, directly or
  /// in modules. Throws InvalidArgument for a group inside another, for a group without
  /// convolutions, if a convolution depends on another, and for lists of another length.
  template <class Body>
  auto operator()(Body body) const {
    const Scope scope;
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      finish();
    } else {
      auto result = body();
      finish();
      return result;
    }
  }

  MultiConvPlanType planType() const { return planType_; }

  /// Keeps a group open during its lifetime, for front ends whose body is not a function. Call
  /// finish() before it ends, unless the body failed.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tracer& tracer_;
  };
  /// Checks the open group and applies the options to it.
  void finish() const;

 private:
  std::vector<double> proportions_;
  std::vector<DType> partials_;
  std::vector<bool> dithering_;
  MultiConvPlanType planType_ = MultiConvPlanType::Parallel;
  std::int64_t reservedTiles_ = 0;
  double cycleBackOff_ = 0.1;
};

}  // namespace sluice::nn

#pragma GCC visibility pop
