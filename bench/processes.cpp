// bench_processes: what several processes cost (mpirun -n 2 bench_processes [turns]). A pipeline
// and replicas over two or four processes against one process with as many devices, and against
// what the simulator predicts from kernels, copies and messages that were timed alone; and a sum
// over replicas. MPI's own sum is timed by bench_allreduce, which knows nothing of Sluice. With
// `apart` behind the turns nothing is compared with one process: for hosts of a network.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sluice/api/compiled_program.h"
#include "sluice/base/error.h"
#include "sluice/devices/calibrate.h"
#include "sluice/devices/registry.h"
#include "sluice/devices/sim/kernel_cost.h"
#include "sluice/devices/sim/sim_device.h"
#include "sluice/runtime/group.h"
#include "sluice/runtime/kernel_times.h"
#include "sluice/runtime/process_world.h"
#include "sluice/runtime/sim_costs.h"
#include "sluice/sluice.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double medianOf(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Processor time of all threads of this process so far.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Calls of one kind: seconds by the clock, and of processors.
struct Times {
  std::vector<double> wall;
  std::vector<double> processor;

  void add(int times, const std::function<void()>& f) {
    for (int i = 0; i < times; ++i) {
      const double used = processorSeconds();
      const auto begin = Clock::now();
      f();
      wall.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      processor.push_back(processorSeconds() - used);
    }
  }
};

struct Net : nn::Module {
  static constexpr std::int64_t kWidth = 512;
  nn::Linear a{*this, "a", kWidth, kWidth};
  nn::Linear b{*this, "b", kWidth, kWidth};
  nn::Linear c{*this, "c", kWidth, kWidth};
  nn::Linear d{*this, "d", kWidth, 8};

  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    {
      const nn::Block block("b0");
      x = nn::relu(a(x));
    }
    {
      const nn::Block block("b1");
      x = nn::relu(b(x));
    }
    {
      const nn::Block block("b2");
      x = nn::relu(c(x));
    }
    const nn::Block block("b3");
    return nn::crossEntropy(d(x), y);
  }
};

/// A model and what it is called with.
class Trained {
 public:
  explicit Trained(const Options& options)
      : model_(trainingModel(net_, options, optim::AdamW(0.001))) {
    const std::int64_t rows = 64 * model_.microBatchesPerStep() * options.replicationFactor();
    x_ = testing::randomTensor(1, {DType::F32, Shape{rows, Net::kWidth}}, -1, 1);
    y_ = testing::randomTensor(2, {DType::I64, Shape{rows}}, 0, 8);
    step();
  }
  void step() { model_.run({x_, y_}); }
  const program::Program& program() const { return model_.program(); }

 private:
  Net net_;
  TypedModel<Net> model_;
  HostTensor x_;
  HostTensor y_;
};

/// The sum over all processes, in all of them.
double sumOver(runtime::Communicator& all, double mine) {
  runtime::MessageBytes bytes(sizeof(double));
  std::memcpy(bytes.data(), &mine, sizeof(double));
  for (std::int32_t r = 0; r < all.size(); ++r) {
    if (r != all.rank()) {
      all.post(r, 2, bytes);
    }
  }
  double sum = mine;
  for (std::int32_t r = 0; r < all.size(); ++r) {
    if (r != all.rank()) {
      double other = 0;
      std::memcpy(&other, all.take(r, 2, sizeof(double)).data(), sizeof(double));
      sum += other;
    }
  }
  return sum;
}

constexpr int kSteps = 5;

/// mpirun gives each process cores of its own.
void useAllCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    CPU_SET(core, &cores);
  }
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
    raise<DeviceError>("cannot use all cores");
  }
}

/// The process that steps alone: a copy of this one from before MPI, with all cores.
class Alone {
 public:
  /// `serve` runs in the copy, for each number that is asked for.
  explicit Alone(const std::function<Times(int)>& serve) {
    std::array<int, 2> there{};
    std::array<int, 2> back{};
    if (pipe(there.data()) != 0 || pipe(back.data()) != 0) {
      raise<DeviceError>("cannot make a pipe");
    }
    ask_ = there[1];
    answer_ = back[0];
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
      useAllCores();
      for (int number = 0; read(there[0], &number, sizeof(number)) == sizeof(number);) {
        const Times times = serve(number);
        write(back[1], times.wall.data(), kSteps * sizeof(double));
        write(back[1], times.processor.data(), kSteps * sizeof(double));
      }
      _exit(0);
    }
  }

  void addTo(Times& times, int number) const {
    std::array<double, kSteps> wall{};
    std::array<double, kSteps> processor{};
    write(ask_, &number, sizeof(number));
    if (read(answer_, wall.data(), sizeof(wall)) != sizeof(wall) ||
        read(answer_, processor.data(), sizeof(processor)) != sizeof(processor)) {
      raise<DeviceError>("the process that steps alone has ended");
    }
    times.wall.insert(times.wall.end(), wall.begin(), wall.end());
    times.processor.insert(times.processor.end(), processor.begin(), processor.end());
  }

 private:
  static void write(int to, const void* data, std::size_t bytes) {
    if (::write(to, data, bytes) != static_cast<ssize_t>(bytes)) {
      raise<DeviceError>("a pipe is closed");
    }
  }
  int ask_ = -1;
  int answer_ = -1;
};

struct Case {
  std::string name;
  Options options;
};

/// Processes that mpirun has started; known before MPI begins.
std::int32_t processes() {
  const char* text = std::getenv("OMPI_COMM_WORLD_SIZE");
  const int count = text == nullptr ? 0 : std::atoi(text);
  if (count != 2 && count != 4) {
    raise<InvalidArgument>("start it in two or four processes: mpirun -n 2 bench_processes");
  }
  return count;
}

std::vector<Case> cases() {
  using parallel::PipelinedExecution;
  using parallel::Stage;
  std::vector<Case> all(2);
  all[0].name = "pipeline";
  all[0].options.training.gradientAccumulation(8);
  if (processes() == 2) {
    all[0].options.setExecutionStrategy(
        PipelinedExecution{Stage("b0", "b1").device(0), Stage("b2", "b3").device(1)});
  } else {
    all[0].options.setExecutionStrategy(PipelinedExecution{"b0", "b1", "b2", "b3"});
  }
  all[1].name = "replicas";
  all[1].options.replicationFactor(processes()).training.gradientAccumulation(4);
  all[1].options.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1", "b2", "b3").device(0)});
  for (Case& made : all) {
    made.options.threads(1);
  }
  return all;
}

/// Steps of one process with all devices; models are kept for the next turn.
Times stepAlone(int number) {
  static std::map<int, std::unique_ptr<Trained>> models;
  std::unique_ptr<Trained>& model = models[number];
  if (model == nullptr) {
    Options options = cases()[static_cast<std::size_t>(number)].options;
    options.distributed.disable();
    model = std::make_unique<Trained>(options);
  }
  Times times;
  times.add(kSteps, [&] { model->step(); });
  return times;
}

/// What a message takes from device to device of the first two processes, the median of some.
double messageSeconds(runtime::Communicator& all, std::size_t bytes, int times) {
  const auto device = devices::makeDevice({});
  const auto memory = device->allocate(bytes);
  const auto queue = device->makeQueue();
  queue->fill(memory->at(), std::byte{0}, bytes);
  const std::int32_t other = 1 - all.rank();
  Times trips;
  trips.add(times, [&] {
    if (all.rank() == 0) {
      all.send(*queue, other, 3, memory->at(), bytes);
      all.receive(*queue, other, 4, memory->at(), bytes);
    } else {
      all.receive(*queue, other, 3, memory->at(), bytes);
      all.send(*queue, other, 4, memory->at(), bytes);
    }
  });
  return medianOf(trips.wall) / 2;
}

/// Processor time in this process for each of many small messages that are posted at once.
double burstSeconds(runtime::Communicator& all) {
  constexpr int kMessages = 256;
  const std::int32_t other = 1 - all.rank();
  Times bursts;
  bursts.add(20, [&] {
    if (all.rank() == 0) {
      for (int i = 0; i < kMessages; ++i) {
        all.post(other, 5, runtime::MessageBytes(64));
      }
      all.take(other, 6);
    } else {
      for (int i = 0; i < kMessages; ++i) {
        all.take(other, 5);
      }
      all.post(other, 6, {});
    }
  });
  return medianOf(bursts.processor) / kMessages;
}

device::Link measureLink(runtime::Communicator& all) {
  constexpr std::size_t kFew = 64;
  constexpr std::size_t kMany = std::size_t{1} << 20U;
  if (all.rank() > 1) {
    return {};
  }
  const double few = messageSeconds(all, kFew, 100);
  const double many = messageSeconds(all, kMany, 15);
  return {.bytesPerSecond = static_cast<double>(kMany - kFew) / std::max(many - few, 1e-9),
          .latencySeconds = few};
}

/// Seconds of a step over `processes`, whose link is known, from what is measured alone.
double predictStep(const Options& options, std::int32_t processes, const device::Link& link) {
  Options one = options.clone();
  one.distributed.disable();
  const Trained whole(one);
  std::vector<std::unique_ptr<device::Device>> made;
  std::vector<device::Device*> devices;
  for (std::size_t d = 0; d < whole.program().devices.size(); ++d) {
    made.push_back(devices::makeDevice({}));
    devices.push_back(made.back().get());
  }
  devices::sim::SimTarget target = devices::calibrate(*devices[0]);
  for (const runtime::KernelTime& time : runtime::measureKernels(whole.program(), devices)) {
    target.kernels[devices::sim::kernelKey(*time.call)] = time.seconds;
  }
  target.machine.processes = processes;
  target.machine.process = link;
  const auto device = devices::sim::makeSimDevice({.target = std::move(target)});
  const device::CostModel* model = device::costModelOf(*device);
  const auto replicas = static_cast<std::int32_t>(options.replicationFactor());
  return runtime::simulate(whole.program(),
                           runtime::costsOf(whole.program(), std::span(&model, 1), replicas),
                           {.replicas = replicas, .hasPacked = true})
      .seconds();
}

/// Alternates between both, so that whoever else uses the machine disturbs both; while one process
/// steps alone, the others sleep.
void compareSteps(int number, const Alone* alone, int turns) {
  const Case made = cases()[static_cast<std::size_t>(number)];
  Options options = made.options.clone();
  options.distributed.shareModel(true);
  const auto world = runtime::ProcessWorld::open();
  const auto all = world->makeCommunicator();
  const device::Link link = measureLink(*all);
  Trained apart(options);
  Times several;
  Times one;
  std::vector<double> predicted;
  for (int turn = 0; turn < turns; ++turn) {
    several.add(kSteps, [&] { apart.step(); });
    if (world->rank() == 0) {
      if (alone != nullptr) {
        alone->addTo(one, number);
      }
      if (turn % 4 == 0) {  // the machine's speed changes with time
        predicted.push_back(predictStep(made.options, world->size(), link));
      }
    }
    sumOver(*all, 0);
  }
  const double burst = sumOver(*all, world->rank() < 2 ? burstSeconds(*all) : 0);
  const double used = sumOver(*all, medianOf(several.processor));
  if (world->rank() != 0) {
    return;
  }
  const double wall = medianOf(several.wall);
  fmt::print("{:<10} {:6.2f} ms in {} processes, {:.2f} of processors; ",
             made.name,
             1e3 * wall,
             world->size(),
             1e3 * used);
  if (alone != nullptr) {
    fmt::print("{:.2f} and {:.2f} in one, ratios {:.2f} and {:.2f}",
               1e3 * medianOf(one.wall),
               1e3 * medianOf(one.processor),
               wall / medianOf(one.wall),
               used / medianOf(one.processor));
  }
  fmt::print(
      "\n{:<10} {:6.2f} ms predicted, {:+.0f} %; a message {:.0f} us and {:.3f} GB/s, of many "
      "{:.1f} us\n",
      "",
      1e3 * medianOf(predicted),
      100 * (medianOf(predicted) / wall - 1),
      1e6 * link.latencySeconds,
      1e-9 * link.bytesPerSecond,
      1e6 * burst);
}

void timeSum() {
  constexpr std::int64_t kElements = 25'000'000;
  const auto world = runtime::ProcessWorld::open();
  const auto all = world->makeCommunicator();
  runtime::Group group{.communicator = all.get(), .me = static_cast<std::size_t>(all->rank())};
  for (std::int32_t r = 0; r < all->size(); ++r) {
    group.ranks.push_back(r);
  }
  const auto device = devices::makeDevice({});
  const auto memory = device->allocate(kElements * sizeof(float));
  const auto queue = device->makeQueue();
  queue->fill(memory->at(), std::byte{0}, kElements * sizeof(float));
  const std::vector<device::Address> sources = {memory->at()};
  Times times;
  times.add(6, [&] {
    static_cast<void>(runtime::sumOf(group, *queue, 1, sources, DType::F32, kElements));
  });
  if (all->rank() == 0) {
    fmt::print("sum of 25 M floats: {:.1f} ms\n", 1e3 * medianOf(times.wall));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 12;
  const bool isApart = argc > 2 && std::string_view(argv[2]) == "apart";
  try {
    std::optional<sluice::Alone> alone;
    if (!isApart) {
      alone.emplace(sluice::stepAlone);
    }
    for (const int number : {0, 1}) {
      sluice::compareSteps(number, alone ? &*alone : nullptr, turns);
    }
    if (!isApart) {
      sluice::timeSum();
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
