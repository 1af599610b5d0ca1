// Package workspace is a project at hand: its file, its state with its lock, and the
// reservations that arguments name in it. Commands on projects and on containers open it.
package workspace
