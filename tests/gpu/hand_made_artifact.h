#pragma once

#include <fusec/fusec.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/table.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec::runtime {

// An artifact written by hand, for tests of the runtime without the compiler. Each call that names
// a tensor returns the index of its buffer. Dims are texts of the manifest's grammar.
class HandMadeArtifact {
 public:
  struct Operand {
    int buffer = 0;
    std::string offset = "0", batch_stride = "0";
  };
  struct MatmulStep {
    fusec_dtype dtype = FUSEC_F32;
    std::string m, n, k, batch = "1";
    Operand a, b, d;
    bool transpose_a = false, transpose_b = false;
    int bias = -1;
    std::string bias_stride = "0", activation = "none";
  };
  struct Range {
    std::string size;  // a dim; empty if there is no condition
    int64_t from = 0, to = 0;
  };
  struct KernelStep {
    std::string name, source;  // `source` is the CUDA text
    std::string blocks;
    int block_size = 128, shared_bytes = 0;
    // "b3" is buffer 3, "i:batch" and "l:batch*4" are i32 and i64 dims, "e" is the error argument.
    std::vector<std::string> arguments;
    std::vector<int> inputs, outputs;
    Range when{};  // the condition under which it runs
    bool dependent_launch = false, outputs_in_device_memory = false;
  };

  HandMadeArtifact();
  ~HandMadeArtifact();
  HandMadeArtifact(const HandMadeArtifact&) = delete;
  HandMadeArtifact& operator=(const HandMadeArtifact&) = delete;

  void Precision(const std::string& precision);
  void Symbol(const std::string& name, int64_t min, int64_t max);
  int Input(const std::string& name, fusec_dtype dtype, const std::vector<std::string>& shape);
  int Output(const std::string& name, fusec_dtype dtype, const std::vector<std::string>& shape);
  int Arena(const std::string& name, fusec_dtype dtype, const std::string& elements);
  int Constant(const std::string& name, fusec_dtype dtype, int64_t elements, const void* data);
  // Keeps a constant in host memory while a GPU runs the program.
  void PlaceOnHost(int constant);
  // Declares that a constant in `buffer` is a table with this storage, with scales in `factors`, or -1 for none. The target's machine code
  // also contains the kernels that update the table.
  void Table(const std::string& name, fusec_dtype dtype, int64_t rows, int64_t columns,
             const std::string& storage, int buffer, int factors = -1);
  // Declares a place where kernels check indices, and returns the number that kernels report for it, beginning with 1.
  int IndexSite(const std::string& node, const std::string& tensor,
                const std::vector<std::string>& shape, int64_t extent);
  void Kernel(const KernelStep& kernel);
  void Matmul(const MatmulStep& matmul);

  // Writes it with one target, such as "sm_90a", and returns its folder. With machine code, the
  // kernels are compiled for that target by NVRTC; otherwise the artifact has only their text. An error is printed and ends the program.
  std::string Write(const std::string& target, bool with_machine_code);
  const std::string& path() const { return path_; }

 private:
  struct Contents;
  int Buffer(const char* kind, const std::string& name, fusec_dtype dtype,
             const std::string& elements);
  std::string BytesOf(const std::vector<int>& buffers) const;
  void WriteFile(const std::string& relative_path, const std::string& bytes);
  std::unique_ptr<Contents> contents_;
  std::string path_;
};

// ---- how ----

using HandMadeJson = nlohmann::ordered_json;

inline std::string ShapeProduct(const std::vector<std::string>& shape) {
  std::string product = "1";
  for (const std::string& dim : shape) product += "*(" + dim + ")";
  return product;
}

[[noreturn]] inline void DieOfArtifact(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(4);
}

struct HandMadeArtifact::Contents {
  HandMadeJson manifest;
  HandMadeJson steps = HandMadeJson::array();
  HandMadeJson tensors = HandMadeJson::object();  // the header of weights.safetensors
  std::string weights;
  std::string all_sources;
};

inline HandMadeArtifact::HandMadeArtifact() : contents_(std::make_unique<Contents>()) {
  char folder[] = "/tmp/fusec-artifact-XXXXXX";
  if (mkdtemp(folder) == nullptr) DieOfArtifact("cannot make a folder in /tmp");
  path_ = folder;
  std::filesystem::create_directories(path_ + "/kernels");
  std::filesystem::create_directories(path_ + "/cubin");
  contents_->manifest = {{"format", "fusec-artifact"},
                         {"version", 5},
                         {"model", "hand made"},
                         {"opset", 17},
                         {"matmul_precision", "highest"}};
  for (const char* list :
       {"symbols", "inputs", "outputs", "buffers", "index_sites", "not_fused", "warnings"}) {
    contents_->manifest[list] = HandMadeJson::array();
  }
  contents_->manifest["before"] = {{"launches", 0}, {"bytes", "0"}};
  contents_->manifest["files"] = HandMadeJson::object();
}

inline HandMadeArtifact::~HandMadeArtifact() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

inline void HandMadeArtifact::Precision(const std::string& precision) {
  contents_->manifest["matmul_precision"] = precision;
}

inline void HandMadeArtifact::Symbol(const std::string& name, int64_t min, int64_t max) {
  contents_->manifest["symbols"].push_back({{"name", name}, {"min", min}, {"max", max}});
}

inline int HandMadeArtifact::Buffer(const char* kind, const std::string& name, fusec_dtype dtype,
                                    const std::string& elements) {
  HandMadeJson& buffers = contents_->manifest["buffers"];
  buffers.push_back({{"name", name},
                     {"kind", kind},
                     {"dtype", std::string(DtypeName(dtype))},
                     {"elements", elements}});
  return static_cast<int>(buffers.size()) - 1;
}

inline int HandMadeArtifact::Input(const std::string& name, fusec_dtype dtype,
                                   const std::vector<std::string>& shape) {
  const int buffer = Buffer("input", name, dtype, ShapeProduct(shape));
  contents_->manifest["inputs"].push_back({{"name", name},
                                           {"dtype", std::string(DtypeName(dtype))},
                                           {"shape", shape},
                                           {"buffer", buffer}});
  return buffer;
}

inline int HandMadeArtifact::Output(const std::string& name, fusec_dtype dtype,
                                    const std::vector<std::string>& shape) {
  const int buffer = Buffer("output", name, dtype, ShapeProduct(shape));
  contents_->manifest["outputs"].push_back({{"name", name},
                                            {"dtype", std::string(DtypeName(dtype))},
                                            {"shape", shape},
                                            {"buffer", buffer}});
  return buffer;
}

inline int HandMadeArtifact::Arena(const std::string& name, fusec_dtype dtype,
                                   const std::string& elements) {
  return Buffer("arena", name, dtype, elements);
}

inline void HandMadeArtifact::PlaceOnHost(int constant) {
  contents_->manifest["buffers"][static_cast<size_t>(constant)]["placement"] = "host";
}

inline int HandMadeArtifact::Constant(const std::string& name, fusec_dtype dtype, int64_t elements,
                                      const void* data) {
  const int buffer = Buffer("constant", name, dtype, std::to_string(elements));
  contents_->manifest["buffers"].back()["tensor"] = name;
  const size_t begin = contents_->weights.size();
  contents_->weights.append(static_cast<const char*>(data),
                            static_cast<size_t>(elements * DtypeBytes(dtype)));
  const size_t end = contents_->weights.size();
  contents_->tensors[name] = {{"dtype", std::string(SafetensorsName(dtype))},
                              {"shape", {elements}},
                              {"data_offsets", {begin, end}}};
  contents_->weights.resize((end + 255) / 256 * 256);
  return buffer;
}

inline void HandMadeArtifact::Table(const std::string& name, fusec_dtype dtype, int64_t rows,
                                    int64_t columns, const std::string& storage, int buffer,
                                    int factors) {
  contents_->manifest["tables"].push_back({{"table", name},
                                           {"dtype", std::string(DtypeName(dtype))},
                                           {"rows", rows},
                                           {"columns", columns},
                                           {"storage", storage},
                                           {"buffer", buffer}});
  if (factors >= 0) contents_->manifest["tables"].back()["factors_buffer"] = factors;
}

inline int HandMadeArtifact::IndexSite(const std::string& node, const std::string& tensor,
                                       const std::vector<std::string>& shape, int64_t extent) {
  HandMadeJson& sites = contents_->manifest["index_sites"];
  sites.push_back({{"node", node},
                   {"tensor", tensor},
                   {"input", tensor},
                   {"shape", shape},
                   {"extent", std::to_string(extent)}});
  return static_cast<int>(sites.size());
}

inline std::string HandMadeArtifact::BytesOf(const std::vector<int>& buffers) const {
  std::string sum = "0";
  for (const int i : buffers) {
    const HandMadeJson& buffer = contents_->manifest["buffers"][static_cast<size_t>(i)];
    const auto dtype = ParseDtype(buffer["dtype"].get<std::string>());
    sum += " + " + std::to_string(DtypeBytes(*dtype)) + "*(" +
           buffer["elements"].get<std::string>() + ")";
  }
  return sum;
}

inline void HandMadeArtifact::Kernel(const KernelStep& kernel) {
  HandMadeJson arguments = HandMadeJson::array();
  for (const std::string& text : kernel.arguments) {
    if (text[0] == 'b') arguments.push_back({{"buffer", std::stoi(text.substr(1))}});
    if (text[0] == 'i') arguments.push_back({{"dim", text.substr(2)}, {"type", "i32"}});
    if (text[0] == 'l') arguments.push_back({{"dim", text.substr(2)}, {"type", "i64"}});
    if (text[0] == 'e') arguments.push_back({{"errors", true}});
  }
  const std::string source = "kernels/" + kernel.name + ".cu";
  contents_->steps.push_back({{"kind", "kernel"},
                              {"name", kernel.name},
                              {"class", "pointwise"},
                              {"ops", HandMadeJson::array()},
                              {"onnx_nodes", HandMadeJson::array()},
                              {"source", source},
                              {"blocks", kernel.blocks},
                              {"block_size", kernel.block_size},
                              {"shared_bytes", kernel.shared_bytes},
                              {"dependent_launch", kernel.dependent_launch},
                              {"outputs_in_device_memory", kernel.outputs_in_device_memory},
                              {"arguments", arguments},
                              {"inputs", kernel.inputs},
                              {"outputs", kernel.outputs},
                              {"bytes_read", "0"},
                              {"bytes_written", BytesOf(kernel.outputs)},
                              {"flops", "0"}});
  const Range& when = kernel.when;
  if (!when.size.empty()) {
    contents_->steps.back()["when"] = {{"size", when.size}, {"from", when.from}, {"to", when.to}};
  }
  WriteFile(source, kernel.source);
  contents_->all_sources += kernel.source;
}

inline void HandMadeArtifact::Matmul(const MatmulStep& step) {
  const auto operand = [](const Operand& o) {
    return HandMadeJson{
        {"buffer", o.buffer}, {"offset", o.offset}, {"batch_stride", o.batch_stride}};
  };
  const std::string elements = ShapeProduct({step.batch, step.m, step.n});
  const std::string bytes = std::to_string(DtypeBytes(step.dtype));
  // The elements of an operand, which may be one matrix for the whole batch.
  const auto all_of = [&](const std::string& stride, const std::string& rows,
                          const std::string& columns) {
    return "((" + step.batch + ") - 1)*(" + stride + ") + " + ShapeProduct({rows, columns});
  };
  std::string read = all_of(step.a.batch_stride, step.m, step.k) + " + " +
                     all_of(step.b.batch_stride, step.k, step.n);
  std::vector<int> inputs = {step.a.buffer, step.b.buffer};
  if (step.bias >= 0) {
    inputs.push_back(step.bias);
    read += " + " + all_of(step.bias_stride, "1", step.n);
  }
  contents_->steps.push_back({{"kind", "matmul"},
                              {"name", "m" + std::to_string(contents_->steps.size())},
                              {"class", "matmul"},
                              {"ops", HandMadeJson::array()},
                              {"onnx_nodes", HandMadeJson::array()},
                              {"dtype", std::string(DtypeName(step.dtype))},
                              {"m", step.m},
                              {"n", step.n},
                              {"k", step.k},
                              {"batch", step.batch},
                              {"a", operand(step.a)},
                              {"b", operand(step.b)},
                              {"d", operand(step.d)},
                              {"transpose_a", step.transpose_a},
                              {"transpose_b", step.transpose_b},
                              {"bias", step.bias},
                              {"bias_stride", step.bias_stride},
                              {"activation", step.activation},
                              {"inputs", inputs},
                              {"outputs", {step.d.buffer}},
                              {"bytes_read", ShapeProduct({read, bytes})},
                              {"bytes_written", ShapeProduct({elements, bytes})},
                              {"flops", ShapeProduct({elements, step.k, "2"})}});
}

inline void HandMadeArtifact::WriteFile(const std::string& relative_path,
                                        const std::string& bytes) {
  std::ofstream(path_ + "/" + relative_path, std::ios::binary) << bytes;
  contents_->manifest["files"][relative_path] = Hash128(std::as_bytes(std::span(bytes)));
}

inline std::string HandMadeArtifact::Write(const std::string& target, bool with_machine_code) {
  HandMadeJson files = HandMadeJson::object();
  if (with_machine_code && !contents_->all_sources.empty()) {
    const auto nvrtc = Nvrtc::Get();
    if (!nvrtc) DieOfArtifact(nvrtc.error().message);
    const auto cubin = (*nvrtc)->CompileToCubin("kernels.cu", contents_->all_sources, target);
    if (!cubin) DieOfArtifact(cubin.error().message);
    const std::string path = "cubin/" + target + ".cubin";
    WriteFile(path, *cubin);
    files["cubin"] = path;
    if (contents_->manifest.contains("tables")) files[kRowKernels] = path;
  }
  if (!contents_->tensors.empty()) {
    std::string header = contents_->tensors.dump();
    header.resize((header.size() + 8 + 255) / 256 * 256 - 8,
                  ' ');  // the data starts at a multiple of 256
    const uint64_t header_bytes = header.size();
    std::string bytes(reinterpret_cast<const char*>(&header_bytes), 8);
    WriteFile("weights.safetensors", bytes + header + contents_->weights);
  }
  contents_->manifest["targets"] = {{target, {{"files", files}, {"steps", contents_->steps}}}};
  std::ofstream(path_ + "/manifest.json") << contents_->manifest.dump(1);
  return path_;
}

}  // namespace fusec::runtime
