#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// A number with a meaning: the constant `k<Hint>` and its comment.
struct SizeName {
  int64_t value = 0;
  std::string hint, comment;
};

// The meaning of an index expression; the names of its numbers are derived from it. Equal numbers
// of two subjects have two names. size_names.h makes SizeNames.
struct SizeNames {
  // What the numbers belong to, such as "table0" or "rows". A number that is not in `sizes` is
  // named after it.
  std::string subject;
  // The rest of the comment on a count, such as "of the result" for rows.
  std::string phrase;
  // Whether the expression is a position in `subject`, so that a constant term is an offset.
  bool is_place = false;
  std::vector<SizeName> sizes;    // extents and strides; the first match names a number
  std::vector<SizeName> offsets;  // the positions at which something begins
  // Further divisors of a position besides `sizes`: the sizes of earlier views, whose positions it
  // was computed from.
  std::vector<SizeName> divisors;
};

// Writes index expressions as C, outer axes first. Integers above 1 become named constants of the
// kernel, so that a reader learns their meaning. Each constant has exactly one meaning.
class IndexWriter {
 public:
  // `ranges` tell whether the division of C, which rounds toward zero, gives the same result as
  // that of index arithmetic, which rounds down. They must outlive the writer.
  explicit IndexWriter(const Ranges& ranges) : ranges_(ranges) {}

  // From now on, if the last axis of a tensor has the extent `value`, the extent is written as
  // `name`, a parameter of the kernel, instead of as a constant.
  void NameColumns(int64_t value, const CExpr& name) { columns_[value] = name; }
  // From now on, `variable * value` is written as `variable * constant`; multiples of `value`
  // likewise.
  void NameFactor(const std::string& variable, int64_t value, const CExpr& constant) {
    factors_[variable] = {value, constant};
  }
  // Ends NameFactor for `variable`, which from now on counts something else.
  void ForgetFactor(const std::string& variable) { factors_.erase(variable); }
  // Adds a constant of another type than an integer one, such as float; returns its name.
  CExpr TypedConstant(const std::string& type, const std::string& hint, const CExpr& value,
                      const std::string& comment);
  // Adds the constant with this meaning, such as the block size, if it does not exist; returns its
  // name.
  CExpr Constant(const std::string& hint, int64_t value, const std::string& comment);
  CExpr Constant(const SizeName& size) { return Constant(size.hint, size.value, size.comment); }
  CExpr Write(const Expr& expr, const SizeNames& names);
  // From now on symbols have the type `long long`, so that the arguments of min and max are
  // converted to it.
  void CountInLongLong() { wide_ = true; }
  bool wrote_division() const { return wrote_division_; }
  const std::vector<NamedConstant>& constants() const { return constants_; }

 private:
  struct Factor {
    int64_t value;
    CExpr constant;
  };
  std::string NewName(const std::string& hint);
  // The name of `size`, which is above 1.
  CExpr Name(const SizeName& size);
  // Write a number that is a size, a divisor, or an offset.
  CExpr WriteSize(int64_t value, const SizeNames& names);
  CExpr WriteDivisor(int64_t value, const SizeNames& names);
  CExpr WriteOffset(int64_t value, const SizeNames& names);
  CExpr WriteCoefficient(const Expr::Term& term, const CExpr& atoms, int64_t magnitude,
                         const SizeNames& names);
  CExpr WriteTerm(const Expr::Term& term, int64_t magnitude, const SizeNames& names);
  CExpr WriteAtom(const Atom& atom, const SizeNames& names);
  CExpr WriteDivision(const Atom& atom, const SizeNames& names);
  CExpr WriteExtremum(const char* function, const Atom& atom, const SizeNames& names);

  const Ranges& ranges_;
  bool wide_ = false;
  bool wrote_division_ = false;
  std::map<int64_t, CExpr> columns_;
  std::map<std::string, Factor> factors_;                // by variable
  std::map<std::vector<std::string>, std::string> own_;  // by hint, value and comment
  std::map<std::string, int> taken_;
  std::vector<NamedConstant> constants_;
};

// "hidden_state.3" -> "HiddenState3". A marked word of the model (model_names.h) stays marked.
std::string PascalCase(const std::string& name);

}  // namespace fusec
