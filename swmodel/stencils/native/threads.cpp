// Sharing out work among threads: our own, which look out for more of it for a while before they sleep. Those of XLA's
// pool sleep at once, and a sleeping thread takes a tenth of a millisecond to wake up, as long as a step of a small tile.

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace {

class Team {
 public:
  static Team& Get() {
    static auto* team = new Team;  // its threads never end, and must not outlive it
    return *team;
  }

  // Calls work(0), ..., work(count - 1) on up to so many threads, this one among them, or on it alone while others
  // have the team.
  template <typename Work>
  void Run(int64_t threads, int64_t count, const Work& work) {
    std::unique_lock<std::mutex> mine(busy_, std::defer_lock);
    if (std::min(threads, count) <= 1 || !mine.try_lock()) {
      for (int64_t k = 0; k < count; ++k) work(k);
      return;
    }
    for (; size_ < threads - 1; ++size_) std::thread(&Team::Serve, this, size_).detach();
    work_ = &work, count_ = count, helpers_ = threads - 1, next_ = 0, done_ = 0;
    call_ = [](const void* work, int64_t k) { (*static_cast<const Work*>(work))(k); };
    open_ = true;
    Announce();
    Help();
    Until([&] { return done_ == count; });
    open_ = false;
    Until([&] { return inside_ == 0; });  // nobody looks at this round's work any more
  }

  // Waits for a condition for a while; whether it holds.
  template <typename Condition>
  static bool LookOut(const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    Until([&] { return holds() || std::chrono::steady_clock::now() > end; });
    return holds();
  }

 private:
  static constexpr auto kPatience = std::chrono::microseconds(300);

  // Now and then somebody else may have the core.
  static void Pause(int k) {
    if (k % 64 == 0) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else __builtin_ia32_pause();
#endif
  }

  template <typename Condition>
  static void Until(const Condition& holds) {
    for (int k = 1; !holds(); ++k) Pause(k);
  }

  void Help() {
    for (int64_t k; (k = next_.fetch_add(1)) < count_; ++done_) call_(work_, k);
  }

  void Announce() {
    ++round_;
    if (sleepers_ == 0) return;
    std::lock_guard<std::mutex> lock(sleep_);
    awake_.notify_all();
  }

  void Serve(int64_t number) {
    for (int64_t seen = 0;;) {
      Await(seen);
      seen = round_;
      ++inside_;
      if (open_ && number < helpers_) Help();
      --inside_;
    }
  }

  // Until there is another round than `seen`.
  void Await(int64_t seen) {
    if (LookOut([&] { return round_ != seen; })) return;
    std::unique_lock<std::mutex> lock(sleep_);
    ++sleepers_;
    awake_.wait(lock, [&] { return round_ != seen; });
    --sleepers_;
  }

  std::mutex busy_, sleep_;
  std::condition_variable awake_;
  std::atomic<int64_t> round_{0}, sleepers_{0}, inside_{0}, next_{0}, done_{0};
  std::atomic<bool> open_{false};
  const void* work_ = nullptr;
  void (*call_)(const void*, int64_t) = nullptr;
  int64_t count_ = 0, helpers_ = 0, size_ = 0;
};

}  // namespace
