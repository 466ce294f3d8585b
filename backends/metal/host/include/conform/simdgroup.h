// Barriers and SIMD-group operations. Every lane publishes its value and waits; the active lanes
// of the operation then see each other's values.
#pragma once
#include <conform/atomic.h>

#define CONFORM_SIMD CONFORM_UNWATCHED __attribute__((noinline))
#define CONFORM_SITE __builtin_return_address(0)

namespace metal {

namespace detail {

template <typename T>
CONFORM_UNWATCHED inline conform::Exchange* publish(const T& value, const void* site) {
  static_assert(sizeof(T) <= conform::kExchangeBytes, "too large for a SIMD-group operation");
  return conform_exchange(&value, sizeof(T), site);
}
// An inactive lane gives zero: undefined in Metal, but zero on Apple's processors.
template <typename T>
CONFORM_UNWATCHED inline T lane_value(conform::Exchange* all, uint lane) {
  T value;
  if (lane < conform::kSimdWidth && (all->active >> lane & 1u))
    __builtin_memcpy(&value, all->values[lane], sizeof(T));
  else
    __builtin_memset(static_cast<void*>(&value), 0, sizeof(T));
  return value;
}
uint lane_index();

// Pairwise over halves of the group. The first lane to resume computes, the others read.
template <typename T, typename Op>
CONFORM_UNWATCHED inline T reduce(conform::Exchange* all, Op op) {
  T result;
  if (!all->reduced) {
    T values[conform::kSimdWidth];
    uint mask = all->active;
    for (uint i = 0; i < conform::kSimdWidth; ++i) values[i] = lane_value<T>(all, i);
    for (uint half_width = conform::kSimdWidth / 2; half_width > 0; half_width /= 2) {
      for (uint i = 0; i < half_width; ++i) {
        const uint j = i + half_width;
        if (!(mask >> j & 1u)) continue;
        values[i] = mask >> i & 1u ? op(values[i], values[j]) : values[j];
        mask |= 1u << i;
      }
    }
    __builtin_memcpy(all->result, &values[0], sizeof(T));
    all->reduced = 1;
  }
  __builtin_memcpy(&result, all->result, sizeof(T));
  return result;
}
template <typename T, typename Op>
CONFORM_UNWATCHED inline T scan(conform::Exchange* all, Op op, T start, uint end) {
  for (uint i = 0; i < end; ++i)
    if (all->active >> i & 1u) start = op(start, lane_value<T>(all, i));
  return start;
}

#define CONFORM_OPERATION(name, expression)         \
  struct name {                                     \
    template <typename T>                           \
    CONFORM_UNWATCHED T operator()(T a, T b) const { \
      return static_cast<T>(expression);            \
    }                                               \
  };
CONFORM_OPERATION(add, a + b)
CONFORM_OPERATION(multiply, a * b)
CONFORM_OPERATION(least, ::metal::min(a, b))
CONFORM_OPERATION(greatest, ::metal::max(a, b))
CONFORM_OPERATION(bit_and, a & b)
CONFORM_OPERATION(bit_or, a | b)
CONFORM_OPERATION(bit_xor, a ^ b)
#undef CONFORM_OPERATION

template <typename T>
struct with_fill {
  T value, fill;
};

}  // namespace detail

inline void threadgroup_barrier(mem_flags flags) { conform_barrier(uint(flags)); }
CONFORM_SIMD inline void simdgroup_barrier(mem_flags) { detail::publish(0, CONFORM_SITE); }

#define CONFORM_REDUCTION(name, op)                                                      \
  template <typename T>                                                                  \
  CONFORM_SIMD T simd_##name(T value) {                                                  \
    static_assert(sizeof(T) < 8 || is_vector_v<T>, "Metal has no 64-bit simd_" #name);   \
    return detail::reduce<T>(detail::publish(value, CONFORM_SITE), detail::op());        \
  }
CONFORM_REDUCTION(sum, add)
CONFORM_REDUCTION(product, multiply)
CONFORM_REDUCTION(min, least)
CONFORM_REDUCTION(max, greatest)
CONFORM_REDUCTION(and, bit_and)
CONFORM_REDUCTION(or, bit_or)
CONFORM_REDUCTION(xor, bit_xor)
#undef CONFORM_REDUCTION

#define CONFORM_SCAN(name, op, start)                                                        \
  template <typename T>                                                                      \
  CONFORM_SIMD T simd_prefix_inclusive_##name(T value) {                                     \
    return detail::scan<T>(detail::publish(value, CONFORM_SITE), detail::op(), T(start),     \
                           detail::lane_index() + 1);                                        \
  }                                                                                          \
  template <typename T>                                                                      \
  CONFORM_SIMD T simd_prefix_exclusive_##name(T value) {                                     \
    return detail::scan<T>(detail::publish(value, CONFORM_SITE), detail::op(), T(start),     \
                           detail::lane_index());                                            \
  }
CONFORM_SCAN(sum, add, 0)
CONFORM_SCAN(product, multiply, 1)
#undef CONFORM_SCAN

// The value that a lane reads, by the lane that it reads from.
#define CONFORM_SHUFFLE(name, source)                                                    \
  template <typename T>                                                                  \
  CONFORM_SIMD T simd_##name(T value, ushort n) {                                        \
    conform::Exchange* all = detail::publish(value, CONFORM_SITE);                       \
    const uint lane = detail::lane_index();                                              \
    return detail::lane_value<T>(all, source);                                           \
  }
CONFORM_SHUFFLE(shuffle, uint(n) + 0 * lane)
CONFORM_SHUFFLE(broadcast, uint(n) + 0 * lane)
CONFORM_SHUFFLE(shuffle_xor, lane ^ n)
// Past the end a lane keeps its own value.
CONFORM_SHUFFLE(shuffle_down, lane + n < conform::kSimdWidth ? lane + n : lane)
CONFORM_SHUFFLE(shuffle_up, lane >= n ? lane - n : lane)
CONFORM_SHUFFLE(shuffle_rotate_down, (lane + n) % conform::kSimdWidth)
CONFORM_SHUFFLE(shuffle_rotate_up, (lane + conform::kSimdWidth - n) % conform::kSimdWidth)
#undef CONFORM_SHUFFLE

template <typename T>
CONFORM_SIMD T simd_shuffle_and_fill_down(T value, T fill, ushort n) {
  using pair = detail::with_fill<T>;
  conform::Exchange* all = detail::publish(pair{value, fill}, CONFORM_SITE);
  const uint from = detail::lane_index() + n;
  return from < conform::kSimdWidth ? detail::lane_value<pair>(all, from).value
                                    : detail::lane_value<pair>(all, from - conform::kSimdWidth).fill;
}
template <typename T>
CONFORM_SIMD T simd_shuffle_and_fill_up(T value, T fill, ushort n) {
  using pair = detail::with_fill<T>;
  conform::Exchange* all = detail::publish(pair{value, fill}, CONFORM_SITE);
  const uint lane = detail::lane_index();
  return lane >= n ? detail::lane_value<pair>(all, lane - n).value
                   : detail::lane_value<pair>(all, lane + conform::kSimdWidth - n).fill;
}
template <typename T>
CONFORM_SIMD T simd_broadcast_first(T value) {
  conform::Exchange* all = detail::publish(value, CONFORM_SITE);
  return detail::lane_value<T>(all, uint(__builtin_ctz(all->active)));
}

struct simd_vote {
  using vote_t = ulong;
  vote_t bits;
  explicit operator vote_t() const { return bits; }
  bool any() const { return bits != 0; }
  bool all() const { return bits == 0xffffffffu; }
};
namespace detail {
CONFORM_UNWATCHED inline uint votes(conform::Exchange* all) {
  uint bits = 0;
  if (!all->reduced) {
    for (uint i = 0; i < conform::kSimdWidth; ++i) bits |= uint(lane_value<bool>(all, i)) << i;
    __builtin_memcpy(all->result, &bits, sizeof(bits));
    all->reduced = 1;
  }
  __builtin_memcpy(&bits, all->result, sizeof(bits));
  return bits;
}
}  // namespace detail
CONFORM_SIMD inline simd_vote simd_ballot(bool vote) {
  return simd_vote{detail::votes(detail::publish(vote, CONFORM_SITE))};
}
CONFORM_SIMD inline bool simd_any(bool vote) {
  return detail::votes(detail::publish(vote, CONFORM_SITE)) != 0;
}
CONFORM_SIMD inline bool simd_all(bool vote) {
  conform::Exchange* all = detail::publish(vote, CONFORM_SITE);
  return detail::votes(all) == all->active;
}
CONFORM_SIMD inline bool simd_is_first() {
  conform::Exchange* all = detail::publish(true, CONFORM_SITE);
  return uint(__builtin_ctz(all->active)) == detail::lane_index();
}
CONFORM_SIMD inline simd_vote simd_active_threads_mask() {
  return simd_vote{detail::publish(true, CONFORM_SITE)->active};
}

}  // namespace metal

#undef CONFORM_SIMD
#undef CONFORM_SITE
