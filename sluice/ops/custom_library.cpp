// Loading libraries of custom ops, and the list of what was loaded.
#include <cfenv>
#include <forward_list>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include "sluice/base/error.h"
#include "sluice/base/file_kind.h"
#include "sluice/base/input_file.h"
#include "sluice/ops/custom_def.h"
#include "sluice/ops/custom_op.h"
#include "sluice/ops/elf_file.h"
#include "sluice/ops/op_list.h"

namespace sluice::ops {
namespace {

namespace abi = custom::abi;

/// Whoever registers: the op table points into it, so nothing ever leaves it.
struct Registered {
  std::mutex mutex;  // guards both
  std::forward_list<CustomOp> ops;
  std::map<const abi::Library*, std::vector<std::string>> libraries;
};

Registered& registered() {
  static Registered all;
  return all;
}

/// A library compiled with -ffast-math makes the thread that loads it flush small numbers to zero;
/// the environment comes back afterwards.
void* openLibrary(const std::filesystem::path& path) {
  std::fenv_t environment;
  std::fegetenv(&environment);
  std::error_code failed;  // then as it is
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  void* handle = dlopen((failed ? path : absolute).c_str(), RTLD_NOW | RTLD_LOCAL);
  std::fesetenv(&environment);
  return handle;
}

void requireFree(std::string_view name) {
  if (const ir::OpDef* def = opSet().find(name); def != nullptr) {
    raise<InvalidArgument>(
        "custom op {} is there already, from {}", name, asCustomOp(*def)->origin);
  }
}

const char* lastError() {
  const char* message = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
  return message == nullptr ? "unknown error" : message;
}

}  // namespace

std::vector<std::string> registerCustomOps(const abi::Library& library, std::string_view origin) {
  if (library.abiVersion != abi::kVersion) {
    raise<Unsupported>(
        "{} was built for version {} of the interface of custom ops, this Sluice has version {}; "
        "build it again with the headers of this Sluice",
        origin,
        library.abiVersion,
        abi::kVersion);
  }
  if (library.numOps > 0 && library.ops == nullptr) {
    raise<InvalidArgument>(
        "{} says that it has {} custom ops, but its table of ops is null", origin, library.numOps);
  }
  Registered& all = registered();
  const std::lock_guard lock(all.mutex);
  if (const auto known = all.libraries.find(&library); known != all.libraries.end()) {
    return known->second;
  }
  try {
    std::forward_list<CustomOp> made;
    std::vector<std::string> names;
    std::vector<const ir::OpDef*> defs;
    for (std::uint32_t i = 0; i < library.numOps; ++i) {
      const CustomOp& op = made.emplace_front(library.ops[i], origin);
      requireFree(op.fullName);
      names.push_back(op.fullName);
      defs.push_back(&op);
      if (op.gradient != nullptr) {
        defs.push_back(op.gradient.get());
      }
    }
    addOps(defs);
    all.ops.splice_after(all.ops.before_begin(), made);
    return all.libraries.emplace(&library, std::move(names)).first->second;
  } catch (Error& error) {
    error.at(origin);
    throw;
  }
}

std::vector<std::string> loadCustomOps(const std::filesystem::path& library) {
  if (!statOf(library, "load")) {
    raise<FileError>("there is no library of custom ops '{}'", library.string());
  }
  requireWholeLibrary(InputFile(library), library.string());
  void* handle = openLibrary(library);
  if (handle == nullptr) {
    raise<FileError>(
        "'{}' cannot be loaded as a shared library: {}", library.string(), lastError());
  }
  using Entry = const abi::Library* (*)();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, abi::kEntryPoint));
  const abi::Library* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr) {
    dlclose(handle);
    raise<FileError>("'{}' has no custom ops: it does not export {}; see SLUICE_CUSTOM_OPS",
                     library.string(),
                     abi::kEntryPoint);
  }
  return registerCustomOps(*table, fmt::format("library '{}'", library.string()));
}

}  // namespace sluice::ops
