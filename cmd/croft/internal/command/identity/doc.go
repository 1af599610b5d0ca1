// Package identity has the commands on the user's key: make one, restore it from its
// words, show its ID.
package identity
