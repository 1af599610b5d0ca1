// Package nodeapi is the direct protocol between a user and a node: TLS with a
// certificate made of the node's key, so that a user that knows the node's ID
// needs no authority; requests that the user signs for this node and this very
// connection; and the frames of an exec's streams. Both sides are here. It
// authenticates, and never authorizes.
package nodeapi
