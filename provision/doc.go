// Package provision decides what happens to a node. The engine in it is the only entry:
// every change to the node comes from a reservation that a source yielded, and one thread
// handles one at a time.
//
// The packages below it do the parts: source yields, verify and admit judge,
// provisioner/<type> say what to do, store remembers, feedback answers. Nothing
// below imports this package. api.go holds the names that the package has been
// known by since before croft.
package provision
