// The names that README.md and the pages of docs/ use, by folder; includes sluice/sluice.h alone,
// as their readers do. It only has to compile.
#include "sluice/sluice.h"

namespace documented {

// README.md, docs/models.md
using sluice::accuracy;
using sluice::availableDevices;
using sluice::build;
using sluice::DeviceManager;
using sluice::devicesAreAvailable;
using sluice::deviceVersion;
using sluice::field;
using sluice::HostStructure;
using sluice::HostTensor;
using sluice::inferenceModel;
using sluice::Input;
using sluice::Inputs;
using sluice::Keyword;
using sluice::meanOf;
using sluice::NamedTensors;
using sluice::Options;
using sluice::Pending;
using sluice::StructureParser;
using sluice::SymbolicStructure;
using sluice::trainingModel;
using sluice::version;
using sluice::nn::Block;
using sluice::nn::crossEntropy;
using sluice::nn::Linear;
using sluice::nn::Module;
using sluice::nn::NameScope;

// docs/data.md
using sluice::Batch;
using sluice::DataLoader;
using sluice::DataLoaderMode;
using sluice::LastBatch;
using sluice::data::Dataset;
using sluice::data::datasetBenchmark;
using sluice::data::infeedBenchmark;
using sluice::data::InfeedQueue;
using sluice::data::IterableDataset;
using sluice::data::iterate;
using sluice::data::map;
using sluice::data::mnistDataset;
using sluice::data::normalize;
using sluice::data::OutfeedMode;
using sluice::data::OutfeedQueue;
using sluice::data::readCsv;
using sluice::data::readIdx;
using sluice::data::readNpy;
using sluice::data::readNpz;
using sluice::data::samplesUsed;
using sluice::data::shuffle;
using sluice::data::Shuffle;
using sluice::data::Split;
using sluice::data::Stream;
using sluice::data::take;
using sluice::data::tensorDataset;
using sluice::data::tokenDataset;
using sluice::data::toTensor;
using sluice::data::zip;

// docs/loops.md
using sluice::compile;
using sluice::CrossReplicaOptimizer;
using sluice::enqueue;
using sluice::GradientAccumulationOptimizer;
using sluice::GradientAccumulationOptimizerV2;
using sluice::minimize;
using sluice::OptimizerFunctionOutput;
using sluice::pipeline;
using sluice::repeat;
using sluice::Tensors;

// docs/phased.md, docs/pipelining.md
using sluice::ConcurrentStages;
using sluice::IoSchedule;
using sluice::ParallelPhasedExecution;
using sluice::Phase;
using sluice::PipelinedExecution;
using sluice::Recomputation;
using sluice::SerialPhasedExecution;
using sluice::ShardedExecution;
using sluice::Stage;
using sluice::TensorLocationSettings;
using sluice::nn::tensorLocation;

// docs/helper_ops.md, docs/custom_ops.md
using sluice::loadCustomOps;
using sluice::nn::allGather;
using sluice::nn::allReduce;
using sluice::nn::cond;
using sluice::nn::CPU;
using sluice::nn::customOp;
using sluice::nn::dynamicSlice;
using sluice::nn::dynamicUpdate;
using sluice::nn::forLoop;
using sluice::nn::identityLoss;
using sluice::nn::LoopOptions;
using sluice::nn::LstmSequence;
using sluice::nn::MultiConv;
using sluice::nn::nop;
using sluice::nn::scan;
using sluice::nn::Scanned;
using sluice::nn::serializedMatMul;
using sluice::nn::setAvailableMemory;

// docs/onnx.md
using sluice::Builder;
using sluice::RecoverableError;
using sluice::RecoveryAction;
using sluice::VirtualGraphMode;
using sluice::writeFileAtomically;
using sluice::onnx::importModel;

// docs/optimizers.md, docs/precision.md
using sluice::nn::Autocast;
using sluice::nn::autocasted;
using sluice::nn::init::kaimingUniform;
using sluice::optim::Adam;
using sluice::optim::AdamW;
using sluice::optim::LAMB;
using sluice::optim::LrSchedule;
using sluice::optim::RMSprop;
using sluice::optim::SGD;

// docs/state.md
using sluice::CheckpointFolder;
using sluice::checkpointing;
using sluice::exportTorch;
using sluice::fit;
using sluice::FitCheckpoints;
using sluice::FitOptions;
using sluice::flattened;
using sluice::importTorch;
using sluice::readSafeTensors;
using sluice::resumeFrom;
using sluice::sectioned;
using sluice::StopSignals;
using sluice::writeSafeTensors;
using sluice::nn::loadStateDict;
using sluice::nn::stateDict;
using sluice::nn::Strict;

// docs/simulation.md, docs/environment.md
using sluice::SimulatedStep;
using sluice::Suggestion;
using sluice::TraceValues;
using sluice::profiling::Channel;
using sluice::profiling::record;
using sluice::profiling::Tracepoint;
using sluice::profiling::writeHostTrace;

}  // namespace documented
