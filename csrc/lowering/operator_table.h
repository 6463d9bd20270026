#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// One argument of a call, in schema order. Tensors are logical values.
using Argument = std::variant<std::monostate,                     // None, or undefined tensor
                              Value,                              // Tensor
                              Values,                             // Tensor[]
                              std::vector<std::optional<Value>>,  // Tensor?[]
                              Operand,               // Scalar or float taking part in arithmetic
                              Scalar,                // bool, int, float, Scalar
                              IntList,               // int[], SymInt[], bool[]
                              std::vector<double>,   // float[]
                              std::vector<Operand>,  // Scalar[] taking part in arithmetic
                              std::string,           // str
                              DType>;                // ScalarType
using Arguments = std::vector<Argument>;

// Results in schema order; nullopt is an undefined tensor (an unneeded gradient).
// A Tensor[] result is spliced in place.
using Results = std::vector<std::optional<Value>>;

// How the frame treats the operands before the rule sees them and the results after.
enum class Promotion : uint8_t {
  kNone,    // operands as they are
  kResult,  // tensors and Operands in PyTorch's result_type of all tensor and Scalar arguments
  kFloat,   // the same, integers and bool to the default float type
  kOutput,  // everything to the type of the first result
};

struct RuleOptions {
  Promotion promotion = Promotion::kNone;
  // float16, bfloat16 and float8 operands are given as float32; the frame rounds the results.
  bool opmath = false;
  // The value of a result may be written over the (unread afterwards) operand with the same
  // storage.
  bool random = false;
};

// Which form a Scalar argument takes: an operand of the program, or a constant in its key.
enum class ScalarForm : uint8_t { kConstant, kOperand };

struct Rule {
  std::string name;  // "add.Tensor"
  RuleOptions options;
  std::vector<ScalarForm> scalar_forms;  // by argument
  std::function<Results(Lowering&, const Arguments&)> lower;
};

namespace detail {

template <typename T>
struct Unpack;

[[noreturn]] void wrong_argument(const Lowering& b, size_t index, const char* expected);

template <>
struct Unpack<Value> {
  static Value from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<Value>(&a)) return *v;
    wrong_argument(b, i, "Tensor");
  }
};
template <>
struct Unpack<Values> {
  static Values from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<Values>(&a)) return *v;
    if (const auto* v = std::get_if<IntList>(&a); v != nullptr && v->empty()) return {};
    if (const auto* v = std::get_if<std::vector<std::optional<Value>>>(&a)) {
      Values out;
      for (const auto& x : *v) out.push_back(x.value());
      return out;
    }
    wrong_argument(b, i, "Tensor[]");
  }
};
template <>
struct Unpack<std::vector<std::optional<Value>>> {
  static std::vector<std::optional<Value>> from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<std::vector<std::optional<Value>>>(&a)) return *v;
    if (const auto* v = std::get_if<Values>(&a)) return {v->begin(), v->end()};
    if (const auto* v = std::get_if<IntList>(&a); v != nullptr && v->empty()) return {};
    wrong_argument(b, i, "Tensor?[]");
  }
};
template <>
struct Unpack<Operand> {
  static Operand from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<Operand>(&a)) return *v;
    if (const auto* v = std::get_if<Scalar>(&a)) return Operand(*v);
    wrong_argument(b, i, "Scalar");
  }
};
template <>
struct Unpack<std::vector<Operand>> {
  static std::vector<Operand> from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<std::vector<Operand>>(&a)) return *v;
    wrong_argument(b, i, "Scalar[]");
  }
};
template <>
struct Unpack<Scalar> {
  static Scalar from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<Scalar>(&a)) return *v;
    if (const auto* v = std::get_if<Operand>(&a); v != nullptr && v->constant())
      return *v->constant();
    wrong_argument(b, i, "Scalar");
  }
};
template <>
struct Unpack<int64_t> {
  static int64_t from(const Lowering& b, const Argument& a, size_t i) {
    return Unpack<Scalar>::from(b, a, i).to_int();
  }
};
template <>
struct Unpack<double> {
  static double from(const Lowering& b, const Argument& a, size_t i) {
    return Unpack<Scalar>::from(b, a, i).to_double();
  }
};
template <>
struct Unpack<bool> {
  static bool from(const Lowering& b, const Argument& a, size_t i) {
    return Unpack<Scalar>::from(b, a, i).to_int() != 0;
  }
};
template <>
struct Unpack<IntList> {
  static IntList from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<IntList>(&a)) return *v;
    if (const auto* v = std::get_if<Scalar>(&a)) return {v->to_int()};
    wrong_argument(b, i, "int[]");
  }
};
template <>
struct Unpack<std::vector<double>> {
  static std::vector<double> from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<std::vector<double>>(&a)) return *v;
    if (const auto* v = std::get_if<IntList>(&a)) return {v->begin(), v->end()};
    wrong_argument(b, i, "float[]");
  }
};
template <>
struct Unpack<std::string> {
  static std::string from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<std::string>(&a)) return *v;
    wrong_argument(b, i, "str");
  }
};
template <>
struct Unpack<DType> {
  static DType from(const Lowering& b, const Argument& a, size_t i) {
    if (const auto* v = std::get_if<DType>(&a)) return *v;
    wrong_argument(b, i, "dtype");
  }
};
template <>
struct Unpack<Ignored> {
  static Ignored from(const Lowering&, const Argument&, size_t) { return {}; }
};
template <typename T>
struct Unpack<std::optional<T>> {
  static std::optional<T> from(const Lowering& b, const Argument& a, size_t i) {
    if (std::holds_alternative<std::monostate>(a)) return std::nullopt;
    return Unpack<T>::from(b, a, i);
  }
};

template <typename T>
constexpr ScalarForm scalar_form() {
  return std::is_same_v<T, Operand> || std::is_same_v<T, std::optional<Operand>> ||
                 std::is_same_v<T, std::vector<Operand>>
             ? ScalarForm::kOperand
             : ScalarForm::kConstant;
}

inline Results pack(Value v) { return {v}; }
inline Results pack(const Values& v) { return {v.begin(), v.end()}; }
inline Results pack(Results v) { return v; }
template <typename... T>
Results pack(const std::tuple<T...>& t) {
  return std::apply([](const auto&... v) { return Results{std::optional<Value>(v)...}; }, t);
}
template <typename A, typename B>
Results pack(const std::pair<A, B>& t) {
  return {std::optional<Value>(t.first), std::optional<Value>(t.second)};
}

template <typename R, typename... P, size_t... I>
Rule make_rule(std::string name, R (*f)(Lowering&, P...), RuleOptions options,
               std::index_sequence<I...>) {
  return Rule{std::move(name),
              options,
              {scalar_form<std::decay_t<P>>()...},
              [f](Lowering& b, const Arguments& a) -> Results {
                if (a.size() < sizeof...(P)) wrong_argument(b, a.size(), "more arguments");
                return pack(f(b, Unpack<std::decay_t<P>>::from(b, a[I], I)...));
              }};
}

}  // namespace detail

// ATen overload name -> rule. A rule is registered under its functional schema; in-place, `out=`
// and foreach forms come from it by the schema's alias annotations.
class OperatorTable {
 public:
  // `f` takes (Lowering&, arguments in schema order...): Value for Tensor, std::optional<Value> for
  // Tensor?, Values for Tensor[], std::vector<std::optional<Value>> for Tensor?[], Operand for a
  // number that takes part in arithmetic, Scalar/double/int64_t/bool for one that is structure,
  // IntList for int[], std::optional<...> for optional arguments, Ignored where it doesn't matter.
  // Trailing arguments may be left out. Returns Value, Values, Results, std::pair or std::tuple.
  template <typename R, typename... P>
  void add(std::string name, R (*f)(Lowering&, P...), RuleOptions options = {}) {
    insert(detail::make_rule(std::move(name), f, options, std::index_sequence_for<P...>{}));
  }
  // The same for a captureless lambda: table.add("sin", [](Lowering& b, Value x) { ... }, {...}).
  template <typename F>
    requires(std::is_class_v<F>)
  void add(std::string name, F f, RuleOptions options = {}) {
    add(std::move(name), +f, options);
  }
  // A rule made from another one (foreach from pointwise).
  void add(Rule rule) { insert(std::move(rule)); }

  const Rule* find(std::string_view name) const;
  const std::map<std::string, Rule, std::less<>>& rules() const { return rules_; }

 private:
  void insert(Rule rule);
  std::map<std::string, Rule, std::less<>> rules_;
};

// All rules of this build.
const OperatorTable& operator_table();

}  // namespace torch_tpu::lowering
