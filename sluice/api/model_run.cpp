// The calls of a model: from tensors, batches or queues, here or in another thread.
#include "sluice/api/model_core.h"
#include "sluice/api/processes.h"
#include "sluice/api/queue_io.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {

std::int32_t ModelCore::rounds(const BatchLayout& layout) const {
  return training() && !continuous() ? static_cast<std::int32_t>(layout.deviceIterations) : 1;
}

void ModelCore::beginStep() {
  if (options_.device().connection == ConnectionType::Never) {
    raise<InvalidArgument>(
        "connectionType is Never: the model can be compiled but not run; use compile(inputs)");
  }
  if (training()) {
    writeStepScalars();
  }
}

std::string ModelCore::inFirstProcess(std::string_view what,
                                      const std::function<std::string()>& f) const {
  const runtime::Turn::Hold turn = enter();
  const Processes* processes = session_->processes();
  return processes == nullptr ? f() : processes->inFirst(what, f);
}

std::int64_t ModelCore::largestInAllProcesses(std::string_view what, std::int64_t number) const {
  const runtime::Turn::Hold turn = enter();
  const Processes* processes = session_->processes();
  return processes == nullptr ? number : processes->largest(what, number);
}

void ModelCore::requireOwnResults() const {
  if (const Processes* processes = session_->processes();
      processes != nullptr && processes->sharesModel()) {
    raise<Unsupported>(
        "distributed.shareModel brings the results of all processes together in calls on tensors "
        "and queues; streams of your own would get only those of one process: switch it off, or "
        "call run with tensors or queues");
  }
}

std::shared_ptr<Step> ModelCore::prepare(std::vector<HostTensor> inputs, const Entry& entry) {
  beginStep();
  const program::Program& program = entry.compiled.program->program();
  std::vector<BatchLayout> layouts = outputLayouts(entry.outputs, entry.layout);
  const Processes* processes = session_->processes();
  std::unique_ptr<ResultSink> sink;
  if (processes != nullptr && processes->sharesModel()) {
    const std::uint64_t data = sampleOf(inputs);
    sink = std::make_unique<SharedSink>(
        program, std::move(layouts), *processes, [data] { return data; });
  } else {
    sink = std::make_unique<TensorSink>(program, std::move(layouts));
  }
  return std::make_shared<Step>(
      std::make_unique<TensorFeed>(std::move(inputs), entry.layout), std::move(sink), counts_);
}

std::shared_ptr<Step> ModelCore::prepare(data::InfeedQueue& infeed,
                                         data::OutfeedQueue& outfeed,
                                         const Entry& entry) {
  beginStep();
  const program::Program& program = entry.compiled.program->program();
  const Processes* processes = session_->processes();
  if (processes == nullptr || !processes->sharesModel()) {
    return std::make_shared<Step>(
        std::make_unique<InfeedFeed>(infeed, entry.layout),
        std::make_unique<OutfeedSink>(outfeed, program, entry.layout.replicationFactor),
        counts_);
  }
  auto feed = std::make_unique<InfeedFeed>(
      infeed, entry.layout, FeedShare(*processes, program, entry.layout));
  auto sink = std::make_unique<SharedOutfeed>(outfeed,
                                              program,
                                              outputLayouts(entry.outputs, entry.layout),
                                              *processes,
                                              [from = feed.get()] { return from->finish(); });
  return std::make_shared<Step>(std::move(feed), std::move(sink), counts_);
}

runtime::StepArgs ModelCore::argsOf(Step& step, const Entry& entry) const {
  if (entry.loss) {
    step.watchLoss(*entry.loss, entry.compiled.program->program().drains[*entry.loss].type);
  }
  runtime::StepArgs args = step.args(rounds(entry.layout), rngSeed_);
  args.turn = turn_.get();
  args.undoBytes = options_.device().undoBytes;
  args.keepsEvents = recovery_ != nullptr;  // for the diagnostics of a call that fails for good
  if (recorder_) {
    args.times = recorder_->begin();
    args.writes = recorder_->writes();
    args.kernels = recorder_->kernels();
  } else if (options_.report().logCycleCount) {
    args.times = &step.times;
  }
  return args;
}

std::function<void()> ModelCore::finisher(std::shared_ptr<Step> step, const Entry& entry) const {
  return [step = std::move(step),
          updates = training() ? entry.layout.deviceIterations : 0,
          microBatches = entry.layout.microBatches() * options_.allReplicas(),
          outputs = entry.outputs,
          recorder = recorder_,
          session = session_,
          counts = options_.report().logCycleCount ? counts_ : nullptr,
          program = entry.compiled.program] {
    step->finish(updates, microBatches, outputs);
    if (counts != nullptr) {
      counts->cycles =
          !session->simulatedOn().empty()
              ? session->virtualCycles()
              : profile::cyclesOf(recorder != nullptr ? recorder->times() : step->times);
      log::info("model", "{}: {} cycles", program->program().name, counts->cycles);
    }
    if (recorder != nullptr) {
      recorder->end(program, session->simulatedOn());
    }
  };
}

std::function<std::vector<HostTensor>()> ModelCore::callOf(const std::shared_ptr<Step>& step,
                                                           Entry& entry) const {
  const runtime::StepArgs args = argsOf(*step, entry);
  return [session = session_,
          program = entry.compiled.program,
          args,
          finish = finisher(step, entry),
          step] {
    session->run(program, args);
    finish();
    return step->takeOutputs();
  };
}

std::vector<HostTensor> ModelCore::runStep(const std::shared_ptr<Step>& step, Entry& entry) {
  static_cast<void>(alive());
  return callOf(step, entry)();
}

Pending ModelCore::start(std::function<std::vector<HostTensor>()> call, runtime::Turn::Hold turn) {
  auto result = std::make_shared<StepResult>();
  auto run = [call = std::move(call), result] {
    result->outputs = call();
    result->ended.store(true);
  };
  std::shared_future<void> ended =
      Session::start(std::move(run), runtime::Turn::handOver(std::move(turn)));
  return {std::move(ended), std::move(result)};
}

Pending ModelCore::startTensors(std::vector<HostTensor> inputs,
                                Entry& entry,
                                runtime::Turn::Hold turn) {
  if (!recovery_) {
    return start(callOf(prepare(std::move(inputs), entry), entry), std::move(turn));
  }
  return start([this, inputs = std::move(inputs), &entry] { return runTensors(inputs, entry); },
               std::move(turn));
}

runtime::Turn::Hold ModelCore::enterAlone() const {
  runtime::Turn::Hold turn = enter();
  if (!turn.isOnly()) {
    raise<InvalidArgument>(
        "runAsync inside exclusive(): the thread that has the model for itself cannot give it to "
        "the thread of the step; call run() there, or end the scope before");
  }
  return turn;
}

HostStructure ModelCore::bound(const Inputs& inputs) const {
  const bool none = inputs.positional().empty() && inputs.named().empty();
  return synthetic() && hasPrograms() && none ? HostStructure()
                                              : bindInputs(source_->inputs(), inputs);
}

std::vector<HostTensor> ModelCore::run(std::span<const HostTensor> inputs) {
  const runtime::Turn::Hold turn = enter();
  Entry& entry = entryOf(arranged(inputs), layout_);
  return runTensors({inputs.begin(), inputs.end()}, entry);
}

HostStructure ModelCore::run(const Inputs& inputs) {
  const runtime::Turn::Hold turn = enter();
  const HostStructure given = bound(inputs);
  Entry& entry = entryOf(given, layout_);
  return entry.result.with(runTensors(given.leaves(), entry));
}

std::vector<HostTensor> ModelCore::run(const Batch& batch) {
  const runtime::Turn::Hold turn = enter();
  Entry& entry =
      entryOf(arranged(batch.tensors), batch.shape ? layout_.withCounts(*batch.shape) : layout_);
  return runTensors(batch.tensors, entry);
}

void ModelCore::run(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed) {
  const runtime::Turn::Hold turn = enter();
  Entry& entry = entryOf(infeed, outfeed);
  runStep(prepare(infeed, outfeed, entry), entry);
}

void ModelCore::run(std::span<const TensorType> inputs,
                    std::unique_ptr<runtime::HostFeed> feed,
                    std::unique_ptr<ResultSink> sink) {
  const runtime::Turn::Hold turn = enter();
  requireOwnResults();
  Entry& entry = entryOf(arranged(inputs));
  beginStep();
  runStep(std::make_shared<Step>(std::move(feed), std::move(sink), counts_), entry);
}

void ModelCore::run(std::span<const TensorType> inputs,
                    std::unique_ptr<runtime::HostFeed> feed,
                    const Model::MakeSink& makeSink) {
  const runtime::Turn::Hold turn = enter();
  requireOwnResults();
  Entry& entry = entryOf(arranged(inputs));
  auto sink = makeSink(
      entry.compiled.program->program(), outputLayouts(entry.outputs, entry.layout), entry.outputs);
  beginStep();
  runStep(std::make_shared<Step>(std::move(feed), std::move(sink), counts_), entry);
}

Pending ModelCore::runAsync(std::vector<HostTensor> inputs) {
  runtime::Turn::Hold turn = enterAlone();
  Entry& entry = entryOf(arranged(inputs), layout_);
  return startTensors(std::move(inputs), entry, std::move(turn));
}

Pending ModelCore::runAsync(const Inputs& inputs) {
  runtime::Turn::Hold turn = enterAlone();
  const HostStructure given = bound(inputs);
  Entry& entry = entryOf(given, layout_);
  return startTensors(given.leaves(), entry, std::move(turn));
}

Pending ModelCore::runAsync(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed) {
  runtime::Turn::Hold turn = enterAlone();
  Entry& entry = entryOf(infeed, outfeed);
  return start(callOf(prepare(infeed, outfeed, entry), entry), std::move(turn));
}

NamedTensors ModelCore::run(const NamedTensors& inputs) {
  const runtime::Turn::Hold turn = enter();
  Inputs byName;
  for (const auto& [name, tensor] : inputs) {
    byName.add(Keyword{name, tensor});
  }
  const HostStructure given = bound(byName);
  Entry& entry = entryOf(given, layout_);
  std::vector<HostTensor> outputs = runTensors(given.leaves(), entry);
  NamedTensors named;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    named.emplace(entry.compiled.program->program().drains[i].name, std::move(outputs[i]));
  }
  return named;
}

}  // namespace sluice
