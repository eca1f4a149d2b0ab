// What the suites of all devices do with a case: its operands, the reference's results, the kernel
// that a device chooses for it, and how far results are from each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/ir/op_def.h"
#include "sluice/tensor/host_tensor.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

/// The case's operands, with another float type in the place of float32.
std::vector<HostTensor> operandsOf(const OpCase& c, DType floats);

/// The reference's results; none where the op refuses the type.
std::optional<std::vector<HostTensor>> expectedOf(const OpCase& c,
                                                  const std::vector<HostTensor>& operands,
                                                  ir::RunInfo info);

/// f(the op as a kernel table sees it)
template <class F>
auto withView(const OpCase& c, const std::vector<HostTensor>& operands, F f) {
  std::vector<TensorType> types;
  for (const HostTensor& tensor : operands) {
    types.push_back(tensor.type());
  }
  const ir::Attrs attrs = ir::completeAttrs(c.def, c.attrs);
  const std::vector<TensorType> outputs = c.def.infer({c.def, attrs, types, {}});
  return f(ir::OpView{c.def, attrs, types, outputs});
}

bool supported(device::Device& device, const OpCase& c, const std::vector<HostTensor>& operands);
std::string implementationOf(device::Device& device,
                             const OpCase& c,
                             const std::vector<HostTensor>& operands);

/// The largest difference of two elements, relative to the expected one, or to the largest of all
/// where that is more and not above 1: an output that is small as a whole has a small tolerance.
double differenceOf(const HostTensor& found, const HostTensor& expected);

}  // namespace sluice::testing
