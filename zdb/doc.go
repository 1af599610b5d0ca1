// Package zdb is croft's 0-db: the commands, the namespaces and their
// permissions, on a loop (package loop) that has the connections and stores
// (package store) that have the data.
//
// What it owns on disk, in Config.Data:
//
//   - lock: locked while a server is open.
//   - N/namespace: what namespace number N is called and how it is set. 0 is
//     default. Whoever can read it knows the password.
//   - N/G: the data of generation G, a store. The descriptor says which G counts;
//     a namespace that is emptied gets the next.
//   - .new-N and .gone-N-…: one that is being made, and what is being removed.
//
// In Config.Index, where it is another folder, the same N/G hold the index.
//
// All of it happens on the loop's thread, but what removes folders and runs
// hooks. It may not speak to the network by itself.
package zdb
