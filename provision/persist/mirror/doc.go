// Package mirror keeps a sealed copy of the node's store on an instance of a persist.Provider, and restores a store from one.
//
// The store's folder is the truth, and nothing is ever read back from a mirror into it: Restore makes a store where there is none. A
// mirror is written behind: the store tells the names that have changed, and the mirror reads the newest content of a name when it
// sends it. Nobody waits for a mirror, and it holds names, never bodies.
//
// An object is never changed: each content of a name is an object of its own, whose name has a hash of the content. A list tells
// which of them belong together. It is replaced whole, after all objects that it names are there; only then are objects removed that it doesn't
// name any more. So the mirror is the store as it was at one moment, also when the node dies at any step, and whoever keeps it
// can neither leave a file out, nor swap one, nor put an older one back, unnoticed. What they can do is to show a whole older list with its
// objects (docs/persistence.md).
package mirror
