#include "compiler/reference/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/reference/interpreter.h"

namespace fusec {

namespace {

constexpr double kSlack = 8;  // a program's sums round at every term, the reference only once

double RootMeanSquare(const ReferenceTensor& tensor) {
  double sum = 0;
  int64_t count = 0;
  for (const double value : tensor.reals) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

bool SameValue(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// How far the draws moved one element.
struct Motion {
  double distance = 0;
  bool jumps = false;  // to another integer, NaN or infinity
};

Motion MotionOf(int64_t i, const TensorData& expected, ArrayRef<TensorData> draws) {
  Motion motion;
  for (const TensorData& draw : draws) {
    if (!IsFloat(draw.dtype())) {
      motion.jumps |= draw.GetInt(i) != expected.GetInt(i);
      continue;
    }
    const double a = draw.GetDouble(i), b = expected.GetDouble(i);
    if (std::isfinite(a) && std::isfinite(b)) {
      motion.distance = std::max(motion.distance, std::abs(a - b));
    } else {
      motion.jumps |= !SameValue(a, b);
    }
  }
  return motion;
}

// The distance from 0 to the next number, which is all that is left of a value that underflows.
double LeastStep(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 0x1p-24;
    case Dtype::kBF16:
      return 0x1p-133;
    case Dtype::kF32:
      return 0x1p-149;
    default:
      return 0x1p-1074;
  }
}

enum class Word { kRight, kWrong, kUnjudged };

Word JudgeElement(int64_t i, const TensorData& found, const ReferenceTensor& expected,
                  const TensorData& stored, const Motion& motion, double unit, double tolerance) {
  if (!IsFloat(found.dtype())) {
    if (found.GetInt(i) == expected.ints[i]) return Word::kRight;
    return motion.jumps ? Word::kUnjudged : Word::kWrong;
  }
  const double a = found.GetDouble(i), b = expected.reals[i];
  if (!std::isfinite(a) || !std::isfinite(stored.GetDouble(i))) {
    if (SameValue(a, stored.GetDouble(i))) return Word::kRight;
    return motion.jumps ? Word::kUnjudged : Word::kWrong;
  }
  const double error = std::abs(a - b), scale = std::max(std::abs(b), unit);
  if (error <= tolerance * scale + kSlack * LeastStep(found.dtype())) return Word::kRight;
  if (motion.jumps) return Word::kUnjudged;
  if (error > tolerance * scale + kSlack * motion.distance) return Word::kWrong;
  return kSlack * motion.distance >= scale ? Word::kUnjudged : Word::kRight;
}

double Apart(const TensorData& a, int64_t i, const TensorData& b) {
  return IsFloat(a.dtype())
             ? std::abs(a.GetDouble(i) - b.GetDouble(i))
             : std::abs(static_cast<double>(a.GetInt(i)) - static_cast<double>(b.GetInt(i)));
}

// Whether the draws move as many elements as far as the `wrong` ones are off. Where values are
// rounded to codes, a rounding error moves few elements, each by a whole code, and other elements
// in each draw.
bool DrawsMoveAsMany(ArrayRef<int64_t> wrong, const TensorData& found, const TensorData& stored,
                     ArrayRef<TensorData> draws, double unit, double tolerance) {
  double farthest = 0;  // of any element in any draw
  int64_t most = 0;     // elements that a draw moves
  for (const TensorData& draw : draws) {
    int64_t moved = 0;
    for (int64_t i = 0; i < stored.element_count(); ++i) {
      const double distance = Apart(draw, i, stored);
      if (!std::isfinite(distance)) continue;
      const double scale = std::max(std::abs(stored.GetDouble(i)), unit);
      moved += distance > (IsFloat(draw.dtype()) ? tolerance * scale : 0);
      farthest = std::max(farthest, distance);
    }
    most = std::max(most, moved);
  }
  return static_cast<int64_t>(wrong.size()) <= most &&
         std::all_of(wrong.begin(), wrong.end(),
                     [&](int64_t i) { return Apart(found, i, stored) <= farthest; });
}

}  // namespace

void JudgeByConditioning(const TensorData& found, const ReferenceTensor& expected,
                         ArrayRef<ReferenceTensor> rounded, bool rounds_to_codes,
                         Comparison& comparison) {
  const TensorData stored = expected.ToData();
  std::vector<TensorData> draws;
  for (const ReferenceTensor& draw : rounded) {
    if (draw.dims != expected.dims) continue;  // a run-time size moved
    draws.push_back(draw.ToData());
    const Comparison moved = Compare("", draws.back(), expected, comparison.tolerance);
    comparison.moves = std::max(comparison.moves, moved.rel_l2);
  }
  const double unit = RootMeanSquare(expected);
  const double tolerance = comparison.tolerance.relative_l2;
  std::vector<int64_t> wrong;
  comparison.unjudged = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const Word word =
        JudgeElement(i, found, expected, stored, MotionOf(i, stored, draws), unit, tolerance);
    if (word == Word::kWrong) wrong.push_back(i);
    comparison.unjudged += word == Word::kUnjudged;
  }
  if (!wrong.empty() &&
      !(rounds_to_codes && DrawsMoveAsMany(wrong, found, stored, draws, unit, tolerance))) {
    return;
  }
  comparison.pass = true;
  comparison.note = "ill-conditioned: rounding moves the reference itself by " +
                    fmt::format("{:.1e}", comparison.moves);
  if (comparison.unjudged > 0) {
    comparison.note += fmt::format(", and {} of {} elements so far that they cannot be judged",
                                   comparison.unjudged, expected.element_count());
  }
}

Comparison OutputJudge::Judge(size_t output, const std::string& name, const TensorData& found,
                              const Tolerance& tolerance) {
  Comparison comparison = Compare(name, found, expected_[output], tolerance);
  if (comparison.pass || found.dtype() != expected_[output].dtype) return comparison;
  if (found.dims() != expected_[output].dims) {
    JudgeSize(output, comparison);
    return comparison;
  }
  constexpr uint64_t kFirstDraws = 4;
  while (draws_ < kFirstDraws) Draw();
  JudgeByConditioning(found, expected_[output], rounded_[output], rounds_to_codes_, comparison);
  while (!comparison.pass && draws_ < kDraws) {
    Draw();
    JudgeByConditioning(found, expected_[output], rounded_[output], rounds_to_codes_, comparison);
  }
  return comparison;
}

bool OutputJudge::RoundsToCodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->kind == OpKind::kRound || node->kind == OpKind::kToE4M3;
  });
}

// Judges an output whose run-time size differs from the reference, such as the number of distinct
// values.
void OutputJudge::JudgeSize(size_t output, Comparison& comparison) {
  const auto moves = [&](const ReferenceTensor& draw) {
    return draw.dims != expected_[output].dims;
  };
  while (draws_ < kDraws) Draw();
  if (std::none_of(rounded_[output].begin(), rounded_[output].end(), moves)) return;
  comparison.pass = true;
  comparison.unjudged = comparison.elements;
  comparison.note = "ill-conditioned: rounding moves the size of the reference itself";
}

// A draw that fails, for example because an index went out of range, is ignored.
void OutputJudge::Draw() {
  rounded_.resize(graph_.outputs.size());
  auto draw = InterpretRounded(graph_, inputs_, ++draws_);
  if (!draw) return;
  for (size_t i = 0; i < draw->size(); ++i) rounded_[i].push_back(std::move((*draw)[i]));
}

}  // namespace fusec
