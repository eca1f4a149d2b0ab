// Communicator: how the owners of a Program's parts (program/owners.h) reach each other. They are
// ranks from 0 on. Both ends of a message know it by the same number, and messages between two
// ranks with different numbers do not get into each other's way. Every call waits for its end;
// what was given to the queue before it comes first. What all ranks do together they do in the
// order of ranks, so that a sum has the same bits on every rank and for every way of dealing
// devices out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sluice/device/queue.h"

namespace sluice::runtime {

class Communicator {
 public:
  Communicator(std::int32_t rank, std::int32_t size);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }

  /// Returns once the bytes have arrived, so that they may be overwritten.
  void send(device::Queue& queue,
            std::int32_t to,
            std::int64_t number,
            device::Address from,
            std::size_t bytes);
  /// Returns once they are there. Throws DeviceError if the sender has other bytes in mind.
  void receive(device::Queue& queue,
               std::int32_t from,
               std::int64_t number,
               device::Address to,
               std::size_t bytes);

  // By all ranks with the same arguments but addresses.

  /// What `root` has is on all ranks afterwards.
  void broadcast(device::Queue& queue,
                 std::int32_t root,
                 std::int64_t number,
                 device::Address data,
                 std::size_t bytes);
  /// The parts of all ranks, one behind the other, are on all ranks afterwards.
  void gather(device::Queue& queue,
              std::int64_t number,
              device::Address part,
              device::Address whole,
              std::size_t bytes);
  /// Part r of what `root` has is on rank r afterwards.
  void scatter(device::Queue& queue,
               std::int32_t root,
               std::int64_t number,
               device::Address whole,
               device::Address part,
               std::size_t bytes);
  /// The sum over all ranks, in their order; `room` is for as many terms as there are ranks.
  void sum(device::Queue& queue,
           std::int64_t number,
           device::Address from,
           device::Address to,
           device::Address room,
           DType type,
           std::int64_t elements);

  /// Ends every wait of all ranks, now and from now on, with a DeviceError that has the reason.
  void interrupt(std::string_view reason) { doInterrupt(reason); }

 private:
  void requireOther(std::int32_t rank) const;

  virtual void doSend(device::Queue& queue,
                      std::int32_t to,
                      std::int64_t number,
                      device::Address from,
                      std::size_t bytes) = 0;
  virtual void doReceive(device::Queue& queue,
                         std::int32_t from,
                         std::int64_t number,
                         device::Address to,
                         std::size_t bytes) = 0;
  virtual void doInterrupt(std::string_view reason) = 0;

  std::int32_t rank_;
  std::int32_t size_;
};

/// Owners in one process: one communicator for each, for engines in threads of their own.
std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(std::int32_t size);

}  // namespace sluice::runtime
