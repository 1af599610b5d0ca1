// Package store keeps the explorer's nodes, farms, reservations and results in one SQLite database.
//
// It owns the database file, its -wal and -shm files and its .lock. It assigns the reservation
// numbers and each node's change numbers, in the order of commits. It doesn't authorize writes:
// package api does, before it calls. A method's change is durable when the method returns.
package store
