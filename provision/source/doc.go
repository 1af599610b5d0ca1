// Package source yields the engine's next items: reservations from an explorer's
// poll or a user, and the types with missing or changed workloads.
//
// A source decides nothing and changes nothing but its own cursor. Every wait and
// send in it watches its context, and it ends within a second of that.
package source
