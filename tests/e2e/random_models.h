// Random networks and random ways to run them, both by one seed: what a seed gives is the same on
// every machine, so a failure is reproduced by its number.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sluice/sluice.h"
#include "tests/e2e/networks.h"

namespace sluice::testing {

/// Draws that do not depend on the standard library's distributions.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// 0 .. count-1
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool oneIn(std::int64_t count) { return below(count) == 0; }

 private:
  std::mt19937_64 random_;
};

/// A classifier of two to five blocks "b0", "b1", ... : residual connections over blocks, layers
/// that are applied twice, views of weights, inputs read by several blocks, work of an early block
/// that is traced late, batch norm, dropout, frozen layers, values without gradient, and several
/// outputs. The loss is the last one. For several replicas there are also exchanges between them.
class RandomNet : public nn::Module {
 public:
  explicit RandomNet(std::uint64_t seed, std::int64_t exchanging = 1);

  std::vector<nn::Tensor> forward(nn::Tensor x, nn::Tensor extra, nn::Tensor labels);
  std::int64_t numBlocks() const { return blocks_; }
  std::vector<TensorType> inputs() const;

 private:
  enum class Kind : std::uint8_t {
    Layer,      ///< one of its own
    Shared,     ///< one that other steps may apply too
    Residual,   ///< adds an earlier value
    ReadInput,  ///< adds a projection of the first or the second input
    View,       ///< adds a row of a weight, reshaped where it may be another block's
    Constant,
    Detached,  ///< scales by a value that gets no gradient
    Late,      ///< adds work of an earlier block that is traced now
    Exchange   ///< adds what all replicas have made
  };
  struct Step {
    Kind kind = Kind::Layer;
    std::int64_t block = 0;
    std::size_t layer = 0;
    std::size_t other = 0;  ///< which earlier value, view, input ...
    std::int64_t activation = 0;
    bool output = false;
  };
  struct Trace;

  std::size_t addLayer(Dice& dice);
  void addExchanges(Dice& dice);
  nn::Tensor exchanged(std::size_t which, const nn::Tensor& y) const;
  nn::Tensor apply(const Step& step, const nn::Tensor& y, Trace& trace);

  std::int64_t blocks_ = 2;
  std::int64_t width_ = 8;
  std::int64_t rows_ = 4;
  std::int64_t replicas_ = 1;  ///< that exchange values
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<nn::Layer>> layers_;
  std::vector<std::unique_ptr<nn::Linear>> shared_;
  std::unique_ptr<nn::Linear> first_;
  std::unique_ptr<nn::Linear> skip_;
  std::unique_ptr<nn::Linear> extra_;
  std::unique_ptr<nn::Linear> last_;
};

/// How a random network is trained: the same for all runs that are compared.
struct RandomTraining {
  explicit RandomTraining(std::uint64_t seed);

  std::unique_ptr<optim::Optimizer> optimizer;
  std::int32_t accumulation = 1;
  Reduction reduction = Reduction::Mean;
  bool validates = false;       ///< an inference model takes turns with the training model
  bool validatesFirst = false;  ///< and is compiled before it
  bool validatesOnOneDevice = false;
};

/// The options of a run on one device, and random ones for several.
Options oneDeviceOptions(const RandomNet& net, const RandomTraining& training);
Options randomOptions(std::uint64_t seed, const RandomNet& net, const RandomTraining& training);

/// The same in phases or with tensors off the devices, and with any recomputation.
Options randomStreaming(std::uint64_t seed, const RandomNet& net, const RandomTraining& training);

/// Trains for `updates` updates; the bits of all variables and of every output of every
/// micro-batch.
Bits runRandomNet(std::uint64_t seed,
                  const Options& options,
                  std::int64_t updates,
                  bool exchanges = false);

/// How far a random configuration is from one device.
enum class Variety : std::uint8_t {
  Devices,   ///< cuts, schedules, threads
  Streams,   ///< also phases, tensors off the devices, recomputation
  Replicas,  ///< also two or three replicas, which may share weights and optimizer state
  Exchanges  ///< also exchanges between them in the network itself
};

/// What differs between one device, or replicas of one device each, and a random configuration;
/// empty: nothing. With the seed and the configuration when something does.
std::string compareRandomNet(std::uint64_t seed, Variety variety = Variety::Devices);

}  // namespace sluice::testing
