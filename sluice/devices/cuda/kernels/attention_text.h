// The bodies of the attention kernels. Private to the device.
#pragma once

#include <string_view>

namespace sluice::devices::cuda {

extern const std::string_view kAttentionTools;
extern const std::string_view kAttentionForward;
extern const std::string_view kAttentionRowSums;
extern const std::string_view kAttentionKeysGrad;
extern const std::string_view kAttentionRowsGrad;

}  // namespace sluice::devices::cuda
