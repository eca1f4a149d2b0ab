// dropout, random_normal, random_uniform and stochastic_cast: the numbers of the reference (rule
// R6), four elements to one Philox block, tiles in parallel.
#include "sluice/ops/random.h"

#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kTile = 16384;  // a multiple of 4: tiles start with a block

class Random : public Kernel {
 public:
  explicit Random(const ir::OpView& op)
      : def_(op.def),
        attrs_(op.attrs),
        inputs_(op.inputs.begin(), op.inputs.end()),
        outputs_(op.outputs.begin(), op.outputs.end()) {}

 protected:
  ir::KernelArgs argsOf(const KernelRun& run) const {
    return {{def_, attrs_, inputs_, outputs_}, run.inputs, run.outputs, run.info};
  }
  RandomStream streamOf(const KernelRun& run) const { return ops::randomStream(argsOf(run)); }
  const TensorType& type() const { return outputs_[0]; }

  /// Calls f(element, uniform number) for every element.
  template <class F>
  void forEach(const KernelRun& run, F f) const {
    forEachWord(run, streamOf(run), [&f](std::int64_t i, std::uint32_t word) {
      f(i, static_cast<double>(uniform01(word)));
    });
  }

  /// Calls f(element, 32 random bits) for every element.
  template <class F>
  void forEachWord(const KernelRun& run, const RandomStream& stream, F f) const {
    const std::int64_t total = type().shape.elements();
    run.workers.parallelFor(ceilDiv(total, kTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(total, (tile + 1) * kTile);
      for (std::int64_t i = tile * kTile; i < last; i += 4) {
        const PhiloxBlock block = stream.block(static_cast<std::uint64_t>(i) / 4);
        const auto count = static_cast<std::size_t>(std::min<std::int64_t>(4, last - i));
        for (std::size_t j = 0; j < count; ++j) {
          f(i + static_cast<std::int64_t>(j), block[j]);
        }
      }
    });
  }

 private:
  const ir::OpDef& def_;
  ir::Attrs attrs_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
};

class Dropout : public Random {
 public:
  explicit Dropout(const ir::OpView& op) : Random(op), p_(op.attrs.real("p")) {}

  void run(const KernelRun& run) override {
    const double scale = 1.0 / (1.0 - p_);
    dispatch(type().dtype, [&]<class T>(T) {
      const T* in = run.in<T>(0);
      T* out = run.out<T>(0);
      forEach(run, [&](std::int64_t i, double u) {
        out[i] = u >= p_ ? ops::narrow<T>(static_cast<double>(ops::widen(in[i])) * scale) : T{};
      });
    });
  }

 private:
  double p_;
};

class RandomUniform : public Random {
 public:
  explicit RandomUniform(const ir::OpView& op)
      : Random(op), low_(op.attrs.real("low")), high_(op.attrs.real("high")) {}

  void run(const KernelRun& run) override {
    dispatch(type().dtype, [&]<class T>(T) {
      T* out = run.out<T>(0);
      forEach(run, [&](std::int64_t i, double u) {
        out[i] = ops::narrow<T>(low_ + (high_ - low_) * u);
      });
    });
  }

 private:
  double low_;
  double high_;
};

class RandomNormal : public Random {
 public:
  explicit RandomNormal(const ir::OpView& op)
      : Random(op), mean_(op.attrs.real("mean")), deviation_(op.attrs.real("deviation")) {}

  void run(const KernelRun& run) override {
    const RandomStream stream = streamOf(run);
    const std::int64_t total = type().shape.elements();
    dispatch(type().dtype, [&]<class T>(T) {
      T* out = run.out<T>(0);
      run.workers.parallelFor(ceilDiv(total, kNormals), [&](std::int64_t tile) {
        const std::int64_t last = std::min(total, (tile + 1) * kNormals);
        for (std::int64_t i = tile * kNormals; i < last; i += 4) {
          const PhiloxBlock block = stream.block(static_cast<std::uint64_t>(i) / 4);
          const auto first = normalPair(block[0], block[1]);
          const auto second = normalPair(block[2], block[3]);
          const std::array<double, 4> numbers = {first[0], first[1], second[0], second[1]};
          for (std::int64_t j = 0; j < std::min<std::int64_t>(4, last - i); ++j) {
            out[i + j] = ops::narrow<T>(mean_ + deviation_ * numbers[static_cast<std::size_t>(j)]);
          }
        }
      });
    });
  }

 private:
  static constexpr std::int64_t kNormals = kTile / 16;  // they take longer

  double mean_;
  double deviation_;
};

class StochasticCast : public Random {
 public:
  using Random::Random;

  void run(const KernelRun& run) override {
    const RandomStream stream = ops::countedStream(argsOf(run));
    dispatch(type().dtype, [&]<class T>(T) {
      if constexpr (ops::kIsHalf<T>) {
        const float* in = run.in<float>(0);
        T* out = run.out<T>(0);
        forEachWord(run, stream, [&](std::int64_t i, std::uint32_t word) {
          out[i] = ops::roundStochastically<T>(in[i], word);
        });
      }
    });
  }
};

}  // namespace

std::unique_ptr<Kernel> makeStochasticCast(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<StochasticCast>(op);
}

std::unique_ptr<Kernel> makeDropout(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Dropout>(op);
}

std::unique_ptr<Kernel> makeRandomNormal(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<RandomNormal>(op);
}

std::unique_ptr<Kernel> makeRandomUniform(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<RandomUniform>(op);
}

}  // namespace sluice::devices::cpu
