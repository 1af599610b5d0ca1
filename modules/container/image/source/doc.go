// Package source opens images where their references lead: in a registry (package pkg/registry), or in
// an OCI layout folder, a tar of one, or a docker save archive on this machine.
//
// Files are opened below the allowed paths, or where the node's own images
// lie. Nothing that comes from either is trusted: a source bounds its own
// reading, and its caller checks each blob by digest and size. Errors have kinds.
package source
