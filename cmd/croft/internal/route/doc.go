// Package route finds the way to a node: the address that the user names, the one that
// the explorer shows, a tunnel through the explorer, or the address that was noted before
// while the explorer is away. It owns the file of notes, by package memory.
package route
