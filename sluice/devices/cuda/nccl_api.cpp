#include "sluice/devices/cuda/nccl_api.h"

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/nccl.h"

namespace sluice::devices::cuda::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr int kNewNumbers = 10000;  // from 2.9 on a minor version has two digits

}  // namespace

Api::Api() : library(kName) {
  library.find("ncclGetVersion", getVersion);
  int version = 0;
  if (getVersion(&version) != kSuccess) {
    version = 0;
  }
  if (const std::string why = whyTooOld(version); !why.empty()) {
    raise<DeviceError>("{}", why);
  }
  library.find("ncclGetErrorString", errorText);
  library.find("ncclGetLastError", lastError);
  library.find("ncclGetUniqueId", getUniqueId);
  library.find("ncclCommInitRankConfig", init);
  library.find("ncclCommGetAsyncError", state);
  library.find("ncclCommFinalize", finalize);
  library.find("ncclCommDestroy", destroy);
  library.find("ncclCommAbort", abort);
  library.find("ncclGroupStart", groupStart);
  library.find("ncclGroupEnd", groupEnd);
  library.find("ncclSend", send);
  library.find("ncclRecv", receive);
  library.find("ncclAllGather", allGather);
}

const Api& api() {
  static const Api kApi;
  return kApi;
}

void require(int result, std::string_view call, Comm comm) {
  if (result != kSuccess && result != kInProgress) {
    const char* detail = api().lastError(comm);
    raise<DeviceError>("{}",
                       textOf(call, api().errorText(result), detail == nullptr ? "" : detail));
  }
}

std::string whyTooOld(int version) {
  if (version >= kOldest) {
    return "";
  }
  const int unit = version < kNewNumbers ? 1000 : kNewNumbers;
  return fmt::format(
      "{} is NCCL {}.{}, and 2.18 or a later version 2 is needed: name the folder "
      "of a newer one in LD_LIBRARY_PATH",
      kName,
      version / unit,
      version % unit / 100);
}

std::string whyUnusable() {
  try {
    static_cast<void>(api());
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

std::string textOf(std::string_view call, std::string_view error, std::string_view detail) {
  return fmt::format("NCCL: {} failed: {}{}{} (NCCL_DEBUG=WARN prints what it saw)",
                     call,
                     error,
                     detail.empty() ? "" : "; ",
                     detail);
}

}  // namespace sluice::devices::cuda::nccl
