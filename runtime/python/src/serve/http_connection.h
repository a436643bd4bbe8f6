// The connection of a client that speaks HTTP/1.1.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/python/src/serve/plan.h"

namespace fusec::python {

class HttpLoop;
class HttpServer;

// A request that Python answers.
struct HttpRequest {
  // The last header with this name, or "".
  std::string Header(const std::string& name) const;

  std::string method, target;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  Body body;
  std::shared_ptr<AnswerSink> sink;
};

// One request at a time is answered; bytes that arrive meanwhile wait in the socket. Everything
// except Send is called by the thread of its loop.
class HttpConnection : public AnswerSink, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpServer> server, HttpLoop& loop,
                 boost::asio::ip::tcp::socket socket);

  void Start();
  void Send(Answer answer) override;
  // Called often: closes the connection if it is idle since `oldest_idle`, and looks whether the
  // client still waits for an answer that takes its time.
  void Look(Clock::time_point now, Clock::time_point oldest_idle);
  // Closes the connection unless it is reading or answering a request whose head was read.
  void CloseIfIdle();
  void Close();

 private:
  enum class State { kHead, kBody, kChunks, kAnswering, kWriting, kDropping, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void Read();
  void HasRead(const boost::system::error_code& error, size_t count);
  void ReadOn();
  bool ParseHead();
  void BeginBody();
  bool TakeBody();
  bool ParseChunks();
  void ExpectRest();
  void HasBody();
  bool AnswerByPlan();
  std::shared_ptr<HttpRequest> HandedOver();
  void StartTimer(Clock::duration duration);
  void TimeIsOver();
  void Refuse(int status, const std::string& text);
  void RefuseLarge();
  void Write(Answer answer);
  void HasWritten(bool keeps_alive);
  void Drop(Clock::duration duration);
  bool ClientIsGone();

  const std::shared_ptr<HttpServer> server_;  // which has the loop
  HttpLoop& loop_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;  // for the rest of a body, an answer, or what is dropped
  State state_ = State::kHead;
  Clock::time_point since_ = Clock::now();  // of the state, if that is waited in
  boost::beast::flat_buffer unread_;
  std::optional<Parser> parser_;  // of a head, and of the body in chunks behind it
  bool is_reading_ = false, is_timed_ = false;
  bool keeps_alive_ = false, is_refused_ = false, has_only_head_ = false;
  Body body_;
  size_t received_ = 0, framed_ = 0;          // bytes of the body; with those around its chunks
  std::shared_ptr<PlannedRequest> planned_;   // the request that is being answered
  std::shared_ptr<HttpRequest> handed_over_;  // the same, if Python answers it
  std::string head_, written_body_, tail_;    // of the answer that is being written
};

}  // namespace fusec::python
