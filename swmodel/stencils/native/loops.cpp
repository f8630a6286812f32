// Runs a fused loop (source.py) over a tile for XLA: chunks of rows in parallel, results in place where XLA allows it.
//
// A result may overwrite an array that the loop still reads. Each chunk then writes a row of results only after the last row
// that reads the old values. Rows that other chunks read are written after all chunks are done. library.py describes RowCall and
// the plan.

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

namespace {

struct Kernel {
  void (*row)(const RowCall*);
  int64_t (*kept_bytes)(int64_t);
};

constexpr int64_t kAll = 1 << 30;        // rows
constexpr int64_t kCellsOfChunk = 4096;  // of smaller chunks, the overhead of a thread exceeds the gain
constexpr int64_t kRowsOfChunk = 128;    // in smaller chunks, too many rows are computed by two neighbours

std::mutex registry_mutex;
std::unordered_map<std::string, Kernel>& Registry() {
  static auto* registry = new std::unordered_map<std::string, Kernel>;
  return *registry;
}

struct Source {
  const char* data;
  int64_t size, stride, member_stride;  // bytes of an element; elements of a row; bytes of a member
  SourcePlan plan;

  int64_t row_bytes() const { return stride * size; }
};

struct Result {
  char* data;
  int64_t size, stride, member_stride;
  int64_t behind;        // rows that are computed before this one may be written
  int64_t ring;          // one less than the rows that are kept meanwhile, a power of two
  int64_t below, above;  // rows of the overwritten array that are read for one row of results
  int64_t when;          // a When
  std::vector<StripPlan> strips;
};

// A source whose rows are copied into a slot before they may be overwritten.
struct Pushed {
  int64_t source, rows;  // of the array
  char* slot;
  bool streaming;
};

struct Loop {
  Kernel kernel;
  std::vector<Source> sources;
  std::vector<Result> results;
  std::vector<Pushed> pushed;
  std::vector<int64_t> strides, limits;
  std::vector<std::pair<const char*, int64_t>> scalars;  // and bytes to the next member's
  LoopPlan plan;
  int64_t members;

  int64_t cells() const { return plan.columns + 2 * plan.margin; }
  int64_t lead() const { return (plan.west - plan.margin) % kVector; }
  char* place(const Result& r, int64_t member, int64_t j) const {
    return r.data + member * r.member_stride + ((j + plan.ghosts) * r.stride + plan.west - plan.margin) * r.size;
  }
};

// The scratch memory of this thread, which later loops reuse.
char* Scratch(size_t bytes) {
  thread_local std::vector<char> memory;
  if (memory.size() < bytes + 64) memory.resize(bytes + 64);
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
}

// Rows [first, last) of one member. Rows that other chunks read stay in `late_` until WriteLateRows.
class Chunk {
 public:
  Chunk(const Loop& loop, int64_t member, int64_t first, int64_t last, bool others_below, bool others_above)
      : loop_(loop), member_(member), first_(first), last_(last), below_(others_below), above_(others_above) {}

  void Run() {
    const auto& loop = loop_;
    std::vector<const void*> in(loop.sources.size()), scalars;
    std::vector<void*> out(loop.results.size());
    for (const auto& [data, step] : loop.scalars) scalars.push_back(data + member_ * step);
    char* scratch = Scratch(LayOutScratch());
    for (size_t k = 0; k < rings_.size(); ++k) rings_[k] += reinterpret_cast<uintptr_t>(scratch);
    RowCall call{in.data(), loop.strides.data(), loop.limits.data(), scalars.data(), out.data(), loop.lead(), loop.cells(),
                 loop.plan.rows + 2 * loop.plan.margin, 0, 0, scratch};
    if (!below_) PushRows(-kAll, first_);
    for (size_t k = 0; k < in.size(); ++k) {
      const auto& s = loop.sources[k];
      const int64_t row = s.plan.row + first_ - loop.plan.early;
      in[k] = s.data + member_ * s.member_stride +
              (row * s.stride + (s.plan.is_column ? 0 : s.plan.column - loop.plan.margin)) * s.size;
    }
    for (int64_t j = first_ - loop.plan.early; j < last_; ++j) {
      if (j >= first_ && !loop.pushed.empty()) PushRows(j, j + 1);
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = j < first_ ? nullptr : Target(k, j);  // early rounds have no results
      call.j = j + loop.plan.margin, call.since = j - first_;
      loop.kernel.row(&call);
      for (size_t k = 0; k < in.size(); ++k) in[k] = static_cast<const char*>(in[k]) + loop.sources[k].row_bytes();
      for (size_t k = 0; k < out.size(); ++k)
        if (loop.results[k].when == LATER && j - loop.results[k].behind >= first_) Put(k, j - loop.results[k].behind);
        else if (loop.results[k].when == IN_STRIPS && j >= first_) PutStrips(k, j);
    }
    for (size_t k = 0; k < out.size(); ++k)
      if (loop.results[k].when == LATER)
        for (int64_t j = std::max(first_, last_ - loop.results[k].behind); j < last_; ++j) Put(k, j);
    if (!above_) PushRows(last_, kAll);
    if (!loop.pushed.empty()) FenceStreamingStores();
  }

  void WriteLateRows() {
    for (auto& [k, j, row] : late_) {
      const auto& r = loop_.results[k];
      std::memcpy(loop_.place(r, member_, j), row.data() + loop_.lead() * r.size, loop_.cells() * r.size);
    }
  }

 private:
  // Bytes of one row of results, in whole vectors.
  int64_t RowBytes(size_t k) const {
    return (loop_.lead() + loop_.cells() + kVector - 1) / kVector * kVector * loop_.results[k].size;
  }

  // Lays out the scratch memory: the kernel's rolling rows, then rows of results that are written later. Returns its size.
  size_t LayOutScratch() {
    size_t used = (loop_.kernel.kept_bytes(loop_.lead() + loop_.cells()) + 63) / 64 * 64;
    rings_.assign(loop_.results.size(), 0);
    for (size_t k = 0; k < rings_.size(); ++k)
      if (loop_.results[k].when >= LATER) rings_[k] = used, used += (loop_.results[k].ring + 1) * RowBytes(k);
    return used;
  }

  bool IsShared(const Result& r, int64_t j) const {
    return (below_ && j < first_ + r.above) || (above_ && j >= last_ - r.below);
  }

  // Where row j of a result is computed.
  char* Target(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    if (r.when >= LATER) return Kept(k, j);
    if (r.when == AT_ONCE || !IsShared(r, j)) return loop_.place(r, member_, j);
    return Late(k, j);
  }

  // Memory for a row that is written after all chunks are done.
  char* Late(size_t k, int64_t j) {
    late_.emplace_back(k, j, std::vector<char>(RowBytes(k)));
    return std::get<2>(late_.back()).data() + loop_.lead() * loop_.results[k].size;
  }

  char* Kept(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    return reinterpret_cast<char*>(rings_[k]) + ((j - first_) & r.ring) * RowBytes(k) + loop_.lead() * r.size;
  }

  // Copies rows [first, end), as many as exist, of the pushed sources into their slots.
  void PushRows(int64_t first, int64_t end) const {
    for (const auto& pushed : loop_.pushed) {
      const auto& s = loop_.sources[pushed.source];
      const int64_t low = std::clamp<int64_t>(s.plan.row + first, 0, pushed.rows), bytes = s.stride * s.size;
      const int64_t high = std::clamp<int64_t>(s.plan.row + end, 0, pushed.rows);
      const auto copy = pushed.streaming ? Copy<true> : Copy<false>;
      if (low < high) copy(pushed.slot + low * bytes, s.data + low * bytes, (high - low) * bytes);
    }
  }

  void Put(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    const char* row = Kept(k, j);
    std::memcpy(IsShared(r, j) ? Late(k, j) : loop_.place(r, member_, j), row, loop_.cells() * r.size);
  }

  // Copies the cells of strips out of row j of a result.
  void PutStrips(size_t k, int64_t j) {
    const auto& r = loop_.results[k];
    const char* row = Kept(k, j) + loop_.plan.margin * r.size;
    char* target = r.data + member_ * r.member_stride;
    for (const auto& s : r.strips) {
      const int64_t bytes = s.columns * r.size;
      char* to = target + (j - s.row) * bytes;
      const char* from = row + s.column * r.size;
      if (j < s.row || j >= s.row + s.rows)
        ;
      else if (bytes == sizeof(float))
        std::memcpy(to, from, sizeof(float));  // without a call
      else if (bytes == sizeof(double))
        std::memcpy(to, from, sizeof(double));
      else
        std::memcpy(to, from, bytes);
      target += s.rows * bytes;
    }
  }

  const Loop& loop_;
  int64_t member_, first_, last_;
  bool below_, above_;
  std::vector<uintptr_t> rings_;
  std::vector<std::tuple<size_t, int64_t, std::vector<char>>> late_;
};

void ClearGhosts(const Loop& loop, const Result& r, int64_t member) {
  const auto& p = loop.plan;
  char* data = r.data + member * r.member_stride;
  const int64_t edge = p.ghosts - p.margin, rows = p.rows + 2 * p.ghosts, bytes = r.stride * r.size;
  const int64_t before = (p.west - p.margin) * r.size, after = (p.west + p.columns + p.margin) * r.size;
  std::memset(data, 0, edge * bytes);
  std::memset(data + (rows - edge) * bytes, 0, edge * bytes);
  for (int64_t j = edge; j < rows - edge; ++j) {
    std::memset(data + j * bytes, 0, before);
    std::memset(data + j * bytes + after, 0, bytes - after);
  }
}

// Reads a record of a plan, and advances the pointer to the next one.
template <typename Record>
Record Next(const int64_t*& plan) {
  Record record;
  std::memcpy(&record, plan, sizeof(Record));
  plan += sizeof(Record) / sizeof(int64_t);
  return record;
}

// Fills a Loop from a plan and the buffers of a call. Its operands are, in this order: the sources, the numbers, arrays that
// are overwritten without being read, arrays of slots, and the indices of slots.
void Describe(Loop& loop, const Call& call) {
  const int64_t* plan = call.plan();
  loop.plan = Next<LoopPlan>(plan);
  loop.members = 1;
  const int64_t sources = loop.plan.sources, made = call.results() - loop.plan.pushed;
  auto member_stride = [&](const Array& array, int64_t rank) {
    if (array.rank == rank) return int64_t{0};
    loop.members = array.sizes[0];
    return array.bytes() / loop.members;
  };
  for (int64_t k = 0; k < sources; ++k) {
    const auto p = Next<SourcePlan>(plan);
    const Array array = call.operand(k);
    const int64_t rows = array.sizes[array.rank - 2], stride = array.sizes[array.rank - 1];
    const char* data = p.slot >= 0 ? Slot(array, call.number(p.slot)) : array.data;
    loop.sources.push_back({data, array.width(), stride, p.slot >= 0 ? 0 : member_stride(array, 2), p});
    loop.strides.push_back(stride);
    const int64_t row = p.row - loop.plan.margin, column = p.is_column ? 0 : p.column - loop.plan.margin;
    for (int64_t limit : {-row, rows - row, -column, stride - column}) loop.limits.push_back(limit);
  }
  for (int64_t k = 0; k < loop.plan.scalars; ++k) {
    const auto p = Next<ScalarPlan>(plan);
    const Array array = call.operand(p.operand);
    loop.scalars.emplace_back(array.data + p.place * array.width(), member_stride(array, 1));
  }
  for (int64_t k = 0; k < made; ++k) {
    const auto p = Next<ResultPlan>(plan);
    const Array array = call.result(k);
    const bool whole = p.when != IN_STRIPS;
    Result r{array.data, array.width(), array.sizes[array.rank - 1], member_stride(array, whole ? 2 : 1), 0, 0, 0, 0, p.when, {}};
    r.strips.resize(p.strips);
    if (r.when == UNLESS_SHARED || r.when == LATER) {
      const auto& s = loop.sources[p.over].plan;
      r.behind = std::max<int64_t>(0, -s.ahead), r.below = std::max<int64_t>(0, -s.below), r.above = std::max<int64_t>(0, s.above);
      while (r.ring < r.behind) r.ring = 2 * r.ring + 1;
    }
    loop.results.push_back(r);
    if (p.over < 0 && whole)
      for (int64_t m = 0; m < loop.members; ++m) ClearGhosts(loop, r, m);
  }
  for (auto& r : loop.results)
    for (auto& s : r.strips) s = Next<StripPlan>(plan);
  for (int64_t k = 0; k < loop.plan.pushed; ++k, ++plan) {
    const Array slots = call.result(made + k);
    const int64_t index = call.number(call.operands() - 1);
    loop.pushed.push_back({*plan, slots.sizes[1], Slot(slots, index), IsLarge(slots)});
  }
}

XLA_FFI_Error* FusedLoop(const Call& call) {
  Loop loop;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    auto found = Registry().find(std::string(call.text()));
    if (found == Registry().end())
      return call.Fail("swmodel: the fused loop of this program is not loaded; compile the program in this process.");
    loop.kernel = found->second;
  }
  Describe(loop, call);
  const int64_t first = -loop.plan.margin, rows = loop.plan.rows + 2 * loop.plan.margin;
  const int64_t threads = std::max<int64_t>(1, call.threads() / loop.plan.sharers);
  int64_t reach = 1;  // a chunk thinner than the stencil would depend on more than its two neighbours
  for (const auto& r : loop.results) reach = std::max(reach, r.below + r.above);
  const int64_t most = std::max<int64_t>(1, std::min(rows / reach, rows * loop.cells() / kCellsOfChunk));
  const int64_t each = std::clamp<int64_t>(rows * loop.members / (kRowsOfChunk * threads), 1, 4);  // chunks of a thread
  const int64_t wanted = threads == 1 ? 1 : (each * threads + loop.members - 1) / loop.members;
  const int64_t chunks = std::min(wanted, most);
  std::vector<Chunk> work;
  work.reserve(chunks * loop.members);
  for (int64_t m = 0; m < loop.members; ++m)
    for (int64_t c = 0; c < chunks; ++c)
      work.emplace_back(loop, m, first + rows * c / chunks, first + rows * (c + 1) / chunks, c > 0, c + 1 < chunks);
  const int64_t count = static_cast<int64_t>(work.size());
  ThreadPool::Get().Run(threads, count, [&](int64_t k) { work[k].Run(); });
  for (auto& chunk : work) chunk.WriteLateRows();
  return nullptr;
}

}  // namespace

extern "C" void swmodel_register(const char* kernel, void* row, void* kept_bytes) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  Registry()[kernel] = {reinterpret_cast<void (*)(const RowCall*)>(row), reinterpret_cast<int64_t (*)(int64_t)>(kept_bytes)};
}

SWMODEL_FUNCTION(swmodel_fused_loop, FusedLoop)
