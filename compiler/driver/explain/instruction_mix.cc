#include "compiler/driver/explain/instruction_mix.h"

#include <cstring>
#include <iterator>

namespace fusec {

namespace {

using Class = InstructionClass;

struct Opcode {
  int bits;
  Class instruction_class;
};

// Opcodes ordered by class; the names are those of nvdisasm.
constexpr Opcode kOpcodes[] = {
    {0x181, Class::kGlobalLoad},   // LDG
    {0x180, Class::kGlobalLoad},   // LD
    {0x1ae, Class::kGlobalLoad},   // LDGSTS
    {0x1ba, Class::kGlobalLoad},   // UBLKCP
    {0x186, Class::kGlobalStore},  // STG
    {0x185, Class::kGlobalStore},  // ST
    {0x184, Class::kSharedLoad},   // LDS
    {0x188, Class::kSharedStore},  // STS
    {0x183, Class::kLocal},        // LDL
    {0x187, Class::kLocal},        // STL
    {0x18a, Class::kAtomic},       // ATOM
    {0x18c, Class::kAtomic},       // ATOMS
    {0x18d, Class::kAtomic},       // ATOMS
    {0x18e, Class::kAtomic},       // RED
    {0x1a8, Class::kAtomic},       // ATOMG
    {0x1a9, Class::kAtomic},       // ATOMG
    {0x023, Class::kFma},          // FFMA
    {0x02b, Class::kFma},          // DFMA
    {0x031, Class::kFma},          // HFMA2
    {0x055, Class::kFma},          // UFFMA
    {0x009, Class::kFloat},        // FMNMX
    {0x00a, Class::kFloat},        // FSET
    {0x00b, Class::kFloat},        // FSETP
    {0x020, Class::kFloat},        // FMUL
    {0x021, Class::kFloat},        // FADD
    {0x028, Class::kFloat},        // DMUL
    {0x029, Class::kFloat},        // DADD
    {0x02a, Class::kFloat},        // DSETP
    {0x030, Class::kFloat},        // HADD2
    {0x032, Class::kFloat},        // HMUL2
    {0x034, Class::kFloat},        // HSETP2
    {0x040, Class::kFloat},        // HMNMX2
    {0x102, Class::kSpecial},      // FCHK, in divisions
    {0x108, Class::kSpecial},      // MUFU
    {0x00c, Class::kInteger},      // ISETP
    {0x00f, Class::kInteger},      // VIMNMX3
    {0x010, Class::kInteger},      // IADD3
    {0x011, Class::kInteger},      // LEA
    {0x012, Class::kInteger},      // LOP3
    {0x013, Class::kInteger},      // IABS
    {0x017, Class::kInteger},      // IMNMX
    {0x019, Class::kInteger},      // SHF
    {0x01a, Class::kInteger},      // SGXT
    {0x01b, Class::kInteger},      // BMSK
    {0x01c, Class::kInteger},      // PLOP3
    {0x024, Class::kInteger},      // IMAD
    {0x025, Class::kInteger},      // IMAD.WIDE
    {0x026, Class::kInteger},      // IDP
    {0x027, Class::kInteger},      // IMAD.HI
    {0x036, Class::kInteger},      // VIADD
    {0x046, Class::kInteger},      // VIADDMNMX
    {0x048, Class::kInteger},      // VIMNMX
    {0x04a, Class::kInteger},      // UVIMNMX
    {0x085, Class::kInteger},      // UIMNMX
    {0x08c, Class::kInteger},      // UISETP
    {0x090, Class::kInteger},      // UIADD3
    {0x091, Class::kInteger},      // ULEA
    {0x092, Class::kInteger},      // ULOP3
    {0x097, Class::kInteger},      // UIADD3
    {0x099, Class::kInteger},      // USHF
    {0x09c, Class::kInteger},      // UPLOP3
    {0x0a4, Class::kInteger},      // UIMAD
    {0x0a5, Class::kInteger},      // UIMAD.WIDE
    {0x100, Class::kInteger},      // FLO
    {0x101, Class::kInteger},      // BREV
    {0x109, Class::kInteger},      // POPC
    {0x037, Class::kTensor},       // IMMA
    {0x03b, Class::kTensor},       // LDSM
    {0x03c, Class::kTensor},       // HMMA
    {0x03f, Class::kTensor},       // DMMA
    {0x1f0, Class::kTensor},       // HGMMA
    {0x006, Class::kShuffle},      // VOTE
    {0x02f, Class::kShuffle},      // ELECT
    {0x189, Class::kShuffle},      // SHFL
    {0x1a1, Class::kShuffle},      // MATCH
    {0x1c4, Class::kShuffle},      // REDUX
    {0x02d, Class::kBarrier},      // PREEXIT, for dependent launches
    {0x02e, Class::kBarrier},      // ACQBULK, for dependent launches
    {0x11a, Class::kBarrier},      // DEPBAR
    {0x11b, Class::kBarrier},      // ENDCOLLECTIVE
    {0x11c, Class::kBarrier},      // B2R, for a vote of a block
    {0x11d, Class::kBarrier},      // BAR
    {0x18f, Class::kBarrier},      // CCTL, for the barrier of a cluster
    {0x192, Class::kBarrier},      // MEMBAR
    {0x1a7, Class::kBarrier},      // SYNCS, for a CopyBarrier
    {0x1ab, Class::kBarrier},      // ERRBAR, after MEMBAR
    {0x1af, Class::kBarrier},      // LDGDEPBAR
    {0x1b0, Class::kBarrier},      // ARRIVES
    {0x1b2, Class::kBarrier},      // SYNCS
    {0x1c5, Class::kBarrier},      // WARPGROUP.ARRIVE, WARPGROUP.DEPBAR
    {0x1c6, Class::kBarrier},      // FENCE.VIEW.ASYNC
    {0x1c7, Class::kBarrier},      // UCGABAR, for the barrier of a cluster
    {0x1c8, Class::kControl},      // USETMAXREG
    {0x141, Class::kControl},      // BSYNC
    {0x142, Class::kControl},      // BREAK
    {0x143, Class::kControl},      // CALL
    {0x144, Class::kControl},      // CALL
    {0x145, Class::kControl},      // BSSY
    {0x146, Class::kControl},      // YIELD
    {0x147, Class::kControl},      // BRA
    {0x148, Class::kControl},      // WARPSYNC
    {0x149, Class::kControl},      // BRX
    {0x14d, Class::kControl},      // EXIT
    {0x150, Class::kControl},      // RET
    {0x002, Class::kMove},         // MOV
    {0x003, Class::kMove},         // P2R
    {0x004, Class::kMove},         // R2P
    {0x005, Class::kMove},         // CS2R
    {0x007, Class::kMove},         // SEL
    {0x008, Class::kMove},         // FSEL
    {0x016, Class::kMove},         // PRMT
    {0x03e, Class::kMove},         // F2FP
    {0x045, Class::kMove},         // I2FP
    {0x05a, Class::kMove},         // UI2F
    {0x082, Class::kMove},         // UMOV
    {0x087, Class::kMove},         // USEL
    {0x096, Class::kMove},         // UPRMT
    {0x0b9, Class::kMove},         // ULDC
    {0x0ca, Class::kMove},         // R2UR
    {0x104, Class::kMove},         // F2F
    {0x105, Class::kMove},         // F2I
    {0x106, Class::kMove},         // I2F
    {0x110, Class::kMove},         // F2F
    {0x111, Class::kMove},         // F2I
    {0x112, Class::kMove},         // I2F
    {0x119, Class::kMove},         // S2R
    {0x182, Class::kMove},         // LDC
    {0x1ac, Class::kMove},         // LDCU
    {0x1c2, Class::kMove},         // R2UR
    {0x1c3, Class::kMove},         // S2UR
};

constexpr int kNop = 0x118;  // padding
constexpr size_t kInstructionBytes = 16;
constexpr int kHalfFma = 0x031, kImad = 0x024;
constexpr int kHalfFmaOrAdd = 0x035;  // HFMA2 before sm_100, IADD from sm_100 on
constexpr int kBlackwell = 100;
constexpr uint64_t kZeroRegister = 0xff;

Class ClassOf(uint64_t low, int capability) {
  int bits = static_cast<int>(low & 0x1ff);
  if (bits == kHalfFmaOrAdd && capability >= kBlackwell) return Class::kInteger;
  if (bits == kHalfFmaOrAdd) bits = kHalfFma;
  // The compiler writes 0 * 0 + x to move x into a register.
  const bool multiplies_zero = (low >> 24 & 0xff) == kZeroRegister;
  if ((bits == kHalfFma || bits == kImad) && multiplies_zero) return Class::kMove;
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.bits == bits) return opcode.instruction_class;
  }
  return Class::kOther;
}

}  // namespace

const char* InstructionClassName(InstructionClass instruction_class) {
  constexpr const char* kNames[] = {"global_load", "global_store", "shared_load", "shared_store",
                                    "local",       "atomic",       "fma",         "float",
                                    "special",     "integer",      "tensor",      "shuffle",
                                    "barrier",     "control",      "move",        "other"};
  static_assert(std::size(kNames) == kInstructionClasses);
  return kNames[static_cast<size_t>(instruction_class)];
}

InstructionMix ReadMachineCode(std::string_view code, int capability) {
  InstructionMix mix{};
  for (size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    uint64_t low = 0;
    std::memcpy(&low, code.data() + at, sizeof low);
    if ((low & 0x1ff) != kNop) ++mix[static_cast<size_t>(ClassOf(low, capability))];
  }
  return mix;
}

}  // namespace fusec
