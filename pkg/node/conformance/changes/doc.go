// Package changes holds the suite that every module's stream of changes (node.Changes)
// must pass, and the Ear, by which it and the modules' own tests hear one.
package changes
