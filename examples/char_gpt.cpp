// A character-level GPT trained on text files, by default the project's own documents, then asked
// to continue a prompt.
#include "examples/char_gpt.h"

#include <cmath>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/base/input_file.h"
#include "sluice/base/philox.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

using examples::Gpt;
using examples::GptShape;

struct Settings {
  std::string device;
  std::vector<std::string> files = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"};
  GptShape shape = {};
  std::int64_t steps = 300;
  std::int64_t sample = 200;
  std::int64_t threads = 1;
  double learningRate = 3e-3;
  std::string prompt = "The program ";
};

std::vector<std::int64_t> readText(const Settings& settings) {
  std::vector<std::int64_t> ids;
  for (const std::string& name : settings.files) {
    for (const char c : readFile(name)) {
      ids.push_back(c >= 0 ? c : ' ');  // what is not ASCII becomes a space
    }
  }
  if (static_cast<std::int64_t>(ids.size()) < 2 * settings.shape.context) {
    throw InvalidArgument("the text is too short for a context of " +
                          std::to_string(settings.shape.context));
  }
  return ids;
}

/// Random windows of the text; targets are the ids one further.
std::vector<HostTensor> makeBatch(const std::vector<std::int64_t>& text,
                                  const GptShape& s,
                                  std::int64_t step) {
  HostTensor ids(DType::I64, Shape{s.batchSize, s.context});
  HostTensor targets(DType::I64, Shape{s.batchSize, s.context});
  const RandomStream stream{7, 0, static_cast<std::uint32_t>(step)};
  const std::uint64_t starts = text.size() - static_cast<std::size_t>(s.context) - 1;
  for (std::int64_t row = 0; row < s.batchSize; ++row) {
    const std::uint64_t start = stream.word(static_cast<std::uint64_t>(row)) % starts;
    for (std::int64_t i = 0; i < s.context; ++i) {
      const std::size_t at = start + static_cast<std::size_t>(i);
      ids.data<std::int64_t>()[static_cast<std::size_t>(row * s.context + i)] = text[at];
      targets.data<std::int64_t>()[static_cast<std::size_t>(row * s.context + i)] = text[at + 1];
    }
  }
  return {ids, targets};
}

/// Continues the prompt, drawing from the predicted distribution.
std::string generate(Gpt& net, const Settings& s, const Options& options) {
  auto model = inferenceModel(net, options);
  const std::int64_t context = s.shape.context;
  const std::int64_t vocabulary = s.shape.vocabulary;
  std::string text = s.prompt;
  const RandomStream stream{11, 0, 0};
  for (std::int64_t n = 0; n < s.sample; ++n) {
    HostTensor ids(DType::I64, Shape{1, context});
    const std::int64_t used =
        std::min<std::int64_t>(context, static_cast<std::int64_t>(text.size()));
    for (std::int64_t i = 0; i < used; ++i) {
      const char c = text[text.size() - static_cast<std::size_t>(used - i)];
      ids.set(i, c >= 0 ? c : ' ');
    }
    const HostTensor logits = model(ids, ids).first;
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      total += weights.emplace_back(std::exp(1.25 * logits.at((used - 1) * vocabulary + v)));
    }
    double draw =
        total * static_cast<double>(uniform01(stream.word(static_cast<std::uint64_t>(n))));
    std::size_t next = 0;
    while (next + 1 < weights.size() && draw >= weights[next]) {
      draw -= weights[next++];
    }
    text += static_cast<char>(next);
  }
  return text;
}

/// Returns the signal that ended it early, or 0.
int train(Model& model, const std::vector<std::int64_t>& text, const Settings& settings) {
  const StopSignals stop;
  for (std::int64_t step = 0; step < settings.steps && stop.seen() == 0; ++step) {
    const double loss = model.run(makeBatch(text, settings.shape, step)).back().at(0);
    cli::requireFiniteLoss(loss, model.updates());
    if (step % 50 == 0 || step + 1 == settings.steps) {
      fmt::print("step {:4} loss {:.4f}\n", step, loss);
      std::fflush(stdout);
    }
  }
  return stop.seen();
}

int run(const Settings& settings) {
  if (settings.prompt.empty()) {
    throw CLI::ValidationError("--prompt", "expected at least one character to continue");
  }
  const std::vector<std::int64_t> text = readText(settings);
  Gpt net(settings.shape);
  Options options;
  options.device(settings.device);
  options.showCompilationProgressBar(false);
  options.threads(settings.threads);
  auto model = trainingModel(net, options, optim::AdamW(settings.learningRate));
  model.setLrSchedule(optim::LrSchedule::cosine(settings.steps, 0.1).warmUp(20));
  fmt::print("{} characters, {} parameters\n", text.size(), net.numParameters());
  if (const int signal = train(model, text, settings); signal != 0) {
    fmt::print("Interrupted after {} updates.\n", model.updates());
    return cli::exitCodeOf(signal);
  }
  fmt::print("---\n{}\n", generate(net, settings, options));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a character-level GPT on text files and samples from it.", "char_gpt");
  app.footer("Example:\n  char_gpt --files README.md LICENSE --steps 100 --prompt \"The \"");
  app.add_option("--files", settings.files, "Text to learn from")->capture_default_str();
  app.add_option("--steps", settings.steps, "Weight updates")
      ->transform(cli::wholeNumber<std::int64_t>(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--sample", settings.sample, "Characters to generate")
      ->transform(cli::wholeNumber<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--prompt", settings.prompt, "What to continue")->capture_default_str();
  app.add_option("--learning-rate", settings.learningRate, "Of AdamW, at its highest")
      ->transform(cli::realNumber(0))
      ->capture_default_str();
  cli::addDeviceOption(app, settings.device);
  cli::addProfileOptions(app);
  app.add_option("--threads", settings.threads, "Threads of the device")
      ->transform(cli::wholeNumber<std::int64_t>(1, 1024))
      ->capture_default_str();
  return cli::runProgram(app, argc, argv, [&] { return run(settings); });
}
