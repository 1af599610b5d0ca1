// Package nodeapi is how a user and a node speak to each other without anybody
// between them: TLS whose certificate is made of the node's key, so that
// whoever knows the node's ID needs no authority; requests that the user signs
// for this node and this very connection; and the frames of an exec's streams.
// Both sides are here. It decides who is who, never who may do what.
package nodeapi
