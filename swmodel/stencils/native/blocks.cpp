// Blocks of an array to other places, with axes in another order: what transforms send to other ranks, packed in one pass.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {

constexpr int64_t kAxes = 4, kNumbers = 2 + 3 * kAxes;
constexpr int64_t kSide = 32;              // of the squares that are turned
constexpr int64_t kBytesOfTask = 1 << 18;

// `sizes` elements from `from` on to `to` on, strides apart; from < 0: zeros. Counted in elements.
struct Block {
  int64_t from, to, sizes[kAxes], source[kAxes], target[kAxes];

  int64_t Elements() const {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
  }

  static int64_t Place(int64_t start, const int64_t* strides, const int64_t* axes, int64_t a, int64_t b) {
    return start + a * strides[axes[0]] + b * strides[axes[1]];
  }

  // The axis along which `strides` are 1, of those longer than one; the last one if there is none.
  int64_t Along(const int64_t* strides) const {
    for (int64_t k = 0; k < kAxes; ++k)
      if (strides[k] == 1 && sizes[k] > 1) return k;
    return kAxes - 1;
  }
};

struct Sixteen {
  uint64_t halves[2];
};

template <bool kPast, typename T>
inline void Line(const T* from, T* to, int64_t count) {
  Copy<kPast>(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), count * sizeof(T));
}

// Rows of the target are columns of the source. Square by square, through a small one that stays in the cache: each page
// and line of both is then seen once, or in one go, whatever power of two lies between its rows.
template <typename T, bool kPast>
void Turned(const T* from, T* to, int64_t rows, int64_t columns, int64_t source, int64_t target) {
  T square[kSide][kSide + 1];
  for (int64_t j = 0; j < rows; j += kSide)
    for (int64_t i = 0; i < columns; i += kSide) {
      const int64_t down = std::min(kSide, rows - j), across = std::min(kSide, columns - i);
      for (int64_t k = 0; k < down; ++k)
        for (int64_t l = 0; l < across; ++l) square[l][k] = from[(j + k) * source + i + l];
      for (int64_t l = 0; l < across; ++l) Line<kPast>(square[l], to + (i + l) * target + j, down);
    }
}

// What of a block lies at one place of the two axes that are neither `row` nor `column`, and there in some columns. The
// target lies by itself along `row`.
template <typename T, bool kPast>
void MovePiece(const T* from, T* to, const Block& block, int64_t row, int64_t column, int64_t columns) {
  const int64_t rows = block.sizes[row], across = block.source[column], along = block.source[row];
  const int64_t next = block.target[column];
  if (block.target[row] != 1) {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j)
        to[i * next + j * block.target[row]] = block.from < 0 ? T{} : from[i * across + j * along];
  } else if (block.from < 0) {
    for (int64_t i = 0; i < columns; ++i) std::fill_n(to + i * next, rows, T{});
  } else if (along == 1) {
    for (int64_t i = 0; i < columns; ++i) Line<kPast>(from + i * across, to + i * next, rows);
  } else if (across == 1) {
    Turned<T, kPast>(from, to, rows, columns, along, next);
  } else {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j) to[i * next + j] = from[i * across + j * along];
  }
}

template <typename T>
void MoveBlocks(const void* from, void* to, const std::vector<Block>& blocks, int64_t threads, bool past) {
  struct Piece {
    const Block* block;
    int64_t row, column, columns, source, target;
  };
  std::vector<Piece> pieces;
  for (const Block& block : blocks) {
    if (block.Elements() == 0) continue;
    const int64_t row = block.Along(block.target);
    int64_t column = block.from < 0 ? row : block.Along(block.source);
    if (column == row) {  // lines stay lines, and follow each other along the longest other axis
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
                            block.from < 0 ? 0 : block.Place(block.from, block.source, other, a, b) + first * block.source[column],
                            block.Place(block.to, block.target, other, a, b) + first * block.target[column]});
  }
  const auto move = past ? MovePiece<T, true> : MovePiece<T, false>;
  Team::Get().Run(threads, pieces.size(), [&](int64_t k) {
    const Piece& p = pieces[k];
    move(static_cast<const T*>(from) + p.source, static_cast<T*>(to) + p.target, *p.block, p.row, p.column, p.columns);
    if (past) Settle();
  });
}

ffi::Error Move(ffi::ThreadPool pool, ffi::AnyBuffer from, ffi::Result<ffi::AnyBuffer> to, ffi::Span<const int64_t> numbers) {
  std::vector<Block> blocks(numbers.size() / kNumbers);
  static_assert(sizeof(Block) == kNumbers * sizeof(int64_t));
  std::memcpy(blocks.data(), numbers.begin(), blocks.size() * sizeof(Block));
  const void* source = from.untyped_data();
  void* target = to->untyped_data();
  const bool past = static_cast<int64_t>(to->size_bytes()) > kPastCache;
  switch (ffi::ByteWidth(from.element_type())) {
    case 4: MoveBlocks<uint32_t>(source, target, blocks, pool.num_threads(), past); break;
    case 8: MoveBlocks<uint64_t>(source, target, blocks, pool.num_threads(), past); break;
    case 16: MoveBlocks<Sixteen>(source, target, blocks, pool.num_threads(), past); break;
    default: return ffi::Error::InvalidArgument("swmodel_move: elements of 4, 8 or 16 bytes are moved");
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_move, Move,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const int64_t>>("blocks"));
