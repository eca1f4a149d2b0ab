// The ways to compute convolutions with code of our own, beside oneDNN's. A tuning table names one
// by its config; else the first that likes the shape is taken.
#pragma once

#include <memory>
#include <span>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

/// K: what the way makes, a Kernel or a TiledKernel.
template <class K>
struct ConvWay {
  const char* config;
  bool (*can)(const ir::OpView&);    ///< whether it supports the op
  bool (*likes)(const ir::OpView&);  ///< whether it is the best way
  device::Choice (*choose)(const ir::OpView&);
  std::unique_ptr<K> (*make)(const ir::OpView&);
};

/// Of conv and conv_grad_input, in the order in which they are asked.
std::span<const ConvWay<TiledKernel>> imageWays();
/// Of conv_grad_weight.
std::span<const ConvWay<Kernel>> weightWays();

/// The way of the tuning table or of the rules; nullptr: oneDNN's. Throws ConfigFileError if the
/// table names one that cannot be gone.
template <class K>
const ConvWay<K>* wayOf(std::span<const ConvWay<K>> ways,
                        const ir::OpView& op,
                        const device::Tuning& tuning);

/// The way that a Choice has taken; nullptr: oneDNN's.
template <class K>
const ConvWay<K>* wayNamed(std::span<const ConvWay<K>> ways, const std::string& config) {
  for (const ConvWay<K>& way : ways) {
    if (config == way.config) {
      return &way;
    }
  }
  return nullptr;
}

}  // namespace sluice::devices::cpu
