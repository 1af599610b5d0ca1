// Package cluster has what the machines of a cluster agree on: its address ranges, the bootstrap token that they derive from the
// shared secret, and cluster-info, the signed document by which a worker gets to know the cluster's certificate authority.
//
// It is pure: it opens no file and no connection, and keeps nothing.
package cluster
