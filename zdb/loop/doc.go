// Package loop is the event loop of a zdb server: it owns the listening sockets, the
// connections and their buffers, reads requests, hands them one after the other to a
// handler and sends the replies. All of that happens on one thread, so a handler needs
// no locks.
//
// A round is: wait until a socket is ready; read each ready connection once and run the
// complete requests; flush, so that acknowledged writes are on disk; send the replies.
// Long work doesn't belong on this thread: it runs in a goroutine and comes back through
// Post.
//
// A Loop wires its parts: poller (epoll), mailbox (Post), doors (listeners), connections
// (opening and closing), places (limits and eviction), agenda and fairness
// (turns), reader, writer, and sweeper (timeouts). A Conn has a part of its own
// for each.
package loop
