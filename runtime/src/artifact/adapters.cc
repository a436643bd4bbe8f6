#include "runtime/src/artifact/adapters.h"

#include <algorithm>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec::runtime {

namespace {

constexpr int64_t kMost = int64_t{1} << 31;
constexpr int64_t kMostRanks = 8192;

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

// The banks of a layer; without the key they are of this layer alone.
StatusOr<AdapterBanks> ReadBanks(const JsonValue& site, int64_t outputs, int64_t stored_rank) {
  if (!site.Has("banks")) return AdapterBanks{stored_rank, outputs, 0, 0};
  FUSEC_RT_ASSIGN(const JsonValue field, site.Field("banks"));
  AdapterBanks banks;
  FUSEC_RT_ASSIGN(banks.rank, ReadInt(field, "rank", stored_rank, kMostRanks));
  FUSEC_RT_ASSIGN(banks.outputs, ReadInt(field, "outputs", outputs, kMost));
  FUSEC_RT_ASSIGN(banks.first_rank, ReadInt(field, "first_rank", 0, banks.rank - stored_rank));
  FUSEC_RT_ASSIGN(banks.first_output, ReadInt(field, "first_output", 0, banks.outputs - outputs));
  return banks;
}

}  // namespace

StatusOr<Adapters> ReadAdapters(const JsonValue& manifest, const std::vector<Buffer>& buffers) {
  Adapters adapters;
  if (!manifest.Has("adapters")) return adapters;
  FUSEC_RT_ASSIGN(const JsonValue field, manifest.Field("adapters"));
  FUSEC_RT_ASSIGN(adapters.slots, ReadInt(field, "slots", 1, 65536));
  FUSEC_RT_ASSIGN(adapters.rank, ReadInt(field, "rank", 1, 4096));
  FUSEC_RT_ASSIGN(adapters.stored_rank, ReadInt(field, "stored_rank", adapters.rank, kMostRanks));
  FUSEC_RT_ASSIGN(adapters.sites,
                  ReadList(field, "sites", [&](const JsonValue& item) -> StatusOr<AdapterSite> {
                    AdapterSite site;
                    FUSEC_RT_ASSIGN(site.module, ReadText(item, "module"));
                    FUSEC_RT_ASSIGN(site.inputs, ReadInt(item, "inputs", 0, kMost));
                    FUSEC_RT_ASSIGN(site.outputs, ReadInt(item, "outputs", 0, kMost));
                    FUSEC_RT_ASSIGN(const JsonValue scale, item.Field("scale"));
                    FUSEC_RT_ASSIGN(site.scale, scale.AsNumber());
                    FUSEC_RT_ASSIGN(site.banks,
                                    ReadBanks(item, site.outputs, adapters.stored_rank));
                    const int64_t row = adapters.slots * site.banks.rank;
                    const int64_t outputs = site.banks.outputs;
                    FUSEC_RT_ASSIGN(site.down, ReadBank(item, "down", site.inputs * row, buffers));
                    FUSEC_RT_ASSIGN(site.up, ReadBank(item, "up", outputs * row, buffers));
                    site.dtype = buffers[static_cast<size_t>(site.down)].dtype;
                    return site;
                  }));
  return adapters;
}

std::vector<ConstantPart> PartsOfSlot(const Adapters& adapters, int64_t slot) {
  std::vector<ConstantPart> parts;
  for (const AdapterSite& site : adapters.sites) {
    const AdapterBanks& banks = site.banks;
    // Some rows of a matrix of `all` rows.
    const auto add = [&](int buffer, int64_t first_row, int64_t rows, int64_t all,
                         int64_t columns) {
      const auto bytes = static_cast<size_t>(columns * DtypeBytes(site.dtype));
      parts.push_back({buffer, static_cast<size_t>(slot * all + first_row) * bytes,
                       static_cast<size_t>(rows) * bytes});
    };
    add(site.down, banks.first_rank, adapters.stored_rank, banks.rank, site.inputs);
    add(site.up, banks.first_output, site.outputs, banks.outputs, banks.rank);
  }
  return parts;
}

}  // namespace fusec::runtime
