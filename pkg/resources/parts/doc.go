// Package parts has the resources of what modules have on the node: each one's spec is the module's own description
// of it, as its contract in package node defines it. Types and pure functions only.
package parts
