// Compiles source text while a program runs (NVRTC). No product is contracted to a fused
// multiply-add, so that a fused op has the bits of its parts (R4, R5). Private to the device.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

namespace sluice {
class FileCache;
}

namespace sluice::devices::cuda {

struct MakeContext;

/// The machine code of prelude and text for an architecture such as "sm_90". Needs no GPU. Throws
/// InternalError with the compiler's log if the text is wrong.
std::vector<char> compile(std::string_view text, const std::string& architecture);

/// All that decides what compile() returns: the version of the compiler, its options, the text.
std::string codeKey(std::string_view text, const std::string& architecture);

/// Calls compile(), unless the cache has its result under codeKey(), and keeps a new result there.
/// Null: there is no cache.
std::vector<char> compileOnce(std::string_view text,
                              const std::string& architecture,
                              const FileCache* cache);

/// A compiled program, loaded for every GPU that uses it.
class Module {
 public:
  explicit Module(const std::vector<char>& code);
  ~Module() = default;  // loaded until the process ends
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The kernel as cudaLaunchKernel takes it.
  const void* entry(const std::string& name) const;

 private:
  cudaLibrary_t library_ = nullptr;
};

/// The modules of this process by text and architecture; any thread may ask. They are kept: a model
/// that is compiled again finds its kernels.
class Modules {
 public:
  static Modules& ofProcess();
  std::shared_ptr<const Module> get(const std::string& text, const MakeContext& context);
  /// Compiles those of the texts that are new, several at a time.
  void add(const std::set<std::string>& texts, const MakeContext& context);

 private:
  bool has(const std::string& text, const std::string& architecture);

  std::mutex mutex_;  // guards modules_
  std::unordered_map<std::string, std::shared_ptr<const Module>> modules_;
};

}  // namespace sluice::devices::cuda
