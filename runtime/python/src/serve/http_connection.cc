#include "runtime/python/src/serve/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "runtime/python/src/serve/http_server.h"

namespace fusec::python {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 8 << 10;     // at most, except into a body
constexpr size_t kLongestHead = 64 << 10;  // bytes
constexpr size_t kMostFraming = 8;  // bytes on the wire per byte of a body; chunks of one take 6
constexpr auto kSoon = std::chrono::milliseconds(50);     // when a client is looked at first
constexpr auto kMostWriting = std::chrono::seconds(90);   // in which a client takes an answer
constexpr auto kLinger = std::chrono::milliseconds(250);  // for what follows a last request
// How long the rest of a refused request is read and dropped.
constexpr Clock::duration kDrop = std::chrono::seconds(5);

std::string Text(const char* format, double value) {
  char text[64];
  snprintf(text, sizeof text, format, value);
  return text;
}

// The answer to a request that failed. The text has no characters that JSON escapes.
AnswerSink::Answer ErrorAnswer(int status, const std::string& text) {
  return AnswerSink::Json(status, "{\"error\": \"" + text + "\"}");
}

std::optional<size_t> ReadSize(std::string_view text) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return size;
}

// Boost has string views of its own, or the standard's, depending on its release.
std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

template <class Fields>
bool AcceptsCompression(const Fields& fields) {
  const std::string_view accepted = View(fields[http::field::accept_encoding]);
  return accepted.find("gzip") != accepted.npos || accepted.find("deflate") != accepted.npos;
}

}  // namespace

std::string HttpRequest::Header(const std::string& name) const {
  const auto found = std::find_if(headers.rbegin(), headers.rend(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.rend() ? std::string() : found->second;
}

HttpConnection::HttpConnection(std::shared_ptr<HttpServer> server, HttpLoop& loop,
                               asio::ip::tcp::socket socket)
    : server_(std::move(server)), loop_(loop), socket_(std::move(socket)), timer_(loop.io()) {}

void HttpConnection::Start() {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  Read();
}

// ---- its life ----

void HttpConnection::Look(Clock::time_point now, Clock::time_point oldest_idle) {
  const bool is_idle = state_ == State::kHead && since_ < oldest_idle;
  const bool is_stuck = state_ == State::kWriting && now - since_ > kMostWriting;
  const bool is_waiting = state_ == State::kAnswering && now - since_ > kSoon;
  if (is_idle || is_stuck || (is_waiting && ClientIsGone())) Close();
}

bool HttpConnection::ClientIsGone() {
  char next;
  const ssize_t count = recv(socket_.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

void HttpConnection::CloseIfIdle() {
  if (state_ == State::kHead) Close();
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  constexpr int kClientHasGone = 499;  // the status that nginx uses for this
  state_ = State::kClosed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  if (planned_ && planned_->End()) server_->NoteEnded(kClientHasGone, *planned_);
  if (handed_over_) server_->NoteGone(std::move(handed_over_));
  planned_ = nullptr;
  handed_over_ = nullptr;
  server_->NoteClosed();
  loop_.Forget(*this);
}

void HttpConnection::StartTimer(Clock::duration duration) {
  timer_.expires_after(duration);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && Clock::now() >= self->timer_.expiry()) self->TimeIsOver();
  });
}

void HttpConnection::TimeIsOver() {
  switch (state_) {
    case State::kBody:
    case State::kChunks:
      return Refuse(408, Text("the body was not there within %g s",
                              Seconds(server_->limits().body_timeout).count()));
    case State::kAnswering:
      if (!planned_ || !planned_->End()) return;
      server_->NoteEnded(504, *planned_);
      return Write(ErrorAnswer(504, Text("no answer within %g ms", planned_->plan->timeout_ms)));
    case State::kDropping:
      return Close();
    default:
      return;
  }
}

// ---- reading ----

void HttpConnection::Read() {
  if (std::exchange(is_reading_, true)) return;
  auto handler = [self = shared_from_this()](const boost::system::error_code& error, size_t count) {
    self->HasRead(error, count);
  };
  if (state_ == State::kBody) {
    char* rest = body_.bytes.get() + received_;
    socket_.async_read_some(asio::buffer(rest, body_.size - received_), std::move(handler));
  } else {
    socket_.async_read_some(unread_.prepare(kReadBytes), std::move(handler));
  }
}

void HttpConnection::HasRead(const boost::system::error_code& error, size_t count) {
  is_reading_ = false;
  if (state_ == State::kClosed || state_ == State::kWriting) return;
  if (error) return Close();
  if (state_ == State::kBody) {
    received_ += count;
  } else if (state_ != State::kDropping) {
    unread_.commit(count);
  }
  ReadOn();
}

// Reads the received bytes, until a request waits for its answer or more bytes are needed.
void HttpConnection::ReadOn() {
  while (true) {
    bool goes_on = false;
    if (state_ == State::kHead) {
      goes_on = ParseHead();
    } else if (state_ == State::kBody) {
      goes_on = TakeBody();
    } else if (state_ == State::kChunks) {
      goes_on = ParseChunks();
    } else if (state_ != State::kDropping) {
      return;
    }
    if (!goes_on) return Read();
  }
}

// These return whether the head or the body is complete or was refused; otherwise more bytes are
// needed.
bool HttpConnection::ParseHead() {
  const auto* bytes = static_cast<const char*>(unread_.data().data());
  size_t empty = 0;  // empty lines before a request are allowed
  while (!parser_ && empty < unread_.size() && (bytes[empty] == '\r' || bytes[empty] == '\n'))
    ++empty;
  unread_.consume(empty);
  if (unread_.size() == 0) return false;
  if (!parser_) {
    parser_.emplace();
    parser_->header_limit(kLongestHead);
    parser_->body_limit(server_->limits().body_bytes);
  }
  boost::system::error_code error;
  unread_.consume(parser_->put(unread_.data(), error));
  if (error == http::error::need_more) return false;
  if (error == http::error::header_limit) {
    Refuse(431, "the head of the request has more than " + std::to_string(kLongestHead) + " bytes");
  } else if (error == http::error::body_limit) {
    RefuseLarge();
  } else if (error) {
    Refuse(400, "this is no request of HTTP/1.1: " + error.message());
  } else {
    BeginBody();
  }
  return state_ != State::kHead;
}

void HttpConnection::BeginBody() {
  const auto& message = parser_->get();
  const std::string_view target = View(message.target());
  const bool is_plain = std::all_of(target.begin(), target.end(),
                                    [](char byte) { return byte > ' ' && byte < '\x7f'; });
  if (!is_plain || (message.version() != 10 && message.version() != 11)) {
    const char* what = is_plain ? "the version" : "a byte of the path";
    return Refuse(400, std::string("this is no request of HTTP/1.1: ") + what + " is wrong");
  }
  keeps_alive_ = message.keep_alive() && message.version() == 11;
  has_only_head_ = message.method() == http::verb::head;
  received_ = framed_ = 0;
  is_timed_ = false;
  if (message.chunked()) {
    handed_over_ = HandedOver();  // before headers behind the body are added to its own
    state_ = State::kChunks;
    return;
  }
  body_.size = parser_->content_length().value_or(0);
  body_.bytes = std::make_unique_for_overwrite<char[]>(body_.size);
  state_ = State::kBody;
}

bool HttpConnection::TakeBody() {
  const size_t count = std::min(unread_.size(), body_.size - received_);
  if (count > 0) {
    std::memcpy(body_.bytes.get() + received_, unread_.data().data(), count);
    unread_.consume(count);
    received_ += count;
  }
  if (received_ < body_.size) {
    ExpectRest();
    return false;
  }
  HasBody();
  return true;
}

bool HttpConnection::ParseChunks() {
  boost::system::error_code error;
  while (!parser_->is_done() && unread_.size() > 0 && !error) {
    const size_t count = parser_->put(unread_.data(), error);
    unread_.consume(count);
    framed_ += count;
    if (count == 0) break;
  }
  std::string& whole = parser_->get().body();
  const size_t most_framing = kMostFraming * whole.size() + kLongestHead;
  if (parser_->is_done()) {
    body_.size = whole.size();
    body_.bytes = std::make_unique_for_overwrite<char[]>(body_.size);
    std::memcpy(body_.bytes.get(), whole.data(), body_.size);
    whole = {};
    HasBody();
  } else if (error == http::error::body_limit) {
    RefuseLarge();
  } else if (error == http::error::header_limit || framed_ + unread_.size() > most_framing) {
    Refuse(400, "the chunks of the body are mostly something else");
  } else if (error && error != http::error::need_more) {
    Refuse(400, "this is no body of HTTP/1.1: " + error.message());
  } else {
    ExpectRest();
  }
  return state_ != State::kChunks;
}

// Starts the time limit for the rest of the body.
void HttpConnection::ExpectRest() {
  if (is_timed_) return;
  is_timed_ = true;
  StartTimer(server_->limits().body_timeout);
  const auto expected = parser_->get()[http::field::expect];
  if (boost::beast::iequals(expected, "100-continue") && received_ == 0 && framed_ == 0) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    // A client whose window is too small for these bytes does not get them.
    send(socket_.native_handle(), kContinue.data(), kContinue.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

// ---- answers ----

void HttpConnection::HasBody() {
  if (is_timed_) timer_.cancel();
  state_ = State::kAnswering;
  since_ = Clock::now();
  if (!handed_over_ && AnswerByPlan()) return;
  if (!handed_over_) handed_over_ = HandedOver();
  handed_over_->body = std::move(body_);
  server_->NoteArrived(handed_over_);
}

// Puts the request into the queue of its model if it matches a plan; returns whether it does.
bool HttpConnection::AnswerByPlan() {
  const std::shared_ptr<const PlannedModel> model = server_->model();
  const auto& message = parser_->get();
  if (!model || message.method() != http::verb::post || View(message.target()) != model->target)
    return false;
  const std::string_view encoding = View(message[http::field::content_encoding]);
  const auto json_size = ReadSize(View(message["inference-header-content-length"]));
  if (!json_size || *json_size > body_.size || !(encoding.empty() || encoding == "identity"))
    return false;
  std::shared_ptr<const Plan> plan = model->plans->Find(body_.text().substr(0, *json_size));
  if (!plan || !plan->Takes(body_.text().substr(*json_size))) return false;
  if (plan->may_be_compressed && AcceptsCompression(message)) return false;
  planned_ = std::make_shared<PlannedRequest>(std::move(plan), std::move(body_), *json_size,
                                              shared_from_this());
  if (!model->queue->Push(planned_)) {
    body_ = std::move(planned_->body);
    planned_ = nullptr;
    return false;
  }
  const double timeout_ms = planned_->plan->timeout_ms;
  if (timeout_ms > 0)
    StartTimer(std::chrono::duration_cast<Clock::duration>(Seconds(timeout_ms / 1000)));
  return true;
}

std::shared_ptr<HttpRequest> HttpConnection::HandedOver() {
  const auto& message = parser_->get();
  auto request = std::make_shared<HttpRequest>();
  request->method = View(message.method_string());
  request->target = View(message.target());
  for (const auto& field : message) {
    std::string name(View(field.name_string()));
    for (char& letter : name)
      if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
    request->headers.emplace_back(std::move(name), View(field.value()));
  }
  request->sink = shared_from_this();
  return request;
}

void HttpConnection::Send(Answer answer) {
  if (server_->is_stopped()) return;
  asio::post(loop_.io(), [self = shared_from_this(), answer = std::move(answer)]() mutable {
    if (self->state_ == State::kAnswering) self->Write(std::move(answer));
  });
}

// Answers a request that is not read to its end.
void HttpConnection::Refuse(int status, const std::string& text) {
  handed_over_ = nullptr;
  keeps_alive_ = false;
  is_refused_ = true;
  Write(ErrorAnswer(status, text));
}

void HttpConnection::RefuseLarge() {
  Refuse(413, "the body has more than " + std::to_string(server_->limits().body_bytes) + " bytes");
}

void HttpConnection::Write(Answer answer) {
  const bool keeps_alive = keeps_alive_ && !server_->is_closing();
  timer_.cancel();
  planned_ = nullptr;
  handed_over_ = nullptr;
  state_ = State::kWriting;
  since_ = Clock::now();
  const auto reason = http::obsolete_reason(static_cast<http::status>(answer.status));
  head_ = "HTTP/1.1 " + std::to_string(answer.status) + " ";
  head_ += View(reason);
  head_ += "\r\n";
  head_ += answer.head;
  tail_ = keeps_alive ? "" : "connection: close\r\n";
  tail_ += loop_.date_line();
  tail_ += "\r\n";
  written_body_ = has_only_head_ ? std::string() : std::move(answer.body);
  has_only_head_ = false;
  const std::array<asio::const_buffer, 3> parts = {asio::buffer(head_), asio::buffer(tail_),
                                                   asio::buffer(written_body_)};
  auto handler = [self = shared_from_this(), keeps_alive](const boost::system::error_code& error,
                                                          size_t) {
    if (self->state_ != State::kWriting) return;
    if (error) return self->Close();
    self->HasWritten(keeps_alive);
  };
  asio::async_write(socket_, parts, std::move(handler));
}

void HttpConnection::HasWritten(bool keeps_alive) {
  written_body_ = {};
  parser_.reset();
  if (!keeps_alive)
    return Drop(is_refused_ ? std::min(kDrop, server_->limits().body_timeout) : kLinger);
  state_ = State::kHead;
  since_ = Clock::now();
  ReadOn();
}

// Reads and drops what the client sends for a while, because closing a connection with unread
// bytes could lose the answer.
void HttpConnection::Drop(Clock::duration duration) {
  state_ = State::kDropping;
  unread_.clear();
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  StartTimer(duration);
  Read();
}

}  // namespace fusec::python
