#include "stablehlo/program_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace torch_tpu::stablehlo {
namespace {

[[noreturn]] void bad(std::string_view op, std::string_view constraint,
                      std::span<const Value> operands = {}) {
  std::string text = "stablehlo." + std::string(op) + ": " + std::string(constraint);
  if (!operands.empty()) {
    text += "; operands";
    for (const Value& v : operands) {
      text += ' ';
      text += v.defined() ? to_string(v.type()) : std::string("(undefined)");
    }
  }
  fail(ErrorKind::kInternal, text);
}

std::string i64_array(std::span<const int64_t> values) {
  std::string out = "array<i64";
  for (size_t i = 0; i < values.size(); ++i) {
    out += i == 0 ? ": " : ", ";
    out += std::to_string(values[i]);
  }
  return out + ">";
}

std::string list(std::span<const int64_t> values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(values[i]);
  }
  return out + "]";
}

// Bit patterns are exact for every value, including NaN, infinities and -0.0.
std::string hex_bits(DType dtype, double value) {
  char buffer[32];
  switch (dtype) {
    case DType::kF64:
      std::snprintf(buffer, sizeof buffer, "0x%016llX",
                    static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
      return buffer;
    case DType::kF32:
      std::snprintf(buffer, sizeof buffer, "0x%08X",
                    std::bit_cast<uint32_t>(static_cast<float>(value)));
      return buffer;
    default:
      bad("constant", "no bit pattern for this type");
  }
}

std::string float_literal(DType dtype, double value) {
  if (dtype == DType::kF64 || dtype == DType::kF32) return hex_bits(dtype, value);
  const bool has_inf = dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF8E5M2;
  if (std::isfinite(value)) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.17e", value);
    return buffer;
  }
  if (std::isnan(value)) {
    switch (dtype) {
      case DType::kBF16:
        return "0x7FC0";
      case DType::kF16:
        return "0x7E00";
      case DType::kF8E4M3FN:
      case DType::kF8E5M2:
        return "0x7F";
      case DType::kF8E8M0FNU:
        return "0xFF";
      default:
        return "0x80";
    }
  }
  if (has_inf) {
    const bool neg = value < 0;
    if (dtype == DType::kBF16) return neg ? "0xFF80" : "0x7F80";
    if (dtype == DType::kF16) return neg ? "0xFC00" : "0x7C00";
    return neg ? "0xFC" : "0x7C";
  }
  return float_literal(dtype, std::numeric_limits<double>::quiet_NaN());
}

std::string_view compare_name(Compare c) {
  switch (c) {
    case Compare::kEq:
      return "EQ";
    case Compare::kNe:
      return "NE";
    case Compare::kLt:
      return "LT";
    case Compare::kLe:
      return "LE";
    case Compare::kGt:
      return "GT";
    case Compare::kGe:
      return "GE";
  }
  return "EQ";
}

std::string precision_config(Precision p) {
  const char* name = p == Precision::kDefault ? "DEFAULT"
                     : p == Precision::kHigh  ? "HIGH"
                                              : "HIGHEST";
  std::string one = std::string("#stablehlo<precision ") + name + ">";
  return "precision_config = [" + one + ", " + one + "]";
}

double lowest(DType d) {
  switch (d) {
    case DType::kF64:
      return std::numeric_limits<double>::lowest();
    case DType::kF32:
      return std::numeric_limits<float>::lowest();
    case DType::kF16:
      return -65504.0;
    case DType::kBF16:
      return -3.3895313892515355e38;
    case DType::kF8E4M3FN:
      return -448.0;
    case DType::kF8E4M3FNUZ:
      return -240.0;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return -57344.0;
    default:
      bad("constant", "no lowest value for this type");
  }
}

int64_t int_min(DType d) {
  switch (d) {
    case DType::kS8:
      return std::numeric_limits<int8_t>::min();
    case DType::kS16:
      return std::numeric_limits<int16_t>::min();
    case DType::kS32:
      return std::numeric_limits<int32_t>::min();
    case DType::kS64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

int64_t int_max(DType d) {
  switch (d) {
    case DType::kS8:
      return std::numeric_limits<int8_t>::max();
    case DType::kS16:
      return std::numeric_limits<int16_t>::max();
    case DType::kS32:
      return std::numeric_limits<int32_t>::max();
    case DType::kS64:
      return std::numeric_limits<int64_t>::max();
    case DType::kU8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kU16:
      return std::numeric_limits<uint16_t>::max();
    case DType::kU32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return -1;  // ui64: all ones, printed as unsigned
  }
}

std::string int_literal(DType dtype, int64_t value) {
  if (is_bool(dtype)) return value != 0 ? "true" : "false";
  if (dtype == DType::kU64) return std::to_string(static_cast<uint64_t>(value));
  // Wrap like a C cast, as PyTorch does when filling a narrow tensor.
  switch (dtype) {
    case DType::kS8:
      return std::to_string(static_cast<int8_t>(value));
    case DType::kS16:
      return std::to_string(static_cast<int16_t>(value));
    case DType::kS32:
      return std::to_string(static_cast<int32_t>(value));
    case DType::kU8:
      return std::to_string(static_cast<uint8_t>(value));
    case DType::kU16:
      return std::to_string(static_cast<uint16_t>(value));
    case DType::kU32:
      return std::to_string(static_cast<uint32_t>(value));
    default:
      return std::to_string(value);
  }
}

int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

int64_t at_or(const std::vector<int64_t>& v, size_t i, int64_t fallback) {
  return v.empty() ? fallback : v[i];
}

std::string padding_attribute(const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                              size_t n) {
  std::string out = "padding = dense<";
  if (n == 0) return out + "> : tensor<0x2xi64>";
  out += "[";
  for (size_t i = 0; i < n; ++i) {
    if (i != 0) out += ", ";
    out += "[" + std::to_string(at_or(low, i, 0)) + ", " + std::to_string(at_or(high, i, 0)) + "]";
  }
  return out + "]> : tensor<" + std::to_string(n) + "x2xi64>";
}

std::vector<int64_t> ones_if_empty(const std::vector<int64_t>& v, size_t n) {
  return v.empty() ? std::vector<int64_t>(n, 1) : v;
}

}  // namespace

// --- the function

Value ProgramBuilder::new_value(const TensorType& type) {
  types_.push_back(type);
  return Value(next_id_++, &types_.back());
}

Value ProgramBuilder::parameter(const TensorType& type) {
  Value v = new_value(type);
  parameters_.push_back(v);
  aliases_.emplace_back();
  return v;
}

void ProgramBuilder::alias_parameter(size_t parameter, size_t output) {
  aliases_.at(parameter) = output;
}

std::string ProgramBuilder::finish(const Values& results) {
  std::string out = "module @program {\n  func.func public @main(";
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (i != 0) out += ", ";
    out += "%" + std::to_string(parameters_[i].id()) + ": ";
    append(out, parameters_[i].type());
    if (aliases_[i]) out += " {tf.aliasing_output = " + std::to_string(*aliases_[i]) + " : i32}";
  }
  out += ") -> (";
  std::string types;
  std::string values;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 0) {
      types += ", ";
      values += ", ";
    }
    append(types, results[i].type());
    values += "%" + std::to_string(results[i].id());
  }
  out += types + ") {\n" + body_;
  out += results.empty() ? "    return\n" : "    return " + values + " : " + types + "\n";
  return out + "  }\n}\n";
}

Values ProgramBuilder::emit(std::string_view op, std::span<const Value> operands,
                            std::span<const TensorType> results, std::string_view attributes,
                            std::span<const std::string> regions) {
  for (const Value& v : operands) {
    if (!v.defined()) bad(op, "an operand is undefined", operands);
  }
  Values values;
  values.reserve(results.size());
  for (const TensorType& t : results) values.push_back(new_value(t));
  ++num_operations_;
  std::string& out = body_;
  out += "    ";
  if (!values.empty()) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out += ", ";
      out += '%';
      out += std::to_string(values[i].id());
    }
    out += " = ";
  }
  out += '"';
  if (op.find('.') == std::string_view::npos) out += "stablehlo.";
  out += op;
  out += "\"(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i != 0) out += ", ";
    out += '%';
    out += std::to_string(operands[i].id());
  }
  out += ')';
  if (!regions.empty()) {
    out += " (";
    for (size_t i = 0; i < regions.size(); ++i) {
      if (i != 0) out += ", ";
      out += regions[i];
    }
    out += ')';
  }
  if (!attributes.empty()) {
    out += " {";
    out += attributes;
    out += '}';
  }
  out += " : (";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i != 0) out += ", ";
    append(out, operands[i].type());
  }
  out += ") -> ";
  if (results.size() != 1) out += '(';
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 0) out += ", ";
    append(out, results[i]);
  }
  if (results.size() != 1) out += ')';
  out += '\n';
  return values;
}

Value ProgramBuilder::emit1(std::string_view op, std::span<const Value> operands,
                            const TensorType& result, std::string_view attributes) {
  return emit(op, operands, std::span(&result, 1), attributes)[0];
}

std::string ProgramBuilder::region(std::span<const TensorType> types, const Region& body,
                                   Values* results) {
  std::string saved;
  saved.swap(body_);
  ++region_depth_;
  std::string text = "{\n";
  Values arguments;
  if (!types.empty()) {
    text += "    ^bb0(";
    for (size_t i = 0; i < types.size(); ++i) {
      arguments.push_back(new_value(types[i]));
      if (i != 0) text += ", ";
      text += "%" + std::to_string(arguments.back().id()) + ": ";
      append(text, types[i]);
    }
    text += "):\n";
  }
  Values out = body(arguments);
  emit("return", out, {});
  text += body_ + "    }";
  body_.swap(saved);
  --region_depth_;
  if (results != nullptr) *results = out;
  return text;
}

ProgramBuilder::Region ProgramBuilder::combiner_region(Combiner combiner) {
  return [this, combiner](std::span<const Value> a) -> Values {
    const bool pred = is_bool(a[0].dtype());
    switch (combiner) {
      case Combiner::kAdd:
        return {pred ? or_(a[0], a[1]) : add(a[0], a[1])};
      case Combiner::kMul:
        return {pred ? and_(a[0], a[1]) : multiply(a[0], a[1])};
      case Combiner::kMax:
        observable_extremum_ |= !exempt_extrema_;
        return {maximum(a[0], a[1])};
      case Combiner::kMin:
        observable_extremum_ |= !exempt_extrema_;
        return {minimum(a[0], a[1])};
      case Combiner::kAnd:
        return {and_(a[0], a[1])};
      case Combiner::kOr:
        return {or_(a[0], a[1])};
      case Combiner::kOverwrite:
        return {a[1]};
    }
    bad("reduce", "unknown combiner");
  };
}

// --- constants

Value ProgramBuilder::constant(DType dtype, double value, const Shape& shape) {
  if (is_complex(dtype)) return constant_complex(dtype, value, shape);
  if (is_integral(dtype)) return constant_int(dtype, static_cast<int64_t>(value), shape);
  TensorType type{dtype, shape};
  std::string attribute = "value = dense<" + float_literal(dtype, value) + "> : " + to_string(type);
  if (region_depth_ > 0) return emit1("constant", {}, type, attribute);
  auto [it, fresh] = constants_.try_emplace(attribute);
  if (fresh) it->second = emit1("constant", {}, type, attribute);
  return it->second;
}

Value ProgramBuilder::constant_int(DType dtype, int64_t value, const Shape& shape) {
  if (is_complex(dtype)) return constant_complex(dtype, static_cast<double>(value), shape);
  if (is_float(dtype)) return constant(dtype, static_cast<double>(value), shape);
  TensorType type{dtype, shape};
  std::string attribute = "value = dense<" + int_literal(dtype, value) + "> : " + to_string(type);
  if (region_depth_ > 0) return emit1("constant", {}, type, attribute);
  auto [it, fresh] = constants_.try_emplace(attribute);
  if (fresh) it->second = emit1("constant", {}, type, attribute);
  return it->second;
}

Value ProgramBuilder::constant_complex(DType dtype, std::complex<double> value,
                                       const Shape& shape) {
  if (!is_complex(dtype)) bad("constant", "constant_complex needs a complex type");
  TensorType type{dtype, shape};
  const DType part = real_of(dtype);
  std::string attribute = "value = dense<(" + float_literal(part, value.real()) + ", " +
                          float_literal(part, value.imag()) + ")> : " + to_string(type);
  if (region_depth_ > 0) return emit1("constant", {}, type, attribute);
  auto [it, fresh] = constants_.try_emplace(attribute);
  if (fresh) it->second = emit1("constant", {}, type, attribute);
  return it->second;
}

Value ProgramBuilder::constant_list(DType dtype, std::span<const int64_t> values,
                                    const Shape& shape) {
  const auto n = static_cast<int64_t>(values.size());
  TensorType type{dtype, {n}};
  std::string attribute = "value = dense<[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) attribute += ", ";
    attribute += is_float(dtype) ? float_literal(dtype, static_cast<double>(values[i]))
                                 : int_literal(dtype, values[i]);
  }
  attribute += "]> : " + to_string(type);
  if (n == 0) attribute = "value = dense<> : " + to_string(type);
  Value v = emit1("constant", {}, type, attribute);
  return shape.empty() ? v : reshape(v, shape);
}

Value ProgramBuilder::constant_floats(DType dtype, std::span<const double> values,
                                      const Shape& shape) {
  const auto n = static_cast<int64_t>(values.size());
  TensorType type{dtype, {n}};
  std::string attribute = "value = dense<[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) attribute += ", ";
    attribute += float_literal(dtype, values[i]);
  }
  attribute += "]> : " + to_string(type);
  if (n == 0) attribute = "value = dense<> : " + to_string(type);
  Value v = emit1("constant", {}, type, attribute);
  return shape.empty() ? v : reshape(v, shape);
}

Value ProgramBuilder::iota(const TensorType& type, int64_t dim) {
  if (dim < 0 || dim >= type.rank()) bad("iota", "(C1) 0 <= iota_dimension < rank");
  return emit1("iota", {}, type, "iota_dimension = " + std::to_string(dim) + " : i64");
}

Value ProgramBuilder::min_value(DType dtype, const Shape& shape) {
  return is_float(dtype) ? constant(dtype, lowest(dtype), shape)
                         : constant_int(dtype, int_min(dtype), shape);
}

Value ProgramBuilder::max_value(DType dtype, const Shape& shape) {
  return is_float(dtype) ? constant(dtype, -lowest(dtype), shape)
                         : constant_int(dtype, is_bool(dtype) ? 1 : int_max(dtype), shape);
}

Value ProgramBuilder::neg_inf(DType dtype, const Shape& shape) {
  if (!is_float(dtype)) return min_value(dtype, shape);
  if (is_float8(dtype) && dtype != DType::kF8E5M2) return min_value(dtype, shape);
  return constant(dtype, -std::numeric_limits<double>::infinity(), shape);
}

Value ProgramBuilder::pos_inf(DType dtype, const Shape& shape) {
  if (!is_float(dtype)) return max_value(dtype, shape);
  if (is_float8(dtype) && dtype != DType::kF8E5M2) return max_value(dtype, shape);
  return constant(dtype, std::numeric_limits<double>::infinity(), shape);
}

Value ProgramBuilder::nan(DType dtype, const Shape& shape) {
  return constant(dtype, std::numeric_limits<double>::quiet_NaN(), shape);
}

// --- elementwise

namespace {

// The element types that an elementwise operation takes (StableHLO specification, "Inputs").
enum class Domain : uint8_t { kAny, kFloat, kFloatOrComplex, kInteger, kIntegerOrBool, kNotBool };

Domain domain_of(std::string_view op) {
  static const std::unordered_map<std::string_view, Domain> table = {
      {"negate", Domain::kNotBool},
      {"sign", Domain::kNotBool},
      {"ceil", Domain::kFloat},
      {"floor", Domain::kFloat},
      {"round_nearest_even", Domain::kFloat},
      {"round_nearest_afz", Domain::kFloat},
      {"exponential", Domain::kFloatOrComplex},
      {"exponential_minus_one", Domain::kFloatOrComplex},
      {"log", Domain::kFloatOrComplex},
      {"log_plus_one", Domain::kFloatOrComplex},
      {"logistic", Domain::kFloatOrComplex},
      {"tanh", Domain::kFloatOrComplex},
      {"sqrt", Domain::kFloatOrComplex},
      {"rsqrt", Domain::kFloatOrComplex},
      {"cbrt", Domain::kFloatOrComplex},
      {"sine", Domain::kFloatOrComplex},
      {"cosine", Domain::kFloatOrComplex},
      {"tan", Domain::kFloatOrComplex},
      {"atan2", Domain::kFloatOrComplex},
      {"not", Domain::kIntegerOrBool},
      {"and", Domain::kIntegerOrBool},
      {"or", Domain::kIntegerOrBool},
      {"xor", Domain::kIntegerOrBool},
      {"popcnt", Domain::kInteger},
      {"count_leading_zeros", Domain::kInteger},
      {"shift_left", Domain::kInteger},
      {"shift_right_arithmetic", Domain::kInteger},
      {"shift_right_logical", Domain::kInteger},
      {"subtract", Domain::kNotBool},
      {"divide", Domain::kNotBool},
      {"remainder", Domain::kNotBool},
      {"power", Domain::kNotBool},
  };
  const auto it = table.find(op);
  return it == table.end() ? Domain::kAny : it->second;
}

bool contains(Domain domain, DType t) {
  switch (domain) {
    case Domain::kAny:
      return true;
    case Domain::kFloat:
      return is_float(t);
    case Domain::kFloatOrComplex:
      return is_float(t) || is_complex(t);
    case Domain::kInteger:
      return is_int(t);
    case Domain::kIntegerOrBool:
      return is_integral(t);
    case Domain::kNotBool:
      return !is_bool(t);
  }
  return true;
}

// Not an internal error: a caller asks for the function of a type that has none.
void require_domain(std::string_view op, Value x) {
  if (!contains(domain_of(op), x.dtype()))
    fail(ErrorKind::kNotImplemented, "stablehlo.", op, " is not defined for ", to_string(x.type()));
}

}  // namespace

Value ProgramBuilder::unary(std::string_view op, Value x) {
  require_domain(op, x);
  return emit1(op, std::span(&x, 1), x.type());
}

Value ProgramBuilder::binary(std::string_view op, Value x, Value y) {
  const Value operands[] = {x, y};
  if (!x.defined() || !y.defined() || x.type() != y.type())
    bad(op, "operands must have one type", operands);
  require_domain(op, x);
  return emit1(op, operands, x.type());
}

Value ProgramBuilder::abs(Value x) {
  if (is_bool(x.dtype()) || is_unsigned_int(x.dtype())) return x;
  return emit1("abs", std::span(&x, 1), {real_of(x.dtype()), x.shape()});
}
Value ProgramBuilder::negate(Value x) { return unary("negate", x); }
Value ProgramBuilder::sign(Value x) { return unary("sign", x); }
Value ProgramBuilder::ceil(Value x) { return unary("ceil", x); }
Value ProgramBuilder::floor(Value x) { return unary("floor", x); }
Value ProgramBuilder::round_even(Value x) { return unary("round_nearest_even", x); }
Value ProgramBuilder::round_afz(Value x) { return unary("round_nearest_afz", x); }
Value ProgramBuilder::exp(Value x) { return unary("exponential", x); }
Value ProgramBuilder::expm1(Value x) { return unary("exponential_minus_one", x); }
Value ProgramBuilder::log(Value x) { return unary("log", x); }
Value ProgramBuilder::log1p(Value x) { return unary("log_plus_one", x); }
Value ProgramBuilder::logistic(Value x) { return unary("logistic", x); }
Value ProgramBuilder::tanh(Value x) { return unary("tanh", x); }
Value ProgramBuilder::sqrt(Value x) { return unary("sqrt", x); }
Value ProgramBuilder::rsqrt(Value x) { return unary("rsqrt", x); }
Value ProgramBuilder::cbrt(Value x) { return unary("cbrt", x); }
Value ProgramBuilder::sine(Value x) { return unary("sine", x); }
Value ProgramBuilder::cosine(Value x) { return unary("cosine", x); }
Value ProgramBuilder::tan(Value x) { return unary("tan", x); }
Value ProgramBuilder::not_(Value x) { return unary("not", x); }
Value ProgramBuilder::popcnt(Value x) { return unary("popcnt", x); }
Value ProgramBuilder::clz(Value x) { return unary("count_leading_zeros", x); }
Value ProgramBuilder::is_finite(Value x) {
  return emit1("is_finite", std::span(&x, 1), {DType::kPred, x.shape()});
}
Value ProgramBuilder::real(Value x) {
  if (!is_complex(x.dtype())) return x;
  return emit1("real", std::span(&x, 1), {real_of(x.dtype()), x.shape()});
}
Value ProgramBuilder::imag(Value x) {
  if (!is_complex(x.dtype())) return constant(x.dtype(), 0, x.shape());
  return emit1("imag", std::span(&x, 1), {real_of(x.dtype()), x.shape()});
}
Value ProgramBuilder::complex(Value re, Value im) {
  const Value operands[] = {re, im};
  if (re.type() != im.type()) bad("complex", "(C1) lhs and rhs have one type", operands);
  return emit1("complex", operands, {complex_of(re.dtype()), re.shape()});
}

Value ProgramBuilder::chlo(std::string_view name, Value x) {
  const bool predicate = name.starts_with("is_");
  return emit1("chlo." + std::string(name), std::span(&x, 1),
               {predicate ? DType::kPred : x.dtype(), x.shape()});
}

Value ProgramBuilder::chlo(std::string_view name, Value x, Value y) {
  const Value operands[] = {x, y};
  if (x.type() != y.type()) bad(name, "operands must have one type", operands);
  return emit1("chlo." + std::string(name), operands, x.type());
}

Value ProgramBuilder::add(Value x, Value y) { return binary("add", x, y); }
Value ProgramBuilder::subtract(Value x, Value y) { return binary("subtract", x, y); }
Value ProgramBuilder::multiply(Value x, Value y) { return binary("multiply", x, y); }
Value ProgramBuilder::divide(Value x, Value y) { return binary("divide", x, y); }
Value ProgramBuilder::remainder(Value x, Value y) { return binary("remainder", x, y); }
Value ProgramBuilder::power(Value x, Value y) { return binary("power", x, y); }
Value ProgramBuilder::maximum(Value x, Value y) { return binary("maximum", x, y); }
Value ProgramBuilder::minimum(Value x, Value y) { return binary("minimum", x, y); }
Value ProgramBuilder::and_(Value x, Value y) { return binary("and", x, y); }
Value ProgramBuilder::or_(Value x, Value y) { return binary("or", x, y); }
Value ProgramBuilder::xor_(Value x, Value y) { return binary("xor", x, y); }
Value ProgramBuilder::shift_left(Value x, Value y) { return binary("shift_left", x, y); }
Value ProgramBuilder::shift_right_arithmetic(Value x, Value y) {
  return binary("shift_right_arithmetic", x, y);
}
Value ProgramBuilder::shift_right_logical(Value x, Value y) {
  return binary("shift_right_logical", x, y);
}
Value ProgramBuilder::atan2(Value x, Value y) { return binary("atan2", x, y); }

Value ProgramBuilder::compare(Value x, Value y, Compare direction, bool total_order) {
  const Value operands[] = {x, y};
  if (x.type() != y.type()) bad("compare", "(C1) operands have one type", operands);
  std::string_view kind = is_float(x.dtype()) || is_complex(x.dtype())
                              ? (total_order ? "TOTALORDER" : "FLOAT")
                              : (is_signed_int(x.dtype()) ? "SIGNED" : "UNSIGNED");
  std::string attributes = "comparison_direction = #stablehlo<comparison_direction ";
  attributes += compare_name(direction);
  attributes += ">, compare_type = #stablehlo<comparison_type ";
  attributes += kind;
  attributes += ">";
  return emit1("compare", operands, {DType::kPred, x.shape()}, attributes);
}

Value ProgramBuilder::select(Value pred, Value on_true, Value on_false) {
  const Value operands[] = {pred, on_true, on_false};
  if (on_true.type() != on_false.type()) bad("select", "(C2) branches have one type", operands);
  if (!is_bool(pred.dtype()) || (pred.rank() != 0 && pred.shape() != on_true.shape())) {
    bad("select", "(C1) pred is a scalar or has the shape of the branches", operands);
  }
  return emit1("select", operands, on_true.type());
}

Value ProgramBuilder::clamp(Value low, Value x, Value high) {
  const Value operands[] = {low, x, high};
  if (low.dtype() != x.dtype() || high.dtype() != x.dtype())
    bad("clamp", "(C3) one element type", operands);
  return emit1("clamp", operands, x.type());
}

// --- types

Value ProgramBuilder::convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(x.dtype()) && !is_complex(dtype)) {
    if (is_bool(dtype)) {
      return compare(x, constant(x.dtype(), 0, x.shape()), Compare::kNe);
    }
    return convert(real(x), dtype);
  }
  if (is_bool(dtype)) return compare(x, constant(x.dtype(), 0, x.shape()), Compare::kNe);
  return emit1("convert", std::span(&x, 1), {dtype, x.shape()});
}

Value ProgramBuilder::bitcast_convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Shape shape = x.shape();
  const int64_t from = byte_size(x.dtype());
  const int64_t to = byte_size(dtype);
  if (from > to) {
    shape.push_back(from / to);
  } else if (from < to) {
    if (shape.empty() || shape.back() != to / from) {
      bad("bitcast_convert", "(C1) the last dimension holds the narrower elements",
          std::span(&x, 1));
    }
    shape.pop_back();
  }
  return emit1("bitcast_convert", std::span(&x, 1), {dtype, shape});
}

Value ProgramBuilder::reduce_precision(Value x, int exponent_bits, int mantissa_bits) {
  return emit1("reduce_precision", std::span(&x, 1), x.type(),
               "exponent_bits = " + std::to_string(exponent_bits) +
                   " : i32, mantissa_bits = " + std::to_string(mantissa_bits) + " : i32");
}

// --- shapes

Value ProgramBuilder::reshape(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.numel() != torch_tpu::numel(shape)) {
    bad("reshape", "(C2) number of elements changes to " + to_string(shape), std::span(&x, 1));
  }
  return emit1("reshape", std::span(&x, 1), {x.dtype(), shape});
}

Value ProgramBuilder::transpose(Value x, std::span<const int64_t> permutation) {
  if (static_cast<int64_t>(permutation.size()) != x.rank()) {
    bad("transpose", "(C2) permutation of the dimensions", std::span(&x, 1));
  }
  bool identity = true;
  Shape shape(permutation.size());
  std::vector<bool> seen(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    const int64_t p = permutation[i];
    if (p < 0 || p >= x.rank() || seen[static_cast<size_t>(p)]) {
      bad("transpose", "(C2) permutation of the dimensions", std::span(&x, 1));
    }
    seen[static_cast<size_t>(p)] = true;
    identity &= p == static_cast<int64_t>(i);
    shape[i] = x.dim(p);
  }
  if (identity) return x;
  return emit1("transpose", std::span(&x, 1), {x.dtype(), shape},
               "permutation = " + i64_array(permutation));
}

Value ProgramBuilder::broadcast_in_dim(Value x, const Shape& shape, std::span<const int64_t> dims) {
  bool ok = static_cast<int64_t>(dims.size()) == x.rank();
  for (size_t i = 0; ok && i < dims.size(); ++i) {
    ok = dims[i] >= 0 && dims[i] < static_cast<int64_t>(shape.size()) &&
         (x.dim(static_cast<int64_t>(i)) == 1 ||
          x.dim(static_cast<int64_t>(i)) == shape[static_cast<size_t>(dims[i])]);
  }
  if (!ok) bad("broadcast_in_dim", "(C2-C5) dims map onto " + to_string(shape), std::span(&x, 1));
  if (x.shape() == shape) {
    bool identity = true;
    for (size_t i = 0; i < dims.size(); ++i) identity &= dims[i] == static_cast<int64_t>(i);
    if (identity) return x;
  }
  return emit1("broadcast_in_dim", std::span(&x, 1), {x.dtype(), shape},
               "broadcast_dimensions = " + i64_array(dims));
}

Value ProgramBuilder::slice(Value x, std::span<const int64_t> start, std::span<const int64_t> limit,
                            std::span<const int64_t> strides) {
  std::vector<int64_t> ones;
  if (strides.empty()) {
    ones.assign(start.size(), 1);
    strides = ones;
  }
  Shape shape(start.size());
  bool identity = true;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t d = x.dim(static_cast<int64_t>(i));
    if (start[i] < 0 || limit[i] < start[i] || limit[i] > d || strides[i] <= 0) {
      bad("slice",
          "(C3, C4) 0 <= start <= limit <= dim, 0 < stride: start " + list(start) + " limit " +
              list(limit),
          std::span(&x, 1));
    }
    shape[i] = (limit[i] - start[i] + strides[i] - 1) / strides[i];
    identity &= start[i] == 0 && limit[i] == d && strides[i] == 1;
  }
  if (identity) return x;
  return emit1("slice", std::span(&x, 1), {x.dtype(), shape},
               "start_indices = " + i64_array(start) + ", limit_indices = " + i64_array(limit) +
                   ", strides = " + i64_array(strides));
}

Value ProgramBuilder::slice_dim(Value x, int64_t dim, int64_t start, int64_t limit,
                                int64_t stride) {
  Shape low(static_cast<size_t>(x.rank()), 0);
  Shape high = x.shape();
  Shape step(static_cast<size_t>(x.rank()), 1);
  const auto d = static_cast<size_t>(dim < 0 ? dim + x.rank() : dim);
  low[d] = start;
  high[d] = limit;
  step[d] = stride;
  return slice(x, low, high, step);
}

Value ProgramBuilder::dynamic_slice(Value x, std::span<const Value> start,
                                    std::span<const int64_t> sizes) {
  Values operands = {x};
  operands.insert(operands.end(), start.begin(), start.end());
  if (static_cast<int64_t>(start.size()) != x.rank())
    bad("dynamic_slice", "(C2) one start per dimension", operands);
  return emit1("dynamic_slice", operands, {x.dtype(), Shape(sizes.begin(), sizes.end())},
               "slice_sizes = " + i64_array(sizes));
}

Value ProgramBuilder::dynamic_update_slice(Value x, Value update, std::span<const Value> start) {
  Values operands = {x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  if (x.dtype() != update.dtype() || x.rank() != update.rank()) {
    bad("dynamic_update_slice", "(C2, C3) update has the operand's element type and rank",
        operands);
  }
  return emit1("dynamic_update_slice", operands, x.type());
}

Value ProgramBuilder::concatenate(std::span<const Value> xs, int64_t dim) {
  if (xs.empty()) bad("concatenate", "(C3) at least one operand");
  if (xs.size() == 1) return xs[0];
  Shape shape = xs[0].shape();
  const auto d = static_cast<size_t>(dim < 0 ? dim + xs[0].rank() : dim);
  shape.at(d) = 0;
  for (const Value& x : xs) {
    Shape other = x.shape();
    if (other.size() != shape.size() || x.dtype() != xs[0].dtype())
      bad("concatenate", "(C1, C2) one rank and element type", xs);
    const int64_t n = other[d];
    other[d] = shape[d];
    if (other != shape) bad("concatenate", "(C2) equal shapes but for the dimension", xs);
    shape[d] += n;
  }
  return emit1("concatenate", xs, {xs[0].dtype(), shape},
               "dimension = " + std::to_string(d) + " : i64");
}

Value ProgramBuilder::pad(Value x, Value value, std::span<const int64_t> low,
                          std::span<const int64_t> high, std::span<const int64_t> interior) {
  std::vector<int64_t> zeros;
  if (interior.empty()) {
    zeros.assign(low.size(), 0);
    interior = zeros;
  }
  const Value operands[] = {x, value};
  if (x.dtype() != value.dtype() || value.rank() != 0)
    bad("pad", "(C1) padding value is a scalar of the type", operands);
  Shape shape(low.size());
  bool identity = true;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t d = x.dim(static_cast<int64_t>(i));
    shape[i] = d + low[i] + high[i] + std::max<int64_t>(d - 1, 0) * interior[i];
    if (shape[i] < 0 || interior[i] < 0)
      bad("pad", "(C3, C4) non-negative result and interior padding", operands);
    identity &= low[i] == 0 && high[i] == 0 && interior[i] == 0;
  }
  if (identity) return x;
  return emit1("pad", operands, {x.dtype(), shape},
               "edge_padding_low = " + i64_array(low) + ", edge_padding_high = " + i64_array(high) +
                   ", interior_padding = " + i64_array(interior));
}

Value ProgramBuilder::reverse(Value x, std::span<const int64_t> dims) {
  if (dims.empty()) return x;
  return emit1("reverse", std::span(&x, 1), x.type(), "dimensions = " + i64_array(dims));
}

Value ProgramBuilder::set_dimension_size(Value x, Value size, int64_t dim) {
  const Value operands[] = {x, size};
  return emit1("set_dimension_size", operands, x.type(),
               "dimension = " + std::to_string(dim) + " : i64");
}

// --- indexing

Value ProgramBuilder::gather(Value operand, Value indices, const GatherDims& d) {
  Shape batch = indices.shape();
  if (d.index_vector_dim < indices.rank()) batch.erase(batch.begin() + d.index_vector_dim);
  Shape offset;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    auto has = [i](const std::vector<int64_t>& v) {
      return std::find(v.begin(), v.end(), i) != v.end();
    };
    if (!has(d.collapsed_slice_dims) && !has(d.operand_batching_dims)) {
      offset.push_back(d.slice_sizes.at(static_cast<size_t>(i)));
    }
  }
  Shape shape(batch.size() + d.offset_dims.size());
  size_t next_batch = 0;
  size_t next_offset = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_offset = std::find(d.offset_dims.begin(), d.offset_dims.end(),
                                     static_cast<int64_t>(i)) != d.offset_dims.end();
    shape[i] = is_offset ? offset.at(next_offset++) : batch.at(next_batch++);
  }
  std::string attributes = "dimension_numbers = #stablehlo.gather<";
  bool first = true;
  auto field = [&](const char* name, const std::vector<int64_t>& v) {
    if (v.empty()) return;
    attributes += (first ? "" : ", ") + std::string(name) + " = " + list(v);
    first = false;
  };
  field("offset_dims", d.offset_dims);
  field("collapsed_slice_dims", d.collapsed_slice_dims);
  field("operand_batching_dims", d.operand_batching_dims);
  field("start_indices_batching_dims", d.start_indices_batching_dims);
  field("start_index_map", d.start_index_map);
  attributes += std::string(first ? "" : ", ") +
                "index_vector_dim = " + std::to_string(d.index_vector_dim) +
                ">, slice_sizes = " + i64_array(d.slice_sizes) +
                ", indices_are_sorted = " + (d.indices_are_sorted ? "true" : "false");
  const Value operands[] = {operand, indices};
  return emit1("gather", operands, {operand.dtype(), shape}, attributes);
}

Value ProgramBuilder::scatter(Value operand, Value indices, Value updates, const ScatterDims& d,
                              Combiner combiner) {
  const Value operands[] = {operand, indices, updates};
  if (operand.dtype() != updates.dtype())
    bad("scatter", "(C1) updates have the operand's element type", operands);
  std::string attributes = "scatter_dimension_numbers = #stablehlo.scatter<";
  bool first = true;
  auto field = [&](const char* name, const std::vector<int64_t>& v) {
    if (v.empty()) return;
    attributes += (first ? "" : ", ") + std::string(name) + " = " + list(v);
    first = false;
  };
  field("update_window_dims", d.update_window_dims);
  field("inserted_window_dims", d.inserted_window_dims);
  field("input_batching_dims", d.input_batching_dims);
  field("scatter_indices_batching_dims", d.scatter_indices_batching_dims);
  field("scatter_dims_to_operand_dims", d.scatter_dims_to_operand_dims);
  attributes += std::string(first ? "" : ", ") +
                "index_vector_dim = " + std::to_string(d.index_vector_dim) +
                ">, indices_are_sorted = " + (d.indices_are_sorted ? "true" : "false") +
                ", unique_indices = " + (d.unique_indices ? "true" : "false");
  const TensorType scalar{operand.dtype(), {}};
  const TensorType types[] = {scalar, scalar};
  const std::string body = region(types, combiner_region(combiner));
  return emit("scatter", operands, std::span(&operand.type(), 1), attributes,
              std::span(&body, 1))[0];
}

// --- reductions

Value ProgramBuilder::reduce(Value x, Value init, std::span<const int64_t> dims,
                             Combiner combiner) {
  return reduce(std::span(&x, 1), std::span(&init, 1), dims, combiner_region(combiner))[0];
}

Values ProgramBuilder::reduce(std::span<const Value> xs, std::span<const Value> inits,
                              std::span<const int64_t> dims, const Region& body) {
  std::vector<TensorType> block;
  std::vector<TensorType> results;
  Values operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  for (const Value& x : xs) {
    if (x.shape() != xs[0].shape()) bad("reduce", "(C1) inputs have one shape", operands);
    Shape shape;
    for (int64_t i = 0; i < x.rank(); ++i) {
      if (std::find(dims.begin(), dims.end(), i) == dims.end()) shape.push_back(x.dim(i));
    }
    results.push_back({x.dtype(), shape});
  }
  for (int k = 0; k < 2; ++k) {
    for (const Value& init : inits) {
      if (init.rank() != 0) bad("reduce", "(C2) initial values are scalars", operands);
      block.push_back(init.type());
    }
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].dtype() != inits[i].dtype())
      bad("reduce", "(C2) initial value has the input's element type", operands);
  }
  const std::string text = region(block, body);
  return emit("reduce", operands, results, "dimensions = " + i64_array(dims), std::span(&text, 1));
}

namespace {

Shape windowed_shape(const Shape& shape, const WindowDims& w) {
  Shape out(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t input = dilated(shape[i], at_or(w.base_dilation, i, 1)) + at_or(w.pad_low, i, 0) +
                          at_or(w.pad_high, i, 0);
    const int64_t window = dilated(w.window[i], at_or(w.window_dilation, i, 1));
    out[i] = input == 0 || window > input ? 0 : (input - window) / at_or(w.strides, i, 1) + 1;
  }
  return out;
}

std::string window_attributes(const WindowDims& w, size_t n) {
  return "window_dimensions = " + i64_array(w.window) +
         ", window_strides = " + i64_array(ones_if_empty(w.strides, n)) +
         ", base_dilations = " + i64_array(ones_if_empty(w.base_dilation, n)) +
         ", window_dilations = " + i64_array(ones_if_empty(w.window_dilation, n)) + ", " +
         padding_attribute(w.pad_low, w.pad_high, n);
}

}  // namespace

Value ProgramBuilder::reduce_window(Value x, Value init, const WindowDims& window,
                                    Combiner combiner) {
  return reduce_window(std::span(&x, 1), std::span(&init, 1), window, combiner_region(combiner))[0];
}

Values ProgramBuilder::reduce_window(std::span<const Value> xs, std::span<const Value> inits,
                                     const WindowDims& window, const Region& body) {
  Values operands(xs.begin(), xs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<TensorType> block;
  std::vector<TensorType> results;
  const auto n = static_cast<size_t>(xs[0].rank());
  if (window.window.size() != n)
    bad("reduce_window", "(C4) one window size per dimension", operands);
  for (const Value& x : xs) results.push_back({x.dtype(), windowed_shape(x.shape(), window)});
  for (int k = 0; k < 2; ++k) {
    for (const Value& init : inits) block.push_back(init.type());
  }
  const std::string text = region(block, body);
  return emit("reduce_window", operands, results, window_attributes(window, n),
              std::span(&text, 1));
}

Value ProgramBuilder::select_and_scatter(Value operand, Value source, Value init,
                                         const WindowDims& window, Compare select,
                                         Combiner scatter) {
  const Value operands[] = {operand, source, init};
  const auto n = static_cast<size_t>(operand.rank());
  const TensorType scalar{operand.dtype(), {}};
  const TensorType types[] = {scalar, scalar};
  const std::string regions[] = {
      region(types,
             [&](std::span<const Value> a) -> Values { return {compare(a[0], a[1], select)}; }),
      region(types, combiner_region(scatter))};
  return emit("select_and_scatter", operands, std::span(&operand.type(), 1),
              "window_dimensions = " + i64_array(window.window) +
                  ", window_strides = " + i64_array(ones_if_empty(window.strides, n)) + ", " +
                  padding_attribute(window.pad_low, window.pad_high, n),
              regions)[0];
}

Values ProgramBuilder::sort(std::span<const Value> xs, int64_t dim, bool stable,
                            const Region& comparator) {
  std::vector<TensorType> block;
  std::vector<TensorType> results;
  for (const Value& x : xs) {
    if (x.shape() != xs[0].shape()) bad("sort", "(C2) inputs have one shape", xs);
    block.push_back({x.dtype(), {}});
    block.push_back({x.dtype(), {}});
    results.push_back(x.type());
  }
  const std::string text = region(block, comparator);
  return emit("sort", xs, results,
              "dimension = " + std::to_string(dim < 0 ? dim + xs[0].rank() : dim) +
                  " : i64, is_stable = " + (stable ? "true" : "false"),
              std::span(&text, 1));
}

Values ProgramBuilder::top_k(Value x, int64_t k) {
  Shape shape = x.shape();
  if (shape.empty() || k > shape.back())
    bad("top_k", "k exceeds the last dimension", std::span(&x, 1));
  shape.back() = k;
  const TensorType results[] = {{x.dtype(), shape}, {DType::kS32, shape}};
  return emit("chlo.top_k", std::span(&x, 1), results, "k = " + std::to_string(k) + " : i64");
}

// --- contractions

Value ProgramBuilder::dot_general(Value lhs, Value rhs, const DotDims& d, DType result,
                                  Precision precision) {
  const Value operands[] = {lhs, rhs};
  Shape shape;
  auto contains = [](const std::vector<int64_t>& v, int64_t i) {
    return std::find(v.begin(), v.end(), i) != v.end();
  };
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    if (lhs.dim(d.lhs_batch[i]) != rhs.dim(d.rhs_batch[i]))
      bad("dot_general", "(C9) batch sizes agree", operands);
    shape.push_back(lhs.dim(d.lhs_batch[i]));
  }
  for (size_t i = 0; i < d.lhs_contract.size(); ++i) {
    if (lhs.dim(d.lhs_contract[i]) != rhs.dim(d.rhs_contract[i])) {
      bad("dot_general", "(C10) contracting sizes agree", operands);
    }
  }
  for (int64_t i = 0; i < lhs.rank(); ++i) {
    if (!contains(d.lhs_batch, i) && !contains(d.lhs_contract, i)) shape.push_back(lhs.dim(i));
  }
  for (int64_t i = 0; i < rhs.rank(); ++i) {
    if (!contains(d.rhs_batch, i) && !contains(d.rhs_contract, i)) shape.push_back(rhs.dim(i));
  }
  std::string attributes = "dot_dimension_numbers = #stablehlo.dot<";
  if (!d.lhs_batch.empty()) {
    attributes += "lhs_batching_dimensions = " + list(d.lhs_batch) +
                  ", rhs_batching_dimensions = " + list(d.rhs_batch) + ", ";
  }
  attributes += "lhs_contracting_dimensions = " + list(d.lhs_contract) +
                ", rhs_contracting_dimensions = " + list(d.rhs_contract) + ">, " +
                precision_config(precision);
  return emit1("dot_general", operands, {result, shape}, attributes);
}

Value ProgramBuilder::convolution(Value input, Value kernel, const ConvDims& d, DType result,
                                  Precision precision) {
  const Value operands[] = {input, kernel};
  const size_t n = d.input_spatial.size();
  Shape shape(n + 2);
  shape.at(static_cast<size_t>(d.output_batch)) = input.dim(d.input_batch) / d.batch_groups;
  shape.at(static_cast<size_t>(d.output_feature)) = kernel.dim(d.kernel_output_feature);
  auto letters = [n](int64_t a, const char* an, int64_t b, const char* bn,
                     const std::vector<int64_t>& spatial) {
    std::vector<std::string> at(n + 2);
    at.at(static_cast<size_t>(a)) = an;
    at.at(static_cast<size_t>(b)) = bn;
    for (size_t i = 0; i < n; ++i) at.at(static_cast<size_t>(spatial[i])) = std::to_string(i);
    std::string out = "[";
    for (size_t i = 0; i < at.size(); ++i) out += (i == 0 ? "" : ", ") + at[i];
    return out + "]";
  };
  if (input.dim(d.input_feature) != kernel.dim(d.kernel_input_feature) * d.feature_groups) {
    bad("convolution", "(C14) input features = kernel input features * feature_group_count",
        operands);
  }
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = dilated(input.dim(d.input_spatial[i]), at_or(d.lhs_dilation, i, 1)) +
                       at_or(d.pad_low, i, 0) + at_or(d.pad_high, i, 0);
    const int64_t k = dilated(kernel.dim(d.kernel_spatial[i]), at_or(d.rhs_dilation, i, 1));
    shape.at(static_cast<size_t>(d.output_spatial[i])) =
        k > in ? 0 : (in - k) / at_or(d.strides, i, 1) + 1;
  }
  std::string attributes =
      "dimension_numbers = #stablehlo.conv<" +
      letters(d.input_batch, "b", d.input_feature, "f", d.input_spatial) + "x" +
      letters(d.kernel_output_feature, "o", d.kernel_input_feature, "i", d.kernel_spatial) + "->" +
      letters(d.output_batch, "b", d.output_feature, "f", d.output_spatial) + ">";
  attributes += ", window_strides = " + i64_array(ones_if_empty(d.strides, n));
  attributes += ", " + padding_attribute(d.pad_low, d.pad_high, n);
  attributes += ", lhs_dilation = " + i64_array(ones_if_empty(d.lhs_dilation, n));
  attributes += ", rhs_dilation = " + i64_array(ones_if_empty(d.rhs_dilation, n));
  if (!d.reversal.empty()) {
    attributes += ", window_reversal = array<i1";
    for (size_t i = 0; i < n; ++i)
      attributes += (i == 0 ? ": " : ", ") + std::string(d.reversal[i] ? "true" : "false");
    attributes += ">";
  }
  attributes += ", feature_group_count = " + std::to_string(d.feature_groups) +
                " : i64, batch_group_count = " + std::to_string(d.batch_groups) + " : i64, " +
                precision_config(precision);
  return emit1("convolution", operands, {result, shape}, attributes);
}

// --- the rest

Value ProgramBuilder::fft(Value x, Fft type, std::span<const int64_t> lengths) {
  TensorType result = x.type();
  const char* name = "FFT";
  switch (type) {
    case Fft::kFft:
      break;
    case Fft::kIfft:
      name = "IFFT";
      break;
    case Fft::kRfft:
      name = "RFFT";
      result.dtype = complex_of(x.dtype());
      result.shape.back() = lengths.back() / 2 + 1;
      break;
    case Fft::kIrfft:
      name = "IRFFT";
      result.dtype = real_of(x.dtype());
      result.shape.back() = lengths.back();
      break;
  }
  return emit1("fft", std::span(&x, 1), result,
               "fft_type = #stablehlo<fft_type " + std::string(name) +
                   ">, fft_length = " + i64_array(lengths));
}

Value ProgramBuilder::cholesky(Value x, bool lower) {
  return emit1("cholesky", std::span(&x, 1), x.type(),
               std::string("lower = ") + (lower ? "true" : "false"));
}

Value ProgramBuilder::triangular_solve(Value a, Value b, bool left_side, bool lower,
                                       bool unit_diagonal, Transpose transpose) {
  const Value operands[] = {a, b};
  const char* name = transpose == Transpose::kNone        ? "NO_TRANSPOSE"
                     : transpose == Transpose::kTranspose ? "TRANSPOSE"
                                                          : "ADJOINT";
  auto flag = [](bool v) { return std::string(v ? "true" : "false"); };
  return emit1("triangular_solve", operands, b.type(),
               "left_side = " + flag(left_side) + ", lower = " + flag(lower) +
                   ", unit_diagonal = " + flag(unit_diagonal) +
                   ", transpose_a = #stablehlo<transpose " + name + ">");
}

Values ProgramBuilder::rng_bit_generator(Value state, const TensorType& type,
                                         RngAlgorithm algorithm) {
  const char* name = algorithm == RngAlgorithm::kPhilox     ? "PHILOX"
                     : algorithm == RngAlgorithm::kThreeFry ? "THREE_FRY"
                                                            : "DEFAULT";
  const TensorType results[] = {state.type(), type};
  return emit("rng_bit_generator", std::span(&state, 1), results,
              "rng_algorithm = #stablehlo<rng_algorithm " + std::string(name) + ">");
}

Values ProgramBuilder::optimization_barrier(std::span<const Value> xs) {
  std::vector<TensorType> types;
  for (const Value& x : xs) types.push_back(x.type());
  return emit("optimization_barrier", xs, types);
}

Value ProgramBuilder::optimization_barrier(Value x) {
  return optimization_barrier(std::span(&x, 1))[0];
}

Values ProgramBuilder::custom_call(std::string_view target, std::span<const Value> operands,
                                   std::span<const TensorType> results,
                                   std::string_view extra_attributes) {
  std::string attributes = "call_target_name = \"" + std::string(target) + "\"";
  if (!extra_attributes.empty()) attributes += ", " + std::string(extra_attributes);
  return emit("custom_call", operands, results, attributes);
}

Values ProgramBuilder::while_loop(std::span<const Value> init, const Region& condition,
                                  const Region& body) {
  std::vector<TensorType> types;
  for (const Value& v : init) types.push_back(v.type());
  const std::string regions[] = {region(types, condition), region(types, body)};
  return emit("while", init, types, "", regions);
}

Values ProgramBuilder::if_else(Value pred, const std::function<Values()>& on_true,
                               const std::function<Values()>& on_false) {
  Values results;
  const std::string regions[] = {
      region(
          {}, [&](std::span<const Value>) { return on_true(); }, &results),
      region({}, [&](std::span<const Value>) { return on_false(); })};
  std::vector<TensorType> types;
  for (const Value& v : results) types.push_back(v.type());
  return emit("if", std::span(&pred, 1), types, "", regions);
}

}  // namespace torch_tpu::stablehlo
