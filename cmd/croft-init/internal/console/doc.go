// Package console runs shells on pseudo terminals. A console owns its terminal and
// the session of processes on it, and ends both together.
package console
