// Turn: the right to use a model's devices and state, one caller at a time. Callers get it in the
// order in which they asked. A thread that has it may take it again. A call that goes on in another
// thread hands it over with a Baton. The threads that run a step for whoever has the turn are
// marked (Work): what they call must not wait for the turn, because the step waits for them.
// A call that has the turn can be cancelled from any thread; a scope around calls is none.
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

namespace sluice::runtime {

class Turn {
 public:
  /// Has the turn for as long as it lives.
  class Hold {
   public:
    /// A call. Waits. Throws InvalidArgument in a thread that works for the turn's owner. `caller`
    /// tells calls apart for cancel(); of calls within a call the first one counts.
    explicit Hold(std::shared_ptr<Turn> turn, const void* caller = nullptr);
    /// The same for a scope around calls: there is nothing to cancel between them.
    static Hold scope(std::shared_ptr<Turn> turn);
    ~Hold();
    Hold(Hold&& other) noexcept = default;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Hold& operator=(Hold&&) = delete;
    /// Whether its thread has the turn by this one alone.
    bool isOnly() const;

   private:
    friend class Turn;
    enum class Kind : std::uint8_t { Call, Scope };
    Hold(std::shared_ptr<Turn> turn, Kind kind, const void* caller);
    std::shared_ptr<Turn> turn_;  // null: handed over
    Kind kind_ = Kind::Call;
  };

  /// The turn on its way from one thread to another; gives it back if nobody took it on.
  class Baton {
   public:
    ~Baton();
    Baton(const Baton&) = delete;
    Baton& operator=(const Baton&) = delete;
    /// The calling thread has the turn from now on.
    Hold takeOn();

   private:
    friend class Turn;
    explicit Baton(std::shared_ptr<Turn> turn) : turn_(std::move(turn)) {}
    std::shared_ptr<Turn> turn_;  // null: taken on
  };

  /// Work for the owner of a turn.
  struct Mark {
    const Turn* turn = nullptr;
    std::uint64_t tenure = 0;  ///< of the owner; 0: whoever it is
  };

  /// Marks the calling thread as one that works for the owners of these turns: of the one whose
  /// step it runs, and of those whose steps wait for that one. The list must outlive the mark.
  class Work {
   public:
    explicit Work(std::span<const Mark> marks);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    /// Of the calling thread.
    static std::span<const Mark> current();
    /// For a thread that the calling one starts and may leave alone: the marks end with the tenure
    /// of those who own the turns now.
    static std::vector<Mark> handedOn();

   private:
    std::span<const Mark> before_;
  };

  Turn() = default;
  ~Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// `hold` must be a call and the only one of its thread.
  static std::shared_ptr<Baton> handOver(Hold hold);
  /// Whether the calling thread works for the owner, who waits for it.
  bool isWaitingForThisThread() const;
  /// How many callers wait.
  std::uint64_t waiting() const;

  /// Cancels the call of this caller that has the turn; false: there is none. The call sees it in
  /// isCancelled, and `stop` is called, by the cancelling thread, while the call cannot end.
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
  std::uint64_t serving_ = 0;     // whose turn it is
  std::thread::id owner_;         // of the turn; nobody's while it is handed over
  int depth_ = 0;                 // how often the owner has taken it
  int calls_ = 0;                 // of them
  std::uint64_t tenure_ = 0;      // a number that no other owner of any turn has
  const void* caller_ = nullptr;  // of the first call
  std::function<void()> stop_;
  std::atomic<bool> cancelled_{false};  // of the call that has the turn; written under the mutex
};

}  // namespace sluice::runtime
