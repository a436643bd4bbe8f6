// The doc strings of the extension's classes, which help() prints.
#pragma once

namespace fusec::python::docs {

inline constexpr char kTensor[] =
    R"(A dense tensor in host memory. It supports DLPack and, except for bf16, the buffer protocol:
torch.from_dlpack(t), numpy.asarray(t), memoryview(t).)";
inline constexpr char kShape[] = "The sizes, in elements.";
inline constexpr char kDtype[] =
    R"("f32", "f16", "bf16", "f64", "i8" to "i64", "u8" to "u64" or "bool".)";
inline constexpr char kBytes[] = "The size in bytes.";

inline constexpr char kContext[] =
    R"(The state of one call at a time on a model: bindings, scratch memory and, on a GPU, a
stream and CUDA graphs. Each thread needs its own context; a call from a second thread during
a call raises BadUsage. A context keeps its program loaded even after the model is closed. It
is called like the model.)";
inline constexpr char kContextStream[] =
    R"(The address of the context's own CUDA stream, on which it runs calls whose tensors have
no stream; None on the CPU.)";
inline constexpr char kScratchBytes[] =
    "Bytes of scratch memory that the context holds on the device of its model.";

inline constexpr char kRunInto[] =
    R"(run_into(out, *inputs, **by_name): runs the model and writes the results to the caller's
tensors.

out: a tensor, a sequence of tensors in the order of `outputs`, or a dict by name. Each is
contiguous and writable, has the output's dtype and shape, lies in host memory or on the
model's GPU, and shares no memory with an input. run_into returns at the same point as a call
and raises the same errors.

If the sizes of outputs depend on the data of a run, the tensors have the largest possible
shapes. The results are dense at the beginning of the tensors, and their shapes are returned
in the order of `outputs`.)";
inline constexpr char kSynchronize[] =
    R"(Waits for all runs of earlier calls, and raises their first error, such as an
out-of-range id.)";
inline constexpr char kNewContext[] =
    R"(Creates a context, for a thread that always uses the same one, or for a second stream
of a thread.)";
inline constexpr char kClose[] =
    R"(Frees the program, or as much of it as no call uses. Contexts and tensors of
allocate_host keep the program in memory until they are freed.)";
inline constexpr char kModelStream[] =
    R"(The address of a CUDA stream that lives as long as the model, for callers without a
stream of their own: torch.cuda.ExternalStream(model.stream). None on the CPU.)";
inline constexpr char kDevice[] =
    R"doc(The device, such as "cpu (x86-64-v4)" or "cuda:0 NVIDIA H200".)doc";
inline constexpr char kWeightBytes[] =
    R"(Bytes of GPU memory that the weights occupy, without the tables in host memory
(table_placement); 0 on the CPU, which reads the weights from the mapped file.)";
inline constexpr char kAllocateHost[] =
    R"(Allocates a tensor for inputs and outputs, not initialised. For a model on a GPU its
memory is page-locked, so that the GPU copies from and to it directly. Allocating page-locked
memory is slow, so reuse the tensor.

shape: in elements. dtype: "f32" or, in NumPy's spelling, "float32".)";

}  // namespace fusec::python::docs
