// A training run that saves a checkpoint after every step and resumes from the newest one: what
// kill_checkpoints.py ends at random moments.
//
//   checkpoint_worker <folder> <steps>
//
// Prints "resumed <updates>", "saving <updates>" and "saved <updates>" around every checkpoint, and
// "weights <hash>" at the end.
#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

#include "sluice/base/hash.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

/// About 12 MB of weights and moments, so that writing takes a while.
struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 64, 1024};
  nn::Linear fc2{*this, "fc2", 1024, 900};
  nn::BatchNorm norm{*this, "norm", 900};
  nn::Dropout dropout{*this, "dropout", 0.2};
  nn::Linear fc3{*this, "fc3", 900, 10};

  nn::Tensor forward(const nn::Tensor& x, const nn::Tensor& labels) {
    const nn::Tensor y = dropout(norm(nn::relu(fc2(nn::relu(fc1(x))))));
    return nn::crossEntropy(fc3(y), labels);
  }
};

DataLoader makeLoader() {
  constexpr std::int64_t kSamples = 160;
  HostTensor x(DType::F32, Shape{kSamples, 64});
  HostTensor labels(DType::I64, Shape{kSamples});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, static_cast<double>(i * i % 101) / 50 - 1);
  }
  for (std::int64_t i = 0; i < kSamples; ++i) {
    labels.set(i, static_cast<double>(i % 10));
  }
  return {
      Options(), data::tensorDataset({x, labels}), 8, {.shuffle = data::Shuffle::Yes, .seed = 1}};
}

void say(const char* what, std::int64_t updates) {
  fmt::print("{} {}\n", what, updates);
  std::fflush(stdout);
}

void train(const char* folder, std::int64_t steps) {
  Net net;
  auto model = trainingModel(net, Options().randomSeed(4), optim::AdamW(1e-3));
  const CheckpointFolder checkpoints(folder, 2);
  DataLoader loader = makeLoader();
  if (const std::optional<Resumed> resumed = checkpoints.resume(model)) {
    loader.restore(resumed->loader);
  }
  say("resumed", model.updates());
  while (model.updates() < steps) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      continue;  // the end of an epoch
    }
    model.run(*batch);
    say("saving", model.updates());
    checkpoints.save(model, loader.state());
    say("saved", model.updates());
  }
  Hasher hasher;
  for (const auto& [name, tensor] : model.stateDict()) {
    hasher.add(name).add(tensor.hash());
  }
  fmt::print("weights {:016x}\n", hasher.digest());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  try {
    train(argv[1], std::atoll(argv[2]));
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
