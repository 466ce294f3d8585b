// Vector types. Three elements occupy the memory of four, as in Metal.
#pragma once
#include <conform/traits.h>

namespace metal {

namespace detail {

// Two or three elements of a vector as an lvalue: value.zw = ...
template <typename T, int M, int... I>
struct swizzle {
  T items[M];
  operator vec<T, sizeof...(I)>() const { return vec<T, sizeof...(I)>(items[I]...); }
  swizzle& operator=(vec<T, sizeof...(I)> value) {
    int from = 0;
    const int to[] = {I...};
    for (int i : to) items[i] = value[from++];
    return *this;
  }
};

// Copied by element: g++ does not instrument the copy of a structure into an argument.
template <typename T, int N>
struct storage;
template <typename T>
struct alignas(2 * sizeof(T)) storage<T, 2> {
  union {
    struct { T x, y; };
    struct { T r, g; };
    T items[2];
    swizzle<T, 2, 0, 1> xy;
    swizzle<T, 2, 1, 0> yx;
  };
  storage() = default;
  constexpr storage(T s) : x(s), y(s) {}
  constexpr storage(T a, T b) : x(a), y(b) {}
  constexpr storage(const storage& o) : x(o.x), y(o.y) {}
  storage& operator=(const storage& o) {
    x = o.x; y = o.y;
    return *this;
  }
};
template <typename T>
struct alignas(4 * sizeof(T)) storage<T, 3> {
  union {
    struct { T x, y, z; };
    struct { T r, g, b; };
    T items[3];
    swizzle<T, 3, 0, 1> xy;
    swizzle<T, 3, 1, 2> yz;
    swizzle<T, 3, 0, 2> xz;
  };
  storage() = default;
  constexpr storage(T s) : x(s), y(s), z(s) {}
  constexpr storage(T a, T b, T c) : x(a), y(b), z(c) {}
  constexpr storage(const storage& o) : x(o.x), y(o.y), z(o.z) {}
  storage& operator=(const storage& o) {
    x = o.x; y = o.y; z = o.z;
    return *this;
  }
};
template <typename T>
struct alignas(4 * sizeof(T)) storage<T, 4> {
  union {
    struct { T x, y, z, w; };
    struct { T r, g, b, a; };
    T items[4];
    swizzle<T, 4, 0, 1> xy;
    swizzle<T, 4, 1, 2> yz;
    swizzle<T, 4, 2, 3> zw;
    swizzle<T, 4, 0, 2> xz;
    swizzle<T, 4, 1, 3> yw;
    swizzle<T, 4, 0, 1, 2> xyz;
    swizzle<T, 4, 1, 2, 3> yzw;
  };
  storage() = default;
  constexpr storage(T s) : x(s), y(s), z(s), w(s) {}
  constexpr storage(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  constexpr storage(const storage& o) : x(o.x), y(o.y), z(o.z), w(o.w) {}
  storage& operator=(const storage& o) {
    x = o.x; y = o.y; z = o.z; w = o.w;
    return *this;
  }
};

}  // namespace detail

template <typename T, int N>
struct vec : detail::storage<T, N> {
  using base = detail::storage<T, N>;
  vec() = default;
  constexpr vec(T s) : base(s) {}
  constexpr vec(T a, T b) : base(a, b) {}
  constexpr vec(T a, T b, T c) : base(a, b, c) {}
  constexpr vec(T a, T b, T c, T d) : base(a, b, c, d) {}
  vec(vec<T, 2> ab, vec<T, 2> cd) : base(ab.x, ab.y, cd.x, cd.y) {}
  vec(vec<T, 3> abc, T d) : base(abc.x, abc.y, abc.z, d) {}
  template <typename U, std::enable_if_t<!std::is_same<U, T>::value, int> = 0>
  explicit vec(vec<U, N> other) {
    for (int i = 0; i < N; ++i) (*this)[i] = static_cast<T>(other[i]);
  }

  T& operator[](uint i) { return this->items[i]; }
  const T& operator[](uint i) const { return this->items[i]; }

#define CONFORM_VEC_OP(op)                                        \
  friend vec operator op(vec a, vec b) {                          \
    vec r;                                                        \
    for (int i = 0; i < N; ++i) r[i] = static_cast<T>(a[i] op b[i]); \
    return r;                                                     \
  }                                                               \
  friend vec& operator op##=(vec& a, vec b) { return a = a op b; }
  CONFORM_VEC_OP(+)
  CONFORM_VEC_OP(-)
  CONFORM_VEC_OP(*)
  CONFORM_VEC_OP(/)
  CONFORM_VEC_OP(%)
  CONFORM_VEC_OP(&)
  CONFORM_VEC_OP(|)
  CONFORM_VEC_OP(^)
  CONFORM_VEC_OP(<<)
  CONFORM_VEC_OP(>>)
#undef CONFORM_VEC_OP
#define CONFORM_VEC_COMPARE(op)                             \
  friend vec<bool, N> operator op(vec a, vec b) {           \
    vec<bool, N> r;                                         \
    for (int i = 0; i < N; ++i) r[i] = a[i] op b[i];        \
    return r;                                               \
  }
  CONFORM_VEC_COMPARE(==)
  CONFORM_VEC_COMPARE(!=)
  CONFORM_VEC_COMPARE(<)
  CONFORM_VEC_COMPARE(<=)
  CONFORM_VEC_COMPARE(>)
  CONFORM_VEC_COMPARE(>=)
#undef CONFORM_VEC_COMPARE
  friend vec operator-(vec a) {
    vec r;
    for (int i = 0; i < N; ++i) r[i] = static_cast<T>(-a[i]);
    return r;
  }
  friend vec operator~(vec a) {
    vec r;
    for (int i = 0; i < N; ++i) r[i] = static_cast<T>(~a[i]);
    return r;
  }
};

template <int N>
inline bool all(vec<bool, N> v) {
  for (int i = 0; i < N; ++i)
    if (!v[i]) return false;
  return true;
}
template <int N>
inline bool any(vec<bool, N> v) {
  for (int i = 0; i < N; ++i)
    if (v[i]) return true;
  return false;
}

}  // namespace metal

#define CONFORM_VECTORS(T) \
  using T##2 = metal::vec<T, 2>; \
  using T##3 = metal::vec<T, 3>; \
  using T##4 = metal::vec<T, 4>;
CONFORM_VECTORS(bool)
CONFORM_VECTORS(char)
CONFORM_VECTORS(uchar)
CONFORM_VECTORS(short)
CONFORM_VECTORS(ushort)
CONFORM_VECTORS(int)
CONFORM_VECTORS(uint)
CONFORM_VECTORS(long)
CONFORM_VECTORS(ulong)
CONFORM_VECTORS(half)
CONFORM_VECTORS(bfloat)
CONFORM_VECTORS(float)
#undef CONFORM_VECTORS
static_assert(sizeof(float3) == 16 && alignof(float3) == 16, "as Metal lays it out");
