// Checkpoints past their checksum: any safetensors file gets the marks and the checksum of a
// checkpoint, is read, and loaded into a model and a loader. What is refused changes nothing.
#include "fuzz/small_net.h"
#include "fuzz/target.h"
#include "sluice/base/hash.h"

using namespace sluice;

namespace {

/// A model, a loader and the states that both begin with.
struct Run {
  Run() : first(model.trainingState()), firstPlace(loader.state()) {}

  std::uint64_t hash() const {
    Hasher hasher;
    const TrainingState state = model.trainingState();
    hasher.add(state.rng.seed).add(state.rng.microBatch).add(model.updates());
    for (const NamedTensors& part : {state.model, flattened(state.optimizer)}) {
      for (const auto& [name, tensor] : part) {
        hasher.add(name).add(tensor.hash());
      }
    }
    return hasher.digest();
  }

  fuzz::SmallNet net;
  decltype(fuzz::trained(std::declval<fuzz::SmallNet&>())) model = fuzz::trained(net);
  data::Loader loader{fuzz::smallDataset(), fuzz::smallLoading()};
  TrainingState first;
  std::string firstPlace;
};

void load(const Checkpoint& checkpoint) {
  static Run run;
  const std::uint64_t before = run.hash();
  if (fuzz::accepts([&] { run.model.loadTrainingState(checkpoint.state); })) {
    run.model.run(std::vector{fuzz::SmallNet::input()});
    run.model.loadTrainingState(run.first);
  }
  fuzz::require(run.hash() == before, "a checkpoint that was refused or undone is still there");
  if (fuzz::accepts([&] { run.loader.restore(checkpoint.loader); })) {
    fuzz::accepts([&] { run.loader.next(); });
    run.loader.restore(run.firstPlace);
  }
}

}  // namespace

SLUICE_FUZZ_TARGET(checkpoint) {
  static const fuzz::MemoryFile file("checkpoint");
  SafeTensors content;
  if (!fuzz::accepts([&] { content = parseSafeTensors(fuzz::textOf(data, size), "fuzz"); })) {
    return;
  }
  content.metadata["format"] = "sluice.checkpoint";
  content.metadata["version"] = "1";
  content.metadata["checksum"] = detail::checkpointChecksum(content);
  file.write(serializeSafeTensors(content));
  try {
    load(readCheckpoint(file.path()));
  } catch (const FileError& error) {
    fuzz::require(error.message().find("damaged") == std::string::npos, "a wrong checksum");
  }
}
