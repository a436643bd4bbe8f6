#include "runtime/python/src/serving.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "runtime/python/src/process.h"
#include "runtime/python/src/serve/http_server.h"
#include "runtime/python/src/serve/planned_batch.h"

namespace fusec::python {
namespace {

namespace nb = nanobind;

Clock::duration Duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

std::string StringOf(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// A request that Python runs and answers, known by a number.
class NumberedRequest : public Waiting {
 public:
  NumberedRequest(int64_t number, int64_t key, int64_t rows, std::vector<int64_t> sizes)
      : Waiting(key, rows, std::move(sizes)), number(number) {}
  const int64_t number;
};

// The contiguous bytes of an array.
class Bytes {
 public:
  Bytes(nb::handle array, bool is_written) {
    if (PyObject_GetBuffer(array.ptr(), &buffer_, is_written ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
      throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;

  char* data() const { return static_cast<char*>(buffer_.buf); }
  size_t size() const { return static_cast<size_t>(buffer_.len); }

 private:
  Py_buffer buffer_;
};

// None if the queue is closed, a PlannedBatch, or the numbers of requests.
nb::object Take(BatchQueue& queue) {
  Batch batch;
  {
    const WithoutGilWhileIdle release;
    batch = queue.Take();
  }
  if (batch.empty()) return nb::none();
  if (std::dynamic_pointer_cast<PlannedRequest>(batch[0])) {
    PlannedBatch::Requests requests;  // all are planned, since their keys are equal
    for (auto& waiting : batch)
      requests.push_back(std::static_pointer_cast<PlannedRequest>(std::move(waiting)));
    PlannedBatch planned(std::move(requests), Clock::now());
    planned.SortByAdapter();
    return nb::cast(std::move(planned));
  }
  nb::list numbers;
  for (const auto& waiting : batch)
    numbers.append(static_cast<const NumberedRequest&>(*waiting).number);
  return numbers;
}

void DeclareQueue(nb::module_& module) {
  nb::class_<NumberedRequest>(module, "NumberedRequest").def("end", &NumberedRequest::End);
  nb::class_<BatchQueue>(module, "BatchQueue")
      .def(nb::new_([](int64_t max_rows, std::vector<int64_t> max_sizes, double delay_s,
                       size_t max_waiting, bool can_join, bool shares, double lately_s) {
             return std::make_shared<BatchQueue>(
                 BatchLimits{max_rows, std::move(max_sizes), Duration(delay_s), max_waiting,
                             can_join, shares},
                 Duration(lately_s));
           }),
           nb::arg("max_rows"), nb::arg("max_sizes"), nb::arg("delay_s"), nb::arg("max_waiting"),
           nb::arg("can_join"), nb::arg("shares"), nb::arg("lately_s"))
      .def(
          "push",
          [](BatchQueue& self, int64_t number, int64_t key, int64_t rows,
             std::vector<int64_t> sizes) {
            auto request = std::make_shared<NumberedRequest>(number, key, rows, std::move(sizes));
            return self.Push(request) ? request : nullptr;
          },
          nb::arg("number"), nb::arg("key"), nb::arg("rows"), nb::arg("sizes"))
      .def("take", &Take)
      .def("finish", &BatchQueue::Finish)
      .def("close", &BatchQueue::Close)
      .def_prop_ro("is_closed", &BatchQueue::is_closed)
      .def("__len__", &BatchQueue::waiting);
}

std::vector<ByteRange> Ranges(const std::vector<std::pair<size_t, size_t>>& pairs) {
  std::vector<ByteRange> ranges;
  for (const auto& [offset, size] : pairs) ranges.push_back({offset, size});
  return ranges;
}

void DeclarePlans(nb::module_& module) {
  nb::class_<Plans>(module, "Plans")
      .def(nb::new_([] { return std::make_shared<Plans>(); }))
      .def(
          "add",
          [](Plans& self, const nb::bytes& json, int64_t key, int64_t rows,
             std::vector<int64_t> sizes, size_t data_size,
             const std::vector<std::pair<size_t, size_t>>& inputs,
             std::vector<std::vector<int64_t>> input_row_dims,
             const std::vector<std::pair<size_t, size_t>>& bools, std::optional<size_t> adapter_at,
             double timeout_ms, const std::pair<nb::bytes, nb::bytes>& around_version,
             const std::vector<std::pair<size_t, nb::bytes>>& outputs,
             std::vector<int64_t> output_rows, bool may_be_compressed) {
            Plan plan{.key = key,
                      .rows = rows,
                      .sizes = std::move(sizes),
                      .data_size = data_size,
                      .inputs = Ranges(inputs),
                      .input_row_dims = std::move(input_row_dims),
                      .bools = Ranges(bools),
                      .adapter_at = adapter_at,
                      .timeout_ms = timeout_ms,
                      .before_version = StringOf(around_version.first),
                      .after_version = StringOf(around_version.second),
                      .output_rows = std::move(output_rows),
                      .may_be_compressed = may_be_compressed};
            for (const auto& [index, text] : outputs)
              plan.outputs.push_back({index, StringOf(text)});
            self.Add(StringOf(json), std::make_shared<const Plan>(std::move(plan)));
          },
          nb::arg("json"), nb::arg("key"), nb::arg("rows"), nb::arg("sizes"), nb::arg("data_size"),
          nb::arg("inputs"), nb::arg("input_row_dims"), nb::arg("bools"),
          nb::arg("adapter_at").none(), nb::arg("timeout_ms"), nb::arg("around_version"),
          nb::arg("outputs"), nb::arg("output_rows"), nb::arg("may_be_compressed"));
}

void Join(const PlannedBatch& batch, const std::vector<nb::object>& arrays) {
  std::vector<std::unique_ptr<Bytes>> outs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    outs.push_back(std::make_unique<Bytes>(arrays[i], /*is_written=*/true));
    if (outs[i]->size() != batch.InputBytes(i))
      throw nb::value_error("an array has another size than the inputs of the batch");
  }
  const WithoutGil release;
  for (size_t i = 0; i < arrays.size(); ++i) batch.Join(i, outs[i]->data());
}

AnsweredRequests Answer(PlannedBatch& batch, const std::string& version,
                        const std::vector<std::pair<nb::object, std::vector<int64_t>>>& results,
                        const std::vector<double>& bounds) {
  std::vector<std::unique_ptr<Bytes>> bytes;
  std::vector<RunResult> found;
  for (const auto& [array, row_dims] : results) {
    bytes.push_back(std::make_unique<Bytes>(array, /*is_written=*/false));
    found.push_back({{bytes.back()->data(), bytes.back()->size()}, row_dims});
  }
  const WithoutGil release;
  return batch.Answer(version, found, bounds);
}

void DeclareBatch(nb::module_& module) {
  nb::class_<Durations>(module, "Durations")
      .def_ro("counts", &Durations::counts)
      .def_ro("sum", &Durations::sum);
  nb::class_<AnsweredRequests>(module, "AnsweredRequests")
      .def_ro("requests", &AnsweredRequests::requests)
      .def_ro("rows", &AnsweredRequests::rows)
      .def_ro("waits", &AnsweredRequests::waits)
      .def_ro("wholes", &AnsweredRequests::wholes);
  nb::class_<PlannedBatch>(module, "PlannedBatch")
      .def("__len__", &PlannedBatch::requests)
      .def_prop_ro("rows", &PlannedBatch::rows)
      .def_prop_ro("input_row_dims", &PlannedBatch::input_row_dims)
      .def("input_bytes", &PlannedBatch::InputBytes)
      .def("join", &Join)
      .def("halves", &PlannedBatch::Halves)
      .def("answer", &Answer, nb::arg("version"), nb::arg("results"), nb::arg("bounds"))
      .def(
          "refuse",
          [](PlannedBatch& self, int status, const nb::bytes& json,
             const std::vector<double>& bounds) {
            return self.Refuse(status, StringOf(json), bounds);
          },
          nb::arg("status"), nb::arg("json"), nb::arg("bounds"))
      .def("send", [](PlannedBatch& self) {
        const WithoutGil release;
        self.Send();
      });
}

// The owner of a server in Python.
class OwnedServer {
 public:
  OwnedServer(int listening, size_t body_bytes, double body_timeout_s, int threads)
      : server_(std::make_shared<HttpServer>(
            listening, HttpLimits{body_bytes, Duration(body_timeout_s), threads})) {
    server_->Start();
  }
  ~OwnedServer() {
    if (forks_ == ForkCount())
      Stop();
    else
      new std::shared_ptr<HttpServer>(server_);  // is kept, since its threads are the parent's
  }
  OwnedServer(const OwnedServer&) = delete;

  HttpServer& operator*() const { return *server_; }
  void Stop() {
    const WithoutGil release;
    server_->Stop();
  }

 private:
  std::shared_ptr<HttpServer> server_;
  const uint64_t forks_ = ForkCount();
};

void DeclareServer(nb::module_& module) {
  nb::class_<HttpRequest>(module, "HttpRequest")
      .def_ro("method", &HttpRequest::method)
      .def_ro("target", &HttpRequest::target)
      .def_ro("headers", &HttpRequest::headers)
      .def("header", &HttpRequest::Header)
      .def_prop_ro(
          "body",
          [](const HttpRequest& self) { return nb::bytes(self.body.bytes.get(), self.body.size); })
      .def(
          "answer",
          [](const HttpRequest& self, int status, const nb::bytes& head, const nb::bytes& body) {
            self.sink->Send({status, StringOf(head), StringOf(body)});
          },
          nb::arg("status"), nb::arg("head"), nb::arg("body"));
  nb::class_<OwnedServer>(module, "HttpServer")
      .def(nb::init<int, size_t, double, int>(), nb::arg("listening"), nb::arg("max_body_bytes"),
           nb::arg("body_timeout_s"), nb::arg("threads"))
      .def("fileno", [](const OwnedServer& self) { return (*self).events_descriptor(); })
      .def("take_events",
           [](const OwnedServer& self) {
             HttpEvents events = (*self).TakeEvents();
             return nb::make_tuple(std::move(events.arrived), std::move(events.gone),
                                   std::move(events.ended));
           })
      .def(
          "set_model",
          [](const OwnedServer& self, std::string target, std::shared_ptr<BatchQueue> queue,
             std::shared_ptr<Plans> plans) {
            (*self).SetModel(std::make_shared<const PlannedModel>(
                PlannedModel{std::move(target), std::move(queue), std::move(plans)}));
          },
          nb::arg("target"), nb::arg("queue"), nb::arg("plans"))
      .def("unset_model", [](const OwnedServer& self) { (*self).SetModel(nullptr); })
      .def("close_idle", [](const OwnedServer& self) { (*self).CloseIdle(); })
      .def_prop_ro("connections", [](const OwnedServer& self) { return (*self).connections(); })
      .def_prop_ro("is_closing", [](const OwnedServer& self) { return (*self).is_closing(); })
      .def("stop", &OwnedServer::Stop);
}

}  // namespace

void DeclareServing(nb::module_& module) {
  DeclareQueue(module);
  DeclarePlans(module);
  DeclareBatch(module);
  DeclareServer(module);
}

}  // namespace fusec::python
