// Package seed is the package's published API on croft's own parts: an engine of
// a source, a cache and a feedbacker, the helpers that pass things in a context,
// and the provisioners on a bus. Package provision has its names.
package seed
