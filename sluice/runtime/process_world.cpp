#include "sluice/runtime/process_world.h"

#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/version.h"
#include "sluice/runtime/post_office.h"

namespace sluice::runtime {
namespace {

constexpr const char* kLibrary = "libsluice_mpi.so";

/// Names of the library, the likely ones first: beside this code, or where it is installed.
std::vector<std::string> candidates() {
  if (const auto given = environmentValue("SLUICE_MPI_LIBRARY")) {
    return {*given};
  }
  std::vector<std::string> names;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&kLibrary), &here) != 0 && here.dli_fname != nullptr) {
    const std::filesystem::path folder = std::filesystem::path(here.dli_fname).parent_path();
    for (const char* place : {".", "../lib", "../lib/" SLUICE_LIBRARY_FOLDER}) {
      names.push_back((folder / place / kLibrary).lexically_normal().string());
    }
  }
  std::erase_if(names, [](const std::string& name) {
    std::error_code none;
    return !std::filesystem::exists(name, none);
  });
  names.emplace_back(kLibrary);  // wherever the system looks
  return names;
}

/// MPI opens parts of itself, which must find its functions: hence RTLD_GLOBAL.
const mpi::Transport& transport() {
  std::string errors;
  for (const std::string& name : candidates()) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      using Function = const mpi::Transport* (*)();
      const auto function = reinterpret_cast<Function>(dlsym(library, mpi::kTransportFunction));
      if (function == nullptr || function()->version != mpi::kTransportVersion) {
        raise<Unsupported>("'{}' belongs to another version of Sluice", name);
      }
      return *function();
    }
    errors += fmt::format("\n  {}", dlerror());
  }
  raise<Unsupported>(
      "several processes need Open MPI and {}, which Sluice builds where it finds MPI "
      "(libopenmpi-dev); SLUICE_MPI_LIBRARY may say where it is:{}",
      kLibrary,
      errors);
}

std::chrono::milliseconds secondsOf(const char* variable, std::chrono::milliseconds otherwise) {
  const std::optional<std::string> text = environmentValue(variable);
  if (!text) {
    return otherwise;
  }
  double seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size() || !(seconds >= 0.1) ||
      seconds > 1e6) {
    raise<InvalidArgument>("{} is '{}', expected seconds from 0.1 to 1000000", variable, *text);
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

bool wasStartedByMpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("PMI_RANK") != nullptr;
}

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

}  // namespace

WorldOptions WorldOptions::ofEnvironment() {
  const WorldOptions standard;
  return {.timeout = secondsOf("SLUICE_PEER_TIMEOUT", standard.timeout),
          .patience = secondsOf("SLUICE_PEER_PATIENCE", standard.patience)};
}

class ProcessWorld::Post {
 public:
  explicit Post(const mpi::Transport& given) : transport(given) {
    const Opened opened = open();
    office.emplace(transport, opened.rank, opened.size, options.timeout);
    office->introduce({std::string(version()), hostName(), getpid()});
  }

  struct Opened {
    int rank = 0;
    int size = 0;
    const char* error = nullptr;
  };
  /// MPI starts when all processes start it, and has no deadline of its own.
  Opened open() const {
    auto promise = std::make_shared<std::promise<Opened>>();
    std::future<Opened> future = promise->get_future();
    const double seconds = std::chrono::duration<double>(options.patience).count();
    std::thread([promise, seconds, &table = transport] {
      Opened opened;
      opened.error = table.open(&opened.rank, &opened.size, seconds);
      promise->set_value(opened);
    }).detach();
    if (future.wait_for(options.patience) != std::future_status::ready) {
      raise<DeviceError>(
          "MPI has not started within {} s (SLUICE_PEER_PATIENCE): do all processes make a model "
          "of "
          "several processes?",
          seconds);
    }
    const Opened opened = future.get();
    if (opened.error != nullptr) {
      raise<DeviceError>("cannot start MPI: {}", opened.error);
    }
    return opened;
  }

  const mpi::Transport& transport;
  const WorldOptions options = WorldOptions::ofEnvironment();
  std::optional<PostOffice> office;
  std::atomic<std::int32_t> contexts{0};
  const pid_t process = getpid();
};

class WorldCommunicator final : public Communicator {
 public:
  WorldCommunicator(ProcessWorld::Post& post, std::int32_t context)
      : Communicator(post.office->rank(), post.office->size(), post.options.patience),
        office_(*post.office),
        context_(context) {}

 private:
  void doPost(std::int32_t to, std::int64_t number, MessageBytes bytes) override {
    office_.post(to, context_, number, std::move(bytes));
  }
  bool doAwait(std::int32_t from, std::int64_t number, std::chrono::milliseconds atMost) override {
    return office_.await({from, context_, number}, atMost);
  }
  MessageBytes doFetch(std::int32_t from,
                       std::int64_t number,
                       std::chrono::milliseconds patience) override {
    return office_.inbox().fetch({from, context_, number}, rank(), patience);
  }
  bool doHas(std::int32_t from, std::int64_t number) override {
    return office_.inbox().has({from, context_, number});
  }
  void doInterrupt(std::string_view reason) override { office_.interrupt(reason); }
  void doRequireGoing() const override { office_.inbox().requireGoing(); }

  PostOffice& office_;
  std::int32_t context_;
};

ProcessWorld::ProcessWorld() : post_(std::make_unique<Post>(transport())) {}

/// MPI's own end waits for all processes: where one is lost there is none, and it gets a deadline.
ProcessWorld::~ProcessWorld() {
  if (getpid() != post_->process) {
    static_cast<void>(post_.release());  // a copy of the process, without its threads
    return;
  }
  const bool all = post_->office->sayGoodbye();
  post_->office.reset();
  if (!all) {
    return;
  }
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
  };
  const auto end = std::make_shared<End>();
  std::thread([end, &transport = post_->transport] {
    transport.close();
    const std::scoped_lock lock(end->mutex);
    end->ended = true;
    end->changed.notify_all();
  }).detach();
  std::unique_lock lock(end->mutex);
  end->changed.wait_for(lock, post_->options.timeout, [&] { return end->ended; });
}

std::shared_ptr<ProcessWorld> ProcessWorld::open() {
  if (!wasStartedByMpi()) {
    raise<InvalidArgument>(
        "the options ask for several processes, and none of MPI's environment variables is set: "
        "start the program with `sluice launch -n 2 program` or `mpirun -n 2 program`");
  }
  static const std::shared_ptr<ProcessWorld> world(new ProcessWorld);
  return world;
}

std::int32_t ProcessWorld::rank() const {
  return post_->office->rank();
}
std::int32_t ProcessWorld::size() const {
  return post_->office->size();
}
std::string ProcessWorld::nameOf(std::int32_t rank) const {
  return post_->office->nameOf(rank);
}

std::unique_ptr<Communicator> ProcessWorld::makeCommunicator() {
  return std::make_unique<WorldCommunicator>(*post_, post_->contexts.fetch_add(1));
}

}  // namespace sluice::runtime
