// Whether a phase costs the longer of computing and loading: 24 equal layers, a phase each, on
// one device of one thread, with the way to remote memory as fast as half, all and twice the time
// that the kernels take. The kernels' time is that of the same model with everything on the device,
// measured in turns. Training has more to save in its forward phases and more to load in its
// backward ones, so there the longer of both is taken for each pass. Also with remote memory in a
// file, against reading the same bytes cold. Prints one JSON object: medians, spread, ratios to the
// longer of both, and bytes moved against the least that the model needs.
//
//   bench_phased [repeats] [folder for the file]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/api/compiled_program.h"
#include "sluice/program/program.h"
#include "sluice/sluice.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;
using bench::Json;

constexpr int kLayers = 24;
constexpr std::int64_t kWidth = bench::kStack.width;
constexpr std::int64_t kBatch = bench::kStack.batch;
constexpr std::int32_t kMicroBatches = 8;

/// Equal layers, one block each, and the loss with the last one.
struct Stack : nn::Module {
  Stack() : layers(*this, "layers") {
    for (int i = 0; i < kLayers; ++i) {
      layers.emplace(kWidth, kWidth);
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    for (int i = 0; i + 1 < kLayers; ++i) {
      const nn::Block block(name(i));
      x = nn::relu(layers[static_cast<std::size_t>(i)](x));
    }
    const nn::Block block(name(kLayers - 1));
    x = layers[kLayers - 1](x);
    return {x, nn::mseLoss(x, target)};
  }
  static std::string name(int layer) { return "L" + std::to_string(layer); }

  nn::ModuleList<nn::Linear> layers;
};

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Setting {
  bool training = false;
  bool phased = true;
  double bandwidth = 0;  ///< bytes per second; 0: as fast as memory
  std::string file = {};
};

class Case {
 public:
  explicit Case(const Setting& setting) {
    std::vector<Phase> phases;
    std::vector<std::string> blocks;
    for (int i = 0; i < kLayers; ++i) {
      phases.emplace_back(Stack::name(i));
      blocks.push_back(Stack::name(i));
    }
    Options options;
    options.showCompilationProgressBar(false)
        .remoteBandwidth(setting.bandwidth)
        .remoteMemory(setting.file)
        .outputMode(OutputMode::Final);
    if (setting.phased) {
      options.setExecutionStrategy(SerialPhasedExecution(phases).order(PhaseOrder::PhaseMajor));
    } else {
      options.setExecutionStrategy(ShardedExecution(std::vector<Stage>{Stage(blocks)}));
    }
    if (setting.training) {
      options.training.gradientAccumulation(kMicroBatches);
      model_ =
          std::make_unique<TypedModel<Stack>>(trainingModel(net_, options, optim::AdamW(1e-4)));
    } else {
      options.deviceIterations(kMicroBatches);
      model_ = std::make_unique<TypedModel<Stack>>(inferenceModel(net_, options));
    }
    const TensorType type{DType::F32, {kBatch * kMicroBatches, kWidth}};
    step_ = {testing::randomTensor(1, type, -1, 1), testing::randomTensor(2, type, -1, 1)};
    model_->compile(step_);
    run();
    times_.clear();
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    model_->run(step_);
    times_.push_back(secondsSince(start));
  }
  double seconds() const { return bench::median(times_); }
  const program::Program& program() const { return model_->program(); }

  /// Bytes of a call on each way, in the forward pass and in what follows it.
  struct Traffic {
    double in[2] = {0, 0};
    double out[2] = {0, 0};

    double busier(int pass) const { return std::max(in[pass], out[pass]); }
    double busierWay() const { return std::max(in[0] + in[1], out[0] + out[1]); }
  };
  Traffic traffic() const {
    Traffic moved;
    const program::Program& p = program();
    for (const program::Transfer& transfer : p.transfers) {
      const double bytes = static_cast<double>(transfer.bytes) *
                           (transfer.oncePerRound ? 1 : p.microBatchesPerRound);
      if (p.buffer(transfer.from).isRemote()) {
        moved.in[isForward(transfer.to, false) ? 0 : 1] += bytes;
      } else if (p.buffer(transfer.to).isRemote()) {
        moved.out[isForward(transfer.from, true) ? 0 : 1] += bytes;
      }
    }
    return moved;
  }

  Json report() const {
    return {{"median_ms", 1e3 * seconds()},
            {"lowest_ms", 1e3 * std::ranges::min(times_)},
            {"highest_ms", 1e3 * std::ranges::max(times_)}};
  }

 private:
  /// Whether the forward pass is the first to use the buffer, or the last to write it.
  bool isForward(program::BufferId id, bool written) const {
    bool forward = true;
    for (const program::Segment& segment : program().segments) {
      const bool early = segment.kind == program::SegmentKind::Forward ||
                         (segment.kind == program::SegmentKind::Pack && segment.part == 0);
      for (const device::KernelCall& call : segment.calls) {
        const bool reads = std::ranges::find(call.inputs, id.value) != call.inputs.end();
        const bool writes = std::ranges::find(call.outputs, id.value) != call.outputs.end();
        if (written && writes) {
          forward = early;
        } else if (!written && (reads || writes)) {
          return early;
        }
      }
    }
    return forward;
  }

  Stack net_;
  std::unique_ptr<TypedModel<Stack>> model_;
  std::vector<HostTensor> step_;
  std::vector<double> times_;
};

std::size_t bytesOfWeights() {
  const Stack net;
  std::size_t bytes = 0;
  for (const nn::Parameter* parameter : net.parameters()) {
    bytes += parameter->type().bytes();
  }
  return bytes;
}

/// Reads a file of this many bytes that the system does not have in its memory.
double coldRead(const std::string& path, std::size_t bytes) {
  std::vector<char> data(bytes, 'x');
  std::ofstream(path, std::ios::binary).write(data.data(), static_cast<std::streamsize>(bytes));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  const auto start = std::chrono::steady_clock::now();
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(file, data.data() + done, bytes - done);
    if (got <= 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  const double seconds = secondsSince(start);
  ::close(file);
  std::filesystem::remove(path);
  return seconds;
}

Json measure(bool training, int repeats, const std::string& folder) {
  Case whole({.training = training, .phased = false});
  Case forward({.training = false, .phased = false});
  for (int i = 0; i < 3; ++i) {
    whole.run();
  }
  Case free({.training = training});
  const double compute = whole.seconds();
  struct Limited {
    double share;
    std::unique_ptr<Case> run;
    double bandwidth;
  };
  std::vector<Limited> limited;
  for (const double share : {0.5, 1.0, 2.0}) {
    const double bandwidth = free.traffic().busierWay() / (share * compute);
    limited.push_back(
        {share,
         std::make_unique<Case>(Setting{.training = training, .bandwidth = bandwidth}),
         bandwidth});
  }
  const std::string path = (std::filesystem::path(folder) / "bench_phased").string();
  Case filed({.training = training, .file = path});
  for (int i = 0; i < repeats; ++i) {
    whole.run();
    forward.run();
    free.run();
    for (Limited& each : limited) {
      each.run->run();
    }
    filed.run();
  }
  const double kernels = whole.seconds();
  const double passes[2] = {training ? forward.seconds() : kernels,
                            training ? kernels - forward.seconds() : 0};
  const Case::Traffic moved = free.traffic();
  Json report = {{"on_the_device", whole.report()}, {"not_limited", free.report()}};
  report["not_limited"]["ratio_to_kernels"] = free.seconds() / kernels;
  for (const Limited& each : limited) {
    double longer = 0;
    for (const int pass : {0, 1}) {
      longer += std::max(passes[pass], moved.busier(pass) / each.bandwidth);
    }
    Json one = each.run->report();
    one["load_ms"] = 1e3 * moved.busierWay() / each.bandwidth;
    one["longer_ms"] = 1e3 * longer;
    one["ratio_to_longer"] = each.run->seconds() / longer;
    report["load_" + std::to_string(each.share).substr(0, 3) + "_of_kernels"] = one;
  }
  const double cold = coldRead(path, static_cast<std::size_t>(moved.busierWay()));
  report["file"] = filed.report();
  report["file"]["cold_read_ms"] = 1e3 * cold;
  report["file"]["ratio_to_longer"] = filed.seconds() / std::max(kernels, cold);
  // Each weight comes once for each pass it has, the last phase's once for both; its state comes
  // and goes once per update, as does the weight itself.
  const double weights = static_cast<double>(bytesOfWeights());
  const double state = training ? 2 * weights : 0;
  const double least =
      training ? weights + (weights - weights / kLayers) + weights + 2 * state : weights;
  report["bytes_moved"] = program::remoteBytesPerRound(free.program());
  report["bytes_of_variables_at_least"] = least;
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(3, std::atoi(argv[1])) : 11;
  const std::string folder = argc > 2 ? argv[2] : std::filesystem::temp_directory_path().string();
  Json report = {{"inference", measure(false, repeats, folder)},
                 {"training", measure(true, repeats, folder)}};
  std::cout << report.dump(2) << "\n";
  return 0;
}
