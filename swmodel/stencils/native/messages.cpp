// Messages between the devices of one process.
//
// In XLA's own collectives the threads of devices sleep until all have arrived, and wake up slowly (see threads.cpp). Here
// a rank puts a copy into its neighbour's mailbox and polls its own mailbox for a while. If nothing has arrived by then, the
// call returns a Future, which the sender completes. A waiting call occupies no thread, so that devices may reach independent
// shifts and collectives of a run in any order.
//
// If one device fails, the others would wait for ever. A rank that waits for too long gets an error instead.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// Threads that complete Futures, and on which the waiting devices then continue. There are as many threads as there have been
// Futures to complete at once. XLA has fewer threads, and other collectives may block all of them until these devices arrive.
class Helpers {
 public:
  static Helpers& Get() {
    static auto* helpers = new Helpers;  // never destroyed, as its threads never end
    return *helpers;
  }

  void Call(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    if (static_cast<int64_t>(work_.size()) > idle_) std::thread(&Helpers::Serve, this).detach();
    some_.notify_one();
  }

 private:
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++idle_;
      some_.wait(lock, [&] { return !work_.empty(); });
      --idle_;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::function<void()>> work_;
  int64_t idle_ = 0;
};

// The messages of one run of a program at one call site: a mailbox for each rank.
class Mailbox {
 public:
  explicit Mailbox(size_t ranks) : boxes_(ranks) {}

  void Send(size_t to, const void* data, size_t size) {
    std::unique_ptr<char[]> copy(new char[size]);
    std::memcpy(copy.get(), data, size);
    auto& box = boxes_[to];
    std::unique_lock<std::mutex> lock(mutex_);
    ++box.sent;
    if (!box.waiting) {
      box.messages.push_back(std::move(copy));
      box.here.fetch_add(1, std::memory_order_release);
      return;
    }
    auto waiting = *std::exchange(box.waiting, std::nullopt);
    lock.unlock();
    std::memcpy(waiting.place, data, size);
    Helpers::Get().Call([done = std::move(waiting.done)]() mutable { done.SetAvailable(); });
  }

  ffi::Future Take(size_t rank, void* place, size_t size, double timeout) {
    auto& box = boxes_[rank];
    if (boxes_.size() <= std::thread::hardware_concurrency())  // else another rank needs this core
      ThreadPool::Poll([&] { return box.here.load(std::memory_order_acquire) > 0; });
    ffi::Promise done;
    ffi::Future future(done);
    std::unique_lock<std::mutex> lock(mutex_);
    if (box.messages.empty()) {
      box.waiting.emplace(Waiting{place, done, timeout});
      return future;
    }
    auto message = std::move(box.messages.front());
    box.messages.pop_front();
    box.here.fetch_sub(1, std::memory_order_relaxed);
    lock.unlock();
    std::memcpy(place, message.get(), size);
    done.SetAvailable();
    return future;
  }

  // Called once a second. Calls that have waited for too long end with an error, and so do all calls of a run that has
  // failed. Returns whether there were any.
  bool Tick(bool failed) {
    std::lock_guard<std::mutex> lock(mutex_);
    failed_ |= failed;
    bool some = false;
    for (size_t rank = 0; rank < boxes_.size(); ++rank) {
      auto& waiting = boxes_[rank].waiting;
      if (!waiting || (waiting->seconds_left-- > 0 && !failed_)) continue;
      some = true;
      Helpers::Get().Call([rank, done = std::move(waiting->done)]() mutable {
        done.SetError(ffi::Error(ffi::ErrorCode::kDeadlineExceeded,
                                 "device " + std::to_string(rank) + " waited too long for its neighbour's strip: another "
                                 "device has failed or hangs; look for the first error, or run on one device."));
      });
      waiting.reset();
    }
    failed_ |= some;
    return some;
  }

  // Whether this mailbox may be deleted: all ranks have sent equally many messages, and all were received.
  bool IsFinished() {
    std::lock_guard<std::mutex> lock(mutex_);
    return failed_ || std::all_of(boxes_.begin(), boxes_.end(), [&](const Box& box) {
      return box.messages.empty() && !box.waiting && box.sent == boxes_[0].sent;
    });
  }

 private:
  struct Waiting {
    void* place;
    ffi::Promise done;
    double seconds_left;
  };
  struct Box {  // messages on their way to one rank, from the one rank that sends to it
    std::deque<std::unique_ptr<char[]>> messages;
    std::atomic<int64_t> here = 0;
    int64_t sent = 0;
    std::optional<Waiting> waiting;
  };

  std::mutex mutex_;
  std::vector<Box> boxes_;
  bool failed_ = false;
};

struct Channel;

// Ends calls that wait for too long. It counts its own rounds of a second each, so that a time during which the whole
// process was stopped does not count.
class Monitor {
 public:
  static Monitor& Get() {
    static auto* monitor = new Monitor;  // never destroyed, as its thread never ends
    return *monitor;
  }

  void Add(Channel* channel) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!std::exchange(is_running_, true)) std::thread(&Monitor::Run, this).detach();
    channels_.insert(channel);
  }

  void Remove(Channel* channel) {
    std::lock_guard<std::mutex> lock(mutex_);
    channels_.erase(channel);
  }

 private:
  void Run();

  std::mutex mutex_;
  std::unordered_set<Channel*> channels_;
  bool is_running_ = false;
};

// The state of one call site of a shift in a compiled program, shared by all devices. XLA creates a Channel for each copy of
// the call that it compiles.
struct Channel {
  static ffi::TypeId id;

  Channel() { Monitor::Get().Add(this); }
  ~Channel() { Monitor::Get().Remove(this); }

  std::shared_ptr<Mailbox> Of(int64_t run, size_t ranks) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& mailbox = runs[run];
    if (!mailbox) {
      mailbox = std::make_shared<Mailbox>(ranks);
      for (auto old = runs.begin(); old != runs.end();)
        old = old->first != run && old->second.use_count() == 1 && old->second->IsFinished() ? runs.erase(old) : std::next(old);
    }
    return mailbox;
  }

  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<Mailbox>> runs;
};

// If one device has waited for too long, all waiting calls of its run end with an error, whatever their call site.
void Monitor::Run() {
  for (;; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unordered_set<int64_t> failed;
    auto each = [&](auto&& visit) {
      for (auto* channel : channels_) {
        std::lock_guard<std::mutex> lock(channel->mutex);
        for (auto& [run, mailbox] : channel->runs) visit(run, *mailbox);
      }
    };
    each([&](int64_t run, Mailbox& mailbox) { if (mailbox.Tick(false)) failed.insert(run); });
    if (!failed.empty()) each([&](int64_t run, Mailbox& mailbox) { if (failed.count(run)) mailbox.Tick(true); });
  }
}

ffi::TypeId Channel::id = {};
constexpr ffi::TypeInfo kChannelInfo = ffi::MakeTypeInfo<Channel>();

ffi::ErrorOr<std::unique_ptr<Channel>> OpenChannel() { return std::make_unique<Channel>(); }

// The result y of rank r is the x of rank sources[r]. The call waits `timeout` seconds at most.
ffi::Future Shift(Channel* channel, ffi::RunId run, ffi::Buffer<ffi::S32> rank, ffi::AnyBuffer x,
                  ffi::Result<ffi::AnyBuffer> y, ffi::Span<const int64_t> sources, double timeout) {
  const int64_t me = rank.typed_data()[0];
  const auto mailbox = channel->Of(run.run_id, sources.size());
  mailbox->Send(std::find(sources.begin(), sources.end(), me) - sources.begin(), x.untyped_data(), x.size_bytes());
  return mailbox->Take(me, y->untyped_data(), y->size_bytes(), timeout);
}

}  // namespace

extern "C" const void* swmodel_channel_id() { return &Channel::id; }
extern "C" const void* swmodel_channel_info() { return &kChannelInfo; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_open_channel, OpenChannel, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_shift, Shift,
                              ffi::Ffi::Bind().Ctx<ffi::State<Channel>>().Ctx<ffi::RunId>()
                                  .Arg<ffi::Buffer<ffi::S32>>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const int64_t>>("sources")
                                  .Attr<double>("timeout"));
