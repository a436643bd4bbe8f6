#include "compiler/ir/graph.h"

#include "compiler/ir/derivation.h"
#include "compiler/ir/host_table.h"

namespace fusec {
namespace {

// `name` with every character that IR text does not allow in a value's name replaced.
std::string MakeIdentifier(const std::string& name) {
  std::string identifier;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool inner = (c >= '0' && c <= '9') || c == '.';
    if (letter || (inner && !identifier.empty())) {
      identifier += c;
    } else if (inner && c != '.') {
      identifier += '_';
      identifier += c;
    } else if (!identifier.empty()) {  // leading ones are dropped: "/fc1/Gemm"
      identifier += '_';
    }
  }
  return identifier.empty() ? "value" : identifier;
}

// The number n, if `name` is "stem_n".
std::optional<uint64_t> NumberBehind(const std::string& stem, const std::string& name) {
  if (name.size() <= stem.size() + 1 || name.size() > stem.size() + 10) return std::nullopt;
  if (name.compare(0, stem.size(), stem) != 0 || name[stem.size()] != '_') return std::nullopt;
  uint64_t number = 0;
  for (size_t i = stem.size() + 1; i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(name[i] - '0');
  }
  return number;
}

}  // namespace

std::unique_ptr<Node> CopyNode(const Node& node, function_ref<Value*(Value*)> operand_of) {
  auto copy = std::make_unique<Node>();
  copy->kind = node.kind;
  for (Value* operand : node.operands)
    copy->operands.push_back(operand == nullptr ? nullptr : operand_of(operand));
  for (const auto& result : node.results) {
    copy->results.push_back(std::make_unique<Value>(*result));
    copy->results.back()->producer = copy.get();
  }
  copy->attributes = node.attributes;
  copy->provenance = node.provenance;
  copy->constant = node.constant;
  copy->constant_hash = node.constant_hash;
  copy->derivation = node.derivation;
  if (node.body != nullptr) copy->body = node.body->Clone();
  return copy;
}

Value* Graph::AddInput(std::string value_name, TensorType type) {
  auto value = std::make_unique<Value>();
  value->name = UniqueName(value_name);
  value->type = std::move(type);
  value->result_index = static_cast<int>(inputs.size());
  inputs.push_back(std::move(value));
  return inputs.back().get();
}

bool IsConstant(const Value* value) {
  return value != nullptr && value->producer != nullptr &&
         value->producer->kind == OpKind::kConstant;
}

bool IsUpdatable(const Value* value) {
  return IsConstant(value) && value->producer->Has(kUpdatable);
}

const TensorData* Payload(const Value* value) {
  if (!IsConstant(value) || IsUpdatable(value) || IsHostTable(value)) return nullptr;
  const auto& derivation = value->producer->derivation;
  if (derivation) derivation->looked_at.store(true, std::memory_order_relaxed);
  return StoredData(value);
}

const TensorData* StoredData(const Value* value) {
  if (!IsConstant(value)) return nullptr;
  const TensorData& data = value->producer->constant;
  return data.bytes() != nullptr ? &data : nullptr;
}

const std::string& Graph::InputName(size_t i) const {
  return input_names.empty() ? inputs[i]->name : input_names[i];
}

const std::string& Graph::OutputName(size_t i) const {
  return output_names.empty() ? outputs[i]->name : output_names[i];
}

Ranges Graph::SymbolRanges() const {
  Ranges ranges;
  for (const DimSymbol& symbol : symbols) ranges.Set(symbol.name, symbol.low, symbol.high);
  return ranges;
}

std::string Graph::UniqueName(const std::string& wanted) const {
  const std::string stem = MakeIdentifier(wanted);
  if (names_) return names_->Take(stem);
  size_t values = inputs.size();
  for (const auto& node : nodes) values += node->results.size();
  bool taken = false;
  std::vector<bool> is_taken(values + 2);  // by number; one of the first `values` + 1 is free
  auto look_at = [&](const std::string& name) {
    if (name == stem) taken = true;
    const auto number = NumberBehind(stem, name);
    if (number && *number < is_taken.size()) is_taken[*number] = true;
  };
  for (const auto& input : inputs) look_at(input->name);
  for (const auto& node : nodes) {
    for (const auto& result : node->results) look_at(result->name);
  }
  if (!taken) return stem;
  uint64_t number = 1;
  while (is_taken[number]) ++number;
  return stem + "_" + std::to_string(number);
}

void Graph::Rename(Value* value, const std::string& wanted) {
  if (names_) names_->Remove(value->name);
  value->name.clear();
  value->name = UniqueName(wanted);
}

void Graph::RememberNames() {
  names_ = std::make_unique<NameTable>();
  for (const auto& input : inputs) names_->Add(input->name);
  for (const auto& node : nodes) {
    for (const auto& result : node->results) names_->Add(result->name);
  }
}

DenseMap<const Value*, int> Graph::CountUses() const {
  DenseMap<const Value*, int> uses;
  for (const auto& node : nodes) {
    for (const Value* operand : node->operands) {
      if (operand != nullptr) ++uses[operand];
    }
  }
  for (const Value* output : outputs) ++uses[output];
  return uses;
}

void Graph::ReplaceAllUses(const Value* from, Value* to) {
  for (const auto& node : nodes) {
    for (Value*& operand : node->operands) {
      if (operand == from) operand = to;
    }
  }
  for (Value*& output : outputs) {
    if (output == from) output = to;
  }
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_unique<Graph>();
  clone->name = name;
  clone->symbols = symbols;
  clone->output_names = output_names;
  clone->input_names = input_names;
  clone->run_time_sizes = run_time_sizes;
  clone->metadata = metadata;

  DenseMap<const Value*, Value*> copies;
  const auto copy_of = [&](const Value* value) { return copies.at(value); };
  for (const auto& input : inputs) {
    clone->inputs.push_back(std::make_unique<Value>(*input));
    copies[input.get()] = clone->inputs.back().get();
  }
  for (const auto& node : nodes) {
    auto copy = CopyNode(*node, copy_of);
    for (size_t i = 0; i < node->results.size(); ++i)
      copies[node->results[i].get()] = copy->results[i].get();
    clone->nodes.push_back(std::move(copy));
  }
  for (const Value* output : outputs) clone->outputs.push_back(copy_of(output));
  return clone;
}

}  // namespace fusec
