#include "python/core/device_tensors.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/core/bindings.h"
#include "python/core/dlpack.h"
#include "python/core/interruptible.h"
#include "sluice/api/batch.h"
#include "sluice/api/model.h"
#include "sluice/api/session.h"
#include "sluice/api/step.h"
#include "sluice/base/error.h"
#include "sluice/devices/registry.h"
#include "sluice/program/program.h"

namespace sluice::python {
namespace {

using DeviceTensors = std::vector<DeviceTensor>;

device::Address placeIn(const DeviceTensor& tensor, std::size_t bytes) {
  return tensor.memory->at(tensor.offset + bytes);
}

/// The micro-batches of a call where they are.
class DeviceFeed final : public runtime::HostFeed {
 public:
  DeviceFeed(DeviceTensors inputs, const BatchLayout& layout)
      : inputs_(std::move(inputs)), layout_(layout) {}
  device::Address placeOf(std::int32_t input, std::int64_t microBatch) override {
    const DeviceTensor& tensor = inputs_[static_cast<std::size_t>(input)];
    return placeIn(tensor, inputOffset(tensor.type, layout_, microBatch));
  }
  const void* take(std::int32_t input, std::int64_t /*microBatch*/) override {
    raise<Unsupported>("input {} is in the memory of a GPU, where the host cannot read it", input);
  }
  bool mayBlock() const override { return false; }

 private:
  DeviceTensors inputs_;
  BatchLayout layout_;
};

/// Leaves outputs in tensors of the other library, and anchors in the host's memory.
class DeviceSink final : public TensorSink {
 public:
  DeviceSink(const program::Program& program,
             std::vector<BatchLayout> layouts,
             DeviceTensors outputs)
      : TensorSink(program, std::move(layouts)), outputs_(std::move(outputs)) {}
  device::Address roomFor(std::int32_t output, std::int64_t microBatch) override {
    const auto o = static_cast<std::size_t>(output);
    if (o >= outputs_.size() || bytes_[o] == 0) {
      return {};
    }
    const auto slot = static_cast<std::size_t>(outputSlot(layouts_[o], microBatch));
    return placeIn(outputs_[o], slot * bytes_[o]);
  }

 private:
  DeviceTensors outputs_;
};

void requireGpus(Model& model) {
  const Session& session = model.session();
  for (std::size_t d = 0; d < session.numDevices(); ++d) {
    const std::string& kind = session.device(d).info().kind;
    if (kind != "cuda") {
      raise<InvalidArgument>(
          "the inputs are in the memory of a GPU, and device {} of the model is of the kind '{}': "
          "use tensor.cpu(), or Options().device(\"cuda\")",
          d,
          kind);
    }
  }
}

std::vector<TensorType> microBatchTypes(const DeviceTensors& inputs, const BatchLayout& layout) {
  std::vector<TensorType> types;
  for (const DeviceTensor& input : inputs) {
    std::vector<std::int64_t> dims(input.type.shape.dims().begin(), input.type.shape.dims().end());
    if (!dims.empty()) {
      dims[0] = layout.microBatchOf("an input", input.type.shape);
    }
    types.push_back({input.type.dtype, Shape(std::move(dims))});
  }
  return types;
}

/// Asks Python for a tensor for each output.
DeviceTensors roomFor(const program::Program& program,
                      std::span<const BatchLayout> layouts,
                      std::size_t outputs,
                      const py::handle& make) {
  const Locked gil;
  DeviceTensors room;
  for (std::size_t o = 0; o < outputs; ++o) {
    if (layouts[o].outputMode == OutputMode::Sum) {
      raise<Unsupported>(
          "OutputMode.Sum adds up outputs on the host, and the inputs are on a GPU: use another "
          "output mode, or tensor.cpu()");
    }
    const TensorType& each = program.drains[o].type;
    const TensorType whole{each.dtype, layouts[o].outputShape(each.shape)};
    room.push_back(make(shapeTuple(whole.shape), dtypeName(whole.dtype)).cast<DeviceTensor>());
    if (room.back().type != whole) {
      raise<InvalidArgument>(
          "expected a tensor of {} for an output, got {}", whole.str(), room.back().type.str());
    }
  }
  return room;
}

/// `make(shape, dtype)` returns a new tensor of the other library.
void runOnDevice(Model& model, const DeviceTensors& inputs, const py::function& make) {
  const BatchLayout layout = unlocked([&] {
    requireGpus(model);
    return model.batchLayout();
  });
  const std::vector<TensorType> types = microBatchTypes(inputs, layout);
  const auto makeSink = [&](const program::Program& program,
                            std::vector<BatchLayout> layouts,
                            std::size_t outputs) -> std::unique_ptr<ResultSink> {
    DeviceTensors room = roomFor(program, layouts, outputs, make);
    return std::make_unique<DeviceSink>(program, std::move(layouts), std::move(room));
  };
  runInterruptibly(
      [&] { model.run(types, std::make_unique<DeviceFeed>(inputs, layout), makeSink); },
      [&] { model.cancel(); });
}

}  // namespace

DeviceTensor deviceTensor(const py::object& source, const std::optional<std::string>& dtype) {
  constexpr int kCuda = 2;
  const auto device = source.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device.first != kCuda) {
    raise<InvalidArgument>("DLPack: expected memory of a GPU (device type {}), got device type {}",
                           kCuda,
                           device.first);
  }
  constexpr int kNoWaiting = -1;  // Python waits for the tensor's stream
  TakenTensor taken = takeDlpack(source.attr("__dlpack__")(py::arg("stream") = kNoWaiting));
  if (dtype) {
    const DType given = parseDtype(*dtype);
    if (byteSize(given) != byteSize(taken.type.dtype)) {
      raise<InvalidArgument>(
          "elements of {} cannot stand for {}", dtypeName(taken.type.dtype), *dtype);
    }
    taken.type.dtype = given;
  }
  if (!taken.isContiguous) {
    raise<InvalidArgument>("DLPack: a tensor on a GPU must be contiguous: use tensor.contiguous()");
  }
  std::shared_ptr<const device::Memory> memory = devices::wrapMemory(
      "cuda", device.second, {.pointer = taken.data, .bytes = taken.type.bytes()});
  return {taken.type, device.second, std::move(taken.owner), std::move(memory)};
}

void bindDeviceTensors(py::module_& m) {
  py::class_<DeviceTensor>(m, "DeviceTensor", "A tensor of another library in the memory of a GPU.")
      .def(py::init(&deviceTensor),
           py::arg("tensor"),
           py::arg("dtype") = py::none(),
           "Takes an object with __dlpack__, whose stream the caller waits for before a call. "
           "dtype: "
           "what the bits stand for, of the same size.")
      .def_property_readonly("shape",
                             [](const DeviceTensor& t) { return shapeTuple(t.type.shape); })
      .def_property_readonly("dtype", [](const DeviceTensor& t) { return dtypeName(t.type.dtype); })
      .def_property_readonly("gpu", [](const DeviceTensor& t) { return t.gpu; })
      .def("__repr__", [](const DeviceTensor& t) { return "DeviceTensor(" + t.type.str() + ")"; });
  m.def("run_on_device",
        &runOnDevice,
        py::arg("model"),
        py::arg("inputs"),
        py::arg("make"),
        "Makes a call with inputs and outputs on a GPU; make(shape, dtype) gives the tensor for an "
        "output.");
}

}  // namespace sluice::python
