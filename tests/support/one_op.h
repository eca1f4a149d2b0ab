// For the tests of kernels that have their own layouts: runs one op between guard bytes, stores its
// operands as its Choice requires, and checks the promises of rule R3. The bits must depend neither
// on the number of threads nor on the run, and only outputs and scratch may be written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu::testing {

/// Memory with canaries on both sides.
class Guarded {
 public:
  Guarded(device::Device& device, std::size_t bytes);
  std::byte* data();
  device::Address address() const;
  void expectIntact(const std::string& what) const;

 private:
  std::size_t bytes_;
  std::unique_ptr<device::Memory> memory_;
};

/// Runs one op, reordering its operands to and from the layouts of its Choice.
class OneOp {
 public:
  /// A kernel that follows its operands' layout gets `follow`.
  OneOp(const ir::OpDef& def,
        ir::Attrs attrs,
        const std::vector<HostTensor>& inputs,
        int threads,
        const device::Layout& follow = {},
        const device::Tuning& tuning = {});

  const device::Choice& choice() const { return call_.choice; }
  const device::KernelTable& table() const { return device_->kernels(); }
  const device::KernelCall& call() const { return call_; }

  std::vector<HostTensor> run();

 private:
  std::int32_t addBuffer(std::size_t bytes);
  std::int32_t reordered(std::int32_t buffer,
                         const TensorType& type,
                         const device::Layout& from,
                         const device::Layout& to);

  std::unique_ptr<device::Device> device_;
  device::KernelCall call_;
  std::vector<device::KernelCall> calls_;
  std::vector<Guarded> buffers_;
  std::vector<std::int32_t> results_;
  std::unique_ptr<device::Executable> executable_;
  std::unique_ptr<device::Queue> queue_;
};

struct Case {
  const ir::OpDef& def;
  std::vector<HostTensor> inputs;
  ir::Attrs attrs = {};
  std::int64_t terms = 1;
  std::string_view implementation = "onednn";
};

std::string describe(const Case& c);

void expectSameBits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b);

/// Expects a result close to the reference, the same bits for 1, 2 and 3 threads and for every run,
/// and a pure Choice. `tuning` is the device's.
void check(const Case& c, const device::Tuning& tuning = {});

HostTensor random(std::uint64_t seed, Shape shape, DType dtype = DType::F32);

Case product(Shape a, Shape b, bool ta = false, bool tb = false, DType dtype = DType::F32);

/// The extents of a convolution; `attrs` are those of conv.
struct ConvShape {
  Shape x;
  Shape w;
  ir::Attrs attrs = {};
};

/// conv and its two gradients on random operands.
std::vector<Case> convCases(const ConvShape& c, DType dtype = DType::F32);

/// Whether oneDNN packs: it does only with AVX-512.
bool hasAvx512();

}  // namespace sluice::devices::cpu::testing
