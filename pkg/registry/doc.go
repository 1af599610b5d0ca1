// Package registry reads from OCI registries: it resolves a reference to the descriptor of its manifest, and opens blobs.
//
// Registries are asked by pkg/fetch, through pkg/dial only: over TLS unless the operator lists them, and only while they send something.
// Nothing that comes from them is trusted: whoever reads a blob bounds it, and checks its digest and size. Errors have
// kinds, and repeat nothing that a registry wrote but its status.
package registry
