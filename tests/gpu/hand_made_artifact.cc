#include "tests/gpu/hand_made_artifact.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/src/dtype.h"
#include "runtime/src/hash.h"
#include "runtime/src/nvrtc.h"

namespace fusec::runtime {
namespace {

using Json = nlohmann::ordered_json;

std::string Product(const std::vector<std::string>& shape) {
  std::string product = "1";
  for (const std::string& dim : shape) product += "*(" + dim + ")";
  return product;
}

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(4);
}

}  // namespace

struct HandMadeArtifact::Contents {
  Json manifest;
  Json steps = Json::array();
  Json tensors = Json::object();  // the header of weights.safetensors
  std::string weights;
  std::string all_sources;
};

HandMadeArtifact::HandMadeArtifact() : contents_(std::make_unique<Contents>()) {
  char folder[] = "/tmp/fusec-artifact-XXXXXX";
  if (mkdtemp(folder) == nullptr) Die("cannot make a folder in /tmp");
  path_ = folder;
  std::filesystem::create_directories(path_ + "/kernels");
  std::filesystem::create_directories(path_ + "/cubin");
  contents_->manifest = {{"format", "fusec-artifact"},
                         {"version", 1},
                         {"model", "hand made"},
                         {"opset", 17},
                         {"matmul_precision", "highest"}};
  for (const char* list :
       {"symbols", "inputs", "outputs", "buffers", "index_sites", "not_fused", "warnings"}) {
    contents_->manifest[list] = Json::array();
  }
  contents_->manifest["before"] = {{"launches", 0}, {"bytes", "0"}};
  contents_->manifest["files"] = Json::object();
}

HandMadeArtifact::~HandMadeArtifact() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void HandMadeArtifact::Precision(const std::string& precision) {
  contents_->manifest["matmul_precision"] = precision;
}

void HandMadeArtifact::Symbol(const std::string& name, int64_t min, int64_t max) {
  contents_->manifest["symbols"].push_back({{"name", name}, {"min", min}, {"max", max}});
}

int HandMadeArtifact::Buffer(const char* kind, const std::string& name, fusec_dtype dtype,
                             const std::string& elements) {
  Json& buffers = contents_->manifest["buffers"];
  buffers.push_back({{"name", name},
                     {"kind", kind},
                     {"dtype", std::string(DtypeName(dtype))},
                     {"elements", elements}});
  return static_cast<int>(buffers.size()) - 1;
}

int HandMadeArtifact::Input(const std::string& name, fusec_dtype dtype,
                            const std::vector<std::string>& shape) {
  const int buffer = Buffer("input", name, dtype, Product(shape));
  contents_->manifest["inputs"].push_back({{"name", name},
                                           {"dtype", std::string(DtypeName(dtype))},
                                           {"shape", shape},
                                           {"buffer", buffer}});
  return buffer;
}

int HandMadeArtifact::Output(const std::string& name, fusec_dtype dtype,
                             const std::vector<std::string>& shape) {
  const int buffer = Buffer("output", name, dtype, Product(shape));
  contents_->manifest["outputs"].push_back({{"name", name},
                                            {"dtype", std::string(DtypeName(dtype))},
                                            {"shape", shape},
                                            {"buffer", buffer}});
  return buffer;
}

int HandMadeArtifact::Arena(const std::string& name, fusec_dtype dtype,
                            const std::string& elements) {
  return Buffer("arena", name, dtype, elements);
}

int HandMadeArtifact::Constant(const std::string& name, fusec_dtype dtype, int64_t elements,
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

int HandMadeArtifact::IndexSite(const std::string& node, const std::string& tensor,
                                const std::vector<std::string>& shape, int64_t extent) {
  Json& sites = contents_->manifest["index_sites"];
  sites.push_back({{"node", node},
                   {"tensor", tensor},
                   {"input", tensor},
                   {"shape", shape},
                   {"extent", std::to_string(extent)}});
  return static_cast<int>(sites.size());
}

void HandMadeArtifact::Kernel(const KernelStep& kernel) {
  Json arguments = Json::array();
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
                              {"ops", Json::array()},
                              {"onnx_nodes", Json::array()},
                              {"source", source},
                              {"blocks", kernel.blocks},
                              {"block_size", kernel.block_size},
                              {"shared_bytes", kernel.shared_bytes},
                              {"arguments", arguments},
                              {"inputs", kernel.inputs},
                              {"outputs", kernel.outputs},
                              {"bytes_read", "0"},
                              {"bytes_written", "0"},
                              {"flops", "0"}});
  WriteFile(source, kernel.source);
  contents_->all_sources += kernel.source;
}

void HandMadeArtifact::Matmul(const MatmulStep& step) {
  const auto operand = [](const Operand& o) {
    return Json{{"buffer", o.buffer}, {"offset", o.offset}, {"batch_stride", o.batch_stride}};
  };
  std::vector<int> inputs = {step.a.buffer, step.b.buffer};
  if (step.bias >= 0) inputs.push_back(step.bias);
  contents_->steps.push_back({{"kind", "matmul"},
                              {"name", "m" + std::to_string(contents_->steps.size())},
                              {"class", "matmul"},
                              {"ops", Json::array()},
                              {"onnx_nodes", Json::array()},
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
                              {"activation", step.activation},
                              {"inputs", inputs},
                              {"outputs", {step.d.buffer}},
                              {"bytes_read", "0"},
                              {"bytes_written", "0"},
                              {"flops", "0"}});
}

void HandMadeArtifact::WriteFile(const std::string& relative_path, const std::string& bytes) {
  std::ofstream(path_ + "/" + relative_path, std::ios::binary) << bytes;
  contents_->manifest["files"][relative_path] = Hash128(std::as_bytes(std::span(bytes)));
}

std::string HandMadeArtifact::Write(const std::string& target, bool with_machine_code) {
  Json files = Json::object();
  if (with_machine_code && !contents_->all_sources.empty()) {
    const auto nvrtc = Nvrtc::Get();
    if (!nvrtc) Die(nvrtc.error().message);
    const auto cubin = (*nvrtc)->CompileToCubin("kernels.cu", contents_->all_sources, target);
    if (!cubin) Die(cubin.error().message);
    const std::string path = "cubin/" + target + ".cubin";
    WriteFile(path, *cubin);
    files["cubin"] = path;
  }
  if (!contents_->weights.empty()) {
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
