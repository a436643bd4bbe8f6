#include "compiler/plan/block_pieces.h"

#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernel/fold.h"

namespace fusec {

namespace {

bool IsWrittenWhereMade(ArrayRef<BlockStage> stages, const Value* concat, size_t place) {
  return std::any_of(stages.begin(), stages.end(), [&](const BlockStage& stage) {
    return std::any_of(stage.parts.begin(), stage.parts.end(), [&](const BlockStage::Part& part) {
      return part.concat == concat && part.place == place;
    });
  });
}

// Whether a run is computed only from operands of the region.
bool StandsAlone(const PartRun& run, ArrayRef<BlockStage> stages) {
  std::vector<const Value*> work = {run.output};
  ValueSet seen;
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    if (!value || !value->producer || !seen.insert(value).second) continue;
    const bool is_stage = std::any_of(stages.begin(), stages.end(), [&](const BlockStage& stage) {
      return stage.value->name == value->name;
    });
    if (is_stage || IsReducer(*value->producer)) return false;
    for (const Value* operand : value->producer->operands) work.push_back(operand);
  }
  return true;
}

// The pieces of a stage, without the parts that other stages write directly.
std::vector<BlockPiece> PiecesOf(const Node& region, const BlockStage& stage,
                                 ArrayRef<BlockStage> stages) {
  const Node& producer = *stage.value->producer;
  if (producer.kind != OpKind::kConcat) return {{&stage, stage.value, 0, 0, nullptr}};
  const int64_t axis = producer.Int("axis");
  const std::vector<const Value*> parts(producer.operands.begin(), producer.operands.end());
  std::vector<BlockPiece> pieces;
  Expr offset = 0;
  for (size_t k = 0; k < parts.size();) {
    int taken = 1;
    if (!IsWrittenWhereMade(stages, stage.value, k)) {
      BlockPiece piece{&stage, parts[k], axis, offset, nullptr};
      auto run = FindPartRun(region, ArrayRef(parts).drop_front(k));
      if (run && StandsAlone(*run, stages)) {
        taken = run->count;
        piece.run = std::make_shared<PartRun>(std::move(*run));
      }
      pieces.push_back(std::move(piece));
    }
    for (; taken > 0; --taken, ++k) offset = offset + parts[k]->type.shape[axis];
  }
  return pieces;
}

}  // namespace

void BlockSchedule::VisitMadeFrom(const BlockPiece& piece,
                                  function_ref<void(const Value*)> visit) const {
  std::vector<const Value*> work = {piece.value};
  ValueSet seen;
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    if (!value || !seen.insert(value).second) continue;
    if (value != piece.stage->value) {
      visit(value);
      if (phases.count(value) > 0) continue;
    }
    if (!value->producer) continue;
    for (const Value* operand : value->producer->operands) work.push_back(operand);
  }
}

std::string BlockSchedule::Words(const BlockPiece& first) const {
  int here = 0, all = 0;
  for (const BlockPiece& piece : pieces) {
    if (piece.stage != first.stage) continue;
    ++all;
    here += piece.phase == first.phase;
  }
  if (here < all) {
    const std::string part = "its part " + ModelName(first.value->name);
    return here == 1 ? part : part + " and " + std::to_string(here - 1) + " more";
  }
  std::string words;
  for (const Node* reducer : first.stage->inlined)
    words += (words.empty() ? "" : ", ") + std::string(GetOpDef(reducer->kind).text);
  const Node* last = first.stage->value->producer;
  if (first.stage->inlined.empty() || first.stage->inlined.back() != last)
    words += (words.empty() ? "" : " and what follows it, up to ") +
             std::string(GetOpDef(last->kind).text);
  return words;
}

BlockSchedule ScheduleStages(const Node& region, ArrayRef<BlockStage> stages) {
  BlockSchedule schedule;
  DenseMap<const Value*, int>& phases = schedule.phases;
  for (const BlockStage& stage : stages) {
    int& last = phases[stage.value];
    for (BlockPiece& piece : PiecesOf(region, stage, stages)) {
      // A run depends on no stage; other pieces must wait for the stages that they read.
      if (!piece.run) {
        schedule.VisitMadeFrom(piece, [&](const Value* value) {
          const auto made = phases.find(value);
          if (made != phases.end()) piece.phase = std::max(piece.phase, made->second + 1);
        });
      }
      last = std::max(last, piece.phase);
      schedule.pieces.push_back(std::move(piece));
    }
    const int phase = last;  // a copy: adding to `phases` moves `last`
    for (const BlockStage::Part& part : stage.parts)
      phases[part.concat] = std::max(phases.lookup(part.concat), phase);
  }
  // In a phase, runs come first, because their look-ups wait for memory twice.
  std::stable_sort(schedule.pieces.begin(), schedule.pieces.end(),
                   [](const BlockPiece& a, const BlockPiece& b) {
                     if (a.phase != b.phase) return a.phase < b.phase;
                     return a.run != nullptr && b.run == nullptr;
                   });
  return schedule;
}

bool UsesWarps(const BlockStage& stage) {
  if (stage.inlined.size() != 1 || stage.inlined[0]->kind == OpKind::kMatMul ||
      stage.value->producer->kind == OpKind::kConcat)
    return false;
  const auto length = Product(ReducedDims(*stage.inlined[0])).AsConstant();
  return length && *length >= kWarpSize;
}

const BlockStage& StageOf(ArrayRef<BlockStage> stages, const Value* value) {
  return *std::find_if(stages.begin(), stages.end(),
                       [&](const BlockStage& stage) { return stage.value == value; });
}

Expr StartOf(const BlockStage::Part& part) {
  const Node& concat = *part.concat->producer;
  Expr start = 0;
  for (size_t k = 0; k < part.place; ++k)
    start = start + concat.operand(static_cast<int>(k))->type.shape[concat.Int("axis")];
  return start;
}

}  // namespace fusec
