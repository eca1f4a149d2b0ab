// MultiConv: convolutions that do not depend on each other, made as one group with common options:
//
//   auto [a, b] = MultiConv().planType(MultiConvPlanType::Serial)([&] {
//     return std::pair(conv2d(x, v), conv2d(x, w));
//   });
//
// Results are those of the convolutions alone. Every option is one value for all of them, or a list
// with one for each; they are hints, checked when the group ends.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sluice/nn/tensor.h"

namespace sluice::nn {

class Tracer;

enum class MultiConvPlanType : std::uint8_t { Parallel, Serial };

class [[nodiscard]] MultiConv {
 public:
  /// Shares of a device's memory, as setAvailableMemory of each. Between 0 and 1.
  MultiConv& availableMemoryProportions(std::vector<double> proportions);
  MultiConv& availableMemoryProportions(double proportion) {
    return availableMemoryProportions(std::vector<double>{proportion});
  }
  /// In which type products may add up: F32 or F16. Devices of this build add in float32.
  MultiConv& partialsTypes(std::vector<DType> types);
  MultiConv& partialsTypes(DType type) { return partialsTypes(std::vector<DType>{type}); }
  MultiConv& enableConvDithering(std::vector<bool> on);
  MultiConv& enableConvDithering(bool on) { return enableConvDithering(std::vector<bool>{on}); }
  MultiConv& planType(MultiConvPlanType type) {
    planType_ = type;
    return *this;
  }
  /// Throws InvalidArgument if it is negative.
  MultiConv& perConvReservedTiles(std::int64_t tiles);
  /// Between 0 and 1.
  MultiConv& cycleBackOff(double share);

  /// Runs the body; the conv1d, conv2d and conv3d it makes, modules' too, are the group. Throws
  /// InvalidArgument for a group inside of another, one without convolutions, one where a
  /// convolution depends on another, and for lists of another length.
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

 private:
  /// The group is open while it lives.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tracer& tracer_;
  };
  void finish() const;

  std::vector<double> proportions_;
  std::vector<DType> partials_;
  std::vector<bool> dithering_;
  MultiConvPlanType planType_ = MultiConvPlanType::Parallel;
  std::int64_t reservedTiles_ = 0;
  double cycleBackOff_ = 0.1;
};

}  // namespace sluice::nn
