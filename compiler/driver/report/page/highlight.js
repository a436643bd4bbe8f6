"use strict";
// Syntax highlighting for C and IR text. A line becomes a list of [class or "", text].

const anyOf = (words) => new RegExp("\\b(?:" + words.split(" ").join("|") + ")\\b", "y");
const KEYWORDS = "if else for while do return const constexpr static struct template typename class using namespace extern alignas " +
  "asm volatile break continue switch case default sizeof static_assert inline reinterpret_cast static_cast __global__ __device__ " +
  "__forceinline__ __shared__ __restrict__ __launch_bounds__ __syncthreads __syncwarp";
const TYPES = "void bool char short int long unsigned float double int64_t int32_t uint32_t uint64_t size_t Half BFloat16 float2 " +
  "float4 Vector dim3";

const CODE_TOKENS = [
  ["comment", /\/\/.*|\/\*.*?(?:\*\/|$)/y],
  ["string", /"(?:[^"\\]|\\.)*"?/y],
  ["directive", /#\s*\w+/y],
  ["number", /\b(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?:[uUlLfF]*)\b/y],
  ["keyword", anyOf(KEYWORDS)],
  ["type", anyOf(TYPES)],
  ["builtin", anyOf("threadIdx blockIdx blockDim gridDim")],
  ["constant", /\bk[A-Z]\w*/y],
  ["", /\w+|\s+|[^\w\s]/y],
];
const IR_TOKENS = [
  ["string", /"(?:[^"\\]|\\.)*"?/y],
  ["value", /%[\w.]+/y],
  ["keyword", /\b(?:graph|return|region|constant|symbols|metadata|payload|dims|floats)\b/y],
  ["type", /\b(?:f64|f32|f16|bf16|i64|i32|i16|i8|u64|u32|u16|u8|bool)(?=\[|\b)/y],
  ["number", /-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/y],
  ["call", /\b[a-z_]\w*(?=\()/y],
  ["comment", /@(?= ")/y],
  ["", /\w+|\s+|[^\w\s]/y],
];

function tokensOf(line, kinds) {
  const tokens = [];
  for (let at = 0; at < line.length;) {
    for (const [name, pattern] of kinds) {
      pattern.lastIndex = at;
      const found = pattern.exec(line);
      if (!found || found[0] === "") continue;
      const before = tokens[tokens.length - 1];
      if (before && before[0] === name) before[1] += found[0];
      else tokens.push([name, found[0]]);
      at += found[0].length;
      break;
    }
  }
  return tokens;
}

function highlighted(line, kinds) {
  const most = 4000;  // only so many characters of a line are coloured
  const tokens = tokensOf(line.slice(0, most), kinds).map(([name, text]) => (name ? html("span", { class: "t-" + name }, text) : text));
  return line.length > most ? [...tokens, line.slice(most)] : tokens;
}
