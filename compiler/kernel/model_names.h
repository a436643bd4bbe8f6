#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// How tensors and dims are called in kernels. Users may call them anything: a word of C++, what a
// device function is called, what a planner calls its locals. So while a kernel is planned, each
// word that comes from the model has kModelMark in it, and can be none of the kernel's own. Once
// the kernel is whole, NameModelWords takes the marks out.

// A readable name for a value: "_top_top_1_Relu_output_0" (how TorchScript calls it) becomes
// "top_1_relu".
std::string FriendlyName(const std::string& value_name);

// The same with a mark: what is made of it (ModelName(x) + "_rows") is a word of the model, too.
std::string ModelName(const std::string& value_name);
// `word`, which has marks somewhere or none at all, with one mark behind it.
std::string AsModelWord(const std::string& word);
bool IsOfModel(std::string_view word);
std::string WithoutMarks(std::string text);

// What a kernel calls a symbol of an Expr: its own variable, or the dim that is its parameter,
// which has its mark in front, so that it is no tensor's word.
std::string WordOfSymbol(const std::string& symbol);

// Gives each word of the model its name, in code and in comments: what it is without marks, dims
// first. Where the kernel has such a word already, it is called hidden_tensor, batch_dim of a dim,
// and kHiddenColumns_2 of a constant.
void NameModelWords(KernelPlan& plan);

}  // namespace fusec
