// Package explorer holds the explorer's API for its clients: the wire types of the HTTP interface,
// and a client.
package explorer
