// Doorbell: what the thread for messages sleeps on. MPI tells nobody that a message has come, and
// asking it over and over costs a share of a core; so a process that has sent something to another
// one on the same machine rings there. Over a network nobody can ring. Private to the runtime
// module.
#pragma once

#include <chrono>
#include <string>

namespace sluice::runtime {

class Doorbell {
 public:
  /// Throws DeviceError if the system has no sockets left.
  Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  ~Doorbell();

  /// Where it is to be rung: machine, network namespace and name, in one line.
  const std::string& address() const { return address_; }
  /// Whether a bell with that address can be rung from here.
  bool reaches(const std::string& address) const;
  /// Rings another bell, or this one; never waits. False: it is not there any more.
  bool ring(const std::string& address) const;
  /// Sleeps until somebody rings or the time is over, and forgets all rings until then. False:
  /// nobody has rung.
  bool sleep(std::chrono::microseconds longest) const;

 private:
  int socket_ = -1;
  std::string place_;
  std::string address_;
};

}  // namespace sluice::runtime
