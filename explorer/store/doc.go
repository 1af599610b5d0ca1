// Package store keeps the explorer's nodes, farms, reservations and results
// in one SQLite database.
//
// It owns the database file, its -wal and -shm files and its .lock. It hands
// out the reservation numbers and each node's change numbers, in the order of
// commits. It decides nothing about who may write what: package api does,
// before it asks. What a method has returned from is durable.
package store
