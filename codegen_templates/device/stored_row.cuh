// Rows of embedding tables in the forms in which an artifact stores them (passes/stored_rows.h has
// the formulas). Everything is computed in double, so that a kernel, the runtime on a CPU and the
// compiler produce the same bits.

// The format of the elements of a row in memory. kInt8, kInt4 and kFp8 are codes of a quantized
// row, which has a scale and a bias. Two codes of int4 share a byte, the first in the low bits.
enum class RowForm { kF32, kF16, kBF16, kF64, kInt8, kInt4, kFp8 };

// The scale and bias of a quantized row: value = code * scale + bias. `fits` says whether the form
// can represent each element of the row.
struct RowFactors {
  float scale, bias;
  bool fits;
};

__device__ __forceinline__ double PowerOf2(int exponent) {
  return __longlong_as_double((exponent + 1023LL) << 52);
}

__device__ __forceinline__ bool IsFinite(double x) {
  return (__double_as_longlong(x) >> 52 & 0x7ff) != 0x7ff;
}

// Rounds to the nearest integer, ties to even. |x| must be below 2^51.
__device__ __forceinline__ double RoundToInteger(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  return (x + kShift) - kShift;
}

// The value of a 16-bit float with `mantissa_bits` bits of mantissa: 10 for float16, 7 for
// bfloat16.
__device__ __forceinline__ double Widen16(unsigned short bits, int mantissa_bits) {
  const int bias = (1 << (14 - mantissa_bits)) - 1;
  const long long magnitude = bits & 0x7fff;
  const bool is_special = magnitude >> mantissa_bits == (1 << (15 - mantissa_bits)) - 1;
  // Shifted into the fields of a double, the exponent is too small by 1023 - bias. The product
  // corrects that, for subnormals, too.
  double value = __longlong_as_double(magnitude << (52 - mantissa_bits)) * PowerOf2(1023 - bias);
  if (is_special) {  // an infinity or NaN
    const long long mantissa = magnitude & ((1 << mantissa_bits) - 1);
    value = __longlong_as_double(0x7ffLL << 52 | (mantissa != 0 ? 1LL << 51 : 0));
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// The nearest 16-bit float, ties to even, rounded only once.
__device__ __forceinline__ unsigned short Narrow16(double value, int mantissa_bits) {
  const int bias = (1 << (14 - mantissa_bits)) - 1;
  const int most_exponent = 2 * bias + 1;
  const long long bits = __double_as_longlong(value);
  const int sign = bits < 0 ? 0x8000 : 0;
  const int infinity = sign | most_exponent << mantissa_bits;
  if (value != value) return static_cast<unsigned short>(infinity | 1 << (mantissa_bits - 1));
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023 + bias;
  if (exponent >= most_exponent) return static_cast<unsigned short>(infinity);
  long long significand = bits & ((1LL << 52) - 1);
  int shift = 52 - mantissa_bits;
  if (exponent <= 0) {  // a subnormal, whose leading one becomes explicit
    significand |= 1LL << 52;
    shift += 1 - exponent;
    if (shift > 53) return static_cast<unsigned short>(sign);
  }
  const long long remainder = significand & ((1LL << shift) - 1), half = 1LL << (shift - 1);
  long long rounded = significand >> shift;
  if (remainder > half || (remainder == half && (rounded & 1) != 0)) ++rounded;
  // A carry out of the mantissa increments the exponent; from the largest number it leads to
  // infinity.
  if (exponent > 0) rounded += static_cast<long long>(exponent) << mantissa_bits;
  return static_cast<unsigned short>(sign | rounded);
}

// The nearest E4M3 number, ties to even; magnitudes above 448 become 448. `value` is not NaN.
__device__ __forceinline__ unsigned char ToE4M3(double value) {
  const int sign = __double_as_longlong(value) < 0 ? 0x80 : 0;
  const double magnitude = sign != 0 ? -value : value;
  if (magnitude >= 448.0) return static_cast<unsigned char>(sign | 0x7e);
  // Neighbours are 2^(exponent - 3) apart, and 2^-9 among subnormals.
  int exponent = static_cast<int>(__double_as_longlong(magnitude) >> 52) - 1023;
  if (exponent < -6) exponent = -6;
  const int steps = static_cast<int>(RoundToInteger(magnitude * PowerOf2(3 - exponent)));
  // 8 steps are the implicit leading one of the mantissa; 16 steps carry into the next exponent.
  return static_cast<unsigned char>(sign | (((exponent + 6) << 3) + steps));
}

// The least float that is not below `value`. Scales are rounded up so that codes, which are
// quotients by the scale, stay within their range.
__device__ __forceinline__ float RoundUpToFloat(double value) {
  const float nearest = static_cast<float>(value);
  if (!(nearest < value)) return nearest;
  if (nearest == 0.0f) return __int_as_float(1);
  return __int_as_float(__float_as_int(nearest) + (nearest > 0.0f ? 1 : -1));
}

__device__ __forceinline__ double ElementOf(RowForm form, const void* row, int column) {
  switch (form) {
    case RowForm::kF32:
      return static_cast<const float*>(row)[column];
    case RowForm::kF16:
      return Widen16(static_cast<const unsigned short*>(row)[column], 10);
    case RowForm::kBF16:
      return Widen16(static_cast<const unsigned short*>(row)[column], 7);
    default:
      return static_cast<const double*>(row)[column];
  }
}

// The factors of a row of integer codes 0..greatest: bias = min, scale = (max - min) / greatest.
__device__ __forceinline__ RowFactors IntegerFactors(RowForm from, const void* row, int columns,
                                                     double greatest) {
  double least = ElementOf(from, row, 0), most = least;
  bool are_finite = true;
  for (int c = 0; c < columns; ++c) {
    const double x = ElementOf(from, row, c);
    are_finite = are_finite && IsFinite(x);
    if (x < least) least = x;
    if (!(x < most)) most = x;
  }
  const float bias = static_cast<float>(least);
  const float scale = RoundUpToFloat((most - bias) / greatest);
  const bool fits = are_finite && IsFinite(bias) && IsFinite(static_cast<float>(greatest * scale));
  return {scale, bias, fits};
}

// The factors of a row of fp8 codes: scale = max |x| / 448, bias = 0.
__device__ __forceinline__ RowFactors Fp8Factors(RowForm from, const void* row, int columns) {
  double most = 0.0;
  bool are_finite = true;
  for (int c = 0; c < columns; ++c) {
    const double x = ElementOf(from, row, c), magnitude = x < 0.0 ? -x : x;
    are_finite = are_finite && IsFinite(x);
    if (magnitude > most) most = magnitude;
  }
  const float scale = RoundUpToFloat(most / 448.0);
  return {scale, 0.0f, are_finite && IsFinite(static_cast<float>(448.0 * scale))};
}

// Floats have no factors. They can represent NaN and infinities; a row does not fit only if a
// finite number would be rounded to infinity.
__device__ __forceinline__ RowFactors FloatFactors(RowForm from, const void* row, RowForm to,
                                                   int columns) {
  // The least magnitude that is rounded to infinity: half a step above the greatest number, (2 -
  // 2^-mantissa_bits) * 2^exponent.
  const double limit = to == RowForm::kF16    ? 65520.0
                       : to == RowForm::kBF16 ? (2.0 - PowerOf2(-8)) * PowerOf2(127)
                                              : (2.0 - PowerOf2(-24)) * PowerOf2(127);
  bool fits = true;
  for (int c = 0; c < columns && to != RowForm::kF64; ++c) {
    const double x = ElementOf(from, row, c), magnitude = x < 0.0 ? -x : x;
    fits = fits && !(magnitude >= limit && IsFinite(x));
  }
  return {1.0f, 0.0f, fits};
}

__device__ __forceinline__ RowFactors FactorsOf(RowForm from, const void* row, RowForm to,
                                                int columns) {
  if (to == RowForm::kInt8) return IntegerFactors(from, row, columns, 255.0);
  if (to == RowForm::kInt4) return IntegerFactors(from, row, columns, 15.0);
  if (to == RowForm::kFp8) return Fp8Factors(from, row, columns);
  return FloatFactors(from, row, to, columns);
}

// The integer code of `x`. A row of equal elements has scale 0, and all its codes are 0.
__device__ __forceinline__ int CodeOf(double x, RowFactors factors, double greatest) {
  if (!(factors.scale > 0.0f)) return 0;
  double code = (x - factors.bias) / factors.scale;
  if (code < 0.0) code = 0.0;
  if (code > greatest) code = greatest;
  return static_cast<int>(RoundToInteger(code));
}

// Converts a row that fits and stores it. `factors_row` receives the scale and bias of integer
// codes, or the scale of fp8 codes.
__device__ __forceinline__ void StoreRow(RowForm from, const void* row, RowForm to, int columns,
                                         void* stored, float* factors_row) {
  const bool has_codes = to == RowForm::kInt8 || to == RowForm::kInt4 || to == RowForm::kFp8;
  const RowFactors factors =
      has_codes ? FactorsOf(from, row, to, columns) : RowFactors{1.0f, 0.0f, true};
  auto* bytes = static_cast<unsigned char*>(stored);
  for (int c = 0; c < columns; ++c) {
    const double x = ElementOf(from, row, c);
    switch (to) {
      case RowForm::kF32:
        static_cast<float*>(stored)[c] = static_cast<float>(x);
        break;
      case RowForm::kF64:
        static_cast<double*>(stored)[c] = x;
        break;
      case RowForm::kF16:
        static_cast<unsigned short*>(stored)[c] = Narrow16(x, 10);
        break;
      case RowForm::kBF16:
        static_cast<unsigned short*>(stored)[c] = Narrow16(x, 7);
        break;
      case RowForm::kInt8:
        bytes[c] = static_cast<unsigned char>(CodeOf(x, factors, 255.0));
        break;
      case RowForm::kInt4: {  // with an odd number of columns, the last high code is 0
        const int low = CodeOf(x, factors, 15.0);
        const bool has_high = c + 1 < columns;
        const int high = has_high ? CodeOf(ElementOf(from, row, c + 1), factors, 15.0) : 0;
        bytes[c / 2] = static_cast<unsigned char>(low | high << 4);
        ++c;
        break;
      }
      case RowForm::kFp8:
        bytes[c] = factors.scale > 0.0f ? ToE4M3(x / factors.scale) : 0;
        break;
    }
  }
  const bool is_integer = to == RowForm::kInt8 || to == RowForm::kInt4;
  if (is_integer || to == RowForm::kFp8) factors_row[0] = factors.scale;
  if (is_integer) factors_row[1] = factors.bias;
}
