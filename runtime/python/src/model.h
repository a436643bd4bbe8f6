// fusec.Model: a program, and the contexts that its calls use.
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
  // Raises the errors of fusec_update_weights. Other threads may run meanwhile.
  void UpdateWeights(const std::string& path);
  void UpdateRows(const std::string& table, nb::handle ids, nb::handle rows);
  void WarmTable(const std::string& table, nb::handle ids);
  void LoadAdapter(int slot, const std::string& path);
  void UnloadAdapter(int slot);
  int adapter_slots() const;
  // Frees idle contexts and the program, unless contexts or memory of the caller still use it.
  void Close();
  bool is_closed() const { return program_ == nullptr; }
  // Raises BadUsage once the model is closed.
  const std::shared_ptr<Program>& program() const;
  // Calls a function of the C ABI that changes the program, with Python's lock released.
  template <class Function>
  void Waiting(const Function& change);

 private:
  // A context and the thread that used it last.
  struct Slot {
    std::unique_ptr<Context> context;
    unsigned long thread = 0;
  };
  class Lease;
  Slot Take();

  std::shared_ptr<Program> program_;
  std::vector<Slot> idle_;
  std::unique_ptr<Context> stream_owner_;
};

void DeclareModel(nb::module_& module);

}  // namespace fusec::python
