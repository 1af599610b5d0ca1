// Package plan decides what has to happen so that a project's reservations are
// what its file asks for. It is pure: what is asked for and what is known go
// in, a list of changes comes out.
package plan
