// Package zdb is the module of zdb containers: it gives each a port of the node,
// and manages the namespaces in it. On the bus it is zdbd.namespace.
//
// It owns on the node:
//
//   - {state}/zdb/lock: locked while a module is open.
//   - {state}/zdb/CONTAINER.json: the record of an attached container, with the port
//     that it keeps over restarts of itself, the agent and the machine. One that can't
//     be read is renamed to CONTAINER.damaged, and shows in Servers.
//   - {data}'s extended attributes trusted.croft.namespace.NAME: the hash of that
//     namespace's owner (package admin).
//   - a listening TCP socket for each container, in the network namespace of this
//     process (package port).
//
// A zdb has no network. The module makes its listening socket and hands it over at
// {data}/handover.sock (package handover), where {data} is the volume of the zdb's
// data; both processes have it open. While the zdb is away, clients wait in the
// socket's queue, and the next zdb serves them. While this process is away the zdb goes
// on serving, and the next process gets the socket back from it. The zdb's admin
// socket is {data}/admin.sock (package admin).
//
// A zdb isn't trusted: whatever it does costs a deadline at most, and the module checks
// all that it says.
//
// The parts: servers are the known containers, records their files, pairing brings
// listener and zdb together, supervisor does that again when a zdb ends, attaching and
// observer carry out the contract's calls on containers.
//
// It may not decide whether a container or a namespace is wanted: that is the
// engine's. It doesn't run the zdb and knows no container by more than its ID.
package zdb
