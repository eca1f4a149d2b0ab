#include "sluice/devices/cpu/kernels/conv_ways.h"

#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_channels.h"
#include "sluice/devices/cpu/kernels/conv_grad_columns.h"
#include "sluice/devices/cpu/kernels/conv_grad_lines.h"
#include "sluice/devices/cpu/kernels/conv_grad_outer.h"
#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/conv_taps.h"
#include "sluice/devices/cpu/kernels/conv_windows.h"

namespace sluice::devices::cpu {

std::span<const ConvWay<TiledKernel>> imageWays() {
  static constexpr std::array<ConvWay<TiledKernel>, 3> kWays = {
      {{kTapsConfig, canMultiplyTaps, likesTaps, chooseTaps, makeTaps},
       {kChannelsConfig, canSumChannels, likesChannels, chooseChannels, makeChannels},
       {kWindowsConfig, canGatherWindows, likesWindows, chooseWindows, makeWindows}}};
  return kWays;
}

std::span<const ConvWay<Kernel>> weightWays() {
  static constexpr std::array<ConvWay<Kernel>, 3> kWays = {
      {{kColumnsConfig, canUseColumns, likesColumns, chooseColumns, makeColumns},
       {kLinesConfig, canMultiplyLines, likesLines, chooseLines, makeLines},
       {kOuterConfig, canAddOuter, likesOuter, chooseOuter, makeOuter}}};
  return kWays;
}

template <class K>
const ConvWay<K>* wayOf(std::span<const ConvWay<K>> ways,
                        const ir::OpView& op,
                        const device::Tuning& tuning) {
  const auto entry = tuning.find(convKey(op));
  if (entry == tuning.end()) {
    for (const ConvWay<K>& way : ways) {
      if (way.likes(op)) {
        return &way;
      }
    }
    return nullptr;
  }
  const ConvWay<K>* way = wayNamed(ways, entry->second);
  if (way != nullptr && !way->can(op)) {
    raise<ConfigFileError>("{}: '{}' cannot be done", convKey(op), way->config);
  }
  return way;
}

template const ConvWay<TiledKernel>* wayOf(std::span<const ConvWay<TiledKernel>> ways,
                                           const ir::OpView& op,
                                           const device::Tuning& tuning);
template const ConvWay<Kernel>* wayOf(std::span<const ConvWay<Kernel>> ways,
                                      const ir::OpView& op,
                                      const device::Tuning& tuning);

}  // namespace sluice::devices::cpu
