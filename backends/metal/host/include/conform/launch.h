// Used by the generated entry of a kernel: the loop over threads, positions, shared variables.
#pragma once
#include <conform/simdgroup.h>

extern "C" conform::Launch* conform_launch();

namespace metal {
namespace detail {
CONFORM_UNWATCHED inline uint lane_index() {
  return conform_launch()->current % conform::kSimdWidth;
}
}  // namespace detail
}  // namespace metal

namespace conform {

// A variable in threadgroup memory, the `index`-th of its kernel.
template <typename T>
CONFORM_UNWATCHED inline T& shared(uint32_t index) {
  using element = typename std::remove_all_extents<T>::type;
  return *static_cast<T*>(conform_shared(index, sizeof(T), sizeof(element)));
}

// A position or size that converts to the declared integer or vector type of the parameter.
struct Position {
  uint32_t x, y, z;
  template <typename T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
  CONFORM_UNWATCHED operator T() const {
    return T(x);
  }
  template <typename T>
  CONFORM_UNWATCHED operator metal::vec<T, 2>() const {
    return metal::vec<T, 2>(T(x), T(y));
  }
  template <typename T>
  CONFORM_UNWATCHED operator metal::vec<T, 3>() const {
    return metal::vec<T, 3>(T(x), T(y), T(z));
  }
};

CONFORM_UNWATCHED inline Position position(const uint32_t (&a)[3]) { return {a[0], a[1], a[2]}; }

CONFORM_UNWATCHED inline Position thread_position_in_threadgroup(const Launch* l) {
  const uint32_t i = l->current, w = l->extent[0], h = l->extent[1];
  if (i < w) return {i, 0, 0};
  return {i % w, i / w % h, i / w / h};
}
CONFORM_UNWATCHED inline Position thread_position_in_grid(const Launch* l) {
  const Position p = thread_position_in_threadgroup(l);
  return {l->group_position[0] * l->group[0] + p.x, l->group_position[1] * l->group[1] + p.y,
          l->group_position[2] * l->group[2] + p.z};
}
CONFORM_UNWATCHED inline Position threadgroup_position_in_grid(const Launch* l) {
  return position(l->group_position);
}
CONFORM_UNWATCHED inline Position threads_per_grid(const Launch* l) { return position(l->grid); }
CONFORM_UNWATCHED inline Position threadgroups_per_grid(const Launch* l) {
  return position(l->groups);
}
CONFORM_UNWATCHED inline Position threads_per_threadgroup(const Launch* l) {
  return position(l->extent);
}
CONFORM_UNWATCHED inline Position dispatch_threads_per_threadgroup(const Launch* l) {
  return position(l->group);
}
CONFORM_UNWATCHED inline Position thread_index_in_threadgroup(const Launch* l) {
  return {l->current, 0, 0};
}
CONFORM_UNWATCHED inline Position thread_index_in_simdgroup(const Launch* l) {
  return {l->current % kSimdWidth, 0, 0};
}
CONFORM_UNWATCHED inline Position simdgroup_index_in_threadgroup(const Launch* l) {
  return {l->current / kSimdWidth, 0, 0};
}
CONFORM_UNWATCHED inline Position simdgroups_per_threadgroup(const Launch* l) {
  return {(l->count + kSimdWidth - 1) / kSimdWidth, 0, 0};
}
CONFORM_UNWATCHED inline Position threads_per_simdgroup(const Launch*) {
  return {kSimdWidth, 0, 0};
}

}  // namespace conform

// Threads start one after another; one that waits leaves the rest of the loop to another fiber.
#define CONFORM_ENTRY(symbol)                                                    \
  extern "C" __attribute__((visibility("default"))) CONFORM_UNWATCHED void symbol( \
      conform::Launch* launch)
#define CONFORM_EACH_THREAD(launch)            \
  while (launch->next < launch->count &&       \
         ((launch->current = launch->next++), true))
