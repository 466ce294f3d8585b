// Atomics. The threads of a dispatch take turns on one thread of the host, so a plain access is
// atomic; checked builds tell the runtime, which leaves atomics out of the search for races.
#pragma once
#include <conform/integer.h>

namespace metal {

enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release,
                    memory_order_acq_rel, memory_order_seq_cst };
enum class thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup,
                          thread_scope_device };

template <typename T>
struct atomic {
  T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_ulong = atomic<ulong>;
using atomic_float = atomic<float>;
// A bool in atomic memory has the width of an int.
template <>
struct alignas(4) atomic<bool> {
  bool value;
};
using atomic_bool = atomic<bool>;

namespace detail {
template <typename T>
CONFORM_UNWATCHED inline T& reach(atomic<T>* at) {
#ifdef CONFORM_CHECKED
  conform_atomic(at, sizeof(T));
#endif
  return at->value;
}
template <typename T>
using plain = typename std::common_type<T>::type;  // no deduction from the operand
}  // namespace detail

template <typename T>
CONFORM_UNWATCHED inline T atomic_load_explicit(atomic<T>* at, memory_order) {
  return detail::reach(at);
}
template <typename T>
CONFORM_UNWATCHED inline void atomic_store_explicit(atomic<T>* at, detail::plain<T> v,
                                                    memory_order) {
  detail::reach(at) = v;
}
template <typename T>
CONFORM_UNWATCHED inline T atomic_exchange_explicit(atomic<T>* at, detail::plain<T> v,
                                                    memory_order) {
  T& slot = detail::reach(at);
  const T old = slot;
  slot = v;
  return old;
}
template <typename T>
CONFORM_UNWATCHED inline bool atomic_compare_exchange_weak_explicit(
    atomic<T>* at, T* expected, detail::plain<T> desired, memory_order, memory_order) {
  T& slot = detail::reach(at);
  // Bits decide, so that a loop over a float that holds a NaN ends.
  if (__builtin_memcmp(&slot, expected, sizeof(T)) == 0) {
    slot = desired;
    return true;
  }
  *expected = slot;
  return false;
}
#define CONFORM_FETCH(name, expression)                                                  \
  template <typename T>                                                                  \
  CONFORM_UNWATCHED inline T atomic_fetch_##name##_explicit(atomic<T>* at, detail::plain<T> v, \
                                                            memory_order) {              \
    T& slot = detail::reach(at);                                                         \
    const T old = slot;                                                                  \
    slot = expression;                                                                   \
    return old;                                                                          \
  }
CONFORM_FETCH(add, old + v)
CONFORM_FETCH(sub, old - v)
CONFORM_FETCH(and, old & v)
CONFORM_FETCH(or, old | v)
CONFORM_FETCH(xor, old ^ v)
CONFORM_FETCH(min, (v < old ? v : old))
CONFORM_FETCH(max, (old < v ? v : old))
#undef CONFORM_FETCH
inline void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope::thread_scope_device) {}

}  // namespace metal
