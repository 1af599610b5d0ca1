// Package explorer is the explorer's process: the database and the HTTP
// interface put together, listening, and stopped in order. What it answers is
// in package api, what it keeps in package store.
package explorer
