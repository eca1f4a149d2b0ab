// Our matrix products and convolutions against oneDNN's best layout, one thread, measured in turns.
// Shapes are drawn by a seed; the convolutions of the MNIST net are always there. Prints JSON.
//
// "speed" compares the same job: activations are in whatever layout a contender likes, but weight
// gradients must end up plain, and a right operand of a matmul that ours takes as it is must be
// packed by a contender that wants it packed. "strict" leaves both out of the library's time,
// though they stay in ours.
//
//   bench_kernels [seed] [shapes of each kind] [seconds per contender] [tuning table]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/ops/conv.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/matmul.h"
#include "sluice/ops/window_ops.h"

namespace {

using namespace sluice;
using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

/// Something to be timed; it owns its memory.
struct Contender {
  std::string name;
  std::function<void()> run;
  std::function<void()> further = {};  ///< to do the same job as the others, where it is needed
};

/// CPU time of this thread: what runs beside us costs less of it than of the wall clock.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

constexpr double kShortest = 50;  // microseconds of a measurement

/// Microseconds per run; several runs where one is too short for the clock.
double timeOf(const Contender& contender) {
  for (int count = 1;; count *= 4) {
    const double start = now();
    for (int i = 0; i < count; ++i) {
      contender.run();
    }
    const double took = now() - start;
    if (took >= kShortest) {
      return took / count;
    }
  }
}

/// Medians of runs taken in turns, in microseconds; more of them for short ones.
std::vector<double> measure(const std::vector<Contender>& contenders, double seconds) {
  constexpr int kFewest = 9;
  constexpr int kMost = 201;
  std::vector<std::vector<double>> times(contenders.size());
  double longest = 1;
  for (const Contender& contender : contenders) {
    timeOf(contender);
    longest = std::max({longest, timeOf(contender), kShortest});
  }
  const int rounds =
      static_cast<int>(std::clamp(1e6 * seconds / longest, 1.0 * kFewest, 1.0 * kMost));
  for (int r = 0; r < rounds; ++r) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      times[i].push_back(timeOf(contenders[i]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& list : times) {
    std::ranges::sort(list);
    medians.push_back(list[list.size() / 2]);
  }
  return medians;
}

struct OpCall {
  const ir::OpDef* def;
  ir::Attrs attrs;
  std::vector<TensorType> inputs;
  std::string name;
};

void fillWithNumbers(std::byte* data, std::size_t bytes) {
  auto* values = reinterpret_cast<float*>(data);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
    values[i] = static_cast<float>(i * 7919 % 1000) / 500.0F - 1.0F;
  }
}

/// Our kernel on operands that are already in the layouts of its Choice.
Contender ours(device::Device& device, const OpCall& op) {
  struct State {
    std::vector<std::unique_ptr<device::Memory>> memory;
    std::vector<device::Address> buffers;
    std::unique_ptr<device::Executable> executable;
    std::unique_ptr<device::Queue> queue;
  };
  auto state = std::make_shared<State>();
  device::KernelCall call;
  call.def = op.def;
  call.attrs = ir::completeAttrs(*op.def, op.attrs);
  call.inputTypes = op.inputs;
  call.outputTypes = op.def->infer({*op.def, call.attrs, op.inputs, {}});
  call.choice = device.kernels().choose(call.view());
  // Not all at the beginning of a page, where they would share few sets of the caches: neither a
  // program's plan nor the library places buffers so.
  const auto add = [&](std::size_t bytes) {
    constexpr std::size_t kStagger = 9 * 64;
    const std::size_t offset = kStagger * state->memory.size();
    state->memory.push_back(device.allocate(bytes + offset));
    fillWithNumbers(state->memory.back()->host() + offset, bytes);
    state->buffers.push_back(state->memory.back()->at(offset));
    return static_cast<std::int32_t>(state->buffers.size()) - 1;
  };
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    call.inputs.push_back(add(call.choice.inputs[i].bytes(op.inputs[i])));
  }
  call.outputs.push_back(add(call.choice.outputs[0].bytes(call.outputTypes[0])));
  call.scratch = add(call.choice.scratchBytes);
  state->executable = device.prepare({&call, 1});
  state->queue = device.makeQueue();
  return {call.choice.config,
          [state] { state->queue->launch(*state->executable, state->buffers); }};
}

/// A primitive on memory of its own; nothing for the library's slow plain loops.
std::optional<Contender> library(const std::string& name,
                                 const dnnl::primitive_desc_base& desc,
                                 const std::vector<int>& arguments) {
  if (!desc || std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos) {
    return std::nullopt;
  }
  const dnnl::primitive primitive(desc.get());
  const dnnl::stream stream(engine());
  std::unordered_map<int, memory> args;
  for (const int argument : arguments) {
    memory m(desc.query_md(dnnl::query::exec_arg_md, argument), engine());
    fillWithNumbers(static_cast<std::byte*>(m.get_data_handle()), m.get_desc().get_size());
    args.emplace(argument, m);
  }
  return Contender{name, [=] { primitive.execute(stream, args); }};
}

/// Changes the format of a matrix or of weights; nothing where it is the same.
std::function<void()> reorder(const memory::desc& from, const memory::desc& to) {
  if (from == to) {
    return {};
  }
  const memory source(from, engine());
  const memory target(to, engine());
  fillWithNumbers(static_cast<std::byte*>(source.get_data_handle()), from.get_size());
  const dnnl::reorder primitive(source, target);
  const dnnl::stream stream(engine());
  const std::unordered_map<int, memory> args = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
  return [=] { primitive.execute(stream, args); };
}

/// `packs`: whether a packed right operand must be made from a plain one.
std::vector<Contender> libraryMatMuls(const OpCall& op, bool packs) {
  const ir::Attrs attrs = ir::completeAttrs(*op.def, op.attrs);
  const ops::MatMulDims d = ops::matmulDims({*op.def, attrs, op.inputs, {}});
  const auto f32 = memory::data_type::f32;
  const memory::desc a({d.m, d.k}, f32, memory::dims{d.strideAm, d.strideAk});
  const memory::desc c({d.m, d.n}, f32, memory::dims{d.n, 1});
  const memory::desc plain({d.k, d.n}, f32, memory::dims{d.strideBk, d.strideBn});
  const memory::desc any({d.k, d.n}, f32, memory::format_tag::any);
  std::vector<Contender> result;
  for (const auto& [name, b] : {std::pair("plain", plain), std::pair("packed", any)}) {
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), engine());
    if (auto made = library(name, desc, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST})) {
      if (packs) {
        made->further = reorder(plain, desc.weights_desc());
      }
      result.push_back(std::move(*made));
    }
  }
  return result;
}

struct ConvDescs {
  memory::desc x;
  memory::desc w;
  memory::desc y;
  memory::dims strides;
  memory::dims dilations;
  memory::dims before;
  memory::dims after;
};

std::optional<Contender> libraryConv(const std::string& name,
                                     std::string_view pass,
                                     const ConvDescs& s) {
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::desc forward(
      pass == "conv" ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
      kAlgorithm,
      s.x,
      s.w,
      s.y,
      s.strides,
      s.dilations,
      s.before,
      s.after);
  const dnnl::convolution_forward::primitive_desc hint(forward, {}, engine(), true);
  if (!hint) {
    return std::nullopt;
  }
  if (pass == "conv") {
    return library(name, hint, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
  }
  if (pass == "conv_grad_input") {
    const dnnl::convolution_backward_data::desc desc(
        kAlgorithm, s.x, s.w, s.y, s.strides, s.dilations, s.before, s.after);
    const dnnl::convolution_backward_data::primitive_desc made(desc, {}, engine(), hint, true);
    return library(name, made, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST});
  }
  const dnnl::convolution_backward_weights::desc desc(
      kAlgorithm, s.x, s.w, s.y, s.strides, s.dilations, s.before, s.after);
  const dnnl::convolution_backward_weights::primitive_desc made(desc, {}, engine(), hint, true);
  auto contender = library(name, made, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST});
  if (contender) {
    const memory::dims dims = s.w.dims();
    const memory::desc plain(dims, memory::data_type::f32, Shape(dims).strides());
    contender->further = reorder(made.diff_weights_desc(), plain);
  }
  return contender;
}

std::vector<Contender> libraryConvs(const OpCall& op) {
  const ir::Attrs attrs = ir::completeAttrs(*op.def, op.attrs);
  const ops::ConvDims d = ops::convDims({*op.def, attrs, op.inputs, {}});
  using Tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  const memory::dims x = {d.batch, d.inChannels, d.in[1], d.in[2]};
  const memory::dims y = {d.batch, d.outChannels, d.out[1], d.out[2]};
  memory::dims w = {d.outPerGroup(), d.inPerGroup(), d.kernel[1], d.kernel[2]};
  if (d.groups > 1) {
    w.insert(w.begin(), d.groups);
  }
  const std::vector<std::pair<std::string, std::pair<Tag, Tag>>> layouts = {
      {"any", {Tag::any, Tag::any}},
      {"nhwc", {Tag::nhwc, Tag::nhwc}},
      {"nchw", {Tag::nchw, Tag::nchw}},
      {"nchw-nhwc", {Tag::nchw, Tag::nhwc}},
      {"nChw16c", {Tag::nChw16c, Tag::nChw16c}}};
  std::vector<Contender> result;
  for (const auto& [name, tags] : layouts) {
    const ConvDescs descs{{x, f32, tags.first},
                          {w, f32, Tag::any},
                          {y, f32, tags.second},
                          {d.strides[1], d.strides[2]},
                          {d.dilations[1] - 1, d.dilations[2] - 1},
                          {d.padsBefore[1], d.padsBefore[2]},
                          {d.padsAfter[1], d.padsAfter[2]}};
    if (auto made = libraryConv(name, op.def->name, descs)) {
      result.push_back(std::move(*made));
    }
  }
  return result;
}

/// conv (0), conv_grad_input (1) or conv_grad_weight (2).
OpCall convCall(int pass, const Shape& x, const Shape& w, std::int64_t stride, std::int64_t pad) {
  ir::Attrs attrs{{"strides", {stride, stride}}, {"pads", {pad, pad, pad, pad}}};
  const TensorType xType{DType::F32, x};
  const TensorType wType{DType::F32, w};
  const ir::Attrs complete = ir::completeAttrs(ops::kConv, attrs);
  const std::vector<TensorType> types = {xType, wType};
  const TensorType yType = ops::kConv.infer({ops::kConv, complete, types, {}})[0];
  const std::string name = fmt::format("{} {} s{} p{}", x.str(), w.str(), stride, pad);
  if (pass == 0) {
    return {&ops::kConv, attrs, types, name};
  }
  if (pass == 1) {
    attrs.set({"inputShape", x.dims()});
    return {&ops::kConvGradInput, attrs, {wType, yType}, name};
  }
  attrs.set({"weightShape", w.dims()});
  return {&ops::kConvGradWeight, attrs, {xType, yType}, name};
}

std::vector<OpCall> mnistConvs() {
  const Shape x1{40, 1, 28, 28};
  const Shape w1{10, 1, 5, 5};
  const Shape x2{40, 10, 12, 12};
  const Shape w2{20, 10, 5, 5};
  std::vector<OpCall> calls = {convCall(0, x1, w1, 1, 0), convCall(2, x1, w1, 1, 0)};
  for (const int pass : {0, 1, 2}) {
    calls.push_back(convCall(pass, x2, w2, 1, 0));
  }
  for (OpCall& call : calls) {
    call.name = "mnist " + call.name;
  }
  return calls;
}

constexpr double kMaxFlops = 2e9;

std::vector<OpCall> randomConvs(std::mt19937_64& random, int count) {
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  std::vector<OpCall> calls;
  while (static_cast<int>(calls.size()) < count) {
    const int pass = static_cast<int>(random() % 3);
    const std::int64_t size = pick({7, 10, 14, 20, 28, 56});
    const std::int64_t kernel = pick({1, 3, 3, 5});
    const Shape x{
        pick({1, 4, 8, 16, 32, 40}), pick({1, 3, 8, 16, 20, 32, 64, 128, 256}), size, size};
    const Shape w{pick({6, 10, 16, 32, 48, 64, 128, 256}), x[1], kernel, kernel};
    const OpCall call = convCall(pass, x, w, pick({1, 1, 2}), kernel / 2);
    const ir::Attrs attrs = ir::completeAttrs(*call.def, call.attrs);
    if (ops::costConv({*call.def, attrs, call.inputs, call.inputs}).flops <= kMaxFlops) {
      calls.push_back(call);
    }
  }
  return calls;
}

std::vector<OpCall> randomMatMuls(std::mt19937_64& random, int count) {
  const auto extent = [&] {
    return static_cast<std::int64_t>(
        std::exp2(3.0 + 8.5 * static_cast<double>(random() % 10000) / 10000.0));
  };
  std::vector<OpCall> calls;
  while (static_cast<int>(calls.size()) < count) {
    const std::int64_t m = extent();
    const std::int64_t n = extent();
    const std::int64_t k = extent();
    const bool ta = random() % 3 == 0;
    const bool tb = random() % 3 == 0;
    if (2.0 * static_cast<double>(m * n * k) > kMaxFlops) {
      continue;
    }
    calls.push_back({&ops::kMatMul,
                     {{"transposeA", ta}, {"transposeB", tb}},
                     {{DType::F32, ta ? Shape{k, m} : Shape{m, k}},
                      {DType::F32, tb ? Shape{n, k} : Shape{k, n}}},
                     fmt::format("{}x{}x{} {}{}", m, n, k, ta ? 't' : 'n', tb ? 't' : 'n')});
  }
  return calls;
}

/// How fast ours is relative to the best.
struct Speeds {
  double speed = 1e9;
  double strict = 1e9;
};

/// Prints one line of JSON.
Speeds report(device::Device& device, const OpCall& op, double seconds, bool first) {
  std::vector<Contender> contenders = {ours(device, op)};
  const bool packs = contenders[0].name.find("packed") == std::string::npos;
  for (Contender& one : op.def == &ops::kMatMul ? libraryMatMuls(op, packs) : libraryConvs(op)) {
    contenders.push_back(one);
    if (one.further) {
      contenders.push_back({one.name + " reorder", one.further});
    }
  }
  const std::vector<double> times = measure(contenders, seconds);
  double best = 1e12;
  double strictBest = 1e12;
  std::string all;
  for (std::size_t i = 1; i < times.size(); ++i) {
    all += fmt::format("{}\"{}\": {:.2f}", i == 1 ? "" : ", ", contenders[i].name, times[i]);
    const double further = contenders[i].further ? times[i + 1] : 0;
    best = std::min(best, times[i] + further);
    strictBest = std::min(strictBest, times[i]);
    if (further > 0) {
      ++i;
      all += fmt::format(", \"{}\": {:.2f}", contenders[i].name, times[i]);
    }
  }
  const Speeds speeds{best / times[0], strictBest / times[0]};
  fmt::print(
      "{}\n    {{\"op\": \"{}\", \"shape\": \"{}\", \"config\": \"{}\", \"us\": {:.2f}, "
      "\"speed\": {:.3f}, \"strict\": {:.3f}, \"onednn_us\": {{{}}}}}",
      first ? "" : ",",
      op.def->name,
      op.name,
      contenders[0].name,
      times[0],
      speeds.speed,
      speeds.strict,
      all);
  std::fflush(stdout);
  return speeds;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  omp_set_num_threads(1);
  const int seed = argument(1, 1);
  const int count = argument(2, 30);
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0.1;
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  device::Tuning tuning;
  if (argc > 4) {
    std::ifstream file(argv[4]);
    if (!file) {
      fmt::print(stderr, "bench_kernels: cannot read the tuning table {}\n", argv[4]);
      return 1;
    }
    tuning = device::parseTuning(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  const auto device = devices::cpu::makeCpuDevice({.tuning = tuning});
  const devices::cpu::OneOmpThread one;
  std::vector<OpCall> calls = mnistConvs();
  for (const auto& list : {randomConvs(random, count), randomMatMuls(random, count)}) {
    calls.insert(calls.end(), list.begin(), list.end());
  }
  fmt::print("{{\"device\": \"{}\", \"seed\": {}, \"cases\": [", device->info().description, seed);
  Speeds worst;
  int slow = 0;
  int strictSlow = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Speeds speeds = report(*device, calls[i], seconds, i == 0);
    worst = {std::min(worst.speed, speeds.speed), std::min(worst.strict, speeds.strict)};
    slow += speeds.speed < 0.95 ? 1 : 0;
    strictSlow += speeds.strict < 0.95 ? 1 : 0;
  }
  fmt::print(
      "\n  ], \"worst\": {:.3f}, \"below_0.95\": {}, \"strict_worst\": {:.3f}, "
      "\"strict_below_0.95\": {}}}\n",
      worst.speed,
      slow,
      worst.strict,
      strictSlow);
  return 0;
}
