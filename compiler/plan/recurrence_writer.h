#pragma once

#include <string>
#include <vector>

#include "compiler/ir/c_text.h"
#include "compiler/ir/recurrence.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/adt.h"

namespace fusec {

// How many rows of the batch a block of a recurrence `node` computes: `wanted`, or fewer if not all
// fit in the shared memory of a GPU.
int64_t RecurrenceRows(const Node& node, TargetKind target, int64_t wanted);

// If weights are in registers, the vectors of four elements of a state are divided among four
// threads, so that a state is padded to a multiple of 16 elements
// (codegen_templates/device/register_weights.cuh).
inline constexpr int64_t kStateMultiple = 4 * 4;

// Writes the common parts of recurrence kernels: the names of sizes, positions in tensors and in
// the arrays that a block keeps, and the loops over the block's rows and a thread's units.
// plan_recurrence.cc writes the bodies of the loops.
class RecurrenceWriter {
 protected:
  RecurrenceWriter(const Node& region, const PlanOptions& options, KernelBuilder& builder);

  bool has(int operand) const { return node_.operand(operand) != nullptr; }
  // Whether the node has updates that are numbers.
  bool UpdatesPartly() const {
    return has(kUpdates) && node_.operand(kUpdates)->type.dtype != Dtype::kBool;
  }
  bool is_lstm() const { return sizes_.kind->cell == Cell::kLstm; }
  std::string Real() const { return CTypeName(dtype_); }
  CExpr Zero() const { return Literal(0.0, dtype_); }

  // --- names ---

  CExpr Own(const std::string& hint, int64_t value, const std::string& comment) {
    return builder_.expressions().Constant(hint, value, comment);
  }
  CExpr Units() { return Own("units", sizes_.units, "hidden units of the layer"); }
  CExpr Gates() { return Own("gates", sizes_.kind->gates, "gates of a unit"); }
  CExpr GateColumns() {
    return Own("gate_columns", sizes_.kind->gates * sizes_.units,
               "columns of all gates: gates x units");
  }
  // Elements between the states of two rows of a block.
  CExpr StatePitch() {
    if (pitch_ == sizes_.units) return Units();
    return Own("state_pitch", pitch_, "of a row's kept state: its units, padded with zeros");
  }
  CExpr Directions() { return Own("directions", sizes_.directions, "directions of the layer"); }
  CExpr Rows() { return Own("rows_per_block", rows_, "rows of the batch per block"); }
  CExpr Lanes() { return Own("lanes", lanes_, "units computed at once"); }
  CExpr Steps() { return builder_.Write(sizes_.steps, CountOf("steps", "steps of the sequences")); }
  CExpr Batch() { return builder_.Write(sizes_.batch, CountOf("batch_rows", "rows of the batch")); }
  // The constant with the number of a gate: kResetGate for "reset".
  CExpr Gate(const std::string& name);
  // Declares a local in the innermost scope; returns its name.
  CExpr Local(const std::string& wanted, const CExpr& value);

  // --- places ---

  // The row-major position of coordinates with these extents, the outermost first. A coordinate
  // that is empty counts as 0.
  struct Coordinate {
    CExpr at, extent;
  };
  static CExpr Position(ArrayRef<Coordinate> coordinates);
  // The local `direction`; empty if there is only one direction.
  CExpr Direction() const { return sizes_.directions > 1 ? "direction" : CExpr(); }
  // Positions in tensors: of `columns` at `step` of the row; of the row's state; of the unit's
  // parameters.
  CExpr AtStep(const CExpr& step, ArrayRef<Coordinate> columns);
  CExpr OfState() { return Position({{Direction(), 1}, {"row", Batch()}, {"unit", Units()}}); }
  CExpr OfUnit() { return Position({{Direction(), 1}, {"unit", Units()}}); }

  CExpr Load(int operand, const CExpr& position);
  // Lets `is_running` be whether the row's state changes at `step`, or `update_weight` by which
  // part of the way; only for a node that has updates.
  void LetUpdate(const CExpr& step);
  CExpr GateInput(const CExpr& step, const CExpr& gate);
  // The buffer of result number `result`; empty if the result is not used.
  CExpr Output(int result);
  void StoreState(const CExpr& step, const CExpr& state);

  // Positions in arrays that have an entry for each of the block's rows.
  CExpr RowInBlock() const { return rows_ > 1 ? "row_in_block" : CExpr(); }
  CExpr InBlock() { return Position({{RowInBlock(), Rows()}, {"unit", StatePitch()}}); }
  CExpr OfRow(const std::string& array) const {
    return CExpr(array)[rows_ > 1 ? "row_in_block" : "0"];
  }
  CExpr Sum(const CExpr& gate) const {
    const CExpr sum = OfRow(sums_)[gate];
    return is_cpu_ ? sum["lane"] : sum;
  }

  // --- loops ---

  // Chooses the launch shape, and writes which rows the block computes.
  void OpenBlock();
  // Whether there is a thread for each unit.
  bool IsOnce() const { return !is_cpu_ && builder_.plan().block_size >= sizes_.units; }
  // Writes a loop over the units of a thread, one at a time or several at once.
  void ForUnits(function_ref<void()> body);
  // Writes a loop over the rows of the block. Rows beyond the last row of the batch repeat that
  // row.
  void ForRows(function_ref<void()> body);
  // Writes a loop over the units that are computed at once.
  void ForLanes(function_ref<void()> body);
  void ForElements(function_ref<void()> body) {
    ForRows([&] { ForLanes(body); });
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node& node_;
  const RecurrenceSizes sizes_;
  const Dtype dtype_;
  const bool batch_first_;
  const bool is_cpu_;
  // Whether a thread keeps one column of the recurrent weights in registers and computes the sum of
  // one gate of a unit. Otherwise it reads the weights at each step and computes the sums of all
  // gates.
  const bool in_registers_;
  const int64_t pitch_;        // of a row's kept state
  int64_t rows_ = 1;           // per block
  int64_t lanes_ = 1;          // units that a thread computes at once
  std::string sums_ = "sums";  // the array of a thread's sums, by rows and gates
};

}  // namespace fusec
