// Copies blocks of an array to other places, with axes in another order, in one pass over memory. Distributed transforms use
// it to pack and unpack messages.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

constexpr int64_t kSide = 32;  // [elements] of the squares that are transposed at once
constexpr int64_t kBytesOfTask = 1 << 18;

struct Block : MovedBlock {
  int64_t Elements() const {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
  }

  static int64_t Place(int64_t start, const int64_t* strides, const int64_t* axes, int64_t a, int64_t b) {
    return start + a * strides[axes[0]] + b * strides[axes[1]];
  }

  // The axis of more than one element along which `strides` is 1; the last axis if there is none.
  int64_t Along(const int64_t* strides) const {
    for (int64_t k = 0; k < kAxes; ++k)
      if (strides[k] == 1 && sizes[k] > 1) return k;
    return kAxes - 1;
  }
};

struct Sixteen {
  uint64_t halves[2];
};

template <bool kStreaming, typename T>
inline void Line(const T* from, T* to, int64_t count) {
  Copy<kStreaming>(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), count * sizeof(T));
}

// Rows of the target are columns of the source. They are copied square by square, through a buffer that stays in the cache.
// All elements of a cache line are therefore used while it is in the cache, even if rows are a power of two apart.
template <typename T, bool kStreaming>
void Transposed(const T* from, T* to, int64_t rows, int64_t columns, int64_t source, int64_t target) {
  T square[kSide][kSide + 1];
  for (int64_t j = 0; j < rows; j += kSide)
    for (int64_t i = 0; i < columns; i += kSide) {
      const int64_t down = std::min(kSide, rows - j), across = std::min(kSide, columns - i);
      for (int64_t k = 0; k < down; ++k)
        for (int64_t l = 0; l < across; ++l) square[l][k] = from[(j + k) * source + i + l];
      for (int64_t l = 0; l < across; ++l) Line<kStreaming>(square[l], to + (i + l) * target + j, down);
    }
}

// Copies some columns of a block, at one position along the two axes that are neither `row` nor `column`. Elements of the
// target are contiguous along `row` if they are along any axis.
template <typename T, bool kStreaming>
void MovePiece(const T* from, T* to, const Block& block, int64_t row, int64_t column, int64_t columns) {
  const int64_t rows = block.sizes[row], across = block.source_strides[column], along = block.source_strides[row];
  const int64_t next = block.target_strides[column];
  if (block.target_strides[row] != 1) {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j)
        to[i * next + j * block.target_strides[row]] = block.source < 0 ? T{} : from[i * across + j * along];
  } else if (block.source < 0) {
    for (int64_t i = 0; i < columns; ++i) std::fill_n(to + i * next, rows, T{});
  } else if (along == 1) {
    for (int64_t i = 0; i < columns; ++i) Line<kStreaming>(from + i * across, to + i * next, rows);
  } else if (across == 1) {
    Transposed<T, kStreaming>(from, to, rows, columns, along, next);
  } else {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j) to[i * next + j] = from[i * across + j * along];
  }
}

template <typename T>
void MoveBlocks(const void* from, void* to, const std::vector<Block>& blocks, int64_t threads, bool streaming) {
  struct Piece {
    const Block* block;
    int64_t row, column, columns, source, target;
  };
  std::vector<Piece> pieces;
  for (const Block& block : blocks) {
    if (block.Elements() == 0) continue;
    const int64_t row = block.Along(block.target_strides);
    int64_t column = block.source < 0 ? row : block.Along(block.source_strides);
    if (column == row) {  // nothing is transposed: lines are copied one by one along the longest other axis
      column = row == 0 ? 1 : 0;
      for (int64_t k = 0; k < kAxes; ++k)
        if (k != row && block.sizes[k] > block.sizes[column]) column = k;
    }
    int64_t other[2], count = 0;
    for (int64_t k = 0; k < kAxes; ++k)
      if (k != row && k != column) other[count++] = k;
    const int64_t wanted = kBytesOfTask / static_cast<int64_t>(sizeof(T)) / block.sizes[row];
    const int64_t step = std::max<int64_t>(kSide, wanted / kSide * kSide);
    for (int64_t a = 0; a < block.sizes[other[0]]; ++a)
      for (int64_t b = 0; b < block.sizes[other[1]]; ++b)
        for (int64_t first = 0; first < block.sizes[column]; first += step)
          pieces.push_back({&block, row, column, std::min(step, block.sizes[column] - first),
                            block.source < 0 ? 0 : block.Place(block.source, block.source_strides, other, a, b) + first * block.source_strides[column],
                            block.Place(block.target, block.target_strides, other, a, b) + first * block.target_strides[column]});
  }
  const auto move = streaming ? MovePiece<T, true> : MovePiece<T, false>;
  ThreadPool::Get().Run(threads, pieces.size(), [&](int64_t k) {
    const Piece& p = pieces[k];
    move(static_cast<const T*>(from) + p.source, static_cast<T*>(to) + p.target, *p.block, p.row, p.column, p.columns);
    if (streaming) FenceStreamingStores();
  });
}

XLA_FFI_Error* Move(const Call& call) {
  int64_t length;
  const int64_t* numbers = call.plan(&length);
  std::vector<Block> blocks(length * sizeof(int64_t) / sizeof(Block));
  static_assert(sizeof(Block) == sizeof(MovedBlock), "blocks are copied from a list of numbers");
  std::memcpy(blocks.data(), numbers, blocks.size() * sizeof(Block));
  const Array from = call.operand(0), to = call.result(0);
  const bool streaming = IsLarge(to);
  switch (from.width()) {
    case 4: MoveBlocks<uint32_t>(from.data, to.data, blocks, call.threads(), streaming); break;
    case 8: MoveBlocks<uint64_t>(from.data, to.data, blocks, call.threads(), streaming); break;
    case 16: MoveBlocks<Sixteen>(from.data, to.data, blocks, call.threads(), streaming); break;
    default: return call.Fail("swmodel_move: elements must have 4, 8 or 16 bytes");
  }
  return nullptr;
}

}  // namespace

SWMODEL_FUNCTION(swmodel_move, Move)
