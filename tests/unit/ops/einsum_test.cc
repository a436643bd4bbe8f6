// Compares with the definition: the product of the operands' elements, summed over all assignments of the labels.
#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

std::vector<std::string> Terms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') terms.emplace_back();
    else terms.back() += c;
  }
  return terms;
}

// An equation without ellipsis; a dim of 1 broadcasts.
ReferenceTensor Naive(const std::string& equation, ArrayRef<ReferenceTensor> operands) {
  const std::vector<std::string> terms = Terms(equation.substr(0, equation.find("->")));
  const std::string result = equation.substr(equation.find("->") + 2);
  std::string labels;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      const size_t at = labels.find(terms[i][axis]);
      if (at == std::string::npos) {
        labels += terms[i][axis];
        sizes.push_back(operands[i].dims[axis]);
      } else if (sizes[at] == 1) {
        sizes[at] = operands[i].dims[axis];
      }
    }
  }
  const auto position = [&](const std::string& term, ArrayRef<int64_t> dims,
                            ArrayRef<int64_t> at) {
    int64_t place = 0;
    for (size_t axis = 0; axis < term.size(); ++axis) {
      place = place * dims[axis] + (dims[axis] == 1 ? 0 : at[labels.find(term[axis])]);
    }
    return place;
  };
  std::vector<int64_t> dims;
  for (const char label : result) dims.push_back(sizes[labels.find(label)]);
  ReferenceTensor sum(Dtype::kF32, dims);
  ForEachIndex(sizes, [&](ArrayRef<int64_t> at) {
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      product *= operands[i].reals[position(terms[i], operands[i].dims, at)];
    }
    sum.reals[position(result, dims, at)] += product;
  });
  return sum;
}

std::string DimsText(ArrayRef<int64_t> dims) {
  std::string text = "f32[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string Text(const std::string& equation, ArrayRef<ReferenceTensor> operands,
                 const std::string& result) {
  std::string inputs, names;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "%x" + std::to_string(i);
    inputs += (i ? ", " : "") + name + ": " + DimsText(operands[i].dims);
    names += (i ? ", " : "") + name;
  }
  return "graph @g(" + inputs + ") { %y = einsum(" + names + ") {equation = \"" + equation +
         "\"} : " + result + " return %y }";
}

void Check(const std::string& equation, const std::string& plain,
           ArrayRef<std::vector<int64_t>> dims) {
  SCOPED_TRACE(equation);
  std::vector<ReferenceTensor> operands;
  for (size_t i = 0; i < dims.size(); ++i)
    operands.push_back(Noise(dims[i], static_cast<uint32_t>(i + 1)));
  const ReferenceTensor expected = Naive(plain, operands);
  const std::string text = Text(equation, operands, DimsText(expected.dims));
  ExpectClose(RunText(text, operands)[0], expected);
}

void Check(const std::string& equation, ArrayRef<std::vector<int64_t>> dims) {
  Check(equation, equation, dims);
}

TEST(Einsum, OneOperand) {
  Check("ij->ji", {{2, 3}});
  Check("ij->i", {{2, 3}});
  Check("ii->i", {{3, 3}});
  Check("ii->", {{3, 3}});
  Check("iji->j", {{3, 2, 3}});
  Check("aibjai->jb", {{2, 3, 2, 2, 2, 3}});
  Check("ijk->kij", {{2, 0, 3}});
}

TEST(Einsum, TwoOperands) {
  Check("ij,jk->ik", {{2, 3}, {3, 4}});
  Check("ji,kj->ki", {{3, 2}, {4, 3}});
  Check("bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}});
  Check("bijc,ckb->kib", {{2, 3, 4, 2}, {2, 5, 2}});
  Check("i,j->ij", {{2}, {3}});
  Check("bi,bi->b", {{2, 3}, {2, 3}});
  Check("bi,i->b", {{2, 3}, {3}});
  Check("ij,kl->il", {{2, 3}, {4, 5}});
  Check("ij,jk->ik", {{2, 1}, {3, 4}});
  Check("bij,bjk->bik", {{1, 3, 4}, {2, 4, 5}});
  Check(",i->i", {{}, {3}});
}

TEST(Einsum, More) {
  Check("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}});
  Check("i,i,i->", {{3}, {3}, {3}});
  Check("ab,cb,cd,d->a", {{2, 3}, {4, 3}, {4, 5}, {5}});
}

TEST(Einsum, EllipsisAndImplicitResult) {
  Check("...ij,...jk->...ik", "abij,bjk->abik", {{2, 3, 2, 3}, {3, 3, 4}});
  Check("...ii->...i", "abii->abi", {{2, 3, 4, 4}});
  Check("ba", "ba->ab", {{2, 3}});
  Check("bj,ja", "bj,ja->ab", {{2, 3}, {3, 4}});
  Check("...,...", "ab,b->ab", {{2, 3}, {3}});
}

TEST(Einsum, Errors) {
  const auto error = [](const std::string& equation) {
    return ErrorOfText(Text(equation, {Noise({2, 3}, 1)}, "f32[2]"));
  };
  EXPECT_NE(error("ii->i").find("\"i\" is 2 and 3 in the equation"), std::string::npos);
  EXPECT_NE(error("ij,jk->ik").find("has 2 terms for 1 operands"), std::string::npos);
  EXPECT_NE(error("ijk->i").find("does not fit operand 0, which has rank 2"), std::string::npos);
  EXPECT_NE(error("ij->ik").find("\"k\" of the result is in no term"), std::string::npos);
  EXPECT_NE(error("ij->ii").find("\"i\" is twice in the result"), std::string::npos);
  EXPECT_NE(error("i1->i").find("has \"1\", expected letters and one ellipsis"), std::string::npos);
}

}  // namespace
}  // namespace fusec
