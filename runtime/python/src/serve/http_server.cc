#include "runtime/python/src/serve/http_server.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cstdio>
#include <ctime>
#include <future>
#include <system_error>

namespace fusec::python {
namespace {

namespace asio = boost::asio;

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr auto kKeepAlive = std::chrono::seconds(90);  // as in Ray's proxy
// How long no connection is accepted if the process has no descriptor left.
constexpr auto kPause = std::chrono::milliseconds(100);

asio::ip::tcp ProtocolOf(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::system_error(errno, std::generic_category());
  return address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

// The line of the header Date, whose words do not depend on the locale.
std::string DateLine(time_t now) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const int size = snprintf(text, sizeof text, "date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n",
                            kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon],
                            1900 + parts.tm_year, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return {text, static_cast<size_t>(size)};
}

std::vector<std::unique_ptr<HttpLoop>> MakeLoops(int count) {
  std::vector<std::unique_ptr<HttpLoop>> loops;
  for (int i = 0; i < count; ++i) loops.push_back(std::make_unique<HttpLoop>());
  return loops;
}

// Starts a thread that gets no signals, which are for Python's main thread.
template <class Work>
std::thread StartWithoutSignals(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

// ---- HttpLoop ----

void HttpLoop::Start() {
  Tick();
  thread_ = StartWithoutSignals([this] { io_.run(); });
}

void HttpLoop::Add(std::shared_ptr<HttpConnection> connection) {
  connections_.insert(connection);
  connection->Start();
}

void HttpLoop::Forget(HttpConnection& connection) {
  connections_.erase(connection.shared_from_this());
}

void HttpLoop::CloseIdle() {
  asio::post(io_, [this] {
    const auto connections = connections_;  // because one that is closed is forgotten
    for (const auto& connection : connections) connection->CloseIfIdle();
  });
}

void HttpLoop::CloseAllAndJoin() {
  asio::post(io_, [this] {
    tick_.cancel();
    const auto connections = connections_;
    for (const auto& connection : connections) connection->Close();
  });
  thread_.join();
}

void HttpLoop::Tick() {
  if (const time_t now = time(nullptr); now != date_) {
    date_ = now;
    date_line_ = DateLine(now);
  }
  const Clock::time_point now = Clock::now();
  const auto connections = connections_;
  for (const auto& connection : connections) connection->Look(now, now - kKeepAlive);
  tick_.expires_after(kTick);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
}

// ---- HttpServer ----

HttpServer::HttpServer(int listening, const HttpLimits& limits)
    : limits_(limits),
      loops_(MakeLoops(limits.threads)),
      acceptor_(loops_[0]->io(), ProtocolOf(listening), listening) {
  events_descriptor_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (events_descriptor_ < 0) throw std::system_error(errno, std::generic_category());
}

HttpServer::~HttpServer() { close(events_descriptor_); }

void HttpServer::Start() {
  Accept();
  for (const auto& loop : loops_) loop->Start();
}

HttpEvents HttpServer::TakeEvents() {
  const std::lock_guard lock(mutex_);
  uint64_t count;
  if (is_awake_ && read(events_descriptor_, &count, sizeof count) == sizeof count)
    is_awake_ = false;
  return std::exchange(events_, {});
}

void HttpServer::SetModel(std::shared_ptr<const PlannedModel> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

void HttpServer::CloseIdle() {
  if (is_stopped_) return;
  is_closing_ = true;
  CloseAcceptor();
  for (const auto& loop : loops_) loop->CloseIdle();
}

void HttpServer::Stop() {
  if (is_stopped_.exchange(true)) return;
  is_closing_ = true;
  CloseAcceptor();  // no connection is added behind what closes all
  for (const auto& loop : loops_) loop->CloseAllAndJoin();
}

// Returns when no connection is accepted any more.
void HttpServer::CloseAcceptor() {
  std::promise<void> is_closed;
  asio::post(loops_[0]->io(), [&] {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    is_closed.set_value();
  });
  is_closed.get_future().wait();
}

std::shared_ptr<const PlannedModel> HttpServer::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void HttpServer::NoteArrived(std::shared_ptr<HttpRequest> request) {
  const std::lock_guard lock(mutex_);
  events_.arrived.push_back(std::move(request));
  Wake();
}

void HttpServer::NoteGone(std::shared_ptr<HttpRequest> request) {
  const std::lock_guard lock(mutex_);
  events_.gone.push_back(std::move(request));
  Wake();
}

void HttpServer::NoteEnded(int status, const PlannedRequest& request) {
  const std::lock_guard lock(mutex_);
  events_.ended.emplace_back(status, Seconds(Clock::now() - request.since).count());
  Wake();
}

// Called with the lock held.
void HttpServer::Wake() {
  if (is_awake_) return;
  is_awake_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(events_descriptor_, &one, sizeof one);
}

void HttpServer::Accept() {
  HttpLoop& loop = *loops_[accepted_++ % loops_.size()];
  acceptor_.async_accept(loop.io(), [this, &loop](const boost::system::error_code& error,
                                                  asio::ip::tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (error) {
      auto pause = std::make_shared<asio::steady_timer>(loops_[0]->io(), kPause);
      pause->async_wait([this, pause](const boost::system::error_code&) {
        if (acceptor_.is_open()) Accept();
      });
      return;
    }
    ++connections_;
    auto connection = std::make_shared<HttpConnection>(shared_from_this(), loop, std::move(socket));
    asio::post(loop.io(), [&loop, connection] { loop.Add(connection); });
    Accept();
  });
}

}  // namespace fusec::python
