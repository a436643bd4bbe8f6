#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// A number with its meaning: the constant `k<Hint>`, and what a comment says of it.
struct SizeName {
  int64_t value = 0;
  std::string hint, comment;
};

// What an index expression is about, after which its numbers are called. Equal numbers of two
// subjects have two names (size_names.h makes the subjects).
struct SizeNames {
  // Whose numbers they are, "table0" or "rows": a number that `sizes` lack is called after that.
  std::string subject;
  // What a count counts, in a comment: "of the result".
  std::string phrase;
  // Whether the expression is a position in `subject`, where a constant term is an offset.
  bool is_place = false;
  std::vector<SizeName> sizes;    // extents and strides: of two that fit, the first names a number
  std::vector<SizeName> offsets;  // where something begins
  // What a position is divided by, beside sizes: those of the values that it was a place in before.
  std::vector<SizeName> divisors;
};

// Writes index expressions as C, outer axes first. Integers above 1 become named constants of the
// kernel, so that a reader learns what they are. A constant has one meaning.
class IndexWriter {
 public:
  // `ranges` tell where C's division, which rounds toward zero, is the index arithmetic's, which
  // rounds down. They must outlive the writer.
  explicit IndexWriter(const Ranges& ranges) : ranges_(ranges) {}

  // `value` is a size of the kernel's own where a tensor's last axis has it: it is written as
  // `name`, which is no constant.
  void NameColumns(int64_t value, const CExpr& name) { columns_[value] = name; }
  // `variable * value` is written as `variable * constant`, and multiples of `value` alike.
  void NameFactor(const std::string& variable, int64_t value, const CExpr& constant) {
    factors_[variable] = {value, constant};
  }
  // From now on `variable` counts something else.
  void ForgetFactor(const std::string& variable) { factors_.erase(variable); }
  // A constant of another type, such as a float; its name.
  CExpr TypedConstant(const std::string& type, const std::string& hint, const CExpr& value,
                      const std::string& comment);
  // The constant of this meaning: block size, chunk. Returns its name.
  CExpr Constant(const std::string& hint, int64_t value, const std::string& comment);
  CExpr Constant(const SizeName& size) { return Constant(size.hint, size.value, size.comment); }
  CExpr Write(const Expr& expr, const SizeNames& names);
  // Symbols are `long long` from now on, which min and max want both of their arguments to be.
  void CountInLongLong() { wide_ = true; }
  bool wrote_division() const { return wrote_division_; }
  const std::vector<NamedConstant>& constants() const { return constants_; }

 private:
  struct Factor {
    int64_t value;
    CExpr constant;
  };
  std::string NewName(const std::string& hint);
  // What stands for `size`, which is above 1.
  CExpr Name(const SizeName& size);
  // A number that is a size, one that divides, or one that is added to a place.
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

// "hidden_state.3" -> "HiddenState3"; of a word of the model, one as well.
std::string PascalCase(const std::string& name);

}  // namespace fusec
