// sluice bench-data: how fast files of data are read, as JSON.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/wait_line.h"
#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/data/files.h"
#include "sluice/data/queues.h"

namespace sluice::cli {
namespace {

struct BenchSettings {
  std::string path;
  std::string format = "mnist";
  std::int64_t batchSize = 40;
  std::int64_t epochs = 3;
  std::int64_t elements = 0;
  std::int64_t prefetchDepth = 3;
  std::int64_t sequence = 128;
  bool infeed = false;
  bool noMemcpy = false;
};

data::DatasetPtr open(const BenchSettings& s) {
  if (s.format == "mnist") {
    return data::mnistDataset(s.path, data::Split::Train);
  }
  if (s.format == "idx") {
    return data::tensorDataset({data::readIdx(s.path)});
  }
  if (s.format == "npy") {
    return data::tensorDataset({data::readNpy(s.path)});
  }
  if (s.format == "csv") {
    return data::tensorDataset({data::readCsv(s.path).values});
  }
  return data::tokenDataset(s.path, {.sequence = s.sequence});
}

std::string measured(const BenchSettings& s) {
  WaitLine line("reading " + s.path);
  const data::DatasetPtr batches = data::batch(open(s), s.batchSize);
  const std::int64_t elements = s.elements > 0 ? s.elements : batches->size();
  const data::BenchmarkOptions options{.doMemcpy = !s.noMemcpy};
  const data::IterablePtr stream = data::repeat(data::iterate(batches));
  line.say(fmt::format("measuring {} times {} elements of {}", s.epochs, elements, s.path));
  if (s.infeed) {
    data::InfeedQueue queue(stream, s.prefetchDepth);
    return data::infeedBenchmark(queue, s.epochs, elements, options);
  }
  return data::datasetBenchmark(*stream, s.epochs, elements, options);
}

int benchData(const BenchSettings& s) {
  fmt::print("{}\n", measured(s));
  return 0;
}

}  // namespace

void addBenchData(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench-data", "Measure how fast a dataset is read");
  const auto s = std::make_shared<BenchSettings>();
  command->add_option("path", s->path, "The file; of mnist the folder")->required();
  command->add_option("--format", s->format, "What it is")
      ->check(CLI::IsMember({"mnist", "idx", "npy", "csv", "tokens"}))
      ->capture_default_str();
  const auto count = [&](const char* name, std::int64_t& value, const char* text) {
    command->add_option(name, value, text)
        ->transform(wholeNumber<std::int64_t>(1, std::int64_t{1} << 40))
        ->capture_default_str();
  };
  count("--batch-size", s->batchSize, "Samples of an element");
  count("--epochs", s->epochs, "How often");
  command->add_option("--elements", s->elements, "Per epoch  [all]")
      ->transform(wholeNumber<std::int64_t>(1, std::int64_t{1} << 40));
  count("--prefetch-depth", s->prefetchDepth, "Of the infeed queue");
  count("--sequence", s->sequence, "Tokens of a sample");
  command->add_flag("--infeed", s->infeed, "Through an infeed queue");
  command->add_flag("--no-memcpy", s->noMemcpy, "Do not copy what was read");
  command->callback([&action, s] { action = [s] { return benchData(*s); }; });
}

}  // namespace sluice::cli
