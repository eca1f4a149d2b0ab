#include "sluice/runtime/doorbell.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

/// Where names of sockets are the same: a running machine, and a network namespace of it.
std::string placeOfThisProcess() {
  std::string machine;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), machine);
  std::array<char, 64> network{};
  const ssize_t length = readlink("/proc/self/ns/net", network.data(), network.size() - 1);
  return fmt::format("{}/{}", machine, length > 0 ? network.data() : "?");
}

/// A socket without a file; its name begins with a zero.
struct Name {
  sockaddr_un address{};
  socklen_t size = sizeof(sa_family_t);

  Name() { address.sun_family = AF_UNIX; }
  explicit Name(std::string_view text) : Name() {
    const std::size_t length = std::min(text.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, text.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  std::string text() const {
    return {address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1};
  }
  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&address); }
};

}  // namespace

Doorbell::Doorbell()
    : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      place_(placeOfThisProcess()) {
  Name name;  // an empty one: the system chooses
  bool made = socket_ >= 0 && bind(socket_, name.pointer(), name.size) == 0;
  name.size = sizeof(name.address);
  made = made && getsockname(socket_, name.pointer(), &name.size) == 0;
  if (!made) {
    const int error = errno;
    if (socket_ >= 0) {
      close(socket_);
    }
    raise<DeviceError>("cannot make a socket for messages between processes: {}",
                       std::strerror(error));
  }
  address_ = fmt::format("{} {}", place_, name.text());
}

Doorbell::~Doorbell() {
  close(socket_);
}

bool Doorbell::reaches(const std::string& address) const {
  return address.starts_with(place_ + " ");
}

bool Doorbell::ring(const std::string& address) const {
  Name name(std::string_view(address).substr(address.rfind(' ') + 1));
  const char nothing = 0;
  const ssize_t sent =
      sendto(socket_, &nothing, 1, MSG_DONTWAIT | MSG_NOSIGNAL, name.pointer(), name.size);
  // A full socket has rings that nobody has heard yet.
  return sent == 1 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool Doorbell::sleep(std::chrono::microseconds longest) const {
  pollfd awaited{.fd = socket_, .events = POLLIN, .revents = 0};
  const timespec time{.tv_sec = longest.count() / 1'000'000,
                      .tv_nsec = 1000 * (longest.count() % 1'000'000)};
  if (ppoll(&awaited, 1, &time, nullptr) <= 0) {
    return false;
  }
  char ignored = 0;
  while (recv(socket_, &ignored, 1, MSG_DONTWAIT) >= 0) {
  }
  return true;
}

}  // namespace sluice::runtime
