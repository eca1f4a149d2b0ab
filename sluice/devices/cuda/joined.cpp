#include "sluice/devices/cuda/joined.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_error.h"

namespace sluice::devices::cuda {
namespace {

/// About as many as a large GPU runs at once: a kernel of more fills it by itself.
constexpr std::int64_t kMostBlocks = 512;

constexpr std::string_view kHelpers = R"(
struct Block { unsigned x; };
struct Pointer {
  void* at;
  template <class T> __device__ operator T*() const { return (T*)at; }
};
)";

std::string entryHead(const Stage& stage) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) {}(", stage.threads, stage.entry);
}

/// The entry as a function of its block's number, whose name hides CUDA's own.
std::string asFunction(const Source& source) {
  const Stage& stage = source.stages[0];
  const std::string head = entryHead(stage);
  const std::size_t at = source.text.find(head);
  SLUICE_CHECK(at != std::string::npos, "the text of {} has no entry", stage.entry);
  return fmt::format("{}D void {}(const Block blockIdx, {}",
                     source.text.substr(0, at),
                     stage.entry,
                     source.text.substr(at + head.size()));
}

}  // namespace

bool isJoinable(const Source& source) {
  return source.stages.size() == 1 && source.stages[0].threads == kThreads &&
         source.stages[0].blocks > 0 && source.stages[0].blocks <= kMostBlocks &&
         source.text.find("__shared__") == std::string::npos;
}

std::vector<std::vector<std::size_t>> joinedOrder(std::span<const Access> kernels,
                                                  std::span<const std::size_t> pointers) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<std::size_t> waiting;
  std::size_t taken = 0;  // pointers of those that wait
  const auto flush = [&] {
    if (!waiting.empty()) {
      groups.push_back(std::move(waiting));
      waiting.clear();
      taken = 0;
    }
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const bool needsOne = std::ranges::any_of(
        waiting, [&](std::size_t earlier) { return kernels[k].conflicts(kernels[earlier]); });
    if (needsOne || waiting.size() == kMostJoined || taken + pointers[k] > kMostPointers) {
      flush();
    }
    if (pointers[k] > 0) {
      waiting.push_back(k);
      taken += pointers[k];
    } else {
      groups.push_back({k});
    }
  }
  flush();
  return groups;
}

Source joinedSource(std::span<const JoinedPart> parts) {
  std::map<std::string_view, std::size_t> texts;
  std::string calls;
  std::int64_t blocks = 0;
  std::size_t pointers = 0;
  Source joined{.text = std::string(kHelpers)};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Source& part = *parts[p].source;
    const auto [found, isNew] = texts.try_emplace(part.text, texts.size());
    if (isNew) {
      joined.text += fmt::format("namespace n{} {{\n{}}}\n", found->second, asFunction(part));
    }
    const std::int64_t end = blocks + part.stages[0].blocks;
    calls += fmt::format("  if (block < {}) {{\n    n{}::{}(Block{{block - {}}}, ",
                         end,
                         found->second,
                         part.stages[0].entry,
                         blocks);
    for (std::size_t i = parts[p].pointers; i > 0; --i) {
      calls += fmt::format("pointers.at[{}], ", pointers++);
    }
    calls += fmt::format("nullptr, run, fault, calls.at[{}]);\n    return;\n  }}\n", p);
    blocks = end;
    joined.readsRun = joined.readsRun || part.readsRun;
  }
  joined.text += fmt::format(
      "struct Pointers {{ Pointer at[{}]; }};\nstruct Calls {{ int at[{}]; }};\n"
      "extern \"C\" __global__ void __launch_bounds__({}) joined(const Pointers pointers, "
      "const Calls calls, const Run* run, Fault* fault) {{\n"
      "  const unsigned block = blockIdx.x;\n{}}}\n",
      pointers,
      parts.size(),
      kThreads,
      calls);
  joined.stages = {{"joined", blocks, kThreads}};
  return joined;
}

JoinedKernel::JoinedKernel(std::span<const JoinedPart> parts, const MakeContext& context) {
  const Source source = joinedSource(parts);
  module_ = Modules::ofProcess().get(source.text, context);
  entry_ = module_->entry("joined");
  blocks_ = static_cast<unsigned>(source.stages[0].blocks);
}

void JoinedKernel::launch(std::span<const KernelRun> runs) const {
  std::array<void*, kMostPointers> pointers{};
  std::array<int, kMostJoined> calls{};
  std::size_t used = 0;
  for (std::size_t p = 0; p < runs.size(); ++p) {
    const KernelRun& run = runs[p];
    for (const std::span<void* const> some : {run.inputs, run.outputs}) {
      for (void* const pointer : some) {
        pointers.at(used++) = pointer;
      }
    }
    calls.at(p) = run.call;
  }
  // CUDA copies as many bytes of each as the kernel declares.
  KernelRun first = runs.front();
  std::array<void*, 4> arguments = {pointers.data(), calls.data(), &first.run, &first.fault};
  check(cudaLaunchKernel(entry_, dim3(blocks_), dim3(kThreads), arguments.data(), 0, first.stream),
        "cudaLaunchKernel of joined kernels");
}

}  // namespace sluice::devices::cuda
