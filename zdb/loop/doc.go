// Package loop is the event loop that a zdb server stands on: it owns the
// listening sockets, the connections and their buffers, reads requests, hands
// them one after the other to a handler and sends the replies. All of that
// happens on one thread, so a handler needs no locks.
//
// A round is: wait until something is ready; read each ready connection once and
// run the requests that are complete; flush, so that what is going to be
// acknowledged is written; send the replies. What runs long doesn't belong on
// this thread: it is started in a goroutine and comes back through Post.
package loop
