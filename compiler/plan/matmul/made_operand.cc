// Prologue fusion: the left operand of a product that the kernel computes itself.
#include <algorithm>
#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/read_codes.h"
#include "compiler/region/block_stages.h"

namespace fusec {

namespace {

bool IsConcatOfColumns(const Value* value) {
  return value->producer && value->producer->kind == OpKind::kConcat &&
         value->producer->Int("axis") == value->type.rank() - 1;
}

// The value that the computed operand is a view of.
const Value* BaseOf(const Value* made) {
  while (made->producer && GetOpDef(made->producer->kind).op_class == OpClass::kView)
    made = made->producer->operand(0);
  return made;
}

// The greatest common divisor of the columns of a concatenation's parts; an unknown number counts
// as 1.
int64_t GcdOfColumns(const Node& concat) {
  int64_t gcd = 0;
  for (const Value* part : concat.operands)
    gcd = std::gcd(gcd, part->type.shape.back().AsConstant().value_or(1));
  return gcd;
}

}  // namespace

CExpr ProductPlanner::LeftFrom(const CExpr& first_row) {
  if (!matmul_.made) return first_row.empty() ? a_ : a_ + first_row * depth_;
  const int64_t lanes = PackLanes();
  const CExpr lanes_name =
      builder_.expressions().Constant("pack_lanes", lanes, "consecutive elements of a row");
  a_ = builder_.Unique(ModelName(matmul_.made->name));
  builder_.Comment(
      "The left operand: " + OpsOf(matmul_.made) + ". Returns pack number `pack`, " +
      lanes_name.ToString() + " consecutive elements of a row" +
      (first_row.empty() ? "." : "; rows count from " + first_row.ToString() + " on."));
  builder_.Open();
  builder_.DefineVariable("left_row", 0, matmul_.m - 1);
  builder_.DefineVariable("pack", 0, depth() / lanes - 1);
  std::string row = "left_row";
  if (!first_row.empty()) {
    row = "made_row";
    Let(row, first_row + "left_row", 0, matmul_.m - 1);
  }
  if (IsConcatOfColumns(matmul_.made) && GcdOfColumns(*matmul_.made->producer) % lanes == 0)
    ReturnPackOfParts(Variable(row), lanes, lanes_name);
  else
    ReturnPack(Variable(row), FirstOfPack(lanes, lanes_name), lanes, lanes_name);
  const std::string& type = builder_.index_type();
  builder_.Append({.kind = Statement::Kind::kLambda,
                   .text = type + " left_row, " + type + " pack",
                   .place = a_,
                   .body = builder_.Close()});
  return a_;
}

void ProductPlanner::ReturnPackOfParts(const Expr& row, int64_t lanes, const CExpr& lanes_name) {
  IndexWriter& names = builder_.expressions();
  names.NameFactor("pack", lanes, lanes_name);
  const Expr pack = Variable("pack");
  int64_t begin = 0;
  for (const Value* part : matmul_.made->producer->operands) {
    const int64_t end = begin + *part->type.shape.back().AsConstant();
    if (begin == end) continue;
    SetVariable(builder_.ranges(), "pack", begin / lanes, end / lanes - 1);
    if (end == depth()) {
      ReturnPack(row, pack * lanes, lanes, lanes_name);
      return;
    }
    const std::string name = ModelName(part->name);
    const CExpr packs = names.Constant(name + "_end_pack", end / lanes,
                                       "the first pack after \"" + part->name + "\"");
    builder_.Open(/*is_branch=*/true);
    ReturnPack(row, pack * lanes, lanes, lanes_name);
    builder_.CloseIf("pack" < packs);
    begin = end;
  }
}

void ProductPlanner::ReturnPack(const Expr& row, const Expr& first, int64_t lanes,
                                const CExpr& lanes_name) {
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", lanes_name});
  builder_.BeforeLanes(Statement::Declare(VectorType(MemoryTypeName(dtype()), lanes_name), "made"));
  const Scalar made =
      lowering_.Evaluate(matmul_.made, IndexOf(matmul_.made, row, first + Variable("lane")));
  builder_.Assign("made.at[lane]", ToMemory(made.value, dtype()));
  builder_.CloseLanes();
  builder_.Append(Statement::Return("made"));
}

std::string ProductPlanner::OpenRight(const CExpr& column, const CExpr& first_column, int64_t lanes,
                                      const CExpr& lanes_name, const std::string& made) {
  const std::string& type = builder_.index_type();
  std::string parameters = type + " pack, " + made;
  if (right_name_.empty()) right_name_ = builder_.Unique(ModelName(matmul_.made_right->name));
  builder_.Open();
  builder_.DefineVariable("pack", 0, depth() / lanes - 1);
  builder_.expressions().NameFactor("pack", lanes, lanes_name);
  if (first_column.empty()) return parameters;
  const CExpr place = first_column + "column_in_group";
  const bool fits = columns() % schedule::Rows::kTileColumns == 0;
  Let(column.word(), fits ? place : MinOf(columns_ - 1, place), 0, matmul_.n - 1);
  return type + " column_in_group, " + parameters;
}

CExpr ProductPlanner::CloseRight(const std::string& parameters) {
  std::vector<Statement> body = builder_.Close();
  builder_.Comment("The weights of a column: " + OpsOf(matmul_.made_right) +
                   ". Computes consecutive weights, pack number `pack`.");
  builder_.Append({.kind = Statement::Kind::kLambda,
                   .text = parameters,
                   .place = right_name_,
                   .body = std::move(body)});
  return right_name_;
}

CExpr ProductPlanner::RightFrom(const CExpr& column, const CExpr& first_column, int64_t lanes,
                                const CExpr& lanes_name) {
  const std::string made = VectorType("float", lanes_name).ToString() + "& made";
  const std::string parameters = OpenRight(column, first_column, lanes, lanes_name, made);
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", lanes_name});
  const Exprs index = {Variable(column.word()), Variable("pack") * lanes + Variable("lane")};
  ReadCodes(lowering_, matmul_.made_right, index);
  builder_.Assign("made.at[lane]", lowering_.Evaluate(matmul_.made_right, index).value);
  builder_.CloseLanes();
  return CloseRight(parameters);
}

CExpr ProductPlanner::RightInWords(const CExpr& first_column, int64_t lanes,
                                   const CExpr& lanes_name) {
  const std::string made = Template("PairsOfWeights", {lanes_name}).ToString() + "& words";
  const std::string parameters = OpenRight("column", first_column, lanes, lanes_name, made);
  const auto pack =
      ReadDequantizedPack(lowering_, matmul_.made_right,
                          {Variable("column"), Variable("pack") * lanes}, lanes, lanes_name);
  if (!pack) {
    builder_.Close();
    return {};
  }
  builder_.Use("dequantize_int4.cuh");
  builder_.AppendCall(Call(Template("DequantizeInt4", {lanes_name}),
                           {pack->packed, pack->zero, pack->scale, "words"}));
  return CloseRight(parameters);
}

int64_t ProductPlanner::PackLanes() const {
  const int64_t most = Aligned(16 / DtypeBytes(dtype()));
  int64_t columns = 0;
  if (IsConcatOfColumns(matmul_.made))
    columns = GcdOfColumns(*matmul_.made->producer);
  else
    columns = BaseOf(matmul_.made)->type.shape.back().AsConstant().value_or(0);
  if (columns <= 1 || depth() % columns != 0) return most;
  const int64_t within = std::gcd(columns, most);
  return within > 1 ? within : most;
}

Expr ProductPlanner::FirstOfPack(int64_t lanes, const CExpr& lanes_name) {
  IndexWriter& names = builder_.expressions();
  const Value* base = BaseOf(matmul_.made);
  const int64_t columns = base->type.shape.back().AsConstant().value_or(0);
  if (columns <= lanes || columns % lanes != 0 || depth() % columns != 0) {
    names.NameFactor("pack", lanes, lanes_name);
    return Variable("pack") * lanes;
  }
  // The operand is a view of shorter rows.
  const std::string name = ModelName(base->name), of_base = "of \"" + base->name + "\"";
  const int64_t rows = depth() / columns, packs = columns / lanes;
  const CExpr packs_name = names.Constant(name + "_packs", packs, "packs per row " + of_base);
  Let("base_row", "pack" / packs_name, 0, rows - 1);
  Let("base_pack", "pack" % packs_name, 0, packs - 1);
  names.NameFactor("base_pack", lanes, lanes_name);
  return Variable("base_row") * columns + Variable("base_pack") * lanes;
}

}  // namespace fusec
