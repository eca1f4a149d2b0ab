// Communicator: connects the owners of a Program's parts (program/owners.h). Owners are ranks from
// 0 on. Both ends of a message know it by the same number, and messages with different numbers
// between two ranks do not disturb each other. Every call blocks until it is done; work that the
// queue was given before comes first. Collective calls work in the order of ranks, so that a sum
// has the same bits on every rank and for every distribution of the devices.
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
  /// Returns once the bytes have arrived. Throws DeviceError if the sender's byte count differs.
  void receive(device::Queue& queue,
               std::int32_t from,
               std::int64_t number,
               device::Address to,
               std::size_t bytes);

  // All ranks call these with the same arguments except for addresses.

  /// Copies the bytes of `root` to all ranks.
  void broadcast(device::Queue& queue,
                 std::int32_t root,
                 std::int64_t number,
                 device::Address data,
                 std::size_t bytes);
  /// Puts the parts of all ranks, one after the other, on all ranks.
  void gather(device::Queue& queue,
              std::int64_t number,
              device::Address part,
              device::Address whole,
              std::size_t bytes);
  /// Copies part r of the bytes of `root` to rank r.
  void scatter(device::Queue& queue,
               std::int32_t root,
               std::int64_t number,
               device::Address whole,
               device::Address part,
               std::size_t bytes);
  /// Adds up all ranks in their order; `room` has space for as many terms as there are ranks.
  void sum(device::Queue& queue,
           std::int64_t number,
           device::Address from,
           device::Address to,
           device::Address room,
           DType type,
           std::int64_t elements);

  /// Ends every wait of all ranks, now and later, with a DeviceError that gives the reason.
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

/// Makes a communicator for each owner in one process; their engines run in threads of their own.
std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(std::int32_t size);

}  // namespace sluice::runtime
