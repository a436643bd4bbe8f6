// The HTTP server of fusec.serve under load: clients that send requests in any pieces and hang up,
// lanes that answer them in batches, and a thread that answers what is handed over.
#include "runtime/python/src/serve/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "runtime/python/src/serve/planned_batch.h"

namespace fusec::python {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostRows = 3;
constexpr size_t kRowBytes = 16;
constexpr const char* kTarget = "/v2/models/m/infer";

std::string JsonOf(int64_t rows) { return "{\"rows\": " + std::to_string(rows) + "}"; }

// Gives back its input.
Plan EchoPlan(int64_t rows) {
  const size_t size = rows * kRowBytes;
  return {.key = 0,
          .rows = rows,
          .data_size = size,
          .inputs = {{0, size}},
          .input_row_dims = {{kRowBytes}},
          .before_version = "{\"version\": \"",
          .after_version = "\", \"outputs\": [",
          .outputs = {{0, "{\"shape\": "}},
          .output_rows = {rows}};
}

std::shared_ptr<const PlannedModel> EchoModel(std::shared_ptr<BatchQueue> queue) {
  auto plans = std::make_shared<Plans>();
  for (int64_t rows = 1; rows <= kMostRows; ++rows)
    plans->Add(JsonOf(rows), std::make_shared<const Plan>(EchoPlan(rows)));
  return std::make_shared<const PlannedModel>(PlannedModel{kTarget, std::move(queue), plans});
}

// A listening socket, and its address.
int Listen(sockaddr_in& address) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listening, 100), 0);
  EXPECT_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return listening;
}

int Connect(const sockaddr_in& address) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return client;
}

// Gives back its inputs.
AnsweredRequests Echo(PlannedBatch& batch) {
  std::string input(batch.InputBytes(0), '\0');
  batch.Join(0, input.data());
  const RunResult result{{input.data(), input.size()}, {static_cast<int64_t>(kRowBytes)}};
  return batch.Answer("1", {result}, {0.001, 1.0});
}

PlannedBatch PlannedOf(Batch taken) {
  PlannedBatch::Requests requests;
  for (auto& waiting : taken)
    requests.push_back(std::static_pointer_cast<PlannedRequest>(std::move(waiting)));
  return PlannedBatch(std::move(requests), Clock::now());
}

// A server with its threads.
class Served {
 public:
  Served() {
    const int listening = Listen(address_);
    server_ = std::make_shared<HttpServer>(listening, HttpLimits{100'000, seconds(5), 3});
    server_->Start();
    server_->SetModel(EchoModel(queue_));
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Lane(); });
    threads_.emplace_back([this] { AnswerEvents(); });
  }

  ~Served() {
    server_->CloseIdle();
    queue_->Close();
    is_ending_ = true;
    for (std::thread& thread : threads_) thread.join();
    server_->Stop();
  }

  int NewClient() const { return Connect(address_); }

  std::atomic<int64_t> rows = 0, cancelled = 0, handed_over = 0;

 private:
  void Lane() {
    for (int i = 0;; ++i) {
      Batch taken = queue_->Take();
      if (taken.empty()) return;
      PlannedBatch batch = PlannedOf(std::move(taken));
      if (batch.requests() > 1 && i % 4 == 0) {  // as if the model refused one
        auto [first, second] = batch.Halves();
        Answer(first);
        Answer(second);
      } else {
        Answer(batch);
      }
    }
  }

  void Answer(PlannedBatch& batch) {
    rows += Echo(batch).rows;
    queue_->Finish(batch.requests());
    batch.Send();
  }

  void AnswerEvents() {
    while (!is_ending_) {
      pollfd waiting{server_->events_descriptor(), POLLIN, 0};
      poll(&waiting, 1, 20);
      const HttpEvents events = server_->TakeEvents();
      for (const auto& request : events.arrived) {
        ++handed_over;
        const std::string body(request->body.text());
        const std::string head = "content-length: " + std::to_string(body.size()) + "\r\n";
        request->sink->Send({200, head, body});
      }
      for (const auto& [status, waited] : events.ended) {
        EXPECT_EQ(status, 499);
        ++cancelled;
      }
    }
  }

  sockaddr_in address_{};
  std::shared_ptr<BatchQueue> queue_ = std::make_shared<BatchQueue>(
      BatchLimits{20, {}, milliseconds(1), 1000, true, false}, seconds(1));
  std::shared_ptr<HttpServer> server_;
  std::atomic<bool> is_ending_ = false;
  std::vector<std::thread> threads_;
};

// What a client sends, and the body that it gets for that.
struct Asked {
  std::string request, answer;
};

Asked RandomRequest(std::mt19937& random) {
  const int64_t rows = 1 + random() % (kMostRows + 1);  // one more has no plan
  const std::string json = JsonOf(rows);
  std::string data(rows * kRowBytes, '\0');
  for (char& byte : data) byte = "RSTUVWXYZ"[random() % 9];
  Asked asked{"POST " + std::string(kTarget) + " HTTP/1.1\r\nhost: x\r\n", json + data};
  asked.request += "inference-header-content-length: " + std::to_string(json.size()) + "\r\n";
  if (random() % 4 == 0) {  // handed over in any case
    asked.request += "transfer-encoding: chunked\r\n\r\n";
    char size[32];
    for (const std::string& part : {json, data}) {
      snprintf(size, sizeof size, "%zx\r\n", part.size());
      asked.request += size + part + "\r\n";
    }
    asked.request += "0\r\n\r\n";
    return asked;
  }
  asked.request += "content-length: " + std::to_string(json.size() + data.size()) + "\r\n\r\n";
  asked.request += json + data;
  if (rows <= kMostRows) {
    asked.answer = "{\"version\": \"1\", \"outputs\": [{\"shape\": [" + std::to_string(rows) +
                   ", 16], \"parameters\": {\"binary_data_size\": " + std::to_string(data.size()) +
                   "}}]}" + data;
  }
  return asked;
}

void SendInPieces(int client, const std::string& bytes, std::mt19937& random) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const size_t most = random() % 3 == 0 ? 1 + random() % 40 : bytes.size();
    const size_t size = std::min(most, bytes.size() - sent);
    ASSERT_EQ(send(client, bytes.data() + sent, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    sent += size;
  }
}

// The body of the next answer; `left` has bytes that follow it.
std::string ReadAnswer(int client, std::string& left) {
  while (true) {
    const size_t end = left.find("\r\n\r\n");
    if (end != left.npos) {
      EXPECT_EQ(left.substr(0, 15), "HTTP/1.1 200 OK");
      const size_t size = std::stoul(left.substr(left.find("\ncontent-length: ") + 17));
      if (left.size() >= end + 4 + size) {
        const std::string body = left.substr(end + 4, size);
        left.erase(0, end + 4 + size);
        return body;
      }
    }
    char bytes[4096];
    const ssize_t count = recv(client, bytes, sizeof bytes, 0);
    if (count <= 0) return "the connection has ended";
    left.append(bytes, count);
  }
}

TEST(HttpServer, ClientsGetTheirAnswers) {
  Served served;
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 12; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int connection = 0; connection < 6; ++connection) {
        const int client = served.NewClient();
        std::string left;
        for (int round = 0; round < 20; ++round) {
          std::vector<Asked> asked(1 + random() % 3);  // that many before their answers
          std::string bytes;
          for (Asked& one : asked) {
            one = RandomRequest(random);
            bytes += one.request;
          }
          SendInPieces(client, bytes, random);
          for (const Asked& one : asked) EXPECT_EQ(ReadAnswer(client, left), one.answer);
        }
        if (random() % 2 == 0) {  // hangs up in the middle of a request or before its answer
          const std::string request = RandomRequest(random).request;
          SendInPieces(client, request.substr(0, 1 + random() % request.size()), random);
        }
        close(client);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(served.rows, 1000);
  EXPECT_GT(served.handed_over, 100);
}

TEST(HttpServer, ItMayEndBeforeItsRequests) {
  auto queue = std::make_shared<BatchQueue>(BatchLimits{20, {}, milliseconds(0), 10, true, false},
                                            seconds(1));
  sockaddr_in address;
  auto server = std::make_shared<HttpServer>(Listen(address), HttpLimits{100'000, seconds(5), 3});
  server->Start();
  server->SetModel(EchoModel(queue));
  const std::string json = JsonOf(1), data(kRowBytes, 'x');
  const std::string request =
      "POST " + std::string(kTarget) +
      " HTTP/1.1\r\ncontent-length: " + std::to_string(json.size() + data.size()) +
      "\r\ninference-header-content-length: " + std::to_string(json.size()) + "\r\n\r\n" + json +
      data;
  std::vector<int> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(Connect(address));
    ASSERT_EQ(send(clients[i], request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    while (queue->waiting() <= i) std::this_thread::yield();
  }
  close(clients[1]);  // its request leaves the queue
  HttpEvents events;
  while (events.ended.empty()) events = server->TakeEvents();
  EXPECT_EQ(events.ended[0].first, 499);
  PlannedBatch batch = PlannedOf(queue->Take());
  EXPECT_EQ(batch.requests(), 2u);
  server->CloseIdle();
  server->Stop();
  EXPECT_EQ(server->connections(), 0u);
  server->CloseIdle();  // both may be called again
  server->Stop();
  server = nullptr;
  EXPECT_EQ(Echo(batch).requests, 0);  // nobody waits any more
  batch.Send();
  for (const int client : {clients[0], clients[2]}) close(client);
}

}  // namespace
}  // namespace fusec::python
