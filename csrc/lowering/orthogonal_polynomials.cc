#include <limits>

#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {
namespace {

// Polynomials of degree n by three-term recurrences (DLMF 18.9), all elements stepping together
// until the highest degree; 0 for negative n. x, n: float tensors of one type; n is truncated.

// P(k + 1) from x, k, P(k), P(k - 1)
using Next = Value (*)(Lowering& b, Value x, Value k, Value here, Value before);

struct Degree {
  Value n;  // int64
  Value as_float;
};

Degree degree(Lowering& b, Value n) {
  Value whole = b.convert(n, DType::kS64);
  return {whole, b.convert(whole, n.dtype())};
}

// Elements in `closed` have a closed form elsewhere and need no steps.
Value recur(Lowering& b, Value x, const Degree& n, Value first, Next next,
            std::optional<Value> closed = {}) {
  Value one = b.full_like(x, 1);
  Value steps = closed ? where_constant(b, *closed, 0, n.n) : n.n;
  const Value init[] = {b.constant_int(DType::kS64, 1), one, first};
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        Value open = b.bcompare(s[0], steps, Compare::kLt);
        open = b.and_(b.broadcast(open, s[2].shape()), b.not_(b.is_nan(s[2])));
        return {b.any(open, Lowering::all_dims(open.rank()))};
      },
      [&](std::span<const Value> s) -> Values {
        Value k = b.broadcast(b.convert(s[0], x.dtype()), x.shape());
        Value open = b.bcompare(s[0], steps, Compare::kLt);
        return {b.add_scalar(s[0], 1), b.select(open, s[2], s[1]),
                b.select(open, next(b, x, k, s[2], s[1]), s[2])};
      });
  Value y = where_constant(b, equals(b, n.n, 0), 1, end[2]);
  return where_constant(b, less(b, n.n, 0), 0, y);
}

Value chebyshev_next(Lowering& b, Value x, Value, Value here, Value before) {
  return b.subtract(b.multiply(b.add(x, x), here), before);
}

// --- the four Chebyshev kinds: inside (-1, 1) and above a few degrees, trigonometric forms

enum class Kind { kT, kU, kV, kW };

Value first_degree(Lowering& b, Value x, Kind kind) {
  switch (kind) {
    case Kind::kT:
      return x;
    case Kind::kU:
      return b.add(x, x);
    case Kind::kV:
      return b.add_scalar(b.add(x, x), -1);
    case Kind::kW:
      return b.add_scalar(b.add(x, x), 1);
  }
  return x;
}

Value trigonometric(Lowering& b, Value angle, Value n, Kind kind) {
  Value half = b.mul_scalar(angle, 0.5);
  Value middle = b.multiply(b.add_scalar(n, 0.5), angle);
  switch (kind) {
    case Kind::kT:
      return b.cosine(b.multiply(n, angle));
    case Kind::kU:
      return b.divide(b.sine(b.multiply(b.add_scalar(n, 1), angle)), b.sine(angle));
    case Kind::kV:
      return b.divide(b.cosine(middle), b.cosine(half));
    case Kind::kW:
      return b.divide(b.sine(middle), b.sine(half));
  }
  return angle;
}

// At x = 1 and x = -1, by the sign of x and whether n is even.
Value at_end(Lowering& b, Value x, const Degree& n, Kind kind) {
  Value positive = greater(b, x, 0);
  Value odd = equals(b, b.remainder(n.n, b.full_like(n.n, 2)), 1);
  Value one = b.full_like(x, 1);
  Value count = kind == Kind::kU ? b.add_scalar(n.as_float, 1)
                                 : b.add_scalar(b.add(n.as_float, n.as_float), 1);
  Value right = kind == Kind::kU || kind == Kind::kW ? count : one;
  Value left = kind == Kind::kU || kind == Kind::kV ? count : one;
  return b.select(positive, right, b.select(odd, b.negate(left), left));
}

template <Kind kKind, bool kShifted>
Value chebyshev(Lowering& b, Value x, Value n) {
  b.broadcast_pair(x, n);
  if (kShifted) x = b.add_scalar(b.add(x, x), -1);
  const Degree d = degree(b, n);
  constexpr double kRecurTo = kShifted || kKind == Kind::kT ? 6 : 8;
  Value size = b.abs(x);
  Value end = equals(b, size, 1);
  Value inside = b.and_(less(b, size, 1), greater(b, d.n, kRecurTo));
  Value y = recur(b, x, d, first_degree(b, x, kKind), chebyshev_next, b.or_(end, inside));
  y = b.select(inside, trigonometric(b, b.chlo("acos", x), d.as_float, kKind), y);
  y = b.select(end, at_end(b, x, d, kKind), y);
  return where_constant(b, less(b, d.n, 0), 0, y);
}

// --- Hermite, Laguerre, Legendre

Value hermite_h_next(Lowering& b, Value x, Value k, Value here, Value before) {
  return b.subtract(b.multiply(b.add(x, x), here), b.multiply(b.add(k, k), before));
}

Value hermite_he_next(Lowering& b, Value x, Value k, Value here, Value before) {
  return b.subtract(b.multiply(x, here), b.multiply(k, before));
}

Value laguerre_next(Lowering& b, Value x, Value k, Value here, Value before) {
  Value factor = b.add(b.add(k, k), complement(b, x));
  return b.divide(b.subtract(b.multiply(factor, here), b.multiply(k, before)), b.add_scalar(k, 1));
}

Value legendre_next(Lowering& b, Value x, Value k, Value here, Value before) {
  Value factor = b.multiply(b.add_scalar(b.add(k, k), 1), x);
  return b.divide(b.subtract(b.multiply(factor, here), b.multiply(k, before)), b.add_scalar(k, 1));
}

// PyTorch gives NaN above the degree where the value overflows.
template <bool kProbabilist>
Value hermite(Lowering& b, Value x, Value n) {
  b.broadcast_pair(x, n);
  const Degree d = degree(b, n);
  Value too_high = greater(b, d.n, x.dtype() == DType::kF64 ? 512 : 128);
  Value y = kProbabilist ? recur(b, x, d, x, hermite_he_next, too_high)
                         : recur(b, x, d, b.add(x, x), hermite_h_next, too_high);
  return where_constant(b, too_high, std::numeric_limits<double>::quiet_NaN(), y);
}

Value laguerre(Lowering& b, Value x, Value n) {
  b.broadcast_pair(x, n);
  return recur(b, x, degree(b, n), complement(b, x), laguerre_next);
}

Value legendre(Lowering& b, Value x, Value n) {
  b.broadcast_pair(x, n);
  return recur(b, x, degree(b, n), x, legendre_next);
}

template <Value (*Rule)(Lowering&, Value, Value)>
void add_polynomial(OperatorTable& table, const std::string& name) {
  constexpr RuleOptions kMath{.promotion = Promotion::kFloat, .opmath = true};
  table.add("special_" + name, Rule, kMath);
  table.add("special_" + name + ".n_scalar", with_number<Rule>, kMath);
  table.add("special_" + name + ".x_scalar", number_first<Rule>, kMath);
}

}  // namespace

void register_orthogonal_polynomials(OperatorTable& table) {
  add_polynomial<chebyshev<Kind::kT, false>>(table, "chebyshev_polynomial_t");
  add_polynomial<chebyshev<Kind::kU, false>>(table, "chebyshev_polynomial_u");
  add_polynomial<chebyshev<Kind::kV, false>>(table, "chebyshev_polynomial_v");
  add_polynomial<chebyshev<Kind::kW, false>>(table, "chebyshev_polynomial_w");
  add_polynomial<chebyshev<Kind::kT, true>>(table, "shifted_chebyshev_polynomial_t");
  add_polynomial<chebyshev<Kind::kU, true>>(table, "shifted_chebyshev_polynomial_u");
  add_polynomial<chebyshev<Kind::kV, true>>(table, "shifted_chebyshev_polynomial_v");
  add_polynomial<chebyshev<Kind::kW, true>>(table, "shifted_chebyshev_polynomial_w");
  add_polynomial<hermite<false>>(table, "hermite_polynomial_h");
  add_polynomial<hermite<true>>(table, "hermite_polynomial_he");
  add_polynomial<laguerre>(table, "laguerre_polynomial_l");
  add_polynomial<legendre>(table, "legendre_polynomial_p");
}

}  // namespace torch_tpu::lowering
