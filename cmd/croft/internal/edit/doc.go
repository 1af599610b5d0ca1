// Package edit changes the networks of a project file and nothing else of it:
// comments, order and blank lines stay, and every line outside of the key
// networks stays byte for byte. It is pure: text goes in, text comes out.
package edit
