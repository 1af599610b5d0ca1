// Package tunnel lets users reach nodes without an address of their own: a node keeps one
// connection open to the explorer, and the explorer carries users' connections over it. They are
// TLS between user and node; the explorer counts their bytes and can't read them.
package tunnel
