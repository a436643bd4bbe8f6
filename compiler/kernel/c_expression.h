#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// Writes index expressions as C, outer axes first. Integers above 2 become named constants of the
// kernel, so that a reader learns what they are. A size or stride has one name per kernel, given by
// whoever names it first; offsets and factors of certain variables are named apart from these.
class CExpressionWriter {
 public:
  // `ranges` tell where C's division, which rounds toward zero, is the index arithmetic's, which
  // rounds down. They must outlive the writer.
  explicit CExpressionWriter(const Ranges& ranges) : ranges_(ranges) {}

  // Gives `value` the name `k<Hint>` unless it has one already; 0, 1 and 2 stay literals.
  void NameConstant(int64_t value, const std::string& hint, const std::string& comment);
  // As above, for what is added to a place: it is called so where it is a term of its own.
  void NameOffset(int64_t value, const std::string& hint, const std::string& comment);
  // `value` is written as `name`, which is no constant.
  void NameSize(int64_t value, const std::string& name) { names_[value] = name; }
  // What a number is called that nobody named before it is written.
  void SuggestName(int64_t value, const std::string& hint, const std::string& comment) {
    suggestions_.emplace(value, std::pair{hint, comment});
  }
  // `variable * value` is written as `variable * constant`, whatever else has that value.
  void NameFactor(const std::string& variable, int64_t value, const std::string& constant) {
    factors_[{variable, value}] = constant;
  }
  // A constant of another type, such as a float; its name.
  std::string TypedConstant(const std::string& type, const std::string& hint,
                            const std::string& value, const std::string& comment);
  // A constant that no size or stride of the same value shares: block size, chunk. Returns its
  // name.
  const std::string& OwnConstant(const std::string& hint, int64_t value,
                                 const std::string& comment);
  std::string Write(const Expr& expr);
  std::string WriteFactor(const Expr& expr);  // in parentheses where a product needs them
  std::string WriteConstant(int64_t value);
  // Symbols are `long long` from now on, which min and max want both of their arguments to be.
  void CountInLongLong() { wide_ = true; }
  bool wrote_division() const { return wrote_division_; }
  const std::vector<NamedConstant>& constants() const { return constants_; }

 private:
  std::string NewName(const std::string& hint);
  std::string WriteTerm(const Expr::Term& term, int64_t magnitude);
  std::string WriteAtom(const Atom& atom);
  std::string WriteDivision(const Atom& atom);
  std::string WriteExtremum(const char* function, const Atom& atom);

  const Ranges& ranges_;
  bool wide_ = false;
  bool wrote_division_ = false;
  std::map<int64_t, std::string> names_;
  std::map<int64_t, std::string> offsets_;
  std::map<int64_t, std::pair<std::string, std::string>> suggestions_;  // hint and comment
  std::map<std::pair<std::string, int64_t>, std::string> factors_;
  std::map<std::pair<std::string, std::string>, std::string> own_;  // by hint and value
  std::map<std::string, int> taken_;
  std::vector<NamedConstant> constants_;
};

// "hidden_state.3" -> "HiddenState3"
std::string PascalCase(const std::string& name);

}  // namespace fusec
