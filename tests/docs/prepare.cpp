// Writes what the commands of the documents read: an executable, and traces of runs.
#include <filesystem>

#include "sluice/sluice.h"

using namespace sluice;

struct Net : nn::Module {
  nn::Linear first{*this, "first", 4, 8};
  nn::Linear last{*this, "last", 8, 2};

  nn::Tensor forward(nn::Tensor x) {
    {
      const nn::Block block("a");
      x = nn::tanh(first(x));
    }
    const nn::Block block("b");
    return nn::identityLoss(last(x));
  }
};

struct Plain : nn::Module {
  nn::Linear fc{*this, "fc", 4, 2};
  nn::Tensor forward(const nn::Tensor& x) { return fc(x); }
};

/// folder/training/run.slt, of a step over so many devices.
void trace(const std::string& folder, int devices, const char* kind, TraceValues values) {
  Options options;
  options.device(kind).enableProfiling(folder);
  options.traceValues(values);
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(PipelinedExecution::automatic(devices));
  Net net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model(HostTensor::full({DType::F32, Shape{16, 4}}, 0.5));
  model.report(folder + "/report.html");
}

int main() {
  Plain plain;
  auto model = inferenceModel(plain, Options());
  model.compileAndExport("net.slx", {HostTensor(DType::F32, Shape{64, 4})});
  trace("one", 1, "cpu", TraceValues::All);
  trace("four", 2, "cpu", TraceValues::All);
  trace("sim", 2, "sim@ipu2", TraceValues::None);
  trace("run", 2, "cpu", TraceValues::None);
  for (const auto& [from, to] :
       {std::pair("one", "cpu"), {"four", "cuda"}, {"run", "a"}, {"one", "b"}}) {
    std::filesystem::copy(std::string(from) + "/training/run.slt", std::string(to) + ".slt");
  }
  std::filesystem::copy("sim/training/run.slt", "sim.slt");
  std::filesystem::copy("run/training/run.slt", "run.slt");
}
