#include "compiler/plan/row_walk.h"

#include <algorithm>

#include "compiler/kernel/statements.h"
#include "compiler/plan/plan_region.h"

namespace fusec {

namespace {

bool Mentions(const std::vector<Statement>& statements, const std::string& name) {
  bool mentions = false;
  ForEachStatement(statements, [&](const Statement& statement) {
    ForEachExpr(statement, [&](const CExpr& expr) { mentions |= expr.Mentions(name); });
  });
  return mentions;
}

}  // namespace

RowWalk::RowWalk(KernelBuilder& builder, Shape reduced, Team team, int64_t widest_bytes)
    : builder_(builder), reduced_(std::move(reduced)), team_(team) {
  const auto length = Product(reduced_).AsConstant();
  if (team_ == Team::kThread || !length) return;
  const int64_t threads = team_ == Team::kWarp ? kWarpSize : builder_.plan().block_size;
  if (*length > threads * kMostSlots) return;
  // Vectors are shortened until each thread of the team has at least one.
  constexpr int64_t kVectorBytes = 16, kLongestVector = 8;
  if (widest_bytes > 0) vector_length_ = std::min(kLongestVector, kVectorBytes / widest_bytes);
  while (vector_length_ > 1 &&
         (*length % vector_length_ != 0 || *length / vector_length_ < threads)) {
    vector_length_ /= 2;
  }
  const int64_t vectors = *length / vector_length_;
  steps_ = CeilDiv(vectors, threads);
  has_tail_ = vectors % threads != 0;
}

CExpr RowWalk::TeamSize() {
  return team_ == Team::kBlock
             ? BlockSizeName(builder_)
             : builder_.expressions().Constant("warp_size", kWarpSize, "threads of a warp");
}

CExpr RowWalk::SlotsName() {
  return builder_.expressions().Constant("elements_per_thread", slots(),
                                         "elements of a row in registers");
}

CExpr RowWalk::VectorLength() const {
  return builder_.expressions().Constant("vector_length", vector_length_,
                                         "elements that a thread accesses at once");
}

CExpr RowWalk::Slot() const {
  if (vector_length_ == 1) return "step";
  builder_.expressions().NameFactor("step", vector_length_, VectorLength());
  return builder_.Write(Variable("step") * vector_length_ + Variable("element"), {});
}

SizeNames RowWalk::Length() { return Only({0, "row_length", "elements that are reduced"}); }

Exprs RowWalk::Open() {
  if (team_ == Team::kThread) return OpenNest();
  return steps_ > 0 ? OpenSteps() : OpenStride();
}

// Opens one loop per axis.
Exprs RowWalk::OpenNest() {
  Exprs k;
  const SizeNames counts = reduced_.size() == 1 ? Length() : CoordinatesOf("k", reduced_);
  for (size_t i = 0; i < reduced_.size(); ++i) {
    if (reduced_[i].IsConstant(1)) {
      k.push_back(Expr(0));  // a variable would hide that indices are equal
      continue;
    }
    const std::string variable = i + 1 == reduced_.size() ? "k" : "k_" + std::to_string(i);
    headers_.push_back(LoopHeader(builder_, variable, 0, builder_.Write(reduced_[i], counts)));
    builder_.Open();
    k.push_back(builder_.DefineVariable(variable, 0, reduced_[i] - 1));
  }
  return k;
}

Exprs RowWalk::OpenStride() {
  const Expr length = Product(reduced_);
  headers_.push_back(
      LoopHeader(builder_, "k", Member(), builder_.Write(length, Length()), TeamSize()));
  builder_.Open();
  builder_.DefineVariable("k", 0, length - 1);
  return Coordinates(builder_, Variable("k"), reduced_, "k");
}

Exprs RowWalk::OpenSteps() {
  const Expr count = *Product(reduced_).AsConstant() / vector_length_;
  const bool by_vectors = vector_length_ > 1;
  const std::string variable = by_vectors ? "vector" : "k";
  const CExpr steps =
      builder_.expressions().Constant("steps", steps_, "steps of a thread through its row");
  headers_.push_back(IntLoopHeader("step", 0, "step" < steps));
  builder_.Open();
  builder_.DefineVariable("step", 0, Expr(steps_) - 1);
  place_ = Statement::Let(builder_.plan().index_type, variable, Member() + "step" * TeamSize());
  builder_.DefineVariable(variable, 0, count - 1);
  if (by_vectors) {
    builder_.expressions().NameFactor(variable, vector_length_, VectorLength());
  }
  if (has_tail_) {
    const SizeNames names =
        by_vectors ? Only({0, "vectors_per_row", VectorLength().ToString() + " elements each"})
                   : Length();
    builder_.AppendIf(variable >= builder_.Write(count, names), "break");
  }
  if (!by_vectors) return Coordinates(builder_, Variable("k"), reduced_, "k");
  builder_.OpenLanes({"element", vector_length_, true, "#pragma unroll", VectorLength()});
  Exprs k(reduced_.size(), 0);  // vectors are along the last axis; other axes have size 1
  k.back() = Variable("vector") * vector_length_ + Variable("element");
  return k;
}

void RowWalk::Close(const std::string& pragma) {
  if (vector_length_ > 1) builder_.CloseLanes();
  std::string innermost = steps_ > 0 ? "#pragma unroll" : pragma;
  while (!headers_.empty()) {
    Statement loop = std::move(headers_.back());
    headers_.pop_back();
    loop.body = builder_.Close();
    // A pass that only reads registers does not need its position in the row.
    if (steps_ > 0 && Mentions(loop.body, place_.place.word()))
      loop.body.insert(loop.body.begin(), place_);
    if (!innermost.empty()) builder_.Append(Statement::Pragma(innermost));
    innermost.clear();
    builder_.Append(std::move(loop));
  }
}

}  // namespace fusec
