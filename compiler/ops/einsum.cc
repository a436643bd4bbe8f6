// einsum {equation}: operands are contracted from left to right. Two operands with a common summed
// label become a matmul [batch, left, summed] x [batch, summed, right]; others are multiplied
// elementwise and summed.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/einsum_equation.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/operand_checks.h"

namespace fusec {
namespace {

// A tensor with a label for each axis.
struct Labeled {
  Value* value = nullptr;
  EinsumLabels labels;
};

bool Contains(const EinsumLabels& labels, EinsumLabel label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

EinsumLabels Joined(const EinsumLabels& a, const EinsumLabels& b, const EinsumLabels& c = {}) {
  EinsumLabels joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  joined.insert(joined.end(), c.begin(), c.end());
  return joined;
}

class EinsumWriter {
 public:
  EinsumWriter(Builder& builder, const EinsumEquation& equation)
      : f_(builder), equation_(equation) {}

  Value* Write(ArrayRef<Value*> operands) {
    Labeled product = Operand(operands, 0);
    for (size_t i = 1; i < operands.size(); ++i) {
      EinsumLabels needed = equation_.result;
      for (size_t j = i + 1; j < operands.size(); ++j)
        needed = Joined(needed, equation_.operands[j]);
      product = Contract(product, Operand(operands, i), needed);
    }
    product = SumAllBut(product, equation_.result);
    return f_.Expand(Ordered(product, equation_.result).value, equation_.ResultShape());
  }

 private:
  // Operand i without repeated labels: of "ii" only the diagonal is kept.
  Labeled Operand(ArrayRef<Value*> operands, size_t i) {
    Labeled x{operands[i], equation_.operands[i]};
    for (size_t a = 0; a < x.labels.size(); ++a) {
      for (size_t b = a + 1; b < x.labels.size();) {
        if (x.labels[a] == x.labels[b])
          x = Diagonal(x, a, b);
        else
          ++b;
      }
    }
    return x;
  }

  // Axes a and b, both of n elements, become one: every (n + 1)th of their n * n elements.
  Labeled Diagonal(const Labeled& x, size_t a, size_t b) {
    const Expr n = x.value->type.shape[a];
    std::vector<int64_t> perm;
    Shape shape;
    EinsumLabels labels;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (axis == a || axis == b) continue;
      perm.push_back(static_cast<int64_t>(axis));
      shape.push_back(x.value->type.shape[axis]);
      labels.push_back(x.labels[axis]);
    }
    perm.push_back(static_cast<int64_t>(a));
    perm.push_back(static_cast<int64_t>(b));
    shape.push_back(n * n);
    Value* flat = f_.Reshape(f_.Transpose(x.value, perm), shape);
    Value* diagonal = f_.Slice(flat, static_cast<int>(labels.size()), 0, n, *n.AsConstant() + 1);
    // The new axis, which is last, moves to where axis a was, so that the search for repeats
    // continues behind it.
    std::vector<int64_t> order;
    for (size_t axis = 0; axis < labels.size(); ++axis) order.push_back(static_cast<int64_t>(axis));
    order.insert(order.begin() + static_cast<int64_t>(a), static_cast<int64_t>(labels.size()));
    labels.insert(labels.begin() + static_cast<int64_t>(a), x.labels[a]);
    return {f_.Transpose(diagonal, order), labels};
  }

  Labeled Ordered(const Labeled& x, const EinsumLabels& order) {
    std::vector<int64_t> perm;
    for (const EinsumLabel label : order) {
      perm.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
    }
    return {f_.Transpose(x.value, perm), order};
  }

  Labeled SumAllBut(const Labeled& x, const EinsumLabels& kept) {
    std::vector<int64_t> axes;
    EinsumLabels labels;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (Contains(kept, x.labels[axis]))
        labels.push_back(x.labels[axis]);
      else
        axes.push_back(static_cast<int64_t>(axis));
    }
    return {f_.Reduce(OpKind::kReduceSum, x.value, axes, /*keepdims=*/false), labels};
  }

  Shape SizesOf(const EinsumLabels& labels) const {
    Shape shape;
    for (const EinsumLabel label : labels) shape.push_back(equation_.sizes.at(label));
    return shape;
  }

  // Expands the dims of 1 that broadcast, for the labels given.
  Labeled Widened(const Labeled& x, const EinsumLabels& labels) {
    Shape shape = x.value->type.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (Contains(labels, x.labels[axis])) shape[axis] = equation_.sizes.at(x.labels[axis]);
    }
    return {f_.Expand(x.value, shape), x.labels};
  }

  Labeled Contract(Labeled a, Labeled b, const EinsumLabels& needed) {
    a = SumAllBut(a, Joined(needed, b.labels));
    b = SumAllBut(b, Joined(needed, a.labels));
    EinsumLabels batch, summed, left, right;
    for (const EinsumLabel label : a.labels) {
      if (!Contains(b.labels, label))
        left.push_back(label);
      else if (Contains(needed, label))
        batch.push_back(label);
      else
        summed.push_back(label);
    }
    for (const EinsumLabel label : b.labels) {
      if (!Contains(a.labels, label)) right.push_back(label);
    }
    a = Widened(a, summed);
    b = Widened(b, summed);
    if (summed.empty() || (left.empty() && right.empty())) {
      const EinsumLabels all = Joined(Joined(batch, summed), left, right);
      const Labeled product{f_.Mul(Spread(a, all), Spread(b, all)), all};
      return SumAllBut(product, Joined(batch, left, right));
    }
    return MatMul(Widened(a, batch), Widened(b, batch), batch, summed, left, right);
  }

  // x with its axes in the order of `all`, and a dim of 1 for labels that it lacks.
  Value* Spread(const Labeled& x, const EinsumLabels& all) {
    EinsumLabels own;
    for (const EinsumLabel label : all) {
      if (Contains(x.labels, label)) own.push_back(label);
    }
    const Labeled ordered = Ordered(x, own);
    Shape shape;
    size_t next = 0;
    for (const EinsumLabel label : all) {
      shape.push_back(Contains(own, label) ? ordered.value->type.shape[next++] : Expr(1));
    }
    return f_.Reshape(ordered.value, shape);
  }

  Labeled MatMul(const Labeled& a, const Labeled& b, const EinsumLabels& batch,
                 const EinsumLabels& summed, const EinsumLabels& left, const EinsumLabels& right) {
    // An operand whose matrix is stored transposed is used as stored.
    const bool transpose_a = a.labels == Joined(batch, summed, left) && !left.empty();
    const bool transpose_b = b.labels == Joined(batch, right, summed) && !right.empty();
    Value* rows = Matrix(a, batch, transpose_a ? summed : left, transpose_a ? left : summed);
    Value* columns = Matrix(b, batch, transpose_b ? right : summed, transpose_b ? summed : right);
    Value* product = f_.MatMul(rows, columns, transpose_a, transpose_b);
    const EinsumLabels labels = Joined(batch, left, right);
    Shape shape(product->type.shape.begin(), product->type.shape.end() - 2);
    for (size_t i = batch.size(); i < labels.size(); ++i) {
      const Labeled& owner = i < batch.size() + left.size() ? a : b;
      const auto axis = std::find(owner.labels.begin(), owner.labels.end(), labels[i]);
      shape.push_back(owner.value->type.shape[axis - owner.labels.begin()]);
    }
    return {f_.Reshape(product, shape), labels};
  }

  // [batch..., product of rows, product of columns]
  Value* Matrix(const Labeled& x, const EinsumLabels& batch, const EinsumLabels& rows,
                const EinsumLabels& columns) {
    Value* ordered = Ordered(x, Joined(batch, rows, columns)).value;
    const auto dims = ordered->type.shape.begin();
    const auto middle = dims + static_cast<int64_t>(batch.size() + rows.size());
    Shape shape(dims, dims + static_cast<int64_t>(batch.size()));
    shape.push_back(Product(Shape(dims + static_cast<int64_t>(batch.size()), middle)));
    shape.push_back(Product(Shape(middle, ordered->type.shape.end())));
    return f_.Reshape(ordered, shape);
  }

  Formula f_;
  const EinsumEquation& equation_;
};

struct EinsumOp {
  static constexpr AttributeSpec kAttributes[] = {{"equation", "text"}};
  static Result<void> Import(ImportContext& context) {
    std::string equation = context.String("equation", "");
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    ValueList operands;
    for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
    return context.AddNode(OpKind::kEinsum, std::move(operands), {{"equation", equation}});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_ASSIGN(const std::vector<Shape> shapes, ShapesOfOneDtype(context));
    const std::string& text = std::get<std::string>(context.attributes.at("equation"));
    FUSEC_ASSIGN(const EinsumEquation equation, EinsumEquation::Parse(text, shapes));
    for (size_t i = 0; i < shapes.size(); ++i) {
      FUSEC_TRY(CheckRepeats(equation.operands[i], shapes[i], text));
    }
    return std::vector<TensorType>{{context.operand(0).dtype, equation.ResultShape()}};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    std::vector<Shape> shapes;
    for (const Value* operand : node.operands) shapes.push_back(operand->type.shape);
    FUSEC_ASSIGN(const EinsumEquation equation,
                 EinsumEquation::Parse(node.Get<std::string>("equation"), shapes));
    return ValueList{EinsumWriter(builder, equation).Write(node.operands)};
  }

 private:
  // A diagonal is a strided slice, whose stride must be a number.
  static Result<void> CheckRepeats(const EinsumLabels& labels, ShapeRef shape,
                                   const std::string& equation) {
    for (size_t a = 0; a < labels.size(); ++a) {
      for (size_t b = a + 1; b < labels.size(); ++b) {
        if (labels[a] != labels[b] || (shape[a] == shape[b] && shape[a].AsConstant())) continue;
        return ModelError(
            fmt::format("the equation \"{}\" takes a diagonal of {} by {}, expected "
                        "equal numbers",
                        equation, shape[a].ToString(), shape[b].ToString()));
      }
    }
    return {};
  }
};

}  // namespace

FUSEC_DEFINE_OP(Einsum)

}  // namespace fusec
