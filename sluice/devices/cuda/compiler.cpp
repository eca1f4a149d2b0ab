#include "sluice/devices/cuda/compiler.h"

#include <algorithm>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>

#include "sluice/base/error.h"
#include "sluice/base/file_cache.h"
#include "sluice/base/workers.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernel.h"
#include "sluice/devices/cuda/library.h"
#include "sluice/devices/cuda/source.h"

namespace sluice::devices::cuda {
namespace {

struct Nvrtc {
  Nvrtc() : library(toolkitLibrary("nvrtc")) {
    library.find("nvrtcCreateProgram", create);
    library.find("nvrtcDestroyProgram", destroy);
    library.find("nvrtcCompileProgram", compile);
    library.find("nvrtcGetProgramLogSize", logSize);
    library.find("nvrtcGetProgramLog", log);
    library.find("nvrtcGetCUBINSize", codeSize);
    library.find("nvrtcGetCUBIN", code);
    library.find("nvrtcGetErrorString", text);
    library.find("nvrtcVersion", version);
  }

  void require(nvrtcResult result, std::string_view call) const {
    if (result != NVRTC_SUCCESS) {
      raise<DeviceError>("NVRTC: {} failed: {}", call, text(result));
    }
  }

  Library library;
  decltype(nvrtcCreateProgram)* create = nullptr;
  decltype(nvrtcDestroyProgram)* destroy = nullptr;
  decltype(nvrtcCompileProgram)* compile = nullptr;
  decltype(nvrtcGetProgramLogSize)* logSize = nullptr;
  decltype(nvrtcGetProgramLog)* log = nullptr;
  decltype(nvrtcGetCUBINSize)* codeSize = nullptr;
  decltype(nvrtcGetCUBIN)* code = nullptr;
  decltype(nvrtcGetErrorString)* text = nullptr;
  decltype(nvrtcVersion)* version = nullptr;
};

const Nvrtc& nvrtc() {
  static const Nvrtc kNvrtc;
  return kNvrtc;
}

/// Owns a program of NVRTC.
class RuntimeProgram {
 public:
  explicit RuntimeProgram(const std::string& text) {
    nvrtc().require(nvrtc().create(&program_, text.c_str(), "sluice.cu", 0, nullptr, nullptr),
                    "create");
  }
  ~RuntimeProgram() { nvrtc().destroy(&program_); }
  RuntimeProgram(const RuntimeProgram&) = delete;
  RuntimeProgram& operator=(const RuntimeProgram&) = delete;
  nvrtcProgram get() const { return program_; }

 private:
  nvrtcProgram program_ = nullptr;
};

std::string logOf(const RuntimeProgram& program) {
  std::size_t size = 0;
  nvrtc().require(nvrtc().logSize(program.get(), &size), "log size");
  std::string log(size, '\0');
  nvrtc().require(nvrtc().log(program.get(), log.data()), "log");
  return log;
}

std::string keyOf(const std::string& text, const std::string& architecture) {
  return architecture + "\n" + text;
}

std::string wholeText(std::string_view text) {
  return std::string(prelude()) + std::string(text);
}

std::vector<std::string> optionsFor(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--fmad=false", "--std=c++17", "--minimal"};
}

}  // namespace

std::string codeKey(std::string_view text, const std::string& architecture) {
  int major = 0;
  int minor = 0;
  nvrtc().require(nvrtc().version(&major, &minor), "version");
  return fmt::format("NVRTC {}.{}\n{}\n{}",
                     major,
                     minor,
                     fmt::join(optionsFor(architecture), " "),
                     wholeText(text));
}

std::vector<char> compile(std::string_view text, const std::string& architecture) {
  const RuntimeProgram program(wholeText(text));
  const std::vector<std::string> options = optionsFor(architecture);
  std::vector<const char*> given;
  given.reserve(options.size());
  for (const std::string& option : options) {
    given.push_back(option.c_str());
  }
  const nvrtcResult result =
      nvrtc().compile(program.get(), static_cast<int>(given.size()), given.data());
  SLUICE_CHECK(result == NVRTC_SUCCESS,
               "a generated CUDA kernel does not compile: {}\n{}\n{}",
               nvrtc().text(result),
               logOf(program),
               text);
  std::size_t size = 0;
  nvrtc().require(nvrtc().codeSize(program.get(), &size), "code size");
  std::vector<char> code(size);
  nvrtc().require(nvrtc().code(program.get(), code.data()), "code");
  return code;
}

std::vector<char> compileOnce(std::string_view text,
                              const std::string& architecture,
                              const FileCache* cache) {
  if (cache == nullptr) {
    return compile(text, architecture);
  }
  const std::string key = codeKey(text, architecture);
  std::vector<char> code;
  const auto take = [&](const std::string& found) { code.assign(found.begin(), found.end()); };
  if (!cache->find(key, CacheContent::Code, take)) {
    code = compile(text, architecture);
    cache->store(key, CacheContent::Code, {code.data(), code.size()});
  }
  return code;
}

Module::Module(const std::vector<char>& code) {
  check(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
}

const void* Module::entry(const std::string& name) const {
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library_, name.c_str()), "cudaLibraryGetKernel");
  return static_cast<const void*>(kernel);
}

Modules& Modules::ofProcess() {
  static Modules all;
  return all;
}

bool Modules::has(const std::string& text, const std::string& architecture) {
  const std::scoped_lock lock(mutex_);
  return modules_.contains(keyOf(text, architecture));
}

void Modules::add(const std::set<std::string>& texts, const MakeContext& context) {
  std::vector<std::string> missing;
  std::ranges::copy_if(texts, std::back_inserter(missing), [&](const std::string& text) {
    return !has(text, context.architecture);
  });
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  if (missing.size() < 2 || cores == 1) {
    return;  // one is compiled where it is needed
  }
  Workers workers(static_cast<int>(std::min(missing.size(), cores)));
  workers.parallelFor(std::ssize(missing),
                      [&](std::int64_t i) { get(missing[static_cast<std::size_t>(i)], context); });
}

std::shared_ptr<const Module> Modules::get(const std::string& text, const MakeContext& context) {
  const std::string key = keyOf(text, context.architecture);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = modules_.find(key); found != modules_.end()) {
      return found->second;
    }
  }
  // Two threads that compile the same text at once do it twice; the first result stays.
  auto made =
      std::make_shared<const Module>(compileOnce(text, context.architecture, context.cache.get()));
  const std::scoped_lock lock(mutex_);
  return modules_.try_emplace(key, std::move(made)).first->second;
}

}  // namespace sluice::devices::cuda
