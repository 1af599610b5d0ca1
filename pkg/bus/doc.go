// Package bus is zbus made safe: calls between modules, and streams of events.
//
// It speaks the wire format of github.com/threefoldtech/zbus v1.0 and uses its
// types, so that stubs made by zbusc take a *Client, and programs built on the
// bare library can call a Server and read its streams. Additional data (a
// request's deadline, an error's kind) are map keys that the bare library
// ignores. docs/adr/0002-bus.md explains why it isn't the library's own client
// and server.
//
// A Bus carries the frames. There are two, and all code above them is
// the same:
//
//   - InProcess, for a node in one process. Arguments and results are encoded
//     all the same, so caller and called share nothing. Package
//     broker lets other processes of the machine call the same objects, and read
//     the same streams, on a unix socket.
//   - redis.Bus, for modules in processes of their own.
//
// A node in one process:
//
//	opts := bus.Options{Log: log}
//	b := bus.NewInProcess()
//	defer b.Close()
//	server, err := bus.NewServer(b, node.StorageModule, opts)
//	err = bus.RegisterMethods(server, bus.Object(node.StorageObject, node.StorageVersion), stubs.StorageMethods(storage))
//	door, err := broker.Listen(b, "unix:///run/croft/bus.sock", log)
//	go server.Run(ctx)
//	go door.Run(ctx)
//	client := bus.NewClient(b, opts)
//	defer client.Close()
//	storage := stubs.NewStorageStub(client)
//
// A module in a process of its own differs in one line:
//
//	b, err := bus.Connect(ctx, "redis://:password@127.0.0.1:6379", opts)
//
// A program that only calls needs no more than bus.Dial(ctx, url, opts); url is
// the address of redis or of the broker's socket.
//
// # Calls
//
// Every call has a deadline (Options.Timeout when its context brings none) and
// ends within milliseconds of it, or of its context's end, whatever the other
// side does. Every failure is an error with a node.Kind: the method's own; or
// node.Transient when the request wasn't sent; or node.Unknown when it was sent
// and no answer came, so that it may or may not have happened. Between peers
// of this package a request that waited past its deadline isn't run.
//
// # Streams
//
// A slow reader loses the oldest events and keeps the newest. A later reader
// gets the last event at once while others read, else the first one of the stream, also through a broker and with the bare library;
// on redis, which keeps none, the next. A stream ends at once when its context
// does; a dropped connection is made again, and Options.OnResume and the log
// report it. Events that can't be decoded are skipped and counted.
package bus
