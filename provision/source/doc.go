// Package source yields what the engine handles next: reservations that an
// explorer's poll or a user brought, and the types of which something on the node
// is gone or changed. What comes due is in Due, which the engine's thread asks.
//
// A source decides nothing and changes nothing but its own cursor. Everything
// in it looks at its context in every wait and every send, and is gone within
// a second of its end.
package source
