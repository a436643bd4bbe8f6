#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// The names of tensors and dims in kernels. Models may use any names: C++ keywords, names of device
// functions, or names of the planner's locals. So while a kernel is planned, each word that comes
// from the model contains kModelMark and cannot equal a word of the kernel itself. When the kernel
// is complete, NameModelWords removes the marks.

// A readable name for a value: "_top_top_1_Relu_output_0", as TorchScript exports it, becomes
// "top_1_relu".
std::string FriendlyName(const std::string& value_name);

// The same with a mark. Names that are derived from it (ModelName(x) + "_rows") are words of the
// model, too.
std::string ModelName(const std::string& value_name);
// `word` with exactly one mark, at its end; `word` may contain marks anywhere.
std::string AsModelWord(const std::string& word);
bool IsOfModel(std::string_view word);
std::string WithoutMarks(std::string text);

// The word for a symbol of an Expr: a variable of the kernel, or a dim, which is a parameter. The
// mark of a dim is at its beginning, so that it differs from the words of tensors.
std::string WordOfSymbol(const std::string& symbol);

// Replaces each word of the model by its final name, in code and in comments: the word without
// marks. Dims come first. If the kernel already has such a word, a tensor is named hidden_tensor, a
// dim batch_dim, and a constant kHiddenColumns_2.
void NameModelWords(KernelPlan& plan);

}  // namespace fusec
