// Runs a fused loop (source.py) over a tile for XLA: rows in parallel chunks, results in place where XLA agreed to that.
//
// A result that overwrites a field of which something is still to be read waits: each chunk keeps as many rows of it as are
// read further down, and the rows that other chunks read too are put in their place after all chunks are done.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

struct RowCall {  // as in source.py
  const void* const* in;
  const int64_t* stride;
  const int64_t* limits;
  const void* const* scalars;
  void* const* out;
  int64_t lead, cells, rows, j, since;
  char* kept;
};

struct Kernel {
  void (*row)(const RowCall*);
  int64_t (*kept_bytes)(int64_t);
};

constexpr int64_t kVector = 16;          // numbers, as in schedule.py: rows of arrays begin where vectors do
constexpr int64_t kAll = 1 << 30;        // rows
constexpr int64_t kCellsOfChunk = 4096;  // fewer are not worth another thread
constexpr int64_t kRowsOfChunk = 128;    // fewer are not worth the rows that neighbours both compute

std::mutex registry_mutex;
std::unordered_map<std::string, Kernel>& Registry() {
  static auto* registry = new std::unordered_map<std::string, Kernel>;
  return *registry;
}

struct Source {
  const char* data;
  int64_t size, stride, member_stride;  // bytes of an element; elements of a row; bytes of a member
  int64_t row, column, is_column;       // where cell (0, 0) lies
  int64_t ahead, below, above;          // first row read in one round; rows read for one row of results, all rounds
};

struct Result {
  char* data;
  int64_t size, stride, member_stride;
  int64_t behind;        // rows that it waits, counted from its own
  int64_t below, above;  // rows of the overwritten field that are read for one row of results
  int64_t when;          // it is put in its place: kAtOnce, kUnlessShared or kLater
};

// At once where the overwritten field is read at the result's own cell alone; else rows that other chunks read are late,
// and the others wait where a later cell or row of this chunk reads the old value.
enum { kAtOnce, kUnlessShared, kLater };

// A source of which each row is put in a slot of a room for many, before it may be written over.
struct Stored {
  int64_t source, rows;  // of the array
  char* slot;
  bool past;  // the cache
};

struct Loop {
  Kernel kernel;
  std::vector<Source> sources;
  std::vector<Result> results;
  std::vector<Stored> stored;
  std::vector<int64_t> strides, limits;
  std::vector<std::pair<const char*, int64_t>> scalars;  // and bytes to the next member's
  int64_t rows, columns, ghosts, west, margin, members, early;  // ghost rows, and room before a row's first cell

  int64_t cells() const { return columns + 2 * margin; }
  int64_t lead() const { return (west - margin) % kVector; }  // from where a vector begins to the first cell computed
  char* place(const Result& r, int64_t member, int64_t j) const {
    return r.data + member * r.member_stride + ((j + ghosts) * r.stride + west - margin) * r.size;
  }
};

// Room that a thread keeps from loop to loop.
char* Scratch(size_t bytes) {
  thread_local std::vector<char> room;
  if (room.size() < bytes + 64) room.resize(bytes + 64);
  return room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
}

// Rows [first, last) of one member; rows that other chunks read are left in `late`.
class Chunk {
 public:
  Chunk(const Loop& loop, int64_t member, int64_t first, int64_t last, bool others_below, bool others_above)
      : loop_(loop), member_(member), first_(first), last_(last), below_(others_below), above_(others_above) {}

  void Run() {
    const auto& loop = loop_;
    std::vector<const void*> in(loop.sources.size()), scalars;
    std::vector<void*> out(loop.results.size());
    for (const auto& [data, step] : loop.scalars) scalars.push_back(data + member_ * step);
    char* room = Scratch(Place());
    for (size_t k = 0; k < rings_.size(); ++k) rings_[k] += reinterpret_cast<uintptr_t>(room);
    RowCall call{in.data(), loop.strides.data(), loop.limits.data(), scalars.data(), out.data(), loop.lead(), loop.cells(),
                 loop.rows + 2 * loop.margin, 0, 0, room};
    if (!below_) StoreRows(-kAll, first_);
    for (int64_t j = first_ - loop.early; j < last_; ++j) {
      if (j >= first_) StoreRows(j, j + 1);
      for (size_t k = 0; k < in.size(); ++k) {
        const auto& s = loop.sources[k];
        in[k] = s.data + member_ * s.member_stride +
                ((s.row + j) * s.stride + (s.is_column ? 0 : s.column - loop.margin)) * s.size;
      }
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = j < first_ ? nullptr : Target(k, j);  // early rounds have no results
      call.j = j + loop.margin, call.since = j - first_;
      loop.kernel.row(&call);
      for (size_t k = 0; k < out.size(); ++k)
        if (loop.results[k].when == kLater && j - loop.results[k].behind >= first_) Put(k, j - loop.results[k].behind);
    }
    for (size_t k = 0; k < out.size(); ++k)
      if (loop.results[k].when == kLater)
        for (int64_t j = std::max(first_, last_ - loop.results[k].behind); j < last_; ++j) Put(k, j);
    if (!above_) StoreRows(last_, kAll);
    if (!loop.stored.empty()) Settle();
  }

  void StoreLateRows() {
    for (auto& [k, j, room] : late_) {
      const auto& r = loop_.results[k];
      std::memcpy(loop_.place(r, member_, j), room.data() + loop_.lead() * r.size, loop_.cells() * r.size);
    }
  }

 private:
  // Of one row of results, whole vectors.
  int64_t RowBytes(size_t k) const {
    return (loop_.lead() + loop_.cells() + kVector - 1) / kVector * kVector * loop_.results[k].size;
  }

  // Shares out the room after the kernel's own rows; returns how much is needed.
  size_t Place() {
    size_t used = (loop_.kernel.kept_bytes(loop_.lead() + loop_.cells()) + 63) / 64 * 64;
    rings_.assign(loop_.results.size(), 0);
    for (size_t k = 0; k < rings_.size(); ++k)
      if (loop_.results[k].when == kLater) rings_[k] = used, used += (loop_.results[k].behind + 1) * RowBytes(k);
    return used;
  }

  bool IsShared(const Result& r, int64_t j) const {
    return (below_ && j < first_ + r.above) || (above_ && j >= last_ - r.below);
  }

  // Where row j of a result is computed.
  char* Target(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    if (r.when == kLater) return Kept(k, j);
    if (r.when == kAtOnce || !IsShared(r, j)) return loop_.place(r, member_, j);
    return Late(k, j);
  }

  // Room for a row that is put in its place after all chunks are done.
  char* Late(size_t k, int64_t j) {
    late_.emplace_back(k, j, std::vector<char>(RowBytes(k)));
    return std::get<2>(late_.back()).data() + loop_.lead() * loop_.results[k].size;
  }

  char* Kept(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    return reinterpret_cast<char*>(rings_[k]) + ((j - first_) % (r.behind + 1)) * RowBytes(k) + loop_.lead() * r.size;
  }

  // Rows [first, end) of the sources that are stored, as many as there are.
  void StoreRows(int64_t first, int64_t end) const {
    for (const auto& stored : loop_.stored) {
      const auto& s = loop_.sources[stored.source];
      const int64_t low = std::clamp<int64_t>(s.row + first, 0, stored.rows), bytes = s.stride * s.size;
      const int64_t high = std::clamp<int64_t>(s.row + end, 0, stored.rows);
      const auto copy = stored.past ? Copy<true> : Copy<false>;
      if (low < high) copy(stored.slot + low * bytes, s.data + low * bytes, (high - low) * bytes);
    }
  }

  void Put(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    const char* row = Kept(k, j);
    std::memcpy(IsShared(r, j) ? Late(k, j) : loop_.place(r, member_, j), row, loop_.cells() * r.size);
  }

  const Loop& loop_;
  int64_t member_, first_, last_;
  bool below_, above_;
  std::vector<uintptr_t> rings_;
  std::vector<std::tuple<size_t, int64_t, std::vector<char>>> late_;
};

void ClearGhosts(const Loop& loop, const Result& r, int64_t member) {
  char* data = r.data + member * r.member_stride;
  const int64_t edge = loop.ghosts - loop.margin, rows = loop.rows + 2 * loop.ghosts, bytes = r.stride * r.size;
  const int64_t before = (loop.west - loop.margin) * r.size, after = (loop.west + loop.columns + loop.margin) * r.size;
  std::memset(data, 0, edge * bytes);
  std::memset(data + (rows - edge) * bytes, 0, edge * bytes);
  for (int64_t j = edge; j < rows - edge; ++j) {
    std::memset(data + j * bytes, 0, before);
    std::memset(data + j * bytes + after, 0, bytes - after);
  }
}

// What the plan and the buffers say; see stencil.py for the order of the numbers.
void Describe(Loop& loop, ffi::RemainingArgs& operands, ffi::RemainingRets& results, const int64_t* p) {
  loop.rows = p[0], loop.columns = p[1], loop.ghosts = p[2], loop.west = p[3], loop.margin = p[4], loop.early = p[5];
  loop.members = 1;
  const int64_t sources = p[7], scalars = p[8], stored = p[9], made = static_cast<int64_t>(results.size()) - stored;
  p += 10;
  auto member_stride = [&](const ffi::AnyBuffer& buffer, size_t rank) {
    auto dims = buffer.dimensions();
    if (dims.size() == rank) return int64_t{0};
    loop.members = dims[0];
    int64_t bytes = ffi::ByteWidth(buffer.element_type());
    for (size_t k = 1; k < dims.size(); ++k) bytes *= dims[k];
    return bytes;
  };
  for (int64_t k = 0; k < sources; ++k, p += 7) {
    auto buffer = operands.get<ffi::AnyBuffer>(k).value();
    auto dims = buffer.dimensions();
    const int64_t size = ffi::ByteWidth(buffer.element_type()), stride = dims.back();
    const char* data = static_cast<const char*>(buffer.untyped_data());
    if (p[0] >= 0) {
      const int64_t slot = *operands.get<ffi::BufferR0<ffi::S32>>(p[0]).value().typed_data();
      data += std::clamp<int64_t>(slot, 0, dims[0] - 1) * dims[1] * stride * size;
    }
    const Source s{data, size, stride, p[0] >= 0 ? 0 : member_stride(buffer, 2), p[1], p[2], p[3], p[4], p[5], p[6]};
    loop.sources.push_back(s);
    loop.strides.push_back(s.stride);
    const int64_t row = s.row - loop.margin, column = s.is_column ? 0 : s.column - loop.margin;
    for (int64_t limit : {-row, dims[dims.size() - 2] - row, -column, dims.back() - column}) loop.limits.push_back(limit);
  }
  for (int64_t k = sources; k < sources + scalars; ++k) {
    auto buffer = operands.get<ffi::AnyBuffer>(k).value();
    loop.scalars.emplace_back(static_cast<const char*>(buffer.untyped_data()), member_stride(buffer, 0));
  }
  for (int64_t k = 0; k < made; ++k, p += 2) {
    auto buffer = *results.get<ffi::AnyBuffer>(k).value();
    Result r{static_cast<char*>(buffer.untyped_data()), static_cast<int64_t>(ffi::ByteWidth(buffer.element_type())),
             buffer.dimensions().back(), member_stride(buffer, 2), 0, 0, 0, p[1]};
    if (r.when != kAtOnce) {
      const auto& s = loop.sources[p[0]];
      r.behind = std::max<int64_t>(0, -s.ahead), r.below = std::max<int64_t>(0, -s.below), r.above = std::max<int64_t>(0, s.above);
    }
    loop.results.push_back(r);
    if (p[0] < 0)
      for (int64_t m = 0; m < loop.members; ++m) ClearGhosts(loop, r, m);
  }
  for (int64_t k = 0; k < stored; ++k) {
    auto room = *results.get<ffi::AnyBuffer>(made + k).value();
    const int64_t index = *operands.get<ffi::BufferR0<ffi::S32>>(operands.size() - 1).value().typed_data();
    const bool past = static_cast<int64_t>(room.size_bytes()) > kPastCache;
    loop.stored.push_back({p[k], room.dimensions()[1], Slot(room, index), past});
  }
}

// plan: rows, columns, ghost rows, room before a row's first cell, margin, early rounds, sharers of the threads, sources,
// scalars, sources that are stored; seven numbers a source (the operand that tells which slot of a room it is or -1, row,
// column, is_column, first row read in a round, first and last in all), two a result (the operand it overwrites or -1, and
// when its rows may be put in their place); the numbers of sources that are stored in rooms, the last results, in the slot
// that the last operand tells.
ffi::Error FusedLoop(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results, std::string_view kernel,
                     ffi::Span<const int64_t> plan) {
  Loop loop;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    auto found = Registry().find(std::string(kernel));
    if (found == Registry().end())
      return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                        "swmodel: the fused loop of this program is not loaded; compile the program in this process.");
    loop.kernel = found->second;
  }
  Describe(loop, operands, results, plan.begin());
  const int64_t first = -loop.margin, rows = loop.rows + 2 * loop.margin;
  const int64_t threads = std::max<int64_t>(1, pool.num_threads() / plan[6]);
  int64_t reach = 1;  // chunks thinner than the stencil would have to wait for others than their neighbours
  for (const auto& r : loop.results) reach = std::max(reach, r.below + r.above);
  const int64_t most = std::max<int64_t>(1, std::min(rows / reach, rows * loop.cells() / kCellsOfChunk));
  const int64_t turns = std::clamp<int64_t>(rows * loop.members / (kRowsOfChunk * threads), 1, 4);  // of each thread
  const int64_t wanted = threads == 1 ? 1 : (turns * threads + loop.members - 1) / loop.members;
  const int64_t chunks = std::min(wanted, most);
  std::vector<Chunk> work;
  work.reserve(chunks * loop.members);
  for (int64_t m = 0; m < loop.members; ++m)
    for (int64_t c = 0; c < chunks; ++c)
      work.emplace_back(loop, m, first + rows * c / chunks, first + rows * (c + 1) / chunks, c > 0, c + 1 < chunks);
  const int64_t count = static_cast<int64_t>(work.size());
  Team::Get().Run(threads, count, [&](int64_t k) { work[k].Run(); });
  for (auto& chunk : work) chunk.StoreLateRows();
  return ffi::Error::Success();
}

}  // namespace

extern "C" void swmodel_register(const char* kernel, void* row, void* kept_bytes) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  Registry()[kernel] = {reinterpret_cast<void (*)(const RowCall*)>(row), reinterpret_cast<int64_t (*)(int64_t)>(kept_bytes)};
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_fused_loop, FusedLoop,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("kernel")
                                  .Attr<ffi::Span<const int64_t>>("plan"));
