// Package dns is the DNS of users' private networks: one set of listeners a
// network namespace, that answers the members' names and addresses itself and
// forwards the rest to the node's name servers.
//
// It owns port 53 in the namespaces it is given, and nothing on disk. The
// sockets of the tenants' side are made inside the namespace; queries to name
// servers leave from the namespace of the process. Tenants may be hostile: the cost
// of their queries is bounded for each namespace by itself, and an answer goes only
// to the sender of the query. It never forwards the names that
// are a network's own, nor reverse lookups of ranges that aren't public. That
// the answer of a name server may name any address, also one of loopback or of
// a private range, is for the member that asked to judge.
package dns
