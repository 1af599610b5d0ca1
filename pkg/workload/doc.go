// Package workload holds the documents that travel between user, explorer and
// node: Reservation, Deletion, Renewal, Result and the data of the six types;
// their exact signed bytes; and the small interfaces that yield and keep
// reservations.
//
// It holds types and pure functions of them only: no file, no network, no
// clock. The byte layouts are described in docs/wire-formats.md, with vectors
// under testdata/, so that another language can implement them.
package workload
