// Package folders keeps a zdb server's namespaces on disk, as the comment of package
// zdb lays out: it owns their folders, the descriptor in each (name, password, settings), the
// lock against other servers, and the removal of unused folders. The data and the
// index in a generation's folder are the store's (package store).
package folders
