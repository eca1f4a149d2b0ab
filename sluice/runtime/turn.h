// Turn: the right to use a model's devices and state, for one caller at a time. Callers get it in
// the order in which they asked. A thread that has the turn may take it again. A call that
// continues in another thread hands the turn over with a Baton. The threads that run a step for the
// owner of the turn, or a function for its capture, are marked (Work): they must not wait for the
// turn, because the owner waits for them. A call that has the turn can be cancelled from any
// thread; a scope around calls cannot.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::runtime {

class Turn {
 public:
  /// Has the turn as long as it lives.
  class Hold {
   public:
    /// Begins a call; blocks until it has the turn. Throws InvalidArgument in a thread that works
    /// for the turn's owner. `caller` identifies the call for cancel(); of nested calls the
    /// outermost one counts.
    explicit Hold(std::shared_ptr<Turn> turn, const void* caller = nullptr);
    /// Same as above, for a scope around calls; between the calls there is nothing to cancel.
    static Hold scope(std::shared_ptr<Turn> turn);
    ~Hold();
    Hold(Hold&& other) noexcept = default;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Hold& operator=(Hold&&) = delete;
    /// Whether this is the only hold of the turn.
    bool isOnly() const;

   private:
    friend class Turn;
    enum class Kind : std::uint8_t { Call, Scope };
    Hold(std::shared_ptr<Turn> turn, Kind kind, const void* caller);
    std::shared_ptr<Turn> turn_;  // null: handed over
    Kind kind_ = Kind::Call;
  };

  /// The turn on its way from one thread to another; it is released if no thread took it.
  class Baton {
   public:
    ~Baton();
    Baton(const Baton&) = delete;
    Baton& operator=(const Baton&) = delete;
    /// Gives the turn to the calling thread.
    Hold takeOn();

   private:
    friend class Turn;
    explicit Baton(std::shared_ptr<Turn> turn) : turn_(std::move(turn)) {}
    std::shared_ptr<Turn> turn_;  // null: a thread has taken it
  };

  /// A mark on a thread that works for the owner of a turn.
  struct Mark {
    const Turn* turn = nullptr;
    std::uint64_t tenure = 0;  ///< of the owner; 0: any owner
    std::thread::id owner;     ///< the owner's thread, which has the mark for others; or none
  };

  /// Marks the calling thread as one that works for the owners of these turns: the owner whose step
  /// it runs, and the owners whose steps wait for that step. The list must outlive the mark.
  class Work {
   public:
    explicit Work(std::span<const Mark> marks);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    /// The marks of the calling thread.
    static std::span<const Mark> current();
    /// Marks for a thread that the calling thread starts and may leave alone: they end when the
    /// current owners of the turns give them up.
    static std::vector<Mark> handedOn();

   private:
    std::span<const Mark> before_;
  };

  Turn() = default;
  ~Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Hands the turn over; `hold` must be a call and the only hold of its thread.
  static std::shared_ptr<Baton> handOver(Hold hold);
  /// Whether the owner waits for the calling thread, because the thread works for it.
  bool isWaitingForThisThread() const;
  /// The number of callers that wait.
  std::uint64_t waiting() const;

  /// Cancels this caller's call if it has the turn; returns false if there is none. The call sees
  /// it in isCancelled, and the cancelling thread calls `stop` while the call cannot end.
  bool cancel(const void* caller);
  bool isCancelled() const { return cancelled_.load(); }
  void onCancel(std::function<void()> stop);

 private:
  void take(Hold::Kind kind, const void* caller);
  void give(Hold::Kind kind);
  void requireOutside() const;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::uint64_t next_ = 0;        // the number that the next caller gets
  std::uint64_t serving_ = 0;     // the number of the caller that has the turn
  std::thread::id owner_;         // none while the turn is handed over
  int depth_ = 0;                 // how often the owner has taken it
  int calls_ = 0;                 // how many of these are calls
  std::uint64_t tenure_ = 0;      // a number that no other owner of any turn has
  const void* caller_ = nullptr;  // of the first call
  std::function<void()> stop_;
  std::atomic<bool> cancelled_{false};  // for the current call; written under the mutex
};

}  // namespace sluice::runtime

#pragma GCC visibility pop
