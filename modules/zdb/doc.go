// Package zdb is the module of zdb containers: it gives each a port of the node,
// and manages the namespaces in it. On the bus it is zdbd.namespace.
//
// What it owns on the node:
//
//   - {state}/zdb/lock: locked while a module is open.
//   - {state}/zdb/CONTAINER.json: a container that is in hand, with the port that
//     it keeps over restarts of itself, the agent and the machine. One that can't
//     be read is renamed to CONTAINER.damaged, and shows in Servers.
//   - {data}'s extended attributes trusted.croft.namespace.NAME: the hash of whose
//     that namespace is.
//   - a listening TCP socket a container, in the network namespace of this process.
//
// A zdb has no network. Its listening socket is made here and handed to it over
// {data}/handover.sock (package handover), where {data} is the volume that it keeps
// its data on; both have it open. While the zdb is away, clients wait in the
// socket's queue and are served by the next one. While this process is away the
// zdb goes on serving, and the next one has the socket back from it. Its admin
// socket is {data}/admin.sock. What the zdb is given takes connections only: it is
// no way out of its namespace (passive.go).
//
// What a zdb does or doesn't do costs no more than a deadline: nothing of what it
// says is believed without a look.
//
// It may not decide whether a container or a namespace is wanted: that is the
// engine's. It doesn't run the zdb and knows no container by more than its ID.
package zdb
