// An HTTP/1.1 server. Requests for one model that match a plan go to its queue; all other requests
// are handed over to Python.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/python/src/serve/http_connection.h"

namespace fusec::python {

struct HttpLimits {
  size_t body_bytes;
  Clock::duration body_timeout;  // the time in which a client must have sent its body
  int threads;                   // between which the connections are shared
};

// The model whose requests may be planned.
struct PlannedModel {
  std::string target;  // the path of its requests
  std::shared_ptr<BatchQueue> queue;
  std::shared_ptr<const Plans> plans;
};

// What has happened since the last look.
struct HttpEvents {
  std::vector<std::shared_ptr<HttpRequest>> arrived, gone;  // gone: their clients have hung up
  std::vector<std::pair<int, double>> ended;  // planned requests that no batch has answered: their
                                              // statuses, and seconds since their arrival
};

// The event loop of a thread, and its connections.
class HttpLoop {
 public:
  void Start();
  // Called by the loop's thread.
  void Add(std::shared_ptr<HttpConnection> connection);
  void Forget(HttpConnection& connection);
  const std::string& date_line() const { return date_line_; }
  // Called by any thread.
  void CloseIdle();
  void CloseAllAndJoin();
  boost::asio::io_context& io() { return io_; }

 private:
  void Tick();

  boost::asio::io_context io_{1};
  boost::asio::steady_timer tick_{io_};
  std::set<std::shared_ptr<HttpConnection>> connections_;
  std::string date_line_;
  time_t date_ = 0;
  std::thread thread_;
};

// Stop has to be called in the end. Connections, and requests that a lane still has, may outlive
// it.
class HttpServer : public std::enable_shared_from_this<HttpServer> {
 public:
  // Takes over a listening socket. Throws std::system_error.
  HttpServer(int listening, const HttpLimits& limits);
  ~HttpServer();
  void Start();

  // A descriptor that can be read when events wait.
  int events_descriptor() const { return events_descriptor_; }
  HttpEvents TakeEvents();
  // Of null: no requests are planned.
  void SetModel(std::shared_ptr<const PlannedModel> model);

  // Refuses new connections, and closes those that are idle.
  void CloseIdle();
  size_t connections() const { return connections_.load(); }
  bool is_closing() const { return is_closing_.load(); }
  // Closes all connections and ends the threads.
  void Stop();
  bool is_stopped() const { return is_stopped_.load(); }

  // ---- for connections ----

  const HttpLimits& limits() const { return limits_; }
  std::shared_ptr<const PlannedModel> model() const;
  void NoteArrived(std::shared_ptr<HttpRequest> request);
  void NoteGone(std::shared_ptr<HttpRequest> request);
  void NoteEnded(int status, const PlannedRequest& request);
  void NoteClosed() { --connections_; }

 private:
  void Accept();
  void CloseAcceptor();
  void Wake();

  const HttpLimits limits_;
  std::vector<std::unique_ptr<HttpLoop>> loops_;
  boost::asio::ip::tcp::acceptor acceptor_;  // of the first loop
  size_t accepted_ = 0;
  std::atomic<size_t> connections_ = 0;
  std::atomic<bool> is_closing_ = false, is_stopped_ = false;

  mutable std::mutex mutex_;  // for the events and the model
  HttpEvents events_;
  bool is_awake_ = false;  // whether the descriptor can be read
  std::shared_ptr<const PlannedModel> model_;
  int events_descriptor_ = -1;
};

}  // namespace fusec::python
