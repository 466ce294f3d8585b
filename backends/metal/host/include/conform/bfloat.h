// bfloat: the upper half of a float. g++ 12 has no such type.
#pragma once
#include <conform/language.h>

struct bfloat {
  ushort bits;

  bfloat() = default;
  // Not the default: g++ does not instrument the copy of a structure into an argument.
  bfloat(const bfloat& other) : bits(other.bits) {}
  bfloat& operator=(const bfloat& other) {
    bits = other.bits;
    return *this;
  }
  template <typename T, std::enable_if_t<std::is_arithmetic<T>::value ||
                                             std::is_same<T, half>::value, int> = 0>
  bfloat(T value) : bits(round(static_cast<float>(value))) {}

  operator float() const { return as_type<float>(uint(bits) << 16); }

  bfloat operator-() const { return raw(bits ^ 0x8000u); }
  bfloat operator+() const { return *this; }

  static bfloat raw(uint bits) {
    bfloat value;
    value.bits = ushort(bits);
    return value;
  }

 private:
  // To nearest, ties to even; a NaN stays NaN even if its payload is in the lower half.
  static ushort round(float value) {
    const uint word = as_type<uint>(value);
    if (value != value) return ushort((word >> 16) | 0x40u);
    return ushort((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
};

namespace conform {
// The result type of an operation with a bfloat: bfloat with an integer, float with a float. As in
// Metal, other types (half) have none.
template <typename A, typename B>
struct bfloat_result {};
template <>
struct bfloat_result<bfloat, bfloat> {
  using type = bfloat;
};
template <>
struct bfloat_result<bfloat, float> {
  using type = float;
};
template <>
struct bfloat_result<float, bfloat> {
  using type = float;
};
template <typename T>
struct bfloat_result<bfloat, T> : std::enable_if<std::is_integral<T>::value, bfloat> {};
template <typename T>
struct bfloat_result<T, bfloat> : std::enable_if<std::is_integral<T>::value, bfloat> {};
}  // namespace conform

#define CONFORM_BFLOAT_OP(op)                                                     \
  template <typename A, typename B>                                               \
  inline typename conform::bfloat_result<A, B>::type operator op(A a, B b) {      \
    return typename conform::bfloat_result<A, B>::type(float(a) op float(b));     \
  }                                                                               \
  template <typename T>                                                           \
  inline bfloat& operator op##=(bfloat& a, T b) {                                 \
    return a = bfloat(float(a) op float(b));                                      \
  }
CONFORM_BFLOAT_OP(+)
CONFORM_BFLOAT_OP(-)
CONFORM_BFLOAT_OP(*)
CONFORM_BFLOAT_OP(/)
#undef CONFORM_BFLOAT_OP
