// What help() says of the classes of the extension.
#pragma once

namespace fusec::python::docs {

inline constexpr char kTensor[] =
    R"(A dense tensor in host memory. It speaks DLPack and, but for bf16, the buffer protocol:
torch.from_dlpack(t), numpy.asarray(t), memoryview(t).)";
inline constexpr char kShape[] = "The sizes, in elements.";
inline constexpr char kDtype[] =
    R"("f32", "f16", "bf16", "f64", "i8" to "i64", "u8" to "u64" or "bool".)";
inline constexpr char kBytes[] = "The size in bytes.";

inline constexpr char kContext[] =
    R"(One call at a time on a model: bindings, scratch memory and, on a GPU, a stream and
CUDA graphs. Each thread needs its own; a call from a second thread while one runs raises
BadUsage. It keeps what it runs, also when the model is closed. Calling it is as calling the
model.)";
inline constexpr char kContextStream[] =
    R"(The address of a CUDA stream of its own, on which it runs what has no stream of the
caller's; None on the CPU.)";
inline constexpr char kScratchBytes[] =
    "Bytes of scratch memory that it holds, on the device of its model.";

inline constexpr char kRunInto[] =
    R"(run_into(out, *inputs, **by_name): runs into memory of the caller's.

out: a tensor, a sequence of them in the order of `outputs`, or a dict by name. Each is
contiguous and writable, has the output's dtype and shape, lies in host memory or on the
model's GPU, and shares no memory with an input. It returns when a call would, and raises what
a call raises.

Where only a run tells how large outputs are, tensors have the shape that is the most they can
be, results come first in them, and their shapes are returned, in the order of `outputs`.)";
inline constexpr char kSynchronize[] =
    R"(Waits for all runs of its calls, and raises the first error that they met, such as an
out-of-range id.)";
inline constexpr char kNewContext[] =
    R"(A context, for a thread that always calls on the same one, or for the second stream of
a thread.)";
inline constexpr char kClose[] =
    R"(Frees what no call uses. Contexts and tensors of allocate_host keep the program in
memory until they go.)";
inline constexpr char kModelStream[] =
    R"(The address of a CUDA stream that lives as long as the model, for callers that have
none: torch.cuda.ExternalStream(model.stream). None on the CPU.)";
inline constexpr char kDevice[] = R"doc(Such as "cpu (x86-64-v4)" or "cuda:0 NVIDIA H200".)doc";
inline constexpr char kWeightBytes[] =
    R"(Bytes of the GPU's memory for the weights, without tables in host memory
(table_placement); 0 on the CPU, where they are used in the mapped file.)";
inline constexpr char kAllocateHost[] =
    R"(A tensor for inputs and outputs, not initialised. For a model on a GPU its memory is
page-locked, so that the GPU copies from and to it directly. Allocating is slow, so keep it.

shape: in elements. dtype: "f32" or, as NumPy calls it, "float32".)";

}  // namespace fusec::python::docs
