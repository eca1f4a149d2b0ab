// PreparedSegment: a segment that a device has made ready. Its kernels are given to the queue at
// once. What only the host can do (host calls, prints, custom ops) runs in the thread that issues
// the segment, between the kernels before and after it, on copies of its operands; devices that run
// on the host do it as kernels. Private to the runtime module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::runtime {

class PreparedSegment {
 public:
  /// `calls` have buffers by their numbers on the device.
  PreparedSegment(device::Device& device, std::span<const device::KernelCall> calls);

  /// Launches of its kernels, one behind the other; empty: the device captures nothing.
  using Captures = std::vector<std::unique_ptr<device::Capture>>;
  Captures capture(std::span<const device::Address> buffers);

  /// With `captures` of the same addresses, or an empty list.
  void run(device::Queue& queue,
           std::span<const device::Address> buffers,
           const ir::RunInfo& info,
           const Captures& captures = {});

 private:
  /// A call of the host, with room for its operands.
  struct HostCall {
    device::KernelCall call;
    std::vector<HostTensor> inputs;
    std::vector<HostTensor> outputs;
  };
  /// Kernels, or a call of the host.
  struct Part {
    std::unique_ptr<device::Executable> kernels;
    std::unique_ptr<HostCall> host;
  };

  static void runOnHost(HostCall& host,
                        device::Queue& queue,
                        std::span<const device::Address> buffers,
                        const ir::RunInfo& info);

  device::Device& device_;
  std::vector<Part> parts_;
};

}  // namespace sluice::runtime
