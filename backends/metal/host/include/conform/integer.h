// min, max, clamp and abs of every type; bit operations.
#pragma once
#include <conform/math.h>

namespace metal {

// If one float is NaN, the other one, as fmin and fmax.
template <typename T, enable_if_t<is_floating_point_v<T> && is_scalar_v<T>, int> = 0>
inline T max(T a, T b) {
  return fmax(a, b);
}
template <typename T, enable_if_t<is_floating_point_v<T> && is_scalar_v<T>, int> = 0>
inline T min(T a, T b) {
  return fmin(a, b);
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T max(T a, T b) {
  return a < b ? b : a;
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T, int N>
inline vec<T, N> max(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = max(a[i], b[i]);
  return r;
}
template <typename T, int N>
inline vec<T, N> min(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = min(a[i], b[i]);
  return r;
}
template <typename T>
inline T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}

template <typename T, enable_if_t<is_floating_point_v<T>, int> = 0>
inline T abs(T x) {
  return fabs(x);
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T abs(T x) {
  return x < T(0) ? static_cast<T>(-x) : x;
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline std::make_unsigned_t<T> absdiff(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return a < b ? U(U(b) - U(a)) : U(U(a) - U(b));
}

// For zero, the width of the type.
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T ctz(T x) {
  const ulong bits = ulong(std::make_unsigned_t<T>(x));
  return T(bits == 0 ? int(sizeof(T) * 8) : __builtin_ctzl(bits));
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T clz(T x) {
  const ulong bits = ulong(std::make_unsigned_t<T>(x));
  return T(bits == 0 ? int(sizeof(T) * 8) : __builtin_clzl(bits) - int(64 - sizeof(T) * 8));
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T popcount(T x) {
  return T(__builtin_popcountl(ulong(std::make_unsigned_t<T>(x))));
}
inline int mulhi(int a, int b) { return int((long(a) * long(b)) >> 32); }
inline uint mulhi(uint a, uint b) { return uint((ulong(a) * ulong(b)) >> 32); }
inline long mulhi(long a, long b) { return long((__int128(a) * b) >> 64); }
inline ulong mulhi(ulong a, ulong b) { return ulong((static_cast<unsigned __int128>(a) * b) >> 64); }
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T rotate(T x, T by) {
  using U = std::make_unsigned_t<T>;
  constexpr uint width = sizeof(T) * 8;
  const uint n = uint(by) % width;
  return n == 0 ? x : T(U(U(x) << n) | U(U(x) >> (width - n)));
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T extract_bits(T x, uint offset, uint bits) {
  if (bits == 0) return T(0);
  const uint up = uint(sizeof(T) * 8) - bits;
  return T(T(x << (up - offset)) >> up);
}
template <typename T, enable_if_t<is_integral_v<T> && is_scalar_v<T>, int> = 0>
inline T reverse_bits(T x) {
  std::make_unsigned_t<T> from = std::make_unsigned_t<T>(x), to = 0;
  for (uint i = 0; i < sizeof(T) * 8; ++i, from >>= 1) to = (to << 1) | (from & 1);
  return T(to);
}

}  // namespace metal
