// Paged attention for CPUs. Reads keys and values where they lie, page by page, with an online softmax.
//
// Written with the vector extensions of GCC and Clang, so that one source serves AVX2, AVX-512 and NEON. It is compiled
// on the machine that runs it. Online softmax after Milakov and Gimelshein 2018.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {
namespace ffi = xla::ffi;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kTile = 2 * kLanes;   // columns of a register tile
constexpr int kTileRows = 6;        // rows of a register tile: 12 sums, 2 loads and a broadcast fit 16 registers
constexpr int kSmallRows = 8;       // up to so many query rows, dot products beat transposing the keys
constexpr int kBlockRows = 126;     // query rows (tokens times group) of one piece of work
constexpr float kMasked = -1e30f;   // finite: a row without a visible key stays free of NaN

typedef float Vec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint32_t WordVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint16_t HalfVec __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

inline Vec Load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline Vec Load(const uint16_t* from) {  // bfloat16 is the upper half of a float
  return (Vec)(__builtin_convertvector(*reinterpret_cast<const HalfVec*>(from), WordVec) << 16);
}
inline void Store(float* to, Vec value) { *reinterpret_cast<Vec*>(to) = value; }
inline float Widen(float value) { return value; }
inline float Widen(uint16_t value) {
  uint32_t word = uint32_t(value) << 16;
  float out;
  std::memcpy(&out, &word, 4);
  return out;
}
inline Vec Splat(float value) { return Vec{} + value; }
inline float Sum(Vec value) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) value[lane] += value[lane + width];
  return value[0];
}
inline Vec Larger(Vec a, Vec b) { return a > b ? a : b; }

// e^x for x <= 0, to 1e-7 relative: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cephes' coefficients).
inline Vec Exp(Vec x) {
  x = x < -87.0f ? Splat(-87.0f) : x;
  IntVec n = __builtin_convertvector(x * 1.44269504f - 0.5f, IntVec);  // truncation towards zero rounds, since x <= 0
  Vec whole = __builtin_convertvector(n, Vec);
  Vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec p = Splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * (Vec)((n + 127) << 23);
}

// c[kRows, kTile] (+)= a[kRows, depth] * b[depth, kTile]
template <int kRows, class Cell>
void Tile(const float* a, int64_t a_stride, const Cell* b, int64_t b_stride, int64_t depth, float* c,
          int64_t c_stride, bool add) {
  Vec low[kRows], high[kRows];
  for (int i = 0; i < kRows; ++i) {
    low[i] = add ? Load(c + i * c_stride) : Vec{};
    high[i] = add ? Load(c + i * c_stride + kLanes) : Vec{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec b_low = Load(b + k * b_stride), b_high = Load(b + k * b_stride + kLanes);
    for (int i = 0; i < kRows; ++i) {
      Vec factor = Splat(a[i * a_stride + k]);
      low[i] += factor * b_low;
      high[i] += factor * b_high;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    Store(c + i * c_stride, low[i]);
    Store(c + i * c_stride + kLanes, high[i]);
  }
}

// Calls body<n>(row) over `rows` rows, kTileRows at a time and the rest in one smaller piece.
template <template <int> class Body, class... Arguments>
inline void ByRows(int64_t rows, Arguments... arguments) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) Body<kTileRows>::Run(row, arguments...);
  switch (rows - row) {
    case 5: return Body<5>::Run(row, arguments...);
    case 4: return Body<4>::Run(row, arguments...);
    case 3: return Body<3>::Run(row, arguments...);
    case 2: return Body<2>::Run(row, arguments...);
    case 1: return Body<1>::Run(row, arguments...);
  }
}

template <int kRows>
struct TileRows {
  template <class Cell>
  static void Run(int64_t row, const float* a, int64_t a_stride, const Cell* b, int64_t b_stride, int64_t depth,
                  float* c, int64_t c_stride, bool add) {
    Tile<kRows>(a + row * a_stride, a_stride, b, b_stride, depth, c + row * c_stride, c_stride, add);
  }
};

// c[rows, columns] (+)= a[rows, depth] * b[depth, columns]; columns past the last whole tile are left alone.
template <class Cell>
void Multiply(const float* a, int64_t a_stride, const Cell* b, int64_t b_stride, int64_t rows, int64_t depth,
              int64_t columns, float* c, int64_t c_stride, bool add) {
  for (int64_t column = 0; column + kTile <= columns; column += kTile)
    ByRows<TileRows>(rows, a, a_stride, b + column, b_stride, depth, c + column, c_stride, add);
}

// scores[kRows, keys] = queries[kRows, size] . keys[keys, size], two keys at a time
template <int kRows>
struct DotRows {
  template <class Cell>
  static void Run(int64_t row, const float* queries, int64_t q_stride, const Cell* keys, int64_t count, int64_t size,
                  float* scores, int64_t s_stride) {
    queries += row * q_stride;
    scores += row * s_stride;
    int64_t whole = size / kLanes * kLanes;
    for (int64_t j = 0; j < count; j += 2) {
      const Cell* one = keys + j * size;
      const Cell* two = j + 1 < count ? one + size : one;
      Vec sum_one[kRows] = {}, sum_two[kRows] = {};
      for (int64_t d = 0; d < whole; d += kLanes) {
        Vec key_one = Load(one + d), key_two = Load(two + d);
        for (int i = 0; i < kRows; ++i) {
          Vec query = Load(queries + i * q_stride + d);
          sum_one[i] += query * key_one;
          sum_two[i] += query * key_two;
        }
      }
      for (int i = 0; i < kRows; ++i) {
        float score_one = Sum(sum_one[i]), score_two = Sum(sum_two[i]);
        for (int64_t d = whole; d < size; ++d) {
          score_one += queries[i * q_stride + d] * Widen(one[d]);
          score_two += queries[i * q_stride + d] * Widen(two[d]);
        }
        scores[i * s_stride + j] = score_one;
        scores[i * s_stride + j + 1] = score_two;
      }
    }
  }
};

struct Problem {
  const float* queries;  // [rows, tokens, heads, size]
  const void* pool;      // [2, kv_heads, pages, page_tokens, size]
  const int32_t* table;  // [rows, width]
  const int32_t* first;
  const int32_t* count;
  float* out;  // as queries
  int64_t rows, tokens, heads, size, kv_heads, pages, page_tokens, width, window;
  float scale, softcap;
  int64_t group() const { return heads / kv_heads; }
  int64_t block_tokens() const { return std::max<int64_t>(1, kBlockRows / group()); }
  int64_t blocks() const { return (tokens + block_tokens() - 1) / block_tokens(); }
};

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// One thread's memory, kept between calls.
struct Scratch {
  std::vector<float> memory;
  float* Take(int64_t count) {
    count = RoundUp(count, kTile);
    float* part = memory.data() + used;
    used += count;
    return part;
  }
  void Reserve(int64_t count) {
    if (int64_t(memory.size()) < count) memory.resize(count);
    used = 0;
  }
  int64_t used = 0;
};

// Attention of one row's query tokens [begin, end) with one key head.
template <class Cell>
class Block {
 public:
  Block(const Problem& problem, int64_t row, int64_t head, int64_t begin, int64_t end, Scratch& scratch)
      : p_(problem), row_(row), head_(head), begin_(begin), tokens_(end - begin), group_(problem.group()),
        rows_(tokens_ * group_), size_(problem.size), wide_(RoundUp(size_, kTile)),
        keys_(RoundUp(problem.page_tokens, kTile)) {
    scratch.Reserve((wide_ * 2 + keys_) * rows_ + wide_ * keys_ + 2 * rows_ + 6 * kTile);
    queries_ = scratch.Take(rows_ * wide_);
    mixed_ = scratch.Take(rows_ * wide_);
    scores_ = scratch.Take(rows_ * keys_);
    turned_ = scratch.Take(size_ * keys_);
    highest_ = scratch.Take(rows_);
    total_ = scratch.Take(rows_);
  }

  void Run() {
    Begin();
    int64_t start = p_.first[row_] + begin_, last = start + tokens_ - 1;
    int64_t earliest = p_.window > 0 ? std::max<int64_t>(0, start - p_.window + 1) : 0;
    for (int64_t index = earliest / p_.page_tokens; index <= last / p_.page_tokens; ++index) Page(index, last);
    End();
  }

 private:
  void Begin() {
    for (int64_t i = 0; i < rows_; ++i) {
      const float* from = Query(p_.queries, i);
      for (int64_t d = 0; d < size_; ++d) queries_[i * wide_ + d] = from[d] * p_.scale;
      highest_[i] = kMasked;
      total_[i] = 0;
    }
    std::fill(mixed_, mixed_ + rows_ * wide_, 0.0f);
  }

  void End() {
    for (int64_t i = 0; i < rows_; ++i) {
      float* to = const_cast<float*>(Query(p_.out, i));
      float factor = 1.0f / std::max(total_[i], 1e-30f);
      for (int64_t d = 0; d < size_; ++d) to[d] = mixed_[i * wide_ + d] * factor;
    }
  }

  // The vector of query row i: token i / group of the block, head i % group of the key head.
  template <class Pointer>
  const float* Query(Pointer base, int64_t i) const {
    int64_t token = begin_ + i / group_, head = head_ * group_ + i % group_;
    return base + ((row_ * p_.tokens + token) * p_.heads + head) * size_;
  }

  void Page(int64_t index, int64_t last) {
    int64_t from = index * p_.page_tokens, keys = std::min(p_.page_tokens, last + 1 - from);
    int64_t page = p_.table[row_ * p_.width + std::min(index, p_.width - 1)];
    page = std::clamp<int64_t>(page, 0, p_.pages - 1);
    int64_t page_cells = p_.page_tokens * size_;
    const Cell* k = static_cast<const Cell*>(p_.pool) + (head_ * p_.pages + page) * page_cells;
    const Cell* v = k + p_.kv_heads * p_.pages * page_cells;
    if (rows_ <= kSmallRows)
      ByRows<DotRows>(rows_, queries_, wide_, k, keys, size_, scores_, keys_);
    else
      Products(k, keys);
    for (int64_t i = 0; i < rows_; ++i) Softmax(i, from, keys);
    Mix(v, keys);
  }

  void Products(const Cell* k, int64_t keys) {
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < size_; ++d) turned_[d * keys_ + j] = Widen(k[j * size_ + d]);
    Multiply(queries_, wide_, turned_, keys_, rows_, size_, RoundUp(keys, kTile), scores_, keys_, false);
  }

  // Turns the scores of row i into weights and scales what the row had mixed before.
  void Softmax(int64_t i, int64_t from, int64_t keys) {
    float* scores = scores_ + i * keys_;
    int64_t position = p_.first[row_] + begin_ + i / group_;
    int64_t stop = std::min(keys, position + 1 - from);
    int64_t start = p_.window > 0 ? std::clamp<int64_t>(position - p_.window + 1 - from, 0, keys) : 0;
    stop = std::max(stop, start);
    if (p_.softcap > 0)
      for (int64_t j = start; j < stop; ++j) scores[j] = p_.softcap * std::tanh(scores[j] / p_.softcap);
    std::fill(scores, scores + start, kMasked);
    std::fill(scores + stop, scores + keys_, kMasked);
    int64_t padded = RoundUp(keys, kLanes);
    Vec peak = Splat(highest_[i]), sum{};
    for (int64_t j = 0; j < padded; j += kLanes) peak = Larger(peak, Load(scores + j));
    float highest = peak[0];
    for (int lane = 1; lane < kLanes; ++lane) highest = std::max(highest, peak[lane]);
    for (int64_t j = 0; j < padded; j += kLanes) {
      Vec score = Load(scores + j);
      Vec weight = score <= kMasked ? Vec{} : Exp(score - highest);
      Store(scores + j, weight);
      sum += weight;
    }
    if (highest != highest_[i]) {
      float shrink = std::exp(highest_[i] - highest);
      total_[i] *= shrink;
      for (int64_t d = 0; d < wide_; d += kLanes) Store(mixed_ + i * wide_ + d, Load(mixed_ + i * wide_ + d) * shrink);
      highest_[i] = highest;
    }
    total_[i] += Sum(sum);
  }

  void Mix(const Cell* v, int64_t keys) {
    Multiply(scores_, keys_, v, size_, rows_, keys, size_, mixed_, wide_, true);
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t d = size_ / kTile * kTile; d < size_; ++d)
        for (int64_t j = 0; j < keys; ++j) mixed_[i * wide_ + d] += scores_[i * keys_ + j] * Widen(v[j * size_ + d]);
  }

  const Problem& p_;
  int64_t row_, head_, begin_, tokens_, group_, rows_, size_, wide_, keys_;
  float *queries_, *mixed_, *scores_, *turned_, *highest_, *total_;
};

template <class Cell>
void RunPiece(const Problem& problem, int64_t piece) {
  static thread_local Scratch scratch;
  int64_t block = piece % problem.blocks(), head = piece / problem.blocks() % problem.kv_heads;
  int64_t row = piece / problem.blocks() / problem.kv_heads;
  int64_t begin = block * problem.block_tokens();
  int64_t end = std::min<int64_t>({begin + problem.block_tokens(), problem.tokens, problem.count[row]});
  if (begin < end) Block<Cell>(problem, row, head, begin, end, scratch).Run();
}

// Pieces are taken one by one by the pool's threads and the caller, so progress never depends on the pool.
void RunPieces(ffi::ThreadPool& threads, int64_t pieces, const std::function<void(int64_t)>& run) {
  struct Shared {
    std::atomic<int64_t> next{0}, done{0};
    std::function<void(int64_t)> run;
  };
  auto shared = std::make_shared<Shared>();
  shared->run = run;
  auto work = [shared, pieces] {
    for (int64_t piece; (piece = shared->next.fetch_add(1)) < pieces;) {
      shared->run(piece);
      shared->done.fetch_add(1, std::memory_order_release);
    }
  };
  int64_t helpers = std::min<int64_t>(threads.num_threads() - 1, pieces - 1);
  for (int64_t helper = 0; helper < helpers; ++helper) threads.Schedule(std::function<void()>(work));
  work();
  for (int spins = 0; shared->done.load(std::memory_order_acquire) < pieces; ++spins)
    if (spins > 1000) std::this_thread::yield();
}

ffi::Error Attend(ffi::ThreadPool threads, ffi::Buffer<ffi::F32> queries, ffi::AnyBuffer pool,
                  ffi::Buffer<ffi::S32> table, ffi::Buffer<ffi::S32> first, ffi::Buffer<ffi::S32> count,
                  ffi::ResultBuffer<ffi::F32> out, float scale, int64_t window, float softcap) {
  auto q = queries.dimensions(), cells = pool.dimensions(), t = table.dimensions();
  if (q.size() != 4 || cells.size() != 5 || t.size() != 2) return ffi::Error::InvalidArgument("ranks do not fit");
  Problem problem{queries.typed_data(), pool.untyped_data(), table.typed_data(), first.typed_data(),
                  count.typed_data(), out->typed_data(), q[0], q[1], q[2], q[3], cells[1], cells[2], cells[3], t[1],
                  window, scale, softcap};
  std::fill(problem.out, problem.out + out->element_count(), 0.0f);
  int64_t pieces = problem.rows * problem.kv_heads * problem.blocks();
  if (pool.element_type() == ffi::DataType::F32)
    RunPieces(threads, pieces, [problem](int64_t piece) { RunPiece<float>(problem, piece); });
  else if (pool.element_type() == ffi::DataType::BF16)
    RunPieces(threads, pieces, [problem](int64_t piece) { RunPiece<uint16_t>(problem, piece); });
  else
    return ffi::Error::InvalidArgument("the pool is neither float32 nor bfloat16");
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(andes_paged_attention, Attend,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("scale")
                                  .Attr<int64_t>("window")
                                  .Attr<float>("softcap"));
