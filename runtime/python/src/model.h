// fusec.Model: a program, and contexts that its calls take in turn.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/python/src/context.h"

namespace fusec::python {

class Model {
 public:
  Model(const std::string& path, const std::optional<std::string>& device, bool strict);

  nb::object Call(PyObject* arguments, PyObject* by_name);
  nb::object RunInto(nb::handle outputs, PyObject* arguments, PyObject* by_name);
  std::unique_ptr<Context> NewContext() const;
  void Synchronize();
  void* stream();
  // Raises what fusec_update_weights says. Other threads may run meanwhile.
  void UpdateWeights(const std::string& path);
  void UpdateRows(const std::string& table, nb::handle ids, nb::handle rows);
  void WarmTable(const std::string& table, nb::handle ids);
  void LoadAdapter(int slot, const std::string& path);
  void UnloadAdapter(int slot);
  int adapter_slots() const;
  // Frees what is idle; contexts and memory of the caller's keep the program until they go.
  void Close();
  bool is_closed() const { return program_ == nullptr; }
  // Raises BadUsage once the model is closed.
  const std::shared_ptr<Program>& program() const;
  // Calls a function of the C ABI that changes the program, without Python's lock.
  template <class Function>
  void Waiting(const Function& change);

 private:
  // A context as long as a call runs.
  struct Slot {
    std::unique_ptr<Context> context;
    unsigned long thread = 0;  // that used it last
  };
  class Lease;
  Slot Take();

  std::shared_ptr<Program> program_;
  std::vector<Slot> idle_;
  std::unique_ptr<Context> stream_owner_;
};

void DeclareModel(nb::module_& module);

}  // namespace fusec::python
