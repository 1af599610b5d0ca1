// Package zdb is croft's 0-db: the commands, the namespaces and their
// permissions, on a loop (package loop) that has the connections and stores
// (package store) that have the data.
//
// A Server calls its parts: access (AUTH, SELECT), keyCommands, pages, history,
// management (NSNEW and so on), reports (INFO) and system run the commands of the table;
// waits and attempts hold sessions; namespaces has the stores, and upkeep looks after them.
//
// It owns on disk (package folders), in Config.Data:
//
//   - lock: locked while a server is open.
//   - N/namespace: the descriptor of namespace number N, with its name, settings and
//     password. 0 is default.
//   - N/G: the data of generation G, a store. The descriptor names the valid G; a
//     namespace that is emptied gets the next.
//   - .new-N and .gone-N-…: a namespace that is being made, and folders that are being
//     removed.
//
// In Config.Index, where it is another folder, the same N/G hold the index.
//
// All of it happens on the loop's thread, except the removal of folders and the runs of
// hooks (package hooks). It may not speak to the network by itself.
package zdb
