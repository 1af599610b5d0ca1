// Package tunnel lets users reach nodes that have no address of their own: a
// node keeps one connection open to the explorer, and the explorer carries
// users' connections over it. What passes is TLS between the two; the explorer
// counts its bytes and can't read them.
package tunnel
