// The IPU's published figures. What was not published is marked as assumed; a file with other
// numbers is a target like these.
#include "sluice/devices/sim/built_in.h"

namespace sluice::devices::sim {
namespace {

constexpr std::string_view kIpu1 = R"json({
  "name": "ipu1",
  "description": "IPU of the first generation: 1216 tiles of 256 KiB",
  "clockHz": 1600000000,
  "memoryBytes": 318767104,
  "flops": {"f16": 125e12, "f32": 31.25e12},
  "memoryBytesPerSecond": 45e12,
  "kernelTicks": 500,
  "peerLink": {"bytesPerSecond": 160e9, "latencySeconds": 1e-6},
  "hostLink": {"bytesPerSecond": 16e9, "latencySeconds": 5e-6},
  "remoteLink": {"bytesPerSecond": 16e9, "latencySeconds": 5e-6},
  "sumBytesPerSecond": 45e12,
  "syncSeconds": 1e-6,
  "ipuRules": true,
  "sources": {
    "clockHz": "published: 1.6 GHz",
    "memoryBytes": "published: 1216 tiles x 256 KiB",
    "flops": "published: 125 TFLOP/s in float16, a quarter of it in float32; a kernel may reach less",
    "memoryBytesPerSecond": "published: 45 TB/s over all tiles (Jia et al., 2019)",
                           "kernelTicks"
    : "assumed: synchronising and exchanging between two kernels",
                           "peerLink"
    : "published: 320 GB/s of IPU-Links, half in each direction; latency assumed",
                           "hostLink" : "PCIe 3.0 x16, in each direction; latency assumed",
                           "remoteLink" : "memory of the host, as hostLink",
                           "sumBytesPerSecond" : "as memoryBytesPerSecond",
                           "syncSeconds" : "assumed"
}
})json";

constexpr std::string_view kIpu2 = R"json({
  "name": "ipu2",
  "description": "IPU of the second generation (GC200): 1472 tiles of 624 KiB",
  "clockHz": 1330000000,
  "memoryBytes": 940572672,
  "flops": {"f16": 250e12, "f32": 62.5e12},
  "memoryBytesPerSecond": 47.5e12,
  "kernelTicks": 500,
  "peerLink": {"bytesPerSecond": 160e9, "latencySeconds": 1e-6},
  "hostLink": {"bytesPerSecond": 32e9, "latencySeconds": 5e-6},
  "remoteLink": {"bytesPerSecond": 20e9, "latencySeconds": 5e-6},
  "sumBytesPerSecond": 47.5e12,
  "syncSeconds": 1e-6,
  "ipuRules": true,
  "sources": {
    "clockHz": "published: 1.33 GHz",
    "memoryBytes": "published: 1472 tiles x 624 KiB",
    "flops": "published: 250 TFLOP/s in float16, a quarter of it in float32; a kernel may reach less",
    "memoryBytesPerSecond": "published: 47.5 TB/s over all tiles",
    "kernelTicks": "assumed: synchronising and exchanging between two kernels",
    "peerLink": "published: 320 GB/s of IPU-Links, half in each direction; latency assumed",
    "hostLink": "PCIe 4.0 x16, in each direction; latency assumed",
    "remoteLink": "assumed: 20 GB/s of streaming memory for each IPU and direction",
    "sumBytesPerSecond": "as memoryBytesPerSecond",
    "syncSeconds": "assumed"
  }
})json";

constexpr std::string_view kIpu21 = R"json({
  "name": "ipu21",
  "description": "Bow IPU: 1472 tiles of 624 KiB with a faster clock",
  "clockHz": 1850000000,
  "memoryBytes": 940572672,
  "flops": {"f16": 350e12, "f32": 87.5e12},
  "memoryBytesPerSecond": 65.4e12,
  "kernelTicks": 500,
  "peerLink": {"bytesPerSecond": 160e9, "latencySeconds": 1e-6},
  "hostLink": {"bytesPerSecond": 32e9, "latencySeconds": 5e-6},
  "remoteLink": {"bytesPerSecond": 20e9, "latencySeconds": 5e-6},
  "sumBytesPerSecond": 65.4e12,
  "syncSeconds": 1e-6,
  "ipuRules": true,
  "sources": {
    "clockHz": "published: 1.85 GHz",
    "memoryBytes": "published: 1472 tiles x 624 KiB",
    "flops": "published: 350 TFLOP/s in float16, a quarter of it in float32; a kernel may reach less",
    "memoryBytesPerSecond": "published: 65.4 TB/s over all tiles",
    "kernelTicks": "assumed: synchronising and exchanging between two kernels",
    "peerLink": "published: 320 GB/s of IPU-Links, half in each direction; latency assumed",
    "hostLink": "PCIe 4.0 x16, in each direction; latency assumed",
    "remoteLink": "assumed: 20 GB/s of streaming memory for each IPU and direction",
    "sumBytesPerSecond": "as memoryBytesPerSecond",
    "syncSeconds": "assumed"
  }
})json";

}  // namespace

std::span<const BuiltIn> builtIns() {
  static constexpr BuiltIn kAll[] = {{"ipu1", kIpu1}, {"ipu2", kIpu2}, {"ipu21", kIpu21}};
  return kAll;
}

}  // namespace sluice::devices::sim
