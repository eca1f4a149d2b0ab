// PreparedSegment: a segment that a device has made ready. The queue gets its kernels at once. Ops
// that only the host can run (host calls, prints, custom ops) run in the thread that issues the
// segment, between the kernels before and after them, on copies of their operands; devices that run
// on the host run them as kernels. Private to the runtime module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::runtime {

class PreparedSegment {
 public:
  /// `calls` use the numbers of buffers on the device.
  PreparedSegment(device::Device& device, std::span<const device::KernelCall> calls);

  /// Whether the host runs some of its ops.
  bool needsHost() const;

  /// The launches of its kernels in order; empty if the device captures nothing.
  using Captures = std::vector<std::unique_ptr<device::Capture>>;
  Captures capture(std::span<const device::Address> buffers);

  /// `captures` must be of the same addresses, or empty.
  void run(device::Queue& queue,
           std::span<const device::Address> buffers,
           const ir::RunInfo& info,
           const Captures& captures = {});

 private:
  /// A call on the host, with memory for its operands.
  struct HostCall {
    device::KernelCall call;
    std::vector<HostTensor> inputs;
    std::vector<HostTensor> outputs;
  };
  /// Either kernels or a call on the host.
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
