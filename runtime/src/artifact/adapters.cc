#include "runtime/src/artifact/adapters.h"

#include <algorithm>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec::runtime {

namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// The buffer of the constant that `item` names under `key`, which must have `elements` elements.
StatusOr<int> ReadBank(const JsonValue& item, std::string_view key, int64_t elements,
                       const std::vector<Buffer>& buffers) {
  FUSEC_RT_ASSIGN(const JsonValue field, item.Field(key));
  FUSEC_RT_ASSIGN(const std::string name, field.AsText());
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& buffer) {
    return buffer.kind == BufferKind::kConstant && buffer.name == name &&
           buffer.elements.Evaluate({}) == elements &&
           (buffer.dtype == FUSEC_F32 || buffer.dtype == FUSEC_F16 || buffer.dtype == FUSEC_BF16 ||
            buffer.dtype == FUSEC_F64);
  });
  if (found == buffers.end()) return field.Unexpected(Text("a constant of ", elements, " floats"));
  return static_cast<int>(found - buffers.begin());
}

}  // namespace

StatusOr<Adapters> ReadAdapters(const JsonValue& manifest, const std::vector<Buffer>& buffers) {
  Adapters adapters;
  if (!manifest.Has("adapters")) return adapters;
  FUSEC_RT_ASSIGN(const JsonValue field, manifest.Field("adapters"));
  FUSEC_RT_ASSIGN(adapters.slots, ReadInt(field, "slots", 1, 65536));
  FUSEC_RT_ASSIGN(adapters.rank, ReadInt(field, "rank", 1, 4096));
  FUSEC_RT_ASSIGN(adapters.stored_rank, ReadInt(field, "stored_rank", adapters.rank, 8192));
  FUSEC_RT_ASSIGN(adapters.sites,
                  ReadList(field, "sites", [&](const JsonValue& item) -> StatusOr<AdapterSite> {
                    AdapterSite site;
                    FUSEC_RT_ASSIGN(site.module, ReadText(item, "module"));
                    FUSEC_RT_ASSIGN(site.inputs, ReadInt(item, "inputs", 0, kMost));
                    FUSEC_RT_ASSIGN(site.outputs, ReadInt(item, "outputs", 0, kMost));
                    FUSEC_RT_ASSIGN(const JsonValue scale, item.Field("scale"));
                    FUSEC_RT_ASSIGN(site.scale, scale.AsNumber());
                    const int64_t row = adapters.slots * adapters.stored_rank;
                    FUSEC_RT_ASSIGN(site.down, ReadBank(item, "down", site.inputs * row, buffers));
                    FUSEC_RT_ASSIGN(site.up, ReadBank(item, "up", site.outputs * row, buffers));
                    site.dtype = buffers[static_cast<size_t>(site.down)].dtype;
                    return site;
                  }));
  return adapters;
}

std::vector<ConstantPart> PartsOfSlot(const Adapters& adapters, int64_t slot) {
  std::vector<ConstantPart> parts;
  for (const AdapterSite& site : adapters.sites) {
    const auto add = [&](int buffer, int64_t rows) {
      const auto bytes = static_cast<size_t>(rows * adapters.stored_rank * DtypeBytes(site.dtype));
      parts.push_back({buffer, static_cast<size_t>(slot) * bytes, bytes});
    };
    add(site.down, site.inputs);
    add(site.up, site.outputs);
  }
  return parts;
}

}  // namespace fusec::runtime
