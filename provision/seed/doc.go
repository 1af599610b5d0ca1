// Package seed implements package provision's published API on croft's own parts: an engine
// of a source, a cache and a feedbacker, the context helpers, and the provisioners on a
// bus. Package provision exports its names.
package seed
